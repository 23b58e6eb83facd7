package lm

import (
	"context"
	"errors"
	"io"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/cpu"
)

// Trace is what a look inside sees. Positions count from 0.
type Trace struct {
	// Splits cuts the tokens into pieces of these sizes, over and over; empty means as large as a step may be. Results do not depend on
	// it: that is what it is for.
	Splits []int
	// Logits is called with the logits after each position.
	Logits func(pos int, x []float32)
	// Tap is called with each step's result for positions from pos on, rows x width; behind the pick of rows for all of them as well,
	// since a trace wants all logits. x is valid during the call.
	Tap func(label string, pos, rows, width int, x []float32)
}

// Trace computes tokens without sampling, in between other requests' steps, and shows what t asks for. Nothing is taken from the
// KV cache, nor kept in it.
func (e *Engine) Trace(ctx context.Context, tokens []int32, t Trace) error {
	if len(tokens) == 0 || len(tokens) > e.o.Window {
		return infer.Errorf(infer.ErrInvalid, "", "a trace of %d tokens: want 1 to %d", len(tokens), e.o.Window)
	}
	done := make(chan error, 1)
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		return infer.Errorf(infer.ErrUnavailable, "", "the engine is stopping")
	}
	e.calls = append(e.calls, func() { done <- e.trace(ctx, tokens, t) })
	e.mu.Unlock()
	e.signal()
	return <-done
}

func (e *Engine) trace(ctx context.Context, tokens []int32, t Trace) error {
	seq := e.cache.Private()
	defer seq.Close()
	most := max(maxLogits, e.o.Parallel)
	for at, i := 0, 0; at < len(tokens); i++ {
		n := most
		if len(t.Splits) > 0 {
			n = min(n, max(1, t.Splits[i%len(t.Splits)]))
		} else if t.Logits == nil && t.Tap == nil {
			n = maxRows
		}
		n = min(n, len(tokens)-at)
		if err := e.tracePiece(ctx, seq, tokens[at:at+n], at, t); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func (e *Engine) tracePiece(ctx context.Context, seq seqPages, tokens []int32, at int, t Trace) error {
	select {
	case <-e.quit:
		return infer.Errorf(infer.ErrUnavailable, "", "the engine is stopping")
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	if err := seq.Grow(at + len(tokens)); err != nil {
		return infer.Errorf(infer.ErrUnavailable, "", "no room for a trace beside the requests at work: %v", err)
	}
	wanted := len(tokens)
	if t.Logits == nil && t.Tap == nil {
		wanted = 1
	}
	b := &cpu.Batch{Spans: []cpu.Span{{Tokens: tokens, Start: at, Pages: seq.Pages(), Logits: wanted}}}
	if e.o.Plant.Batch != nil {
		e.o.Plant.Batch(b)
	}
	var tap cpu.Tap
	if t.Tap != nil {
		tap = func(label string, rows, width int, x []float32) { t.Tap(label, at, rows, width, x) }
	}
	logits := e.machine.Run(b, tap)
	if t.Logits == nil {
		return nil
	}
	for i := range tokens {
		t.Logits(at+i, logits[i*e.cfg.Vocab:(i+1)*e.cfg.Vocab])
	}
	return nil
}

// Greedy continues tokens by the likeliest ones, up to n of them or the first that ends an answer, which is the last one then. It goes
// the way of every request: through the batches and the KV cache.
func (e *Engine) Greedy(ctx context.Context, tokens []int32, n int) ([]int32, error) {
	zero := 0.0
	r := &infer.Request{Kind: infer.Completion, MaxTokens: n, Sampling: infer.Sampling{Temperature: &zero}}
	if err := e.fits(r, len(tokens)); err != nil {
		return nil, err
	}
	t, err := e.task(ctx, r, tokens)
	if err != nil {
		return nil, err
	}
	t.keep = true
	if err := e.enqueue(t); err != nil {
		return nil, err
	}
	for {
		switch _, err := t.stream.Next(ctx); {
		case errors.Is(err, io.EOF):
			return t.chosen, nil // the loop is done with t
		case err != nil:
			return nil, err
		}
	}
}

// seqPages is what a trace needs of a sequence.
type seqPages interface {
	Grow(n int) error
	Pages() []int32
}
