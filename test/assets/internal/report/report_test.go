package report

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		r := New(&out, false)
		r.Note("engine", "has %d parts", 2)
		s := r.Step("engine", "compiling")
		time.Sleep(31 * time.Second)
		s.Progress(10, 100)
		time.Sleep(30 * time.Second)
		s.Done()
		r.Step("engine", "trying it").Fail()
		want := "engine: has 2 parts\n" +
			"engine: compiling: 30s so far\n" +
			"engine: compiling: 10/100, 1m0s so far, about 9m0s left\n" +
			"engine: compiling (1m1s)\n" +
			"engine: trying it (failed after 0.0s)\n"
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", &out, want)
		}
	})
}

func TestTerminalRewritesOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		r := New(&out, true)
		s := r.Step("a", "work")
		time.Sleep(1500 * time.Millisecond)
		s.Done()
		const c = "\r\x1b[K"
		want := c + "a: work" + c + "a: work: 1.0s so far" + c + "a: work (1.5s)\n"
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
}

func TestRound(t *testing.T) {
	tests := []struct {
		d    time.Duration
		want string
	}{
		{0, "0.0s"},
		{440 * time.Millisecond, "0.4s"},
		{12*time.Second + 400*time.Millisecond, "12s"},
		{12*time.Minute + 5*time.Second, "12m5s"},
	}
	for _, tt := range tests {
		if got := Round(tt.d); got != tt.want {
			t.Errorf("Round(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}
