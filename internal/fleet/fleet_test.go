package fleet_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/infer"
)

// bed is a fleet under test, in a synctest bubble.
type bed struct {
	*fleet.Fleet
	t    *testing.T
	dirs string // parent of all run folders
}

func start(t *testing.T, o fleet.Options) *bed {
	t.Helper()
	b := &bed{t: t, dirs: t.TempDir()}
	o.RunDir = func(string) (string, error) { return os.MkdirTemp(b.dirs, "r") }
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.Fleet = f
	f.Start()
	t.Cleanup(func() { f.Stop(t.Context()) })
	return b
}

func one(d *scripted.Driver) []fleet.ModelSpec {
	return []fleet.ModelSpec{{Name: "m", Driver: d, Start: engine.StartSpec{
		Model: engine.Model{Name: "m", Path: "/secret/place/m.gguf"}, Window: 4096, Parallel: 1,
	}}}
}

func (b *bed) only() fleet.Status {
	b.t.Helper()
	return b.Status()[0]
}

func (b *bed) wantState(want fleet.State) fleet.Status {
	b.t.Helper()
	synctest.Wait()
	st := b.only()
	if st.State != want {
		b.t.Fatalf("state %q (cause %q), want %q", st.State, st.Cause, want)
	}
	return st
}

func (b *bed) runDirs() int {
	b.t.Helper()
	all, err := os.ReadDir(b.dirs)
	if err != nil {
		b.t.Fatal(err)
	}
	return len(all)
}

func chat() *infer.Request {
	return &infer.Request{Kind: infer.Chat, Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: "hi"}}}}}
}

// result of an answer read to its end.
type result struct {
	text string
	err  error
}

func read(a *fleet.Answer) result {
	defer a.Close()
	var r result
	for {
		ev, err := a.Next()
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			r.err = err
			return r
		}
		if t, ok := ev.(infer.Text); ok {
			r.text += t.Text
		}
	}
}

// ask runs one request in the background.
func (b *bed) ask(ctx context.Context) <-chan result {
	out := make(chan result, 1)
	go func() {
		a, err := b.Generate(ctx, "m", chat())
		if err != nil {
			out <- result{err: err}
			return
		}
		out <- read(a)
	}()
	return out
}

func pending(t *testing.T, ch <-chan result) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-ch:
		t.Fatalf("ended already: %q, %v", r.text, r.err)
	default:
	}
}

func wantKind(t *testing.T, err error, want infer.ErrorKind, words ...string) *infer.Error {
	t.Helper()
	e, ok := errors.AsType[*infer.Error](err)
	if !ok || e.Kind != want {
		t.Fatalf("error %v (kind %q), want kind %q", err, infer.KindOf(err), want)
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			t.Errorf("error %q does not say %q", e.Message, w)
		}
	}
	if strings.Contains(err.Error(), "/secret") {
		t.Errorf("error shows the file's path: %v", err)
	}
	return e
}

// restarts allows n restarts, a second apart.
type restarts struct{ left int }

func (r *restarts) Next(time.Time) (time.Duration, bool) {
	r.left--
	return time.Second, r.left >= 0
}

func allow(n int) func() fleet.Restarts {
	return func() fleet.Restarts { return &restarts{left: n} }
}

func TestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, fleet.Options{Models: one(&scripted.Driver{})})
		<-b.Loaded()
		st := b.wantState(fleet.Serving)
		if st.Facts == nil || st.Facts.Window != 4096 {
			t.Errorf("facts %+v, want a window of 4096", st.Facts)
		}
		a, err := b.Generate(t.Context(), "m", chat())
		if err != nil {
			t.Fatal(err)
		}
		if got := b.only().Running; got != 1 {
			t.Errorf("running %d while the answer is open, want 1", got)
		}
		if diff := cmp.Diff(result{text: "ok"}, read(a), cmp.AllowUnexported(result{})); diff != "" {
			t.Error(diff)
		}
		if got := b.only().Running; got != 0 {
			t.Errorf("running %d after Close, want 0", got)
		}
	})
}

func TestQueueIsFirstComeFirstServedAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, goOn := make(chan *scripted.Call, 10), make(chan struct{})
		d := &scripted.Driver{Calls: calls, Answer: func(*infer.Request) []scripted.Step {
			return scripted.Steps(scripted.Say("a"), scripted.Wait(goOn), scripted.Finish(1))
		}}
		b := start(t, fleet.Options{Models: one(d), QueueLimit: 1})
		<-b.Loaded()
		first := b.ask(t.Context())
		pending(t, first)
		second := b.ask(t.Context())
		pending(t, second)
		if st := b.only(); st.Running != 1 || st.Queued != 1 {
			t.Errorf("running %d, queued %d; want 1, 1", st.Running, st.Queued)
		}
		third := <-b.ask(t.Context())
		if e := wantKind(t, third.err, infer.ErrQueueFull, "busy"); e.RetryAfter <= 0 {
			t.Error("no RetryAfter")
		}
		if len(calls) != 1 {
			t.Errorf("the engine heard %d requests, want 1", len(calls))
		}
		goOn <- struct{}{}
		if r := <-first; r.err != nil {
			t.Error(r.err)
		}
		goOn <- struct{}{}
		if r := <-second; r.err != nil {
			t.Error(r.err)
		}
	})
}

func TestClientGoneInEachPhase(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []scripted.Step
	}{
		{"prefill", scripted.Steps(scripted.Hang())},
		{"decode", scripted.Steps(scripted.Say("a"), scripted.Hang())},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := make(chan *scripted.Call, 1)
				d := &scripted.Driver{Calls: calls, Answer: func(*infer.Request) []scripted.Step { return c.steps }}
				b := start(t, fleet.Options{Models: one(d), QueueLimit: 1})
				<-b.Loaded()
				ctx, leave := context.WithCancel(t.Context())
				got := b.ask(ctx)
				pending(t, got)
				leave()
				left := <-got
				_ = wantKind(t, left.err, infer.ErrCanceled)
				<-(<-calls).Canceled()
				if st := b.only(); st.Running != 0 {
					t.Errorf("still %d running", st.Running)
				}
			})
		})
	}
}

func TestClientGoneInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, goOn := make(chan *scripted.Call, 10), make(chan struct{})
		d := &scripted.Driver{Calls: calls, Answer: func(*infer.Request) []scripted.Step {
			return scripted.Steps(scripted.Wait(goOn), scripted.Finish(1))
		}}
		b := start(t, fleet.Options{Models: one(d), QueueLimit: 2})
		<-b.Loaded()
		first := b.ask(t.Context())
		pending(t, first)
		ctx, leave := context.WithCancel(t.Context())
		second := b.ask(ctx)
		pending(t, second)
		third := b.ask(t.Context())
		pending(t, third)
		leave()
		left := <-second
		_ = wantKind(t, left.err, infer.ErrCanceled)
		close(goOn)
		for _, ch := range []<-chan result{first, third} {
			if r := <-ch; r.err != nil {
				t.Error(r.err)
			}
		}
		if len(calls) != 2 {
			t.Errorf("the engine heard %d requests, want 2", len(calls))
		}
	})
}

func TestQueueWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted.Driver{Answer: func(*infer.Request) []scripted.Step { return scripted.Steps(scripted.Hang()) }}
		b := start(t, fleet.Options{Models: one(d), QueueLimit: 1, QueueWait: 10 * time.Second})
		<-b.Loaded()
		ctx, leave := context.WithCancel(t.Context())
		first := b.ask(ctx)
		pending(t, first)
		began := time.Now()
		_ = wantKind(t, (<-b.ask(t.Context())).err, infer.ErrQueueFull, "10s")
		if got := time.Since(began); got != 10*time.Second {
			t.Errorf("waited %v, want 10s", got)
		}
		leave()
		<-first
	})
}

func TestNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		d := &scripted.Driver{Load: func(_ context.Context, _ int, s engine.StartSpec) error {
			s.OnLoad(engine.LoadProgress{Phase: "weights", Done: 64 << 20, Total: 128 << 20})
			<-goOn
			return nil
		}}
		specs := append(one(d), fleet.ModelSpec{Name: "n", Driver: &scripted.Driver{}})
		b := start(t, fleet.Options{Models: specs})
		b.wantState(fleet.Loading)
		_, err := b.Generate(t.Context(), "m", chat())
		if e := wantKind(t, err, infer.ErrLoading, "weights, 64 of 128 MiB"); e.RetryAfter <= 0 {
			t.Error("no RetryAfter")
		}
		if st := b.Status()[1]; st.State != fleet.Waiting {
			t.Errorf("second model is %q while the first loads, want waiting", st.State)
		}
		_, err = b.Generate(t.Context(), "n", chat())
		_ = wantKind(t, err, infer.ErrLoading, "waiting")
		close(goOn)
		<-b.Loaded()
		synctest.Wait()
		if _, err := b.Generate(t.Context(), "n", chat()); err != nil {
			t.Error(err)
		}
	})
}

func TestReviewR16FailedLoadLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted.Driver{Load: func(context.Context, int, engine.StartSpec) error {
			return infer.Errorf(infer.ErrEngine, "", "cannot read /secret/place/m.gguf: bad magic")
		}}
		b := start(t, fleet.Options{Models: one(d), NewRestarts: allow(5)})
		<-b.Loaded()
		st := b.wantState(fleet.Failed)
		if !strings.Contains(st.Cause, "bad magic") {
			t.Errorf("cause %q", st.Cause)
		}
		_, err := b.Generate(t.Context(), "m", chat())
		_ = wantKind(t, err, infer.ErrUnavailable, "bad magic")
		if d.Starts() != 1 {
			t.Errorf("%d starts, want 1: a first load is not repeated", d.Starts())
		}
		if n := b.runDirs(); n != 0 {
			t.Errorf("%d run folders left", n)
		}
	})
}

func TestStopWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted.Driver{Load: func(ctx context.Context, _ int, _ engine.StartSpec) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		b := start(t, fleet.Options{Models: append(one(d), fleet.ModelSpec{Name: "n", Driver: d})})
		b.wantState(fleet.Loading)
		b.Stop(t.Context())
		for _, st := range b.Status() {
			if st.State != fleet.Stopped {
				t.Errorf("%s is %q", st.Name, st.State)
			}
		}
		if n := b.runDirs(); n != 0 || d.Starts() != 1 {
			t.Errorf("%d run folders left, %d starts; want 0 and 1", n, d.Starts())
		}
	})
}

func TestStopEndsAnswersAndWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted.Driver{Answer: func(*infer.Request) []scripted.Step {
			return scripted.Steps(scripted.Say("a"), scripted.Hang())
		}}
		b := start(t, fleet.Options{Models: one(d), QueueLimit: 1})
		<-b.Loaded()
		first := b.ask(t.Context())
		pending(t, first)
		second := b.ask(t.Context())
		pending(t, second)
		b.Stop(t.Context())
		_ = wantKind(t, (<-first).err, infer.ErrUnavailable, "stopping")
		_ = wantKind(t, (<-second).err, infer.ErrUnavailable, "stopping")
		if e := d.Last().State().Exit; e == nil || e.Reason != engine.ExitStopped {
			t.Errorf("engine's exit %+v", e)
		}
		if n := b.runDirs(); n != 0 {
			t.Errorf("%d run folders left", n)
		}
	})
}

