package enginetest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// FaultConfig says how to test a driver on the scripted engine (package fake).
type FaultConfig struct {
	// Start starts the driver on a scripted engine with this script, a window of [FaultWindow] tokens and room for one answer.
	// stall is the start's LoadStall. It must not fail t when the driver refuses: that is what is tested.
	Start func(t T, script string, stall time.Duration) (engine.Instance, error)
	// Left says in words which processes of the starts so far are left, empty for none.
	Left func(t T) string

	// bound is how long one step may take, 0 for most, and leave when a client leaves, 0 for leaveAfter. The suite's own tests
	// are less patient.
	bound, leave time.Duration
}

// FaultWindow is the window that the faults want to be started with.
const FaultWindow = 4096

const (
	// patient is the stall bound of starts that say nothing for a while and are well, hasty that of those that never go on.
	patient = time.Minute
	hasty   = 500 * time.Millisecond
	// most is how long any one step may take before it counts as hanging.
	most = time.Minute
)

// Faults holds a driver to the outcome of each fault that an engine can show: a typed error, at the place where the caller still can
// do something about it, and never a whole answer that is not whole.
func Faults(t *testing.T, c FaultConfig) { runFaults(std{t}, c) }

func runFaults(t T, c FaultConfig) {
	if c.bound == 0 {
		c.bound = most
	}
	if c.leave == 0 {
		c.leave = leaveAfter
	}
	for _, f := range startFaults() {
		t.Run("start: "+f.name, func(t T) { f.run(t, c) })
	}
	for _, f := range answerFaults() {
		t.Run("answer: "+f.name, func(t T) { f.run(t, c) })
	}
	for _, f := range stalls() {
		t.Run("left: "+f.name, func(t T) { f.run(t, c) })
	}
	t.Run("answer: a tool call that does not come", func(t T) { checkDroppedCall(t, c) })
	for _, f := range deaths() {
		t.Run("death: "+f.name, func(t T) { f.run(t, c) })
	}
}

// startFault is a script that spoils a start, or does not.
type startFault struct {
	name, script string
	// kinds are what a refused start may be; none means that it must succeed.
	kinds []infer.ErrorKind
	// says has to be in the error's text: the engine's own words.
	says string
	// stalls marks scripts whose engine never goes on.
	stalls bool
	// less is the window that the engine really gives: a driver may refuse it, or start and say so in its facts.
	less int
}

const (
	lastWords = "E the last words"
	oomWords  = "ggml_cuda: CUDA error: out of memory"
)

func startFaults() []startFault {
	broken := []infer.ErrorKind{infer.ErrEngine, infer.ErrEngineLost}
	large := []infer.ErrorKind{infer.ErrModelTooLarge}
	last := "last-words: '" + lastWords + "'"
	return []startFault{
		{name: "slow", script: "load: 300ms"},
		{name: "dies before it listens", script: "die-at: bind, " + last, kinds: broken, says: "the last words"},
		{name: "dies while it loads", script: "load: 300ms, die-at: load, " + last, kinds: broken, says: "the last words"},
		{name: "aborts while it loads", script: "load: 300ms, die-at: load, die-how: abort, " + last, kinds: broken, says: "the last words"},
		{name: "dies in its first answer", script: "die-at: warmup, " + last, kinds: broken, says: "the last words"},
		{name: "has no memory", script: "load: 300ms, die-at: load, die-how: abort, last-words: '" + oomWords + "'", kinds: large, says: "out of memory"},
		{name: "is killed for want of memory", script: "load: 300ms, die-at: load, die-how: kill, last-words: '" + oomWords + "'", kinds: large, says: "out of memory"},
		{name: "falls silent while it loads", script: "silent-at: load", kinds: broken, stalls: true},
		{name: "says it is ready and fails", script: "lies: fail", kinds: broken},
		{name: "says it is ready and never answers", script: "lies: never", kinds: broken, stalls: true},
		{name: "gives a smaller window", script: "window: 512", kinds: []infer.ErrorKind{infer.ErrUnsupported, infer.ErrEngine}, less: 512},
		{name: "100 MiB without a newline", script: "noise: 100"},
		{name: "100 MiB of lines", script: "noise: 100, noise-newlines: true"},
		{name: "a child of its own", script: "grandchild: true"},
		{name: "ignores SIGTERM", script: "ignore-sigterm: true"},
	}
}

