package enginetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// FaultConfig says how to start a driver on the scripted engine (package fake).
type FaultConfig struct {
	// Start starts an instance on an engine that plays the script, or fails t. The suite stops it.
	Start func(t T, script string) engine.Instance
	// FailStart tries a start on an engine that plays the script, with a stall of well under a second. It returns what is left:
	// processes, sockets, files.
	FailStart func(t T, script string) (left []string, err error)
	// Busy returns when the scripted engine works on an answer (GET /fake/state), and Idle when it has none.
	Busy, Idle func(t T, in engine.Instance)
}

// AnswerFault is a fault in one answer, and what a driver has to make of it.
type AnswerFault struct {
	// Script is in the language of the scripted engine.
	Script string
	// Text is what arrives before the end.
	Text string
	// Kinds are the kinds of error that are right for the end; none means that the answer is whole.
	Kinds []infer.ErrorKind
	// Stalls says that nothing more comes, until the reader leaves.
	Stalls bool
	// Exit is why the engine ended, empty if it lives on.
	Exit engine.ExitReason
	// Says must be in the error and, if the engine ended, in the exit's detail.
	Says string
	// Call asks for a tool call instead of a text. The answer may fail, or end in a way that promises none.
	Call bool
}

// whole is the answer to the suite's question.
const whole = "1 a 2 b"

// AnswerFaults are the faults of answers that each driver of a local engine has to survive. Not among them: an engine that gives the
// answer to another request, which no driver can notice, and a last line ([DONE]) that is missing behind the reason and the
// counts, which engines differ about.
func AnswerFaults() []AnswerFault {
	failed := []infer.ErrorKind{infer.ErrEngine}
	lost := []infer.ErrorKind{infer.ErrEngineLost}
	either := []infer.ErrorKind{infer.ErrEngine, infer.ErrEngineLost}
	const words = "the last words" // an engine may put a level before them
	return []AnswerFault{
		{Script: "status: 500", Kinds: failed, Says: "scripted failure"},
		{Script: "status: 502, status-body: html", Kinds: failed},
		{Script: "status: 500, status-body: empty", Kinds: failed},
		{Script: "status: 500, status-body: string", Kinds: failed},
		{Script: "status: 503", Kinds: []infer.ErrorKind{infer.ErrLoading, infer.ErrUnavailable}},
		{Script: "error-at: start", Kinds: failed},
		{Script: "close-at: start", Kinds: lost},
		{Script: "close-at: start, close-how: reset", Kinds: lost},
		{Script: "close-at: prefill, close-how: cut", Kinds: lost},
		{Script: "close-at: after:3", Kinds: either, Text: "1 a 2"},
		{Script: "close-at: after:3, close-how: half-line", Kinds: either, Text: "1 a 2"},
		{Script: "close-at: after:3, close-how: cut", Kinds: lost, Text: "1 a 2"},
		{Script: "close-at: after:3, close-how: reset", Kinds: lost, Text: "1 a 2"},
		{Script: "close-at: final", Kinds: either, Text: whole},
		{Script: "bad-json-at: after:3", Kinds: either, Text: "1 a 2"},
		{Script: "error-at: after:3", Kinds: either, Text: "1 a 2"},
		{Script: "omit: [finish, usage, done]", Kinds: either, Text: whole},
		{Script: "cut-utf8: events, answer: 'größe 東京 🚂 ende'", Text: "größe 東京 🚂 ende"},
		{Script: "cut-utf8: writes, answer: 'größe 東京 🚂 ende'", Text: "größe 東京 🚂 ende"},
		{Script: "noise: 2, noise-at: answer, noise-to: both", Text: whole},
		{Script: "token-delay: 5ms, chunk: 1, chunk-delay: 1ms", Text: whole},
		{Script: "drop-tool-call: true", Kinds: failed, Call: true},
		{Script: "silent-at: start", Stalls: true},
		{Script: "silent-at: prefill", Stalls: true},
		{Script: "silent-at: after:3", Stalls: true, Text: "1 a 2"},
		{Script: "silent-at: final", Stalls: true, Text: whole},
		{Script: "close-at: after:3, close-how: stall-half-line", Stalls: true, Text: "1 a 2"},
		{Script: "die-at: start, last-words: 'E " + words + "'", Kinds: lost, Exit: engine.ExitCrashed, Says: words},
		{Script: "die-at: prefill, die-how: kill", Kinds: lost, Exit: engine.ExitCrashed, Says: "SIGKILL"},
		{Script: "die-at: after:3, die-how: exit:7, last-words: 'E " + words + "'", Kinds: lost, Text: "1 a 2", Exit: engine.ExitCrashed, Says: words},
		{
			Script: "die-at: after:3, die-how: abort, last-words: 'E out of memory'", Kinds: lost, Text: "1 a 2",
			Exit: engine.ExitOutOfMemory, Says: "out of memory",
		},
		{Script: "die-at: final", Kinds: lost, Text: whole, Exit: engine.ExitCrashed},
	}
}

// StartFaults are the scripts of engines that never become ready.
func StartFaults() []string {
	return []string{
		"die-at: bind\nlast-words: 'E cannot open the model'",
		"die-at: load\nload: 20ms\nlast-words: 'E failed to load the model'",
		"die-at: load\ndie-how: abort",
		"die-at: load\ndie-how: kill",
		"die-at: warmup",
		"die-at: warmup\ndie-how: kill",
		"close-at: warmup",
		"silent-at: bind",
		"silent-at: load\nload: 20ms",
		"silent-at: warmup",
		"lies: fail",
		"lies: never",
		"die-at: warmup\ngrandchild: true\nignore-sigterm: true",
		"silent-at: load\nload: 20ms\nignore-sigterm: true",
	}
}

