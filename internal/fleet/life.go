package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// tailGrace is how long the answers of a dead engine may still deliver what had arrived before it died, and end with the
// driver's own error. After it they are cut off, so that every answer has failed within a second of the death.
const tailGrace = 500 * time.Millisecond

// ending is why a start failed or an engine ended.
type ending struct {
	cause string
	tail  []string
	// hopeless is set when a new start would end the same way.
	hopeless bool
}

// loaded is an engine that serves requests, with its folder.
type loaded struct {
	run *run
	dir string
}

// live is a model's life: from its turn to load until the fleet stops. It closes next when its first load has ended.
func (f *Fleet) live(m *model, turn <-chan struct{}, next chan<- struct{}) {
	defer m.change(func(st *Status) { st.State, st.Load = Stopped, engine.LoadProgress{} })
	select {
	case <-turn:
	case <-f.life.Done():
		close(next)
		return
	}
	m.change(func(st *Status) { st.State = Loading })
	l, end := f.load(m)
	if l == nil {
		f.fail(m, end)
	}
	close(next)
	if l != nil {
		f.fail(m, f.keepServing(m, l))
	}
	<-f.life.Done()
}

// keepServing serves l, and what follows it, until the policy gives up or the fleet stops.
func (f *Fleet) keepServing(m *model, l *loaded) ending {
	var policy Restarts = never{}
	if f.opts.NewRestarts != nil {
		policy = f.opts.NewRestarts()
	}
	for {
		end := f.serve(m, l)
		if l, end = f.again(m, policy, end); l == nil {
			return end
		}
	}
}

// again starts a model whose engine ended, as often as the policy allows. It returns nil and the reason when it gave up, or
// when the fleet stops.
func (f *Fleet) again(m *model, policy Restarts, end ending) (*loaded, ending) {
	for f.life.Err() == nil && !end.hopeless {
		pause, ok := policy.Next(time.Now())
		if !ok {
			end.cause = "given up after too many restarts; the last time: " + end.cause
			return nil, end
		}
		m.restarting(end, pause)
		select {
		case <-time.After(pause):
		case <-f.life.Done():
			return nil, end
		}
		var l *loaded
		if l, end = f.load(m); l != nil {
			return l, ending{}
		}
	}
	return nil, end
}

// load starts the engine of m once and opens it to requests. Nothing is left behind when it fails.
func (f *Fleet) load(m *model) (*loaded, ending) {
	dir, err := f.opts.RunDir(m.spec.Name)
	if err != nil {
		return nil, ending{cause: fmt.Sprintf("make a folder for its sockets: %v", err)}
	}
	s := m.spec.Start
	s.RunDir, s.OnLoad = dir, m.onLoad
	s.Log = f.opts.Log.With("model", m.spec.Name, "engine", m.spec.Driver.Name())
	inst, err := m.spec.Driver.Start(f.life, s)
	if err != nil {
		f.clean(dir)
		return nil, endingOf(err)
	}
	r := newRun(m, inst)
	m.open(r)
	return &loaded{r, dir}, ending{}
}

// serve waits until l's engine ends, is found sick, or the fleet stops. When it returns, the engine is gone.
func (f *Fleet) serve(m *model, l *loaded) ending {
	var end ending
	r := l.run
	select {
	case <-r.inst.Done():
		end = exitOf(r.inst)
		r.close(Restarting, m.lostTurn(end), m.lostAnswer(end), tailGrace)
	case why := <-r.sick:
		end = ending{cause: why}
		r.close(Restarting, m.lostTurn(end), m.lostAnswer(end), 0)
	case <-f.life.Done():
		stopping := infer.Errorf(infer.ErrUnavailable, "", "this server is stopping")
		r.close(Stopped, stopping, stopping, 0)
	}
	f.stopInstance(m, l)
	if end.tail == nil {
		end.tail = l.run.inst.State().LogTail
	}
	return end
}

// stopInstance ends an engine that may be gone already, and removes its folder.
func (f *Fleet) stopInstance(m *model, l *loaded) {
	ctx := context.Background()
	if f.life.Err() != nil {
		ctx = f.stopCtx
	}
	if err := l.run.inst.Stop(ctx); err != nil {
		f.opts.Log.Error("engine did not stop", "model", m.spec.Name, "err", err)
		return // something may still use the folder
	}
	f.clean(l.dir)
}

func (f *Fleet) clean(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		f.opts.Log.Warn("run folder is left behind", "err", err)
	}
}