func (f startFault) run(t T, c FaultConfig) {
	stall := patient
	if f.stalls {
		stall = hasty
	}
	in, err := startWith(t, c, "{"+f.script+"}", stall)
	switch {
	case err != nil:
		f.refused(t, err)
	case len(f.kinds) > 0 && (f.less == 0 || in.Facts().Window > f.less):
		t.Errorf("Start succeeded with a window of %d, want it refused", in.Facts().Window)
		fallthrough
	default:
		if len(f.kinds) == 0 {
			c.well(t, in)
		}
		halt(t, in)
	}
	if left := c.Left(t); left != "" {
		t.Errorf("processes are left: %s", left)
	}
}

func (f startFault) refused(t T, err error) {
	t.Helper()
	e, ok := errors.AsType[*infer.Error](err)
	switch {
	case len(f.kinds) == 0:
		t.Errorf("Start = %v, want it to succeed", err)
	case !ok || !slices.Contains(f.kinds, e.Kind):
		t.Errorf("Start = %v (%s), want one of %s", err, infer.KindOf(err), f.kinds)
	case !strings.Contains(err.Error(), f.says):
		t.Errorf("Start = %v, want %q in it", err, f.says)
	}
}

// halt stops an instance, which must work whatever the script is: the ladder ends in force.
func halt(t T, in engine.Instance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := in.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

// prompt is what is asked, and whole the scripted engine's answer to it, of wholeTokens tokens.
const (
	prompt      = "a b"
	whole       = "1 a 2 b"
	wholeTokens = 4
)

// question asks for whole. fault is a script for this answer only.
func question(in engine.Instance, fault string) *infer.Request {
	s := suite{Config: Config{MaxTokens: wholeTokens}, caps: in.Facts().Caps}
	if fault == "" {
		return s.ask(prompt)
	}
	return s.ask(prompt + " @fault{" + fault + "}")
}

// well wants a good answer from an instance.
func (c FaultConfig) well(t T, in engine.Instance) {
	t.Helper()
	a, _ := c.ask(t, t.Context(), question(in, ""), in)
	if a.err != nil || a.done == nil || a.text != whole {
		t.Errorf("a good request gave %q, %v; want %q", a.text, a.err, whole)
	}
}

// ask reads a whole answer, or what comes of it. early reports whether the error came in place of a stream.
func (c FaultConfig) ask(t T, ctx context.Context, r *infer.Request, in engine.Instance) (a answer, early bool) {
	t.Helper()
	within(t, "the answer", c.bound, func() {
		st, err := in.Generate(ctx, r)
		if err != nil {
			a, early = answer{err: err}, true
			return
		}
		a = read(t, ctx, st)
	})
	if a.err != nil && a.done != nil {
		t.Errorf("the answer was whole, and then failed: %v", a.err)
	}
	return a, early
}

// startWell starts an engine without faults, for those that come with a request.
func startWell(t T, c FaultConfig) engine.Instance {
	t.Helper()
	in, err := startWith(t, c, "", patient)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { halt(t, in) })
	return in
}

func startWith(t T, c FaultConfig, script string, stall time.Duration) (in engine.Instance, err error) {
	t.Helper()
	within(t, "Start", c.bound, func() { in, err = c.Start(t, script, stall) })
	return in, err
}

// answerFault is a script for one answer, which the engine survives.
type answerFault struct {
	name, script string
	// kinds are what the failure may be; none means that the answer must be whole.
	kinds []infer.ErrorKind
	// early marks failures that come before the answer's first byte, so that Generate has to return them.
	early bool
	// text is what comes before the failure.
	text string
	// either marks faults that a driver may also see through: a whole answer is then as good as the error.
	either bool
}

