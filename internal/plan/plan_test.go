package plan

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const gib = 1 << 30

// small is SmolLM2-135M in a 16-bit cache on a machine with plenty of memory.
func small() Input {
	return Input{
		Weights:    Bytes{98_362_432, Declared},
		KVPerToken: Bytes{23040, Declared},
		Available:  Bytes{16 * gib, Measured},
		Trained:    8192,
	}
}

func with(change func(*Input)) Input {
	in := small()
	change(&in)
	return in
}

func TestWindow(t *testing.T) {
	tests := []struct {
		name   string
		in     Input
		tokens int
		reason string
	}{
		{"trained length", small(), 8192, "8192 tokens: the model's trained length"},
		{
			"capped without a request", with(func(in *Input) { in.Trained = 131072 }), 32768,
			"32768 tokens: the most that is given unless more is requested (the model was trained for 131072)",
		},
		{
			"trained length unknown", with(func(in *Input) { in.Trained = 0 }), 32768,
			"32768 tokens: the most that is given unless more is requested (the model does not say its trained length)",
		},
		{"a request may exceed the cap", with(func(in *Input) { in.Trained, in.Requested = 131072, 65536 }), 65536, "65536 tokens: as requested"},
		{"a request of the trained length", with(func(in *Input) { in.Requested = 8192 }), 8192, "8192 tokens: as requested"},
		{
			"a request is never raised", with(func(in *Input) { in.Requested = 1000 }), 768,
			"768 tokens: the 1000 requested, rounded down to a multiple of 256",
		},
		{"a request below one step", with(func(in *Input) { in.Requested = 100 }), 100, "100 tokens: as requested"},
		{"a model of fewer tokens than one step", with(func(in *Input) { in.Trained = 128 }), 128, "128 tokens: the model's trained length"},
		{"trained length is no multiple", with(func(in *Input) { in.Trained = 1000 }), 768, "768 tokens: the model's trained length"},
		{
			"lowered to what fits", with(func(in *Input) { in.Available.N = gib / 4 }), 3840,
			"3840 tokens: 70% of 256 MiB available memory less 94 MiB weights",
		},
		{
			"promised memory is not there", with(func(in *Input) { in.Promised = 16*gib - gib/4 }), 3840,
			"3840 tokens: 70% of 16.0 GiB available memory (15.8 GiB of it promised to other models) less 94 MiB weights",
		},
		{
			"parallel windows share it", with(func(in *Input) { in.Available.N, in.Parallel = gib/2, 4 }), 2816,
			"2816 tokens for each of 4 parallel requests: 70% of 512 MiB available memory less 94 MiB weights",
		},
		{"slots and overhead take their part", with(func(in *Input) {
			in.Available.N, in.Parallel = gib, 4
			in.PerSlot, in.Overhead = Bytes{50 << 20, Estimated}, Bytes{100 << 20, Estimated}
		}), 3584, "3584 tokens for each of 4 parallel requests: 70% of 1.0 GiB available memory less 94 MiB weights and 100 MiB overhead"},
		{"tokens that take nothing", with(func(in *Input) { in.KVPerToken.N, in.Available.N = 0, gib/4 }), 8192, "8192 tokens: the model's trained length"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Window(tt.in)
			if err != nil {
				t.Fatalf("Window: %v", err)
			}
			if r.Tokens != tt.tokens {
				t.Errorf("window %d, want %d", r.Tokens, tt.tokens)
			}
			if r.Reason != tt.reason {
				t.Errorf("reason %q\nwant %q", r.Reason, tt.reason)
			}
			if r.Total.N > r.Budget.N {
				t.Errorf("total %d is over the budget %d", r.Total.N, r.Budget.N)
			}
		})
	}
}

// The largest window is chosen: one step more would not fit.
func TestWindowIsTight(t *testing.T) {
	for available := int64(160 << 20); available < 700<<20; available += 7_654_321 {
		for parallel := 1; parallel <= 3; parallel++ {
			in := with(func(in *Input) { in.Available.N, in.Parallel, in.Trained = available, parallel, 1<<20 })
			r, err := Window(in)
			if err != nil {
				t.Fatalf("available %d, parallel %d: %v", available, parallel, err)
			}
			more := r.Total.N + int64(parallel)*256*in.KVPerToken.N
			if r.Total.N > r.Budget.N || r.Tokens < DefaultMost && more <= r.Budget.N {
				t.Errorf("available %d, parallel %d: window %d takes %d of %d; one step more %d", available, parallel, r.Tokens, r.Total.N, r.Budget.N, more)
			}
		}
	}
}

