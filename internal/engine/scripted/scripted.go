// Package scripted is an engine in memory: a [Driver] whose loads and answers do what a test says, step by step. Tests
// of the gateway, the fleet and the scheduler use it where a process would only be slow.
//
//	d := &scripted.Driver{Answer: func(r *infer.Request) []scripted.Step {
//		return scripted.Steps(scripted.Say("Hel"), scripted.Wait(ch), scripted.Say("lo"), scripted.Finish(2))
//	}}
//
// Fields are set before the first call and not changed afterwards; all methods may then be called concurrently. It
// starts no goroutine and no timer: a stream moves on only in Next, so a slow reader holds back its own answer. Each
// Generate is reported on Calls, where a test sees that the work began and that it was given up.
package scripted

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// Driver is the scripted engine. The zero value loads at once and answers "ok".
type Driver struct {
	// DriverName is the engine's word; "scripted" if empty.
	DriverName string
	// Facts are what each instance says of itself. Zero fields are filled: engine name, mode "exact", the window and
	// parallel of the start, and all capabilities if none is set.
	Facts engine.Facts
	// Load, if not nil, runs in Start: it may wait, report progress and fail. n counts the starts, from 1.
	Load func(ctx context.Context, n int, s engine.StartSpec) error
	// Answer returns the steps of one answer; nil means Say("ok"), Finish(1).
	Answer func(r *infer.Request) []Step
	// Calls, if not nil, receives each Generate. It must have room or a reader.
	Calls chan *Call

	mu     sync.Mutex // guards the fields below
	starts int
	last   *Instance
}

var (
	_ engine.Driver   = (*Driver)(nil)
	_ engine.Instance = (*Instance)(nil)
	_ engine.Stream   = (*stream)(nil)
)

// Name returns the engine's word.
func (d *Driver) Name() string {
	if d.DriverName == "" {
		return "scripted"
	}
	return d.DriverName
}

// Fingerprint says that the engine is here: it is part of the test.
func (d *Driver) Fingerprint(context.Context) engine.Fingerprint {
	return engine.Fingerprint{Engine: d.Name(), Found: true, Origin: "test", Version: "1"}
}

// Demand asks for nothing.
func (d *Driver) Demand(context.Context, engine.Model) (engine.Demand, error) {
	none := engine.Bytes{Origin: engine.Declared}
	return engine.Demand{
		Architecture: "scripted", Weights: none, KVPerToken: none, Overhead: none, HasChatTemplate: true, Mode: "exact",
	}, nil
}

// Start runs Load and returns an instance.
func (d *Driver) Start(ctx context.Context, s engine.StartSpec) (engine.Instance, error) {
	d.mu.Lock()
	d.starts++
	n := d.starts
	d.mu.Unlock()
	if d.Load != nil {
		if err := d.Load(ctx, n, s); err != nil {
			return nil, err
		}
	}
	in := &Instance{d: d, facts: d.factsFor(s), done: make(chan struct{})}
	d.mu.Lock()
	d.last = in
	d.mu.Unlock()
	return in, nil
}

// Starts says how often Start was called.
func (d *Driver) Starts() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.starts
}

// Last returns the instance of the last start that succeeded, or nil.
func (d *Driver) Last() *Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

func (d *Driver) factsFor(s engine.StartSpec) engine.Facts {
	f := d.Facts
	if f.Engine == "" {
		f.Engine = d.Name()
	}
	if f.Mode == "" {
		f.Mode = "exact"
	}
	if f.Window == 0 {
		f.Window = s.Window
	}
	if f.Parallel == 0 {
		f.Parallel = max(s.Parallel, 1)
	}
	if f.Caps == (engine.Capabilities{}) {
		f.Caps = engine.Capabilities{
			Chat: true, Completion: true, Tools: true, ForcedTools: true, JSONSchema: true, Logprobs: true, Seed: true,
			LogitBias: true, Suffix: true, Images: true, Tokens: true,
		}
	}
	return f
}

// Instance is one scripted engine that was started.
type Instance struct {
	d     *Driver
	facts engine.Facts
	done  chan struct{}

	mu    sync.Mutex // guards the fields below
	state engine.State
}

// Facts says what the instance can do.
func (in *Instance) Facts() engine.Facts { return in.facts }

// Done is closed by Die and Stop.
func (in *Instance) Done() <-chan struct{} { return in.done }

// State says whether and how the instance ended.
func (in *Instance) State() engine.State {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state
}

// Stop ends the instance at once.
func (in *Instance) Stop(context.Context) error {
	in.Die(engine.Exit{Reason: engine.ExitStopped})
	return nil
}

// Die ends the instance as if the engine had gone, with its last lines. Only the first end counts.
func (in *Instance) Die(e engine.Exit, logTail ...string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state.Exit != nil {
		return
	}
	e.At = time.Now()
	in.state.Exit, in.state.LogTail = &e, logTail
	close(in.done)
}

