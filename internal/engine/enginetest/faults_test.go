package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/fake"
	"github.com/stoker-llm/stoker/internal/infer"
)

// faulty is a right driver of the scripted engine, in memory: it reads the scripts and does what a driver has to make of them.
// wrong names the one thing that it does wrong, empty for nothing.
type faulty struct {
	wrong  string
	script fake.Script
	test   context.Context // the test's own lifetime

	mu   sync.Mutex // guards the fields below
	exit *engine.Exit
	tail []string
	done chan struct{}
	busy bool // the only slot is taken
	sick bool // nothing good comes any more
}

// startFaulty is a FaultConfig.Start. What hangs does so until the test is over.
func startFaulty(test context.Context, wrong, text string, stall time.Duration) (engine.Instance, error) {
	s, err := fake.ParseScript([]byte(text))
	if err != nil {
		return nil, err
	}
	in := &faulty{wrong: wrong, test: test, script: s, done: make(chan struct{})}
	kind, words := infer.ErrorKind(""), s.LastWords
	switch {
	case strings.Contains(words, "out of memory"):
		kind = infer.ErrModelTooLarge
	case s.DieAt != "" || s.Lies != "" || s.SilentAt != "":
		kind = infer.ErrEngine
	case s.Window > 0 && wrong != "hides the smaller window":
		kind = infer.ErrUnsupported
	}
	if wrong == "swallows the engine's words" {
		words = ""
	}
	switch {
	case wrong == "gives a slow start up" && s.Load > 0 && s.DieAt == "":
		return nil, infer.Errorf(infer.ErrEngine, "", "too slow")
	case wrong == "takes every load for an end" && s.Noise > 0:
		return nil, infer.Errorf(infer.ErrEngine, "", "noise")
	case kind == "" || wrong == "starts whatever comes":
		return in, nil
	case wrong == "waits for ever in a start" && stall == hasty:
		<-test.Done()
	case wrong == "refuses without a kind":
		return nil, errors.New(words)
	}
	return nil, infer.Errorf(kind, "", "it did not start: %s", words)
}

func (f *faulty) Facts() engine.Facts {
	return engine.Facts{Engine: "faulty", Mode: "exact", Window: FaultWindow, Parallel: 1, Caps: engine.Capabilities{Chat: true, Tools: true}}
}

func (f *faulty) State() engine.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return engine.State{Exit: f.exit, LogTail: f.tail}
}

func (f *faulty) Done() <-chan struct{} { return f.done }

func (f *faulty) Stop(context.Context) error {
	if f.wrong == "cannot be stopped" && f.script.IgnoreTerm {
		return context.DeadlineExceeded
	}
	f.end(engine.Exit{Reason: engine.ExitStopped})
	return nil
}

func (f *faulty) end(e engine.Exit, tail ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exit == nil {
		e.At = time.Now()
		f.exit, f.tail = &e, tail
		close(f.done)
	}
}

// scriptOf takes the script out of a prompt, as package fake does.
func scriptOf(r *infer.Request) (fake.Script, error) {
	_, text, _ := strings.Cut(r.Messages[0].Text(), "@fault")
	return fake.ParseScript([]byte(text))
}

func (f *faulty) Generate(ctx context.Context, r *infer.Request) (engine.Stream, error) {
	s, err := scriptOf(r)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	busy, sick := f.busy, f.sick
	f.sick = f.wrong == "is spoiled by a fault" && s.Status > 0
	f.mu.Unlock()
	if busy || sick {
		return nil, infer.Errorf(infer.ErrEngine, "", "busy or sick")
	}
	st := f.answer(ctx, s)
	if f.wrong == "sends the status late" {
		return st, nil
	}
	if e, ok := errors.AsType[*infer.Error](st.last); ok && (s.Status > 0 || s.CloseAt == "start") {
		return nil, e
	}
	return st, nil
}

