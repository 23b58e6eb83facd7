package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// Answer is one answer being written, and the turn it holds. One goroutine reads it; Close may be called from any.
type Answer struct {
	// Model is the served name of what answers, and Facts are its engine's.
	Model string
	Facts engine.Facts

	turn   turn
	stream engine.Stream
	// ctx is the answer's own lifetime: it ends with the client's context, with Close, or with the engine.
	ctx    context.Context
	cancel context.CancelCauseFunc
	once   sync.Once
	done   bool
}

// begin starts an answer with a turn that has come.
func (m *model) begin(ctx context.Context, t turn, r *infer.Request) (*Answer, error) {
	a := &Answer{Model: m.spec.Name, Facts: t.run.facts, turn: t}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	if err := a.register(); err != nil {
		a.release()
		return nil, err
	}
	// The engine may have died a moment ago, when the turn came because the answer before broke off: nothing of this one was begun.
	select {
	case <-t.run.inst.Done():
		a.release()
		return nil, m.lostTurn(exitOf(t.run.inst))
	default:
	}
	s, err := t.run.inst.Generate(a.ctx, r)
	if err != nil {
		err = a.explain(ctx, err)
		a.note(err)
		a.release()
		return nil, err
	}
	a.stream = s
	return a, nil
}

// register makes the answer known to its run, so that it ends with it.
func (a *Answer) register() error {
	mu := &a.turn.run.m.mu
	mu.Lock()
	defer mu.Unlock()
	if a.turn.run.closed != nil {
		return a.turn.run.closed
	}
	a.turn.run.answers[a] = struct{}{}
	return nil
}

// Next returns the next event. After infer.Done it returns io.EOF; any other error is an *infer.Error and final, and means
// that the answer is not whole. It waits as long as the context given to Generate lives.
func (a *Answer) Next() (infer.Event, error) {
	ev, err := a.stream.Next(a.ctx)
	if err == nil {
		if _, ok := ev.(infer.Done); ok {
			a.done = true
			a.note(nil)
		}
		return ev, nil
	}
	if a.done {
		return nil, io.EOF
	}
	err = a.explain(a.ctx, err)
	a.note(err)
	return nil, err
}

// Close gives the turn to the next request, and stops the engine's work if it still goes on.
func (a *Answer) Close() error {
	err := a.stream.Close()
	a.release()
	return err
}

func (a *Answer) release() {
	a.once.Do(func() {
		mu := &a.turn.run.m.mu
		mu.Lock()
		delete(a.turn.run.answers, a)
		a.turn.leaveLocked()
		mu.Unlock()
		a.cancel(nil)
	})
}

// note tells the run how the answer went. Only what is the engine's fault counts.
func (a *Answer) note(err error) {
	switch infer.KindOf(err) {
	case "", infer.ErrEngine, infer.ErrEngineLost:
	default:
		return
	}
	r := a.turn.run
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if !r.failures.Note(err == nil) {
		return
	}
	select {
	case r.sick <- fmt.Sprintf("%d answers in a row failed while it said that it was well; the last one: %v", r.failures.Limit, err):
	default: // it is known already
	}
}

// explain makes an *infer.Error of what ended the answer: the reason we had, the client's leaving, or the engine's words.
func (a *Answer) explain(ctx context.Context, err error) error {
	if cause, ok := errors.AsType[*infer.Error](context.Cause(a.ctx)); ok {
		return cause
	}
	if ctx.Err() != nil {
		return gone(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = infer.Errorf(infer.ErrEngineLost, "", "the engine ended the answer without its final event")
	}
	e, ok := errors.AsType[*infer.Error](err)
	if !ok {
		return &infer.Error{Kind: infer.ErrEngine, Message: "the engine failed", Err: err}
	}
	if e.Kind != infer.ErrEngineLost {
		return err
	}
	return a.explainLoss(err)
}

// explainLoss adds the exit reason to a lost connection. The connection of a dying engine breaks a moment before its exit
// is known, so it waits that moment.
func (a *Answer) explainLoss(err error) error {
	inst, m := a.turn.run.inst, a.turn.run.m
	wait := time.NewTimer(tailGrace / 2)
	defer wait.Stop()
	select {
	case <-inst.Done():
		return m.lostAnswer(exitOf(inst))
	case <-wait.C:
		return err
	case <-a.ctx.Done():
		return err
	}
}
