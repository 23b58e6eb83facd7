package bench

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ms(list ...int) []time.Duration {
	out := make([]time.Duration, len(list))
	for i, n := range list {
		out[i] = time.Duration(n) * time.Millisecond
	}
	return out
}

func TestSummarize(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	tests := map[string]struct {
		in   []time.Duration
		want Distribution
	}{
		"none":    {nil, Distribution{}},
		"one":     {ms(7), Distribution{N: 1, Min: 7e6, P50: 7e6, P90: 7e6, P99: 7e6, Max: 7e6}},
		"two":     {ms(9, 1), Distribution{N: 2, Min: 1e6, P50: 1e6, P90: 9e6, P99: 9e6, Max: 9e6}},
		"hundred": {ms(hundred...), Distribution{N: 100, Min: 1e6, P50: 50e6, P90: 90e6, P99: 99e6, Max: 100e6}},
	}
	for name, tt := range tests {
		if d := cmp.Diff(tt.want, Summarize(tt.in)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, in := range map[float64][]float64{0: nil, 3: {9, 3, 1}, 2: {3, 1}} {
		if got := Median(in); got != want {
			t.Errorf("Median(%v) = %g, want %g", in, got, want)
		}
	}
}

func TestStream(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			w.Write([]byte("data: {\"content\":\"\"}\n\n")) //nolint:errcheck // a test
			w.(http.Flusher).Flush()
			<-release
			w.Write([]byte("data: {\"content\":\"a\"}\n\ndata: 3\n\n")) //nolint:errcheck // a test
		case "/cut":
			w.Write([]byte("data: 1\n\n")) //nolint:errcheck // a test
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/empty":
		default:
			http.Error(w, "no", http.StatusBadRequest)
		}
	}))
	defer srv.Close()
	time.AfterFunc(30*time.Millisecond, func() { close(release) })
	s, err := Stream(t.Context(), srv.Client(), srv.URL+"/good", nil)
	if err != nil || s.Events != 3 || s.Bytes != 54 || s.First < 20*time.Millisecond || s.Total < s.First {
		t.Errorf("%+v, %v", s, err)
	}
	for _, path := range []string{"/cut", "/empty", "/refused"} {
		if s, err := Stream(t.Context(), srv.Client(), srv.URL+path, nil); err == nil {
			t.Errorf("%s gives %+v without an error", path, s)
		}
	}
}
