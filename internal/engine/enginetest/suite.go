package enginetest

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// T is what the suite needs of a test. *testing.T becomes one in Run; the suite's own tests use a recorder.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf reports and ends the check.
	Fatalf(format string, args ...any)
	Context() context.Context
	Cleanup(func())
	Run(name string, f func(T)) bool
}

// std makes a T of a *testing.T.
type std struct{ *testing.T }

func (s std) Run(name string, f func(T)) bool { return s.T.Run(name, func(t *testing.T) { f(std{t}) }) }

// Config says how to test a driver.
type Config struct {
	// Start starts an instance, or fails t. The suite stops it.
	Start func(t T) engine.Instance
	// Idle returns when the engine has nothing to do, or fails t after Bound. nil means that only a following request shows it.
	Idle func(t T, in engine.Instance)
	// Busy returns when the engine works on a request. nil means that it is given a third of a second for it.
	Busy func(t T, in engine.Instance)
	// Count asks the engine itself what it did. nil leaves out what only the engine can tell, which is said.
	Count func(t T, in engine.Instance) Count
	// FailStart tries a start that cannot succeed. It returns the error and what is left: processes, sockets, files. nil leaves the
	// check out, which is said.
	FailStart func(t T) (left []string, err error)
	// Kill ends the engine behind the driver's back. nil leaves the checks of its death out, which is said.
	Kill func(t T, in engine.Instance)
	// Words returns a text of about n tokens, at least n. nil means n times the same word.
	Words func(n int) string
	// MaxTokens is the length of answers, 0 for 16.
	MaxTokens int
	// SlowPrompt is a prompt size in tokens that takes the engine a second or more, for leaving in prefill; SlowText, if not empty, is
	// such a prompt itself. Without either that is left out, which is said.
	SlowPrompt int
	SlowText   string
}

// Count is what an engine says of its work since its start.
type Count struct {
	// Requests for answers that it received, and Tokens that it made.
	Requests, Tokens int
}

// Bound is how long an end may take that should come within a second: much longer, because shared machines stand still now and then. The
// time that it really took is logged.
const Bound = time.Minute

// check is one promise.
type check struct {
	name string
	// ends reports whether the check ends its instance, so that it needs one of its own.
	ends bool
	run  func(t T, s *suite)
}

// suite is one instance under test.
type suite struct {
	Config
	in   engine.Instance
	caps engine.Capabilities
}

// Run holds a driver to the cut.
func Run(t *testing.T, c Config) { runAll(std{t}, c) }

func runAll(t T, c Config) {
	if c.MaxTokens == 0 {
		c.MaxTokens = 16
	}
	if c.Words == nil {
		c.Words = func(n int) string {
			b := make([]byte, 0, 5*n)
			for range n {
				b = append(b, " word"...)
			}
			return string(b)
		}
	}
	shared := start(t, c)
	for _, k := range checks() {
		t.Run(k.name, func(t T) {
			s := shared
			if k.ends {
				s = start(t, c)
			}
			k.run(t, s)
		})
	}
}

func checks() []check {
	first := []check{{name: "ready means a token", run: checkReady}}
	return slices.Concat(first, answerChecks(), requestChecks(), lifeChecks())
}

// start starts an instance and stops it at t's end.
func start(t T, c Config) *suite {
	in := c.Start(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := in.Stop(ctx); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return &suite{Config: c, in: in, caps: in.Facts().Caps}
}

// ask makes a request in the way that the model can answer: a chat, or text to continue. Its temperature is 0.
func (s *suite) ask(text string) *infer.Request {
	zero := 0.0
	r := &infer.Request{MaxTokens: s.MaxTokens, Sampling: infer.Sampling{Temperature: &zero}}
	if !s.caps.Chat {
		r.Kind, r.Prompt = infer.Completion, text
		return r
	}
	r.Kind = infer.Chat
	r.Messages = []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: text}}}}
	return r
}

// answer is a whole answer, or what came of it.
type answer struct {
	text, think string
	probs       []infer.TokenLogprob
	calls       []infer.ToolCall
	done        *infer.Done
	// err is what ended it; nil if it is whole.
	err error
}

// generate asks and reads to the end. Breaches of the stream's own rules are reported.
func (s *suite) generate(t T, r *infer.Request) answer {
	t.Helper()
	st, err := s.in.Generate(t.Context(), r)
	if err != nil {
		return answer{err: err}
	}
	return read(t, t.Context(), st)
}

// must is generate for requests that have to succeed.
func (s *suite) must(t T, r *infer.Request) answer {
	t.Helper()
	a := s.generate(t, r)
	if a.err != nil {
		t.Fatalf("the request failed: %v", a.err)
	}
	return a
}

var errEndless = errors.New("the stream does not end")

// maxEvents bounds a stream that does not end.
const maxEvents = 100000

func read(t T, ctx context.Context, st engine.Stream) (a answer) {
	t.Helper()
	defer st.Close()
	for range maxEvents {
		ev, err := st.Next(ctx)
		if err != nil {
			switch {
			case errors.Is(err, io.EOF) && a.done == nil:
				t.Errorf("the stream ended without Done and with %q, which is io.EOF: a truncation must be an error of its own", err)
				a.err = io.ErrUnexpectedEOF
			case !errors.Is(err, io.EOF):
				a.err = err
			}
			return a
		}
		a.add(t, ev)
	}
	t.Errorf("the stream does not end")
	a.err = errEndless
	return a
}

// within runs f and fails t if it does not return in time: a suite that hangs says less than one that fails.
func within(t T, what string, limit time.Duration, f func()) {
	t.Helper()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		f()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-returned:
	case <-timer.C:
		t.Fatalf("%s hangs: nothing came for %s", what, limit)
	}
}

// add collects an event.
func (a *answer) add(t T, ev infer.Event) {
	t.Helper()
	if a.done != nil {
		t.Errorf("%T came after Done", ev)
	}
	switch e := ev.(type) {
	case infer.Text:
		if e.Text == "" && len(e.Logprobs) == 0 {
			t.Errorf("an empty text event")
		}
		a.text += e.Text
		a.probs = append(a.probs, e.Logprobs...)
	case infer.Reasoning:
		if e.Text == "" && len(e.Logprobs) == 0 {
			t.Errorf("an empty reasoning event")
		}
		a.think += e.Text
		a.probs = append(a.probs, e.Logprobs...)
	case infer.ToolStart:
		if e.Index != len(a.calls) || e.Name == "" {
			t.Errorf("call %d %q begins after %d calls", e.Index, e.Name, len(a.calls))
		}
		a.calls = append(a.calls, infer.ToolCall{ID: e.ID, Name: e.Name})
	case infer.ToolArgs:
		if e.Index != len(a.calls)-1 {
			t.Errorf("arguments of call %d after %d calls", e.Index, len(a.calls))
			return
		}
		if e.Text == "" {
			t.Errorf("an empty piece of arguments")
		}
		a.calls[e.Index].Arguments += e.Text
	case infer.Done:
		a.done = &e
		if e.Reason == infer.StopTools && len(a.calls) == 0 {
			t.Errorf("the answer ends by %s, and there is none", e.Reason)
		}
	}
}