func answerFaults() []answerFault {
	broken := []infer.ErrorKind{infer.ErrEngine, infer.ErrEngineLost}
	lost, nonsense := []infer.ErrorKind{infer.ErrEngineLost}, []infer.ErrorKind{infer.ErrEngine}
	const three = "1 a 2"
	return []answerFault{
		{name: "status 400", script: "status: 400", kinds: []infer.ErrorKind{infer.ErrInvalid}, early: true},
		{name: "status 404", script: "status: 404", kinds: nonsense, early: true},
		{name: "status 500", script: "status: 500", kinds: nonsense, early: true},
		{name: "status 503", script: "status: 503", kinds: []infer.ErrorKind{infer.ErrLoading, infer.ErrUnavailable}, early: true},
		{name: "status 502 in HTML", script: "status: 502, status-body: html", kinds: nonsense, early: true},
		{name: "status 500 without a body", script: "status: 500, status-body: empty", kinds: nonsense, early: true},
		{name: "status 500 with a string", script: "status: 500, status-body: string", kinds: nonsense, early: true},
		{name: "closes without a reply", script: "close-at: start", kinds: lost, early: true},
		{name: "resets without a reply", script: "close-at: start, close-how: reset", kinds: lost, early: true},
		{name: "closes while it reads", script: "close-at: prefill", kinds: lost},
		{name: "closes cleanly", script: "close-at: after:3", kinds: lost, text: three},
		{name: "closes within a line", script: "close-at: after:3, close-how: half-line", kinds: broken, text: three},
		{name: "resets", script: "close-at: after:3, close-how: reset", kinds: lost, text: three},
		{name: "closes before its last event", script: "close-at: final", kinds: lost, text: whole},
		{name: "no JSON", script: "bad-json-at: after:3", kinds: nonsense, text: three},
		{name: "error in the stream", script: "error-at: after:3", kinds: nonsense, text: three},
		{name: "error at the end", script: "error-at: final", kinds: nonsense, text: whole},
		{name: "no reason at the end", script: "omit: [finish]", kinds: broken, text: whole},
		{name: "no end at all", script: "omit: [finish, usage, done]", kinds: broken, text: whole},
		{name: "no counts", script: "omit: [usage]", kinds: broken, text: whole, either: true},
		{name: "no end mark", script: "omit: [done]", kinds: broken, text: whole, either: true},
		{name: "100 MiB without a newline", script: "noise: 100, noise-at: answer", text: whole},
		{name: "characters cut between events", script: "answer: 'größe 東京 🚂', cut-utf8: events", text: "größe 東京 🚂"},
		{name: "characters cut between writes", script: "answer: 'größe 東京 🚂', cut-utf8: writes", text: "größe 東京 🚂"},
	}
}

func (f answerFault) run(t T, c FaultConfig) {
	in := startWell(t, c)
	a, early := c.ask(t, t.Context(), question(in, f.script), in)
	switch {
	case a.err != nil:
		wantKind(t, a.err, f.kinds)
	case len(f.kinds) > 0 && !f.either:
		t.Errorf("%q counts as whole, want one of %s", a.text, f.kinds)
	case a.done.Usage.Completion < 1 && !a.done.Usage.Estimated:
		t.Errorf("a whole answer without counts does not say so: %+v", a.done.Usage)
	}
	if early != f.early {
		t.Errorf("the failure came from Generate: %v, want %v", early, f.early)
	}
	if a.text != f.text {
		t.Errorf("the text is %q, want %q", a.text, f.text)
	}
	c.well(t, in)
}

// wantKind wants err to be an *infer.Error of one of kinds.
func wantKind(t T, err error, kinds []infer.ErrorKind) {
	t.Helper()
	e, ok := errors.AsType[*infer.Error](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && !ok: // reported by read
	case len(kinds) == 0:
		t.Errorf("the answer failed with %v, want it whole", err)
	case !ok || !slices.Contains(kinds, e.Kind):
		t.Errorf("the answer failed with %v (%s), want one of %s", err, infer.KindOf(err), kinds)
	}
}

// stall is a script for one answer that never goes on. The client leaves, and the only slot must be free again.
type stall struct{ name, script string }

func stalls() []stall {
	return []stall{
		{"silent before it reads", "silent-at: start"},
		{"silent while it reads", "silent-at: prefill"},
		{"silent while it writes", "silent-at: after:3"},
		{"silent before its last event", "silent-at: final"},
		{"silent within a line", "close-at: after:3, close-how: stall-half-line"},
	}
}