func TestWindowParts(t *testing.T) {
	in := with(func(in *Input) {
		in.Weights.Origin, in.Parallel, in.Requested = Measured, 2, 4096
		in.PerSlot, in.Overhead = Bytes{1000, Estimated}, Bytes{5000, Measured}
	})
	got, err := Window(in)
	if err != nil {
		t.Fatal(err)
	}
	kv := int64(2 * (4096*23040 + 1000))
	want := Result{
		Tokens: 4096, Parallel: 2, Reason: "4096 tokens: as requested",
		Weights: Bytes{98_362_432, Measured}, Overhead: Bytes{5000, Measured},
		KV:     Bytes{kv, Estimated},
		Total:  Bytes{98_362_432 + 5000 + kv, Estimated},
		Budget: Bytes{16 * gib / 100 * 70, Measured},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Window (-want +got):\n%s", diff)
	}
}

func TestWeakest(t *testing.T) {
	tests := []struct {
		in   []Origin
		want Origin
	}{
		{nil, Measured},
		{[]Origin{Measured, Declared}, Declared},
		{[]Origin{Declared, Measured, ""}, Declared},
		{[]Origin{Estimated, Declared, Measured}, Estimated},
		{[]Origin{Declared, Estimated}, Estimated},
	}
	for _, tt := range tests {
		if got := weakest(tt.in...); got != tt.want {
			t.Errorf("weakest(%v) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestWindowOverTrained(t *testing.T) {
	_, err := Window(with(func(in *Input) { in.Requested = 8193 }))
	e, ok := errors.AsType[*OverTrainedError](err)
	if !ok || e.Requested != 8193 || e.Trained != 8192 {
		t.Fatalf("error %v, want an OverTrainedError of 8193 over 8192", err)
	}
	for _, part := range []string{"8193", "8192"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
}

func TestWindowNoFit(t *testing.T) {
	tests := []struct {
		name         string
		in           Input
		tokens, fits int
		text         string
	}{
		{
			"a request that does not fit is not lowered", with(func(in *Input) { in.Requested, in.Available.N = 8192, gib/4 }), 8192, 3840,
			"a window of 8192 tokens takes 274 MiB (declared), but only 179 MiB may be used (70% of 256 MiB available memory): 3840 tokens would fit",
		},
		{
			"weights alone are too much", with(func(in *Input) { in.Available.N = 100 << 20 }), 256, 0,
			"a window of 256 tokens takes 99 MiB (declared), but only 70 MiB may be used (70% of 100 MiB available memory): use a smaller model or free some memory",
		},
		{
			"all is promised", with(func(in *Input) { in.Promised = 17 * gib }), 256, 0,
			"a window of 256 tokens takes 99 MiB (declared), but only 0 MiB may be used (70% of 16.0 GiB available memory less 17.0 GiB promised to other models): use a smaller model or free some memory",
		},
		{
			"parallel windows do not fit", with(func(in *Input) { in.Requested, in.Parallel, in.Available.N = 2048, 8, gib/4 }), 2048, 256,
			"a window of 2048 tokens for each of 8 parallel requests takes 454 MiB (declared), but only 179 MiB may be used (70% of 256 MiB available memory): 256 tokens would fit",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Window(tt.in)
			e, ok := errors.AsType[*NoFitError](err)
			if !ok {
				t.Fatalf("error %v (%d tokens), want a NoFitError", err, r.Tokens)
			}
			if e.Tokens != tt.tokens || e.Fits != tt.fits {
				t.Errorf("tokens %d, fits %d; want %d, %d", e.Tokens, e.Fits, tt.tokens, tt.fits)
			}
			if err.Error() != tt.text {
				t.Errorf("error %q\nwant  %q", err, tt.text)
			}
		})
	}
}

// Absurd sizes, which a foreign file may claim, must not wrap around into something that fits.
func TestWindowDoesNotOverflow(t *testing.T) {
	huge := Bytes{math.MaxInt64, Declared}
	for _, change := range []func(*Input){
		func(in *Input) { in.Weights = huge },
		func(in *Input) { in.KVPerToken = huge },
		func(in *Input) { in.PerSlot = huge },
		func(in *Input) { in.Overhead = huge },
		func(in *Input) { in.Weights, in.Overhead, in.KVPerToken, in.PerSlot = huge, huge, huge, huge },
		func(in *Input) { in.KVPerToken, in.Requested = huge, 4096 },
	} {
		for _, parallel := range []int{0, 1, 1 << 30} {
			in := with(change)
			in.Parallel = parallel
			r, err := Window(in)
			if !errors.As(err, new(*NoFitError)) {
				t.Errorf("%+v: %+v, %v; want a NoFitError", in, r, err)
			}
			if r.Total.N < in.Weights.N {
				t.Errorf("%+v: total %d wrapped around", in, r.Total.N)
			}
		}
	}
}