// Faults holds a driver to what the cut says of engines that fail.
func Faults(t *testing.T, c FaultConfig) { runFaults(std{t}, c) }

func runFaults(t T, c FaultConfig) {
	well := Config{Start: func(t T) engine.Instance { return c.Start(t, "") }}
	shared := start(t, well).in
	for _, f := range AnswerFaults() {
		t.Run(f.Script, func(t T) {
			in := shared
			if f.Exit != "" {
				in = start(t, well).in
			}
			f.check(t, c, in)
		})
	}
	for _, script := range StartFaults() {
		t.Run(strings.ReplaceAll(script, "\n", ", "), func(t T) {
			checkFailStart(t, &suite{Config: Config{FailStart: func(t T) ([]string, error) { return c.FailStart(t, script) }}})
		})
	}
	t.Run("lies: after:2", func(t T) { checkLateLie(t, c) })
}

// question asks the scripted engine for an answer whose text is known.
func question(text string) *infer.Request {
	zero := 0.0
	return &infer.Request{
		Kind: infer.Chat, MaxTokens: 4, Sampling: infer.Sampling{Temperature: &zero},
		Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: text}}}},
	}
}

func (f AnswerFault) request() *infer.Request {
	if f.Call {
		r := question(`@call get_weather {"city": "Rome"} @fault{` + f.Script + "}")
		r.MaxTokens, r.Tools = 100, weatherTools()
		return r
	}
	r := question("a b @fault{" + f.Script + "}")
	if strings.Contains(f.Script, "answer:") {
		r.MaxTokens = 100
	}
	return r
}

func (f AnswerFault) check(t T, c FaultConfig, in engine.Instance) {
	if f.Call && !in.Facts().Caps.Tools {
		t.Logf("left out: this instance calls no tools by itself")
		return
	}
	a := f.ask(t, c, in)
	if a.text != f.Text {
		t.Errorf("the text is %q, want %q", a.text, f.Text)
	}
	switch kind := infer.KindOf(a.err); {
	case f.Call && a.err == nil: // what its end may not be is checked with every answer
	case f.Stalls && kind != infer.ErrCanceled:
		t.Errorf("the answer that was left ended with %v (%s), want %s", a.err, kind, infer.ErrCanceled)
	case f.Stalls:
	case len(f.Kinds) == 0 && a.err != nil:
		t.Errorf("the answer failed: %v", a.err)
	case len(f.Kinds) > 0 && !slices.Contains(f.Kinds, kind):
		t.Errorf("the answer ended with %v (%s), want %s", a.err, kind, f.Kinds)
	case a.err != nil && !strings.Contains(a.err.Error(), f.Says):
		t.Errorf("the error %q does not say %q", a.err, f.Says)
	}
	if f.Exit == "" {
		c.Idle(t, in)
		wantWell(t, in)
		return
	}
	gone(t, in)
	if e := in.State().Exit; e == nil || e.Reason != f.Exit || !strings.Contains(e.Detail, f.Says) {
		t.Errorf("the exit is %+v, want %s with %q", e, f.Exit, f.Says)
	}
}

// ask gets the answer. A stalled one is left when all its text is there and the engine still works on it.
func (f AnswerFault) ask(t T, c FaultConfig, in engine.Instance) (a answer) {
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	defer cancel()
	there := make(chan struct{})
	arrived := sync.OnceFunc(func() { close(there) })
	var leaving sync.WaitGroup
	defer leaving.Wait()
	defer arrived()
	if f.Stalls {
		leaving.Go(func() {
			defer cancel()
			<-there
			c.Busy(t, in)
		})
	}
	if f.Text == "" {
		arrived()
	}
	st, err := in.Generate(ctx, f.request())
	if err != nil {
		return answer{err: err}
	}
	defer st.Close()
	for a.err == nil && a.done == nil {
		var ev infer.Event
		if ev, a.err = st.Next(ctx); a.err != nil {
			break
		}
		a.add(t, ev)
		if a.text == f.Text {
			arrived()
		}
	}
	return a
}

// wantWell asks for a good answer.
func wantWell(t T, in engine.Instance) {
	t.Helper()
	st, err := in.Generate(t.Context(), question("a b"))
	if err != nil {
		t.Fatalf("a good request afterwards: %v", err)
	}
	if a := read(t, t.Context(), st); a.err != nil || a.text != whole {
		t.Errorf("a good request afterwards gave %q, %v", a.text, a.err)
	}
}

// lieMax is how many answers an engine gives at most before its lie comes out. Drivers differ in how many they need themselves.
const lieMax = 2

// checkLateLie starts an engine that fails at every request from a certain one on, and is well otherwise: the requests fail, and nobody
// says that the engine has ended.
func checkLateLie(t T, c FaultConfig) {
	in := start(t, Config{Start: func(t T) engine.Instance { return c.Start(t, "lies: after:2") }}).in
	for range lieMax {
		st, err := in.Generate(t.Context(), question("a b"))
		if err == nil {
			err = read(t, t.Context(), st).err
		}
		if err == nil {
			continue
		}
		if infer.KindOf(err) != infer.ErrEngine || in.State().Exit != nil {
			t.Errorf("a request that fails in a living engine gave %v (%s), exit %+v", err, infer.KindOf(err), in.State().Exit)
		}
		return
	}
	t.Errorf("%d answers of an engine that gives 2 at most, its warm-up included", lieMax)
}
