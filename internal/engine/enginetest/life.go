package enginetest

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// lifeChecks are about ends: of answers, and of the engine.
func lifeChecks() []check {
	return []check{
		{name: "a start that fails leaves nothing", run: checkFailStart},
		{name: "leaving while it writes", run: checkLeaveDecode},
		{name: "leaving while it reads", run: checkLeavePrefill},
		{name: "death in an answer", ends: true, run: checkDeath},
		{name: "stop", ends: true, run: checkStop},
	}
}

// checkReady comes first, when nobody has asked the instance anything.
func checkReady(t T, s *suite) {
	if s.Count == nil {
		t.Logf("left out: this driver's tests cannot ask the engine what it did")
		return
	}
	if n := s.Count(t, s.in).Tokens; n < 1 {
		t.Errorf("it was called ready when it had made %d tokens", n)
	}
}

func checkFailStart(t T, s *suite) {
	if s.FailStart == nil {
		t.Logf("left out: this driver's tests name no start that fails")
		return
	}
	left, err := s.FailStart(t)
	if e, ok := errors.AsType[*infer.Error](err); !ok || e.Message == "" {
		t.Errorf("the start failed with %v, want an *infer.Error that says why", err)
	}
	if len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// long is a request that goes on until it is ended.
func (s *suite) long() *infer.Request {
	r := s.ask("Write a very long story about the sea.")
	r.MaxTokens, r.IgnoreEOS = s.in.Facts().Window, true
	return r
}

// begun reads up to the first word.
func begun(t T, ctx context.Context, st engine.Stream) {
	t.Helper()
	for {
		ev, err := st.Next(ctx)
		if err != nil {
			t.Fatalf("before the first word: %v", err)
		}
		switch ev.(type) {
		case infer.Text, infer.Reasoning:
			return
		case infer.Done:
			t.Fatalf("the answer ended before its first word")
		}
	}
}

// freed checks that the engine has nothing to do, and answers.
func (s *suite) freed(t T) {
	t.Helper()
	if s.Idle != nil {
		start := time.Now()
		s.Idle(t, s.in)
		t.Logf("idle after %s", time.Since(start).Round(time.Millisecond))
	}
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	defer cancel()
	st, err := s.in.Generate(ctx, s.ask("Name a colour."))
	if err != nil {
		t.Fatalf("a request afterwards: %v", err)
	}
	if a := read(t, ctx, st); a.err != nil {
		t.Errorf("a request afterwards: %v", a.err)
	}
}

// checkLeaveDecode leaves in both ways: by the context and by Close. As many are begun as run at once, so that one that goes on
// would be missed.
func checkLeaveDecode(t T, s *suite) {
	for _, way := range []string{"context", "close"} {
		for range s.in.Facts().Parallel {
			ctx, cancel := context.WithCancel(t.Context())
			st, err := s.in.Generate(ctx, s.long())
			if err != nil {
				cancel()
				t.Fatalf("Generate: %v", err)
			}
			begun(t, ctx, st)
			if way == "context" {
				cancel()
			} else if err := st.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			ended(t, st)
			cancel()
		}
		s.freed(t)
	}
}

// onTheWay is how many events may still arrive of an answer whose work was stopped.
const onTheWay = 64

// ended wants a stream whose work was stopped to end soon, and not as if it were whole.
func ended(t T, st engine.Stream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Bound)
	defer cancel()
	defer st.Close()
	for n := 0; ; n++ {
		ev, err := st.Next(ctx)
		switch {
		case ctx.Err() != nil || n > onTheWay:
			t.Fatalf("the stream goes on after its work was stopped")
		case errors.Is(err, io.EOF):
			t.Errorf("a stopped stream ends as if it were whole")
			return
		case err != nil:
			return
		}
		if _, whole := ev.(infer.Done); whole {
			return // it was just done
		}
	}
}

func checkLeavePrefill(t T, s *suite) {
	text := s.SlowText
	if text == "" && s.SlowPrompt > 0 {
		// Its own beginning, so that no earlier check's prompt is found in a cache and leaves the engine nothing to read.
		text = "Leaving while it reads." + s.Words(s.SlowPrompt)
	}
	if text == "" {
		t.Logf("left out: this driver's tests name no prompt that takes its time")
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var leaving sync.WaitGroup
	defer leaving.Wait()
	leaving.Go(func() {
		defer cancel()
		if s.Busy != nil {
			s.Busy(t, s.in)
			return
		}
		<-time.After(300 * time.Millisecond) // the engine has begun by then, and is not done
	})
	st, err := s.in.Generate(ctx, s.ask(text))
	if err == nil {
		err = read(t, ctx, st).err
	}
	if infer.KindOf(err) != infer.ErrCanceled {
		t.Errorf("a request that was left ended with %v (%s), want %s", err, infer.KindOf(err), infer.ErrCanceled)
	}
	s.freed(t)
}

func checkDeath(t T, s *suite) {
	if s.Kill == nil {
		t.Logf("left out: this driver's tests say no way to kill the engine")
		return
	}
	st, err := s.in.Generate(t.Context(), s.long())
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	begun(t, t.Context(), st)
	said := len(s.in.State().LogTail)
	s.Kill(t, s.in)
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	defer cancel()
	a := read(t, ctx, st)
	if k := infer.KindOf(a.err); k != infer.ErrEngineLost {
		t.Errorf("the answer ended with %v (%s), want %s", a.err, k, infer.ErrEngineLost)
	}
	gone(t, s.in)
	if e := s.in.State().Exit; e == nil || e.Reason == "" || e.Reason == engine.ExitStopped || e.At.IsZero() {
		t.Errorf("the exit is %+v, want a reason that is not a stop", e)
	}
	if kept := len(s.in.State().LogTail); kept == 0 && said > 0 {
		t.Errorf("the log's last lines are gone with the engine; before there were %d", said)
	}
	if _, err := s.in.Generate(t.Context(), s.ask("Hello.")); err == nil {
		t.Errorf("a dead engine takes a request")
	}
}

// gone waits for Done.
func gone(t T, in engine.Instance) {
	t.Helper()
	select {
	case <-in.Done():
	case <-time.After(Bound):
		t.Fatalf("Done is not closed")
	}
}

func checkStop(t T, s *suite) {
	st, err := s.in.Generate(t.Context(), s.long())
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	begun(t, t.Context(), st)
	pid := s.in.State().PID
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for range 2 {
		if err := s.in.Stop(ctx); err != nil {
			t.Errorf("Stop: %v", err)
		}
	}
	gone(t, s.in)
	if a := read(t, t.Context(), st); a.err == nil {
		t.Errorf("an answer that a stop cut off is whole")
	}
	if e := s.in.State().Exit; e == nil || e.Reason != engine.ExitStopped {
		t.Errorf("the exit is %+v, want stopped", e)
	}
	if pid > 0 && syscall.Kill(pid, 0) == nil {
		t.Errorf("process %d is still there", pid)
	}
	if _, err := s.in.Generate(t.Context(), s.ask("Hello.")); err == nil {
		t.Errorf("a stopped engine takes a request")
	}
}