// answer is what a right driver makes of a script, spoiled by wrong.
func (f *faulty) answer(ctx context.Context, s fake.Script) *faultyStream {
	st := &faultyStream{f: f, ctx: ctx, text: "1 a 2", last: io.EOF}
	switch {
	case s.Status > 0:
		kinds := map[int]infer.ErrorKind{400: infer.ErrInvalid, 503: infer.ErrLoading}
		st.fail(kinds[s.Status], infer.ErrEngine, "")
	case s.DieAt != "":
		f.die(s)
		st.fail(infer.ErrEngineLost, "", s.LastWords)
	case s.CloseHow == "stall-half-line" || s.SilentAt != "":
		st.last = nil // comes when the client leaves
	case s.CloseAt != "":
		st.fail(infer.ErrEngineLost, "", "")
	case s.BadJSONAt != "" || s.ErrorAt != "" || slices.Contains(s.Omit, "finish"):
		st.fail(infer.ErrEngine, "", "")
	default:
		st.text = whole
		if s.Answer != "" {
			st.text = s.Answer
		}
	}
	st.cut(s)
	return st
}

// cut sets the text that comes before the end.
func (st *faultyStream) cut(s fake.Script) {
	switch {
	case s.CloseAt == "final" || s.ErrorAt == "final" || s.Omit != nil:
		st.text = whole
	case s.Status > 0 || s.CloseAt == "start" || s.CloseAt == "prefill":
		st.text = ""
	}
	switch w := st.f.wrong; {
	case w == "drops what came before" && !errors.Is(st.last, io.EOF):
		st.text = ""
	case w == "breaks characters" && s.CutUTF8 != "":
		st.text = strings.ToValidUTF8(st.text[:3]+"\xff"+st.text[3:], "?")
	case w == "counts nothing" && slices.Contains(s.Omit, "usage"):
		st.uncounted = true
	}
	st.reason = infer.StopEnd
	if s.DropToolCall {
		if st.text = ""; st.f.wrong == "believes in a call" {
			st.reason = infer.StopTools
		}
	}
}

func (f *faulty) die(s fake.Script) {
	e := engine.Exit{Reason: engine.ExitCrashed}
	if strings.Contains(s.LastWords, "out of memory") && f.wrong != "calls every death a crash" {
		e.Reason = engine.ExitOutOfMemory
	}
	switch s.DieHow {
	case "kill":
		e.Signal = "SIGKILL"
	case "abort":
		e.Signal = "SIGABRT"
	}
	if f.wrong == "forgets the log" {
		f.end(e)
		return
	}
	f.end(e, s.LastWords)
}

type faultyStream struct {
	f    *faulty
	ctx  context.Context
	text string
	// last follows the text: io.EOF for Done, an error, or nil for nothing until the client leaves.
	last      error
	reason    infer.StopReason
	uncounted bool
	begun     bool
	ended     bool
}

func (st *faultyStream) fail(kind, otherwise infer.ErrorKind, words string) {
	if kind == "" {
		kind = otherwise
	}
	switch st.f.wrong {
	case "calls every failure its own fault":
		kind = infer.ErrInternal
	case "swallows the engine's words":
		words = ""
	}
	st.last = infer.Errorf(kind, "", "it broke off: %s", words)
	switch st.f.wrong {
	case "takes every end for a good one":
		st.last = io.EOF
	case "ends in order when it is cut off":
		st.last, st.ended = io.EOF, true
	case "says that it is io.EOF":
		st.last = &infer.Error{Kind: kind, Message: "it broke off: " + words, Err: io.EOF}
	}
}

func (st *faultyStream) Next(ctx context.Context) (infer.Event, error) {
	switch {
	case !st.begun && st.text != "":
		st.begun = true
		return infer.Text{Text: st.text}, nil
	case st.last == nil:
		return nil, st.left(ctx)
	case errors.Is(st.last, io.EOF) && !st.ended:
		st.ended = true
		u := infer.Usage{Prompt: 2, Completion: 4}
		if st.uncounted {
			u = infer.Usage{}
		}
		return infer.Done{Reason: st.reason, Usage: u}, nil
	}
	return nil, st.last
}

// left waits for the client to leave.
func (st *faultyStream) left(ctx context.Context) error {
	if st.f.wrong == "is deaf to leaving" {
		<-st.f.test.Done()
	}
	select {
	case <-ctx.Done():
	case <-st.ctx.Done():
	}
	st.f.mu.Lock()
	defer st.f.mu.Unlock()
	st.f.busy = st.f.wrong == "keeps the slot"
	return infer.Errorf(infer.ErrCanceled, "", "left")
}

func (st *faultyStream) Close() error { return nil }