// open makes r the model's run.
func (m *model) open(r *run) {
	m.mu.Lock()
	m.run = r
	m.mu.Unlock()
	m.change(func(st *Status) { st.State, st.Load = Serving, engine.LoadProgress{} })
	m.opts.Log.Info("model is served", "model", m.spec.Name, "engine", r.facts.Engine, "window", r.facts.Window,
		"parallel", r.facts.Parallel)
}

// close takes r away from new requests, refuses the waiting ones with turnErr and, after grace, ends the answers that still
// go on with answerErr. The model's state changes with it, so that no request sees a model that serves without a run.
func (r *run) close(to State, turnErr, answerErr error, grace time.Duration) {
	r.m.mu.Lock()
	r.m.run, r.closed = nil, turnErr
	r.m.st.State, r.m.st.Since = to, time.Now()
	for t, ch := range r.waiting {
		delete(r.waiting, t)
		ch <- turnErr
	}
	r.m.mu.Unlock()
	if grace == 0 {
		r.cut(answerErr)
		return
	}
	time.AfterFunc(grace, func() { r.cut(answerErr) })
}

// cut ends the answers that still go on.
func (r *run) cut(err error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	for a := range r.answers {
		a.cancel(err)
	}
}

func (m *model) lostTurn(end ending) error {
	return &infer.Error{
		Kind: infer.ErrUnavailable, RetryAfter: restartHint,
		Message: fmt.Sprintf("the engine of model %q ended before this request began: %s; try again", m.spec.Name, m.scrub(end.cause)),
	}
}

func (m *model) lostAnswer(end ending) *infer.Error {
	return infer.Errorf(infer.ErrEngineLost, "", "the engine of model %q ended while it answered: %s", m.spec.Name, m.scrub(end.cause))
}

// restartHint is what a client is told to wait when an engine has just died: the first restart is quick, if there is one.
const restartHint = 3 * time.Second

func (m *model) restarting(end ending, pause time.Duration) {
	m.change(func(st *Status) {
		st.State, st.Cause, st.LogTail, st.Load = Restarting, end.cause, end.tail, engine.LoadProgress{}
		st.Restarts++
	})
	m.opts.Log.Warn("engine ended, starting it again", "model", m.spec.Name, "cause", end.cause, "pause", pause)
}

// fail publishes that m will not serve. A fleet that stops is no failure.
func (f *Fleet) fail(m *model, end ending) {
	if f.life.Err() != nil {
		return
	}
	m.change(func(st *Status) {
		st.State, st.Cause, st.LogTail, st.Load = Failed, end.cause, end.tail, engine.LoadProgress{}
	})
	m.opts.Log.Error("model is not served", "model", m.spec.Name, "cause", end.cause)
}

func (m *model) onLoad(p engine.LoadProgress) {
	m.change(func(st *Status) { st.Load = p })
}

// change publishes a new status.
func (m *model) change(set func(*Status)) {
	m.mu.Lock()
	was := m.st.State
	set(&m.st)
	if m.st.State != was {
		m.st.Since = time.Now()
	}
	m.mu.Unlock()
	if m.opts.OnChange != nil {
		m.opts.OnChange(m.status())
	}
}

// exitOf puts an engine's exit into words.
func exitOf(inst engine.Instance) ending {
	st := inst.State()
	return ending{cause: exitWords(st.Exit), tail: st.LogTail}
}

func exitWords(e *engine.Exit) string {
	if e == nil {
		return "it is gone without an exit reason"
	}
	how := fmt.Sprintf("%s (exit status %d)", e.Reason, e.Code)
	if e.Signal != "" {
		how = fmt.Sprintf("%s (%s)", e.Reason, e.Signal)
	}
	if e.Detail == "" {
		return how
	}
	return how + ": " + e.Detail
}

// endingOf turns the error of a start into an ending.
func endingOf(err error) ending {
	end := ending{cause: err.Error()}
	if t, ok := errors.AsType[logTailer](err); ok {
		end.tail = t.LogTail()
	}
	switch infer.KindOf(err) {
	case infer.ErrInvalid, infer.ErrUnsupported, infer.ErrModelTooLarge:
		end.hopeless = true
	}
	return end
}

// logTailer is implemented by errors of a start that carry the engine's last lines, oldest first.
type logTailer interface {
	error
	LogTail() []string
}

// never is the policy of a fleet without one.
type never struct{}

func (never) Next(time.Time) (time.Duration, bool) { return 0, false }