// Generate begins the steps of one answer. Steps before the first event belong to it: an engine accepts a request only
// when it has read the prompt.
func (in *Instance) Generate(ctx context.Context, r *infer.Request) (engine.Stream, error) {
	if in.State().Exit != nil {
		return nil, lost()
	}
	steps := Steps(Say("ok"), Finish(1))
	if in.d.Answer != nil {
		steps = in.d.Answer(r)
	}
	s := &stream{
		in: in, ctx: ctx, steps: steps,
		call: &Call{Request: r, ended: make(chan struct{}), canceled: make(chan struct{})},
	}
	if in.d.Calls != nil {
		in.d.Calls <- s.call
	}
	if err := s.prefill(); err != nil {
		s.call.end(ctx.Err() != nil)
		return nil, err
	}
	return s, nil
}

// Call is one Generate as the engine saw it.
type Call struct {
	Request *infer.Request

	once            sync.Once
	ended, canceled chan struct{}
}

// Ended is closed when the engine is idle again, for whatever reason.
func (c *Call) Ended() <-chan struct{} { return c.ended }

// Canceled is closed when the work was given up before its final event.
func (c *Call) Canceled() <-chan struct{} { return c.canceled }

func (c *Call) end(canceled bool) {
	c.once.Do(func() {
		if canceled {
			close(c.canceled)
		}
		close(c.ended)
	})
}

// Step is one thing an answer does: it returns an event, or nil to go on with the next step, or an error that ends the
// answer.
type Step func(ctx context.Context, in *Instance) (infer.Event, error)

// Steps is a list of steps.
func Steps(s ...Step) []Step { return s }

// Send sends e.
func Send(e infer.Event) Step {
	return func(context.Context, *Instance) (infer.Event, error) { return e, nil }
}

// Say sends a piece of text.
func Say(text string) Step { return Send(infer.Text{Text: text}) }

// Finish sends the final event of an answer of n tokens to a prompt of 3.
func Finish(n int) Step {
	return Send(infer.Done{Reason: infer.StopEnd, Usage: infer.Usage{Prompt: 3, Completion: n}})
}

// Wait goes on when ch is closed or gives something. It ends with the answer's context, and with the engine.
func Wait[T any](ch <-chan T) Step {
	return func(ctx context.Context, in *Instance) (infer.Event, error) {
		select {
		case <-ch:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-in.done:
			return nil, lost()
		}
	}
}

// Hang waits for the end of the context and ignores the engine's death: a connection that was left open.
func Hang() Step {
	return func(ctx context.Context, _ *Instance) (infer.Event, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// Fail ends the answer with err.
func Fail(err error) Step {
	return func(context.Context, *Instance) (infer.Event, error) { return nil, err }
}

// Crash ends the engine, and with it the answer.
func Crash(e engine.Exit, logTail ...string) Step {
	return func(_ context.Context, in *Instance) (infer.Event, error) {
		in.Die(e, logTail...)
		return nil, lost()
	}
}

// Cut ends the answer without its final event, as if the engine had closed the connection.
func Cut() Step {
	return Fail(&infer.Error{Kind: infer.ErrEngineLost, Message: "the engine closed the connection in the middle of an answer"})
}

func lost() error {
	return &infer.Error{Kind: infer.ErrEngineLost, Message: "the engine is gone"}
}

type stream struct {
	in    *Instance
	ctx   context.Context // the answer's own lifetime, given to Generate
	steps []Step
	call  *Call

	next infer.Event // produced by prefill, not yet delivered
	done bool
	err  error
}

// prefill runs the steps up to the first event.
func (s *stream) prefill() error {
	ev, err := s.step(s.ctx)
	s.next = ev
	return err
}

// Next returns the next event of the script.
func (s *stream) Next(ctx context.Context) (infer.Event, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case s.done:
		return nil, io.EOF
	}
	ev, err := s.next, error(nil)
	s.next = nil
	if ev == nil {
		ev, err = s.stepEither(ctx)
	}
	if err != nil {
		s.err = err
		s.call.end(s.ctx.Err() != nil || ctx.Err() != nil)
		return nil, err
	}
	if _, ok := ev.(infer.Done); ok {
		s.done = true
		s.call.end(false)
	}
	return ev, nil
}

// stepEither ends with the answer's context as well as with the one of this call.
func (s *stream) stepEither(ctx context.Context) (infer.Event, error) {
	if ctx != s.ctx {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
	}
	return s.step(ctx)
}

func (s *stream) step(ctx context.Context) (infer.Event, error) {
	for len(s.steps) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		do := s.steps[0]
		s.steps = s.steps[1:]
		if ev, err := do(ctx, s.in); ev != nil || err != nil {
			return ev, err
		}
	}
	return nil, errors.New("scripted: the steps ended without Finish, Fail or Cut")
}

// Close gives the answer up, if it still goes on.
func (s *stream) Close() error {
	s.call.end(true)
	return nil
}
