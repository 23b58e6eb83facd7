package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/sched"
)

// State is where a model is in its life.
type State string

// The states.
const (
	Waiting    State = "waiting"    // for the loads before it
	Loading    State = "loading"    // its first load
	Serving    State = "serving"    // it answers
	Restarting State = "restarting" // it has served, and will again: pause or load
	Failed     State = "failed"     // it will not serve; Cause says why
	Stopped    State = "stopped"    // the fleet was stopped
)

// Status says how a model is.
type Status struct {
	Name    string
	Repo    string
	Aliases []string
	Engine  string
	State   State
	// Since is when the state was entered.
	Since time.Time
	// Load is the progress while Loading or Restarting; the zero value before the driver said something.
	Load engine.LoadProgress
	// Facts are those of the running engine. They are set only while Serving.
	Facts *engine.Facts
	PID   int
	// Running and Queued count requests.
	Running, Queued int
	// Restarts counts the starts, tried or done, after the one that served first.
	Restarts int
	// Cause says why the last engine or start ended, and LogTail holds its last lines. They stay after a restart, and may name
	// files of this machine.
	Cause   string
	LogTail []string

	Demand                     engine.Demand
	EngineReason, WindowReason string
}

// model is one served model. Its life goroutine is the only one that changes run and the status; requests read them.
type model struct {
	spec ModelSpec
	opts Options

	mu  sync.Mutex // guards the fields below, and each run's line, waiting, answers and failures
	st  Status
	run *run // nil unless Serving
}

// run is one engine from ready to gone, with the requests that use it.
type run struct {
	m        *model
	inst     engine.Instance
	facts    engine.Facts
	line     *sched.Line
	waiting  map[sched.Ticket]chan error // room for one: nil to begin, or why not
	answers  map[*Answer]struct{}
	failures sched.Failures
	sick     chan string // room for one: why the engine should be started anew
	closed   error       // set when the run takes no more: why
}

// turn is the right to one answer on a run.
type turn struct {
	run    *run
	ticket sched.Ticket
}

func newModel(s ModelSpec, o Options) *model {
	return &model{spec: s, opts: o, st: Status{
		Name: s.Name, Repo: s.Repo, Aliases: s.Aliases, Engine: s.Driver.Name(), State: Waiting, Since: time.Now(),
		Demand: s.Demand, EngineReason: s.EngineReason, WindowReason: s.WindowReason,
	}}
}

func newRun(m *model, inst engine.Instance) *run {
	facts := inst.Facts()
	return &run{
		m: m, inst: inst, facts: facts,
		line:     sched.NewLine(sched.Limits{Parallel: facts.Parallel, Queue: m.opts.QueueLimit}),
		waiting:  make(map[sched.Ticket]chan error),
		answers:  make(map[*Answer]struct{}),
		failures: sched.Failures{Limit: m.opts.FailureLimit},
		sick:     make(chan string, 1),
	}
}

func (m *model) status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.st
	if r := m.run; r != nil {
		st.Facts, st.PID = &r.facts, r.inst.State().PID
		st.Running, st.Queued = r.line.Running(), r.line.Waiting()
	}
	return st
}

// enter waits for a turn. r is checked first against what the engine can do, so that a request which cannot be honoured
// does not wait to hear it.
func (m *model) enter(ctx context.Context, r *infer.Request) (turn, error) {
	m.mu.Lock()
	run := m.run
	if run == nil {
		defer m.mu.Unlock()
		return turn{}, m.refusalLocked()
	}
	if err := able(m.spec.Name, run.facts, r); err != nil {
		m.mu.Unlock()
		return turn{}, err
	}
	d := run.line.Arrive(time.Now())
	t := turn{run, d.Ticket}
	var granted chan error
	if d.Verdict == sched.Wait {
		granted = make(chan error, 1)
		run.waiting[d.Ticket] = granted
	}
	m.mu.Unlock()
	switch d.Verdict {
	case sched.Admit:
		return t, nil
	case sched.Wait:
		return t, m.wait(ctx, t, granted)
	default:
		return turn{}, &infer.Error{
			Kind: infer.ErrQueueFull, RetryAfter: d.RetryAfter,
			Message: fmt.Sprintf("model %q is busy: %d answers are being written and %d requests wait, which is the limit; try again later",
				m.spec.Name, run.facts.Parallel, d.Ahead),
		}
	}
}

// wait stands in the queue until t may begin, the client is gone, or it took too long.
func (m *model) wait(ctx context.Context, t turn, granted <-chan error) error {
	var tooLong <-chan time.Time
	if m.opts.QueueWait > 0 {
		timer := time.NewTimer(m.opts.QueueWait)
		defer timer.Stop()
		tooLong = timer.C
	}
	select {
	case err := <-granted:
		return err
	case <-ctx.Done():
		t.leave()
		return gone(ctx)
	case <-tooLong:
		t.leave()
		return &infer.Error{
			Kind: infer.ErrQueueFull, RetryAfter: m.opts.QueueWait,
			Message: fmt.Sprintf("model %q is busy: no turn came up within %v; try again later", m.spec.Name, m.opts.QueueWait),
		}
	}
}

// leave takes t out of the line and lets the next one begin. It may be called at any time, also when t's turn has just
// come: then the turn passes on.
func (t turn) leave() {
	t.run.m.mu.Lock()
	defer t.run.m.mu.Unlock()
	t.leaveLocked()
}

func (t turn) leaveLocked() {
	delete(t.run.waiting, t.ticket)
	next := t.run.line.Leave(t.ticket, time.Now())
	if ch, ok := t.run.waiting[next]; ok {
		delete(t.run.waiting, next)
		ch <- nil
	}
}

// refusalLocked says why the model does not answer now, and when it may.
func (m *model) refusalLocked() error {
	st := &m.st
	switch st.State {
	case Waiting, Loading, Restarting:
		e := &infer.Error{Kind: infer.ErrLoading, RetryAfter: sched.RetryAfterLoad(sched.Load{
			Elapsed: time.Since(st.Since), Done: st.Load.Done, Total: st.Load.Total,
		})}
		e.Message = fmt.Sprintf("model %q is %s%s; try again in %v", st.Name, loadWord(st.State), progress(st.Load), e.RetryAfter)
		return e
	case Failed:
		return infer.Errorf(infer.ErrUnavailable, "", "model %q is not served: %s", st.Name, m.scrub(st.Cause))
	default:
		return infer.Errorf(infer.ErrUnavailable, "", "this server is stopping")
	}
}

func loadWord(s State) string {
	switch s {
	case Waiting:
		return "waiting for the models before it to load"
	case Restarting:
		return "being restarted after its engine ended"
	}
	return "still loading"
}

func progress(p engine.LoadProgress) string {
	switch {
	case p.Phase == "":
		return ""
	case p.Total <= 0:
		return " (" + p.Phase + ")"
	}
	return fmt.Sprintf(" (%s, %d of %d MiB)", p.Phase, p.Done>>20, p.Total>>20)
}

// scrub takes the paths of this machine out of a text that a client will read: an engine's last words often name the file.
func (m *model) scrub(s string) string {
	if p := m.spec.Start.Model.Path; p != "" {
		s = strings.ReplaceAll(s, p, m.spec.Name)
	}
	return s
}

func gone(ctx context.Context) error {
	return &infer.Error{Kind: infer.ErrCanceled, Message: "the client is gone", Err: context.Cause(ctx)}
}