// runFaultsOn runs the faults on a driver with one thing wrong.
func runFaultsOn(t *testing.T, wrong string) *record {
	rec := &recorder{t: t, all: &record{}}
	rec.do(func(rt T) {
		runFaults(rt, FaultConfig{
			Start: func(_ T, script string, stall time.Duration) (engine.Instance, error) {
				return startFaulty(t.Context(), wrong, script, stall)
			},
			Left: func(T) string {
				if wrong == "leaves processes" {
					return "1234"
				}
				return ""
			},
			bound: time.Second, leave: 10 * time.Millisecond,
		})
	})
	return rec.all
}

func TestARightDriverMastersTheFaults(t *testing.T) {
	if r := runFaultsOn(t, ""); len(r.failed) > 0 {
		t.Errorf("a right driver fails:\n%s", strings.Join(r.words, "\n"))
	}
}

// TestWrongDriversFailTheFaults: each planted wrong is caught, by the faults that are there for it.
func TestWrongDriversFailTheFaults(t *testing.T) {
	tests := map[string][]string{ // wrong: faults that have to catch it
		"starts whatever comes": {
			"start: dies before it listens", "start: dies while it loads", "start: dies in its first answer", "start: has no memory",
			"start: falls silent while it loads", "start: says it is ready and fails", "start: says it is ready and never answers",
			"start: gives a smaller window",
		},
		"hides the smaller window":          {"start: gives a smaller window"},
		"gives a slow start up":             {"start: slow"},
		"takes every load for an end":       {"start: 100 MiB without a newline", "start: 100 MiB of lines"},
		"waits for ever in a start":         {"start: falls silent while it loads", "start: says it is ready and never answers"},
		"refuses without a kind":            {"start: dies before it listens", "start: says it is ready and fails"},
		"swallows the engine's words":       {"start: dies while it loads", "start: has no memory", "death: while it writes"},
		"leaves processes":                  {"start: a child of its own", "start: dies while it loads", "death: by a signal"},
		"cannot be stopped":                 {"start: ignores SIGTERM"},
		"calls every failure its own fault": {"answer: status 400", "answer: status 404", "answer: status 500", "answer: status 503", "answer: closes cleanly", "answer: no JSON", "death: while it reads"},
		"sends the status late":             {"answer: status 400", "answer: status 502 in HTML", "answer: closes without a reply"},
		"takes every end for a good one": {
			"answer: closes cleanly", "answer: closes within a line", "answer: resets", "answer: closes before its last event", "answer: no JSON",
			"answer: error in the stream", "answer: no reason at the end", "answer: no end at all", "death: before its last event",
		},
		"ends in order when it is cut off": {"answer: closes cleanly", "answer: closes while it reads", "death: while it writes"},
		"says that it is io.EOF":           {"answer: closes cleanly"},
		"drops what came before":           {"answer: closes cleanly", "answer: resets", "answer: error in the stream"},
		"breaks characters":                {"answer: characters cut between events", "answer: characters cut between writes"},
		"counts nothing":                   {"answer: no counts"},
		"is spoiled by a fault":            {"answer: status 500"},
		"is deaf to leaving":               {"left: silent before it reads", "left: silent while it writes", "left: silent within a line"},
		"keeps the slot":                   {"left: silent while it reads", "left: silent before its last event"},
		"believes in a call":               {"answer: a tool call that does not come"},
		"calls every death a crash":        {"death: for want of memory", "death: killed for want of memory"},
		"forgets the log":                  {"death: while it reads", "death: by a signal"},
	}
	for wrong, faults := range tests {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			r := runFaultsOn(t, wrong)
			for _, f := range faults {
				if !slices.Contains(r.failed, f) {
					t.Errorf("%q does not fail; these do: %q\n%s", f, r.failed, strings.Join(r.words, "\n"))
				}
			}
		})
	}
}

// TestScriptsAreScripts: a script with a slip in it would be no fault at all.
func TestScriptsAreScripts(t *testing.T) {
	scripts := map[string]string{}
	for _, f := range startFaults() {
		scripts["start: "+f.name] = f.script
	}
	for _, f := range answerFaults() {
		scripts["answer: "+f.name] = f.script
	}
	for _, f := range stalls() {
		scripts["left: "+f.name] = f.script
	}
	for _, f := range deaths() {
		scripts["death: "+f.name] = f.script
	}
	for name, script := range scripts {
		s, err := fake.ParseScript([]byte("{" + script + "}"))
		if err != nil || fmt.Sprintf("%+v", s) == fmt.Sprintf("%+v", fake.Script{}) {
			t.Errorf("%s: %q is the script %+v, %v", name, script, s, err)
		}
	}
}
