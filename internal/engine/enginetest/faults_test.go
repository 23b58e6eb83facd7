package enginetest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// faulty is a driver's instance on a scripted engine, in memory: it reads the script of a request and ends as the table says that it
// has to. wrong names the one thing that it does wrong.
type faulty struct {
	*reference
	wrong  string
	script string
	active atomic.Int32
	asked  atomic.Int32
	sick   atomic.Bool
}

func newFaulty(wrong, script string) *faulty {
	f := &faulty{reference: newReference(""), wrong: wrong, script: script}
	f.asked.Store(1) // the warm-up
	return f
}

func (f *faulty) Facts() engine.Facts {
	facts := f.reference.Facts()
	facts.Caps.Tools = true
	return facts
}

// faultOf is the fault that a request's prompt asks for.
func faultOf(r *infer.Request) *AnswerFault {
	_, script, _ := strings.Cut(r.Messages[0].Text(), "@fault{")
	for _, f := range AnswerFaults() {
		if f.Script+"}" == script {
			return &f
		}
	}
	return nil
}

func (f *faulty) Generate(ctx context.Context, r *infer.Request) (engine.Stream, error) {
	if f.asked.Add(1) > 2 && f.script != "" {
		if f.wrong == "takes a failure for an end" {
			f.finish(engine.ExitCrashed)
		}
		return nil, infer.Errorf(infer.ErrEngine, "", "scripted failure")
	}
	fault := faultOf(r)
	if fault == nil {
		text := whole
		if f.sick.Load() {
			text = "..."
		}
		return &faultStream{f: f, ctx: ctx, events: []infer.Event{infer.Text{Text: text}, infer.Done{Reason: infer.StopLength}}}, nil
	}
	f.sick.Store(f.wrong == "never gets well")
	f.active.Add(1)
	return f.stream(ctx, *fault), nil
}

func (f *faulty) stream(ctx context.Context, a AnswerFault) *faultStream {
	s := &faultStream{f: f, ctx: ctx, stalls: a.Stalls, works: true}
	if a.Text != "" && (f.wrong != "swallows the text" || a.Stalls) {
		s.events = append(s.events, infer.Text{Text: a.Text})
	}
	done := infer.Done{Reason: infer.StopEnd}
	if a.Call && f.wrong == "promises a call" {
		done.Reason = infer.StopTools
	}
	switch {
	case a.Stalls:
	case len(a.Kinds) == 0 || a.Call || f.wrong == "calls a cut answer whole":
		s.events = append(s.events, done)
	case f.wrong == "ends a cut answer in order":
		s.err = io.EOF
	default:
		s.err = &infer.Error{Kind: a.Kinds[0], Message: "it failed: " + a.Says}
	}
	if a.Exit != "" {
		f.die(a)
	}
	return s
}

// die ends the engine as the fault does.
func (f *faulty) die(a AnswerFault) {
	reason, says := a.Exit, a.Says
	switch f.wrong {
	case "calls every end a crash":
		reason = engine.ExitCrashed
	case "loses the last words":
		says = ""
	}
	f.finish(reason)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exit.Detail = says
}

// faultStream gives its events, and then ends with err or stalls.
type faultStream struct {
	f      *faulty
	ctx    context.Context // the request's
	events []infer.Event
	err    error
	stalls bool
	works  bool
}

func (s *faultStream) Next(ctx context.Context) (infer.Event, error) {
	if len(s.events) > 0 {
		ev := s.events[0]
		s.events = s.events[1:]
		return ev, nil
	}
	switch {
	case s.stalls && s.f.wrong == "calls a leaver lost":
		<-ctx.Done()
		return nil, infer.Errorf(infer.ErrEngineLost, "", "gone")
	case s.stalls:
		<-ctx.Done()
		return nil, infer.Errorf(infer.ErrCanceled, "", "left")
	case s.err != nil:
		return nil, s.err
	}
	return nil, io.EOF
}

func (s *faultStream) Close() error {
	if s.works && s.f.wrong != "works on for nobody" {
		s.works = false
		s.f.active.Add(-1)
	}
	return nil
}

// runFaultsOn runs the fault table on a driver with one mistake.
func runFaultsOn(t *testing.T, wrong string) *record {
	rec := &recorder{t: t, all: &record{}}
	rec.do(func(rt T) {
		runFaults(rt, FaultConfig{
			Start: func(_ T, script string) engine.Instance { return newFaulty(wrong, script) },
			FailStart: func(_ T, script string) ([]string, error) {
				switch {
				case wrong == "starts all the same":
					return nil, nil
				case wrong == "leaves a process" && strings.Contains(script, "grandchild"):
					return []string{"process 7"}, infer.Errorf(infer.ErrEngine, "", "no")
				case wrong == "fails without a kind":
					return nil, errors.New("no")
				}
				return nil, infer.Errorf(infer.ErrEngine, "", "no")
			},
			Busy: func(_ T, in engine.Instance) {
				for in.(*faulty).active.Load() == 0 {
					<-time.After(time.Millisecond)
				}
			},
			Idle: func(t T, in engine.Instance) {
				if n := in.(*faulty).active.Load(); n > 0 {
					t.Errorf("the engine works on %d answers", n)
				}
			},
		})
	})
	return rec.all
}

func TestARightDriverSurvivesTheFaults(t *testing.T) {
	if r := runFaultsOn(t, ""); len(r.failed) > 0 {
		t.Errorf("a right driver fails:\n%s", strings.Join(r.words, "\n"))
	}
}

func TestWrongDriversFailTheFaults(t *testing.T) {
	tests := map[string]string{ // mistake: a fault that has to show it
		"calls a cut answer whole":   "close-at: after:3",
		"ends a cut answer in order": "omit: [finish, usage, done]",
		"swallows the text":          "close-at: final",
		"calls a leaver lost":        "silent-at: prefill",
		"works on for nobody":        "silent-at: after:3",
		"never gets well":            "status: 500",
		"promises a call":            "drop-tool-call: true",
		"calls every end a crash":    "die-at: after:3, die-how: abort, last-words: 'E out of memory'",
		"loses the last words":       "die-at: start, last-words: 'E the last words'",
		"starts all the same":        "lies: fail",
		"leaves a process":           "die-at: warmup, grandchild: true, ignore-sigterm: true",
		"fails without a kind":       "silent-at: bind",
		"takes a failure for an end": "lies: after:2",
	}
	for wrong, fault := range tests {
		t.Run(wrong, func(t *testing.T) {
			if r := runFaultsOn(t, wrong); !slices.Contains(r.failed, fault) {
				t.Errorf("%q does not fail; these do: %q\n%s", fault, r.failed, strings.Join(r.words, "\n"))
			}
		})
	}
}