// When an engine dies, everything in flight fails within a second, with the reason, and the model comes back.
func TestEngineDeath(t *testing.T) {
	exit := engine.Exit{Reason: engine.ExitCrashed, Code: 1, Detail: "GGML_ASSERT in /secret/place/m.gguf"}
	for _, c := range []struct {
		name  string
		steps []scripted.Step
	}{
		{"the connection breaks", nil},
		{"the connection stays open", scripted.Steps(scripted.Say("a"), scripted.Hang())},
		{"in prefill", scripted.Steps(scripted.Hang())},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				d := &scripted.Driver{Answer: func(*infer.Request) []scripted.Step {
					n++
					switch {
					case n == 1 && c.steps != nil:
						return c.steps
					case n == 1: // the channel must belong to the bubble
						return scripted.Steps(scripted.Say("a"), scripted.Wait(make(chan int)))
					}
					return scripted.Steps(scripted.Say("ok"), scripted.Finish(1))
				}}
				b := start(t, fleet.Options{Models: one(d), QueueLimit: 1, NewRestarts: allow(1)})
				<-b.Loaded()
				first := b.ask(t.Context())
				pending(t, first)
				second := b.ask(t.Context())
				pending(t, second)
				died := time.Now()
				d.Last().Die(exit, "line one", "last line")
				_ = wantKind(t, (<-second).err, infer.ErrUnavailable, "crashed")
				_ = wantKind(t, (<-first).err, infer.ErrEngineLost, "crashed", "GGML_ASSERT")
				if took := time.Since(died); took > time.Second {
					t.Errorf("took %v", took)
				}
				st := b.wantState(fleet.Restarting)
				if diff := cmp.Diff([]string{"line one", "last line"}, st.LogTail); diff != "" {
					t.Errorf("log tail: %s", diff)
				}
				_, err := b.Generate(t.Context(), "m", chat())
				_ = wantKind(t, err, infer.ErrLoading, "restarted")
				time.Sleep(time.Second)
				if st := b.wantState(fleet.Serving); st.Restarts != 1 {
					t.Errorf("restarts %d, want 1", st.Restarts)
				}
				if r := <-b.ask(t.Context()); r.err != nil {
					t.Error(r.err)
				}
				if n := b.runDirs(); n != 1 {
					t.Errorf("%d run folders, want 1", n)
				}
			})
		})
	}
}

func TestRestartsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted.Driver{}
		b := start(t, fleet.Options{Models: one(d), NewRestarts: allow(2)})
		<-b.Loaded()
		for range 2 {
			b.wantState(fleet.Serving)
			d.Last().Die(engine.Exit{Reason: engine.ExitOutOfMemory, Signal: "SIGKILL"})
			b.wantState(fleet.Restarting)
			time.Sleep(time.Second)
		}
		b.wantState(fleet.Serving)
		d.Last().Die(engine.Exit{Reason: engine.ExitOutOfMemory, Signal: "SIGKILL"}, "oom")
		st := b.wantState(fleet.Failed)
		if !strings.Contains(st.Cause, "out_of_memory (SIGKILL)") || len(st.LogTail) != 1 {
			t.Errorf("cause %q, tail %q", st.Cause, st.LogTail)
		}
	})
}

func TestReloadThatCannotWorkIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted.Driver{Load: func(_ context.Context, n int, _ engine.StartSpec) error {
			if n > 1 {
				return infer.Errorf(infer.ErrUnsupported, "", "the file was replaced by something else")
			}
			return nil
		}}
		b := start(t, fleet.Options{Models: one(d), NewRestarts: allow(9)})
		<-b.Loaded()
		b.wantState(fleet.Serving)
		d.Last().Die(engine.Exit{Reason: engine.ExitCrashed})
		synctest.Wait()
		time.Sleep(time.Minute)
		b.wantState(fleet.Failed)
		if d.Starts() != 2 {
			t.Errorf("%d starts, want 2", d.Starts())
		}
	})
}