// leaveAfter is how long a client waits before it leaves: enough for the request to reach the engine.
const leaveAfter = 200 * time.Millisecond

func (f stall) run(t T, c FaultConfig) {
	in := startWell(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), c.leave)
	defer cancel()
	begun := time.Now()
	a, _ := c.ask(t, ctx, question(in, f.script), in)
	if d := time.Since(begun); d > c.leave+Bound {
		t.Errorf("it ended after %s, when its client had left after %s", d, c.leave)
	}
	switch {
	case a.err == nil:
		t.Errorf("an answer that never came counts as whole")
	case !errors.Is(a.err, context.DeadlineExceeded): // the one end that may have no kind
		wantKind(t, a.err, []infer.ErrorKind{infer.ErrCanceled})
	}
	c.well(t, in)
}

// checkDroppedCall announces a tool call as the reason of the end and does not make it.
func checkDroppedCall(t T, c FaultConfig) {
	in := startWell(t, c)
	s := suite{Config: Config{MaxTokens: wholeTokens}, in: in, caps: in.Facts().Caps}
	if !s.caps.Tools {
		t.Logf("not declared by this instance")
		return
	}
	r := s.ask(`@call get_time {"city":"Rome"} @fault{drop-tool-call: true}`)
	r.Tools = weatherTools()
	a, _ := c.ask(t, t.Context(), r, in)
	if a.err == nil && a.done.Reason == infer.StopTools && len(a.calls) == 0 {
		t.Errorf("the answer ends with %s and has no call", infer.StopTools)
	}
	c.well(t, in)
}

// death is a script for one answer that ends the engine.
type death struct {
	name, script string
	reason       engine.ExitReason
	signal       string
	// words have to be in the log's tail, and in the error that the client gets.
	words string
}

func deaths() []death {
	last := ", last-words: '" + lastWords + "'"
	oom := ", last-words: '" + oomWords + "'"
	return []death{
		{name: "while it reads", script: "die-at: prefill" + last, reason: engine.ExitCrashed, words: "the last words"},
		{name: "while it writes", script: "die-at: after:3, die-how: exit:7" + last, reason: engine.ExitCrashed, words: "the last words"},
		{name: "before its last event", script: "die-at: final" + last, reason: engine.ExitCrashed, words: "the last words"},
		{name: "by a signal", script: "die-at: after:3, die-how: kill" + last, reason: engine.ExitCrashed, signal: "SIGKILL", words: "the last words"},
		{name: "for want of memory", script: "die-at: after:3, die-how: abort" + oom, reason: engine.ExitOutOfMemory, signal: "SIGABRT", words: "out of memory"},
		{name: "killed for want of memory", script: "die-at: after:3, die-how: kill" + oom, reason: engine.ExitOutOfMemory, signal: "SIGKILL", words: "out of memory"},
	}
}

func (f death) run(t T, c FaultConfig) {
	in := startWell(t, c)
	begun := time.Now()
	a, _ := c.ask(t, t.Context(), question(in, f.script), in)
	if a.err == nil {
		t.Errorf("an answer that its engine did not live to end counts as whole")
	} else {
		wantKind(t, a.err, []infer.ErrorKind{infer.ErrEngineLost})
		if !strings.Contains(a.err.Error(), f.words) {
			t.Errorf("the answer failed with %v, want %q in it", a.err, f.words)
		}
	}
	if d := time.Since(begun); d > Bound {
		t.Errorf("the answer failed after %s", d)
	}
	gone(t, in)
	st := in.State()
	if st.Exit == nil || st.Exit.Reason != f.reason || st.Exit.Signal != f.signal || st.Exit.At.IsZero() {
		t.Errorf("the exit is %+v, want %s by %q", st.Exit, f.reason, f.signal)
	}
	if !strings.Contains(strings.Join(st.LogTail, "\n"), f.words) {
		t.Errorf("the last words %q are not kept; the log ends with %q", f.words, st.LogTail)
	}
	if left := c.Left(t); left != "" {
		t.Errorf("processes are left: %s", left)
	}
}
