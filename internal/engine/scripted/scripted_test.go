package scripted_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/infer"
)

func instance(t *testing.T, d *scripted.Driver) engine.Instance {
	t.Helper()
	in, err := d.Start(t.Context(), engine.StartSpec{Window: 128, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestStepsComeInOrderAndEndWithDone(t *testing.T) {
	in := instance(t, &scripted.Driver{Answer: func(*infer.Request) []scripted.Step {
		return scripted.Steps(scripted.Say("a"), scripted.Say("b"), scripted.Finish(2))
	}})
	s, err := in.Generate(t.Context(), &infer.Request{})
	if err != nil {
		t.Fatal(err)
	}
	var got []infer.Event
	for {
		ev, err := s.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev)
	}
	want := []infer.Event{
		infer.Text{Text: "a"},
		infer.Text{Text: "b"},
		infer.Done{Reason: infer.StopEnd, Usage: infer.Usage{Prompt: 3, Completion: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The three ways to give an answer up: the context of Generate, the context of Next, and Close.
func TestGivingUpIsSeen(t *testing.T) {
	for _, how := range []string{"generate", "next", "close"} {
		t.Run(how, func(t *testing.T) {
			calls := make(chan *scripted.Call, 1)
			in := instance(t, &scripted.Driver{Calls: calls, Answer: func(*infer.Request) []scripted.Step {
				return scripted.Steps(scripted.Say("a"), scripted.Hang())
			}})
			whole, leave := context.WithCancel(t.Context())
			defer leave()
			s, err := in.Generate(whole, &infer.Request{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Next(whole); err != nil {
				t.Fatal(err)
			}
			next, skip := context.WithCancel(t.Context())
			defer skip()
			switch how {
			case "generate":
				leave()
			case "next":
				skip()
			}
			if how != "close" {
				if _, err := s.Next(next); !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			<-(<-calls).Canceled()
		})
	}
}

func TestCrashEndsTheInstance(t *testing.T) {
	in := instance(t, &scripted.Driver{Answer: func(*infer.Request) []scripted.Step {
		return scripted.Steps(scripted.Crash(engine.Exit{Reason: engine.ExitCrashed, Code: 9}, "last words"))
	}})
	if _, err := in.Generate(t.Context(), &infer.Request{}); infer.KindOf(err) != infer.ErrEngineLost {
		t.Errorf("error %v", err)
	}
	<-in.Done()
	if st := in.State(); st.Exit == nil || st.Exit.Code != 9 || len(st.LogTail) != 1 {
		t.Errorf("state %+v", st)
	}
	if err := in.Stop(t.Context()); err != nil || in.State().Exit.Reason != engine.ExitCrashed {
		t.Errorf("Stop after the crash: %v, %+v", err, in.State().Exit)
	}
}