// An engine that says it is well and fails every answer is started anew; failures of the client's making do not count.
func TestHealthThatLies(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		starts int
	}{
		{"engine errors", infer.Errorf(infer.ErrEngine, "", "compute error"), 2},
		{"cut streams", infer.Errorf(infer.ErrEngineLost, "", "closed"), 2},
		{"over the window", infer.Errorf(infer.ErrContextLength, "", "too long"), 1},
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(c.name+" "+when+" the first event", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := &scripted.Driver{Answer: func(*infer.Request) []scripted.Step {
						if when == "before" {
							return scripted.Steps(scripted.Fail(c.err))
						}
						return scripted.Steps(scripted.Say("a"), scripted.Fail(c.err))
					}}
					b := start(t, fleet.Options{Models: one(d), NewRestarts: allow(3), FailureLimit: 3})
					<-b.Loaded()
					for range 3 {
						synctest.Wait()
						if r := <-b.ask(t.Context()); infer.KindOf(r.err) != infer.KindOf(c.err) {
							t.Fatalf("got %v, want %v", r.err, c.err)
						}
					}
					synctest.Wait()
					time.Sleep(2 * time.Second)
					b.wantState(fleet.Serving)
					if d.Starts() != c.starts {
						t.Errorf("%d starts, want %d", d.Starts(), c.starts)
					}
				})
			})
		}
	}
}

func TestCapabilitiesAreCheckedBeforeTheQueue(t *testing.T) {
	seed := int64(1)
	for _, c := range []struct {
		name  string
		set   func(*infer.Request)
		param string
	}{
		{"chat", func(*infer.Request) {}, "messages"},
		{"tools", func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "f"}} }, "tools"},
		{"forced tool", func(r *infer.Request) {
			r.Tools, r.ToolChoice.Mode = []infer.Tool{{Name: "f"}}, infer.ToolRequired
		}, "tool_choice"},
		{"json", func(r *infer.Request) { r.Format.Kind = infer.FormatJSONSchema }, "response_format"},
		{"logprobs", func(r *infer.Request) { r.Logprobs = true }, "logprobs"},
		{"seed", func(r *infer.Request) { r.Sampling.Seed = &seed }, "seed"},
		{"bias", func(r *infer.Request) { r.Sampling.LogitBias = map[int]float64{1: 1} }, "logit_bias"},
		{"suffix", func(r *infer.Request) { r.Kind, r.Suffix = infer.Completion, "x" }, "suffix"},
		{"token ids", func(r *infer.Request) { r.Kind, r.PromptTokens = infer.Completion, []int{1} }, "prompt"},
		{"image", func(r *infer.Request) {
			r.Messages[0].Parts = append(r.Messages[0].Parts, infer.Part{Image: &infer.Image{Param: "messages[0].content[1].image_url"}})
		}, "messages[0].content[1].image_url"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caps := engine.Capabilities{Chat: c.name != "chat", Completion: true, Tools: c.param == "tool_choice"}
				calls := make(chan *scripted.Call, 1)
				d := &scripted.Driver{Facts: engine.Facts{Caps: caps}, Calls: calls}
				b := start(t, fleet.Options{Models: one(d)})
				<-b.Loaded()
				synctest.Wait()
				r := chat()
				c.set(r)
				_, err := b.Generate(t.Context(), "m", r)
				if e := wantKind(t, err, infer.ErrUnsupported); e.Param != c.param {
					t.Errorf("param %q, want %q", e.Param, c.param)
				}
				if len(calls) != 0 {
					t.Error("the engine heard of it")
				}
			})
		})
	}
}

func TestEndWithoutDoneIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted.Driver{Answer: func(*infer.Request) []scripted.Step {
			return scripted.Steps(scripted.Say("a"), scripted.Fail(io.EOF))
		}}
		b := start(t, fleet.Options{Models: one(d)})
		<-b.Loaded()
		synctest.Wait()
		r := <-b.ask(t.Context())
		_ = wantKind(t, r.err, infer.ErrEngineLost, "final event")
	})
}

func TestOnChangeTellsTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var story []fleet.State
		d := &scripted.Driver{}
		b := start(t, fleet.Options{Models: one(d), NewRestarts: allow(1), OnChange: func(st fleet.Status) {
			story = append(story, st.State)
		}})
		<-b.Loaded()
		synctest.Wait()
		d.Last().Die(engine.Exit{Reason: engine.ExitCrashed})
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		b.Stop(t.Context())
		want := []fleet.State{fleet.Loading, fleet.Serving, fleet.Restarting, fleet.Serving, fleet.Stopped}
		if diff := cmp.Diff(want, story); diff != "" {
			t.Error(diff)
		}
	})
}
