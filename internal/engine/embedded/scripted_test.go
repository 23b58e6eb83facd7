package embedded

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/enginetest"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/supervise"
)

// TestFaults plays what the real engine cannot be made to show.
func TestFaults(t *testing.T) {
	var dirs []string
	enginetest.Faults(t, enginetest.FaultConfig{
		Start: func(_ enginetest.T, script string, stall time.Duration) (engine.Instance, error) {
			s := scriptedSpec(t)
			s.LoadStall = stall
			dirs = append(dirs, s.RunDir)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return scriptedDriver(t, script).Start(ctx, s)
		},
		Left: func(enginetest.T) string {
			var all []string
			for _, d := range dirs {
				all = append(all, children(t, d)...)
			}
			return strings.Join(all, " ")
		},
	})
}

// TestEvasiveChild: answers that are not what the dialect allows fail a start, and do not pass for readiness.
func TestEvasiveChild(t *testing.T) {
	for _, how := range []string{"empty", "wrong", "html", "hang"} {
		t.Run(how, func(t *testing.T) {
			s := scriptedSpec(t)
			s.LoadStall = 300 * time.Millisecond
			_, err := scriptedDriver(t, "info: "+how).Start(t.Context(), s)
			if infer.KindOf(err) != infer.ErrEngine {
				t.Errorf("Start = %v (%s), want kind %s", err, infer.KindOf(err), infer.ErrEngine)
			}
			if l := left(t, s.RunDir); len(l) > 0 {
				t.Errorf("left: %q", l)
			}
		})
	}
}

// TestBrokenPromise: an engine that runs otherwise than it was told to is not served with.
func TestBrokenPromise(t *testing.T) {
	for _, tt := range []struct {
		name, script, want string
		options            []engine.Option
	}{
		{"window", "window: 512", "a window of 512 where 4096 was asked for", nil},
		{"mode", "", "mode exact where fast was asked for", []engine.Option{{Key: "mode", Value: "fast"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := scriptedSpec(t)
			s.Options = tt.options
			_, err := scriptedDriver(t, tt.script).Start(t.Context(), s)
			if infer.KindOf(err) != infer.ErrEngine || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestFailedStartKeepsTheLog: what the engine said last is there to be shown.
func TestFailedStartKeepsTheLog(t *testing.T) {
	_, err := scriptedDriver(t, "{die-at: load, load: 50ms, last-words: 'one, two'}").Start(t.Context(), scriptedSpec(t))
	tail, ok := errors.AsType[interface {
		error
		LogTail() []string
	}](err)
	if !ok || strings.Join(tail.LogTail(), "|") != "one, two" {
		t.Errorf("Start = %v, want its log", err)
	}
	var all []string
	phases := scriptedSpec(t)
	phases.OnLoad = func(p engine.LoadProgress) { all = append(all, p.Phase) }
	begin(t, scriptedDriver(t, "load: 100ms"), phases)
	if got := strings.Join(dedup(all), " "); got != "starting weights warmup ready" {
		t.Errorf("the phases are %q", got)
	}
}

func dedup(list []string) []string {
	var out []string
	for _, s := range list {
		if len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	return out
}

// TestStartIsLeft: a start that nobody waits for any more leaves nothing.
func TestStartIsLeft(t *testing.T) {
	s := scriptedSpec(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.OnLoad = func(p engine.LoadProgress) {
		if p.Phase == "weights" {
			cancel()
		}
	}
	_, err := scriptedDriver(t, "silent-at: load").Start(ctx, s)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v", err)
	}
	if l := left(t, s.RunDir); len(l) > 0 {
		t.Errorf("left: %q", l)
	}
}

// TestSocketOfEarlierEngine: the file of an engine that was killed is in nobody's way.
func canceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

var noLadder = supervise.Ladder{Kill: time.Second * 5}

func TestSocketOfEarlierEngine(t *testing.T) {
	s := scriptedSpec(t)
	for range 2 {
		in, err := scriptedDriver(t, "").Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.(*instance).proc.Stop(canceledContext(), noLadder); err != nil {
			t.Fatal(err)
		}
	}
}

// TestValueThatCannotBePassedOn is refused here, and not sent as something else.
func TestValueThatCannotBePassedOn(t *testing.T) {
	in := begin(t, scriptedDriver(t, ""), scriptedSpec(t))
	r := chat("x", 1)
	bad := 0.0
	bad /= bad
	r.Sampling.Temperature = &bad
	if _, err := in.Generate(t.Context(), r); infer.KindOf(err) != infer.ErrInvalid {
		t.Errorf("Generate = %v", err)
	}
	if _, err := in.CountTokens(t.Context(), r); infer.KindOf(err) != infer.ErrInvalid {
		t.Errorf("CountTokens = %v", err)
	}
}
