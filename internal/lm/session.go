package lm

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/batch"
	"github.com/stoker-llm/stoker/internal/lm/cpu"
	"github.com/stoker-llm/stoker/internal/lm/kv"
	"github.com/stoker-llm/stoker/internal/lm/sample"
	"github.com/stoker-llm/stoker/internal/lm/tokenizer"
)

// task is one request at work. Only the loop touches it after it was queued.
type task struct {
	ctx    context.Context // the request's own life: when it ends, the work stops
	r      *infer.Request
	stream *Stream
	prompt []int32
	max    int // tokens to write at most

	seq     *kv.Seq // nil until its prompt's turn comes
	cached  int
	next    int32 // the token to compute next, when the prompt is read
	written int
	sampler *sample.Sampler
	decoder *tokenizer.Decoder
	out     writer
	probs   []float32 // raw logits, kept when log probabilities are wanted
	chosen  []int32   // the tokens written, kept for Greedy
	keep    bool
}

// left is the prompt tokens still to read.
func (t *task) left() int {
	if t.seq == nil {
		return len(t.prompt)
	}
	return max(0, len(t.prompt)-t.seq.Len())
}

// Generate starts an answer. It returns when the request is in line; ctx ending stops the work at any time, within one step.
// Errors are *infer.Error that name the field at fault.
func (e *Engine) Generate(ctx context.Context, r *infer.Request) (*Stream, error) {
	tokens, err := e.prompt(r)
	if err != nil {
		return nil, err
	}
	if err := e.fits(r, len(tokens)); err != nil {
		return nil, err
	}
	t, err := e.task(ctx, r, tokens)
	if err != nil {
		return nil, err
	}
	if err := e.enqueue(t); err != nil {
		return nil, err
	}
	return t.stream, nil
}

// enqueue puts a task in line.
func (e *Engine) enqueue(t *task) error {
	e.mu.Lock()
	ended := e.ended
	if !ended {
		e.queue = append(e.queue, t)
		e.stats.Requests++
	}
	e.mu.Unlock()
	if ended {
		t.stream.cancel()
		return infer.Errorf(infer.ErrUnavailable, "", "the engine is stopping")
	}
	context.AfterFunc(t.ctx, e.signal)
	e.signal()
	return nil
}

func (e *Engine) task(ctx context.Context, r *infer.Request, tokens []int32) (*task, error) {
	p, err := sample.FromRequest(r.Sampling)
	if err != nil {
		return nil, err
	}
	if r.Sampling.Seed == nil {
		p.Seed = rand.Uint64()
	}
	if r.IgnoreEOS {
		p.Ban = append(p.Ban, e.tok.Ends()...)
	}
	t := &task{r: r, prompt: tokens, max: e.o.Window - len(tokens), sampler: sample.New(p), decoder: e.tok.Decoder()}
	if r.MaxTokens > 0 {
		t.max = min(t.max, r.MaxTokens)
	}
	for _, id := range tokens {
		t.sampler.Accept(id)
	}
	if r.Logprobs {
		t.probs = make([]float32, e.cfg.Vocab)
	}
	var cancel context.CancelFunc
	t.ctx, cancel = context.WithCancel(ctx)
	t.stream = newStream(cancel)
	t.out = writer{stops: r.Stop, emit: t.stream.put, probs: r.Logprobs}
	return t, nil
}

func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run is the loop: it owns cache and machine.
func (e *Engine) run() {
	defer close(e.gone)
	defer e.release()
	var active []*task
	var pace batch.Pace
	for {
		active = e.admit(active)
		if len(active) == 0 {
			select {
			case <-e.wake:
				continue
			case <-e.quit:
				e.endAll(active)
				return
			}
		}
		select {
		case <-e.quit:
			e.endAll(active)
			return
		default:
		}
		active = e.step(active, &pace)
	}
}

// admit runs the calls that wait for a moment between steps, drops requests whose clients left, and takes new ones from the queue.
func (e *Engine) admit(active []*task) []*task {
	e.mu.Lock()
	calls := e.calls
	e.calls = nil
	e.mu.Unlock()
	for _, f := range calls {
		f()
	}
	active = slices.DeleteFunc(active, e.left)
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := e.queue[:0]
	for _, t := range e.queue {
		switch {
		case t.ctx.Err() != nil:
			t.stream.end(t.ctx.Err())
		case len(active) < e.o.Parallel:
			active = append(active, t)
		default:
			waiting = append(waiting, t)
		}
	}
	clear(e.queue[len(waiting):])
	e.queue = waiting
	e.stats.Active, e.stats.KV = len(active), e.cache.Stats()
	return active
}

// left reports whether t's client is gone, and ends t then.
func (e *Engine) left(t *task) bool {
	if t.ctx.Err() == nil {
		return false
	}
	e.finish(t)
	t.stream.end(t.ctx.Err())
	return true
}

// finish gives t's pages back.
func (e *Engine) finish(t *task) {
	if t.seq != nil {
		t.seq.Close()
	}
	t.stream.cancel()
}

func (e *Engine) endAll(active []*task) {
	err := infer.Errorf(infer.ErrEngineLost, "", "the engine was stopped before the answer was complete")
	e.mu.Lock()
	queue, calls := e.queue, e.calls
	e.queue, e.calls = nil, nil
	e.mu.Unlock()
	for _, f := range calls {
		f()
	}
	for _, t := range append(active, queue...) {
		t.stream.end(err)
		e.finish(t)
	}
}

// step computes one batch and takes its tokens to their answers.
func (e *Engine) step(active []*task, pace *batch.Pace) []*task {
	left := make([]int, len(active))
	for i, t := range active {
		left[i] = t.left()
	}
	parts := batch.Plan(left, max(maxRows, e.o.Parallel), pace.Chunk(maxRows))
	var b cpu.Batch
	var tasks []*task
	for _, p := range parts {
		t := active[p.Seq]
		s, err := e.span(t, p.Rows)
		if err != nil {
			t.stream.end(err)
			e.finish(t)
			active = slices.Delete(slices.Clone(active), p.Seq, p.Seq+1)
			return active // the next step plans anew
		}
		b.Spans, tasks = append(b.Spans, s), append(tasks, t)
	}
	if e.o.Plant.Batch != nil {
		e.o.Plant.Batch(&b)
	}
	rows, start := b.Rows(), time.Now()
	logits := e.machine.Run(&b, nil)
	pace.Done(rows, time.Since(start))
	ended := e.take(&b, tasks, logits)
	return slices.DeleteFunc(active, func(t *task) bool { return ended[t] })
}

// span is the next rows of t: a piece of its prompt, or its last token.
func (e *Engine) span(t *task, rows int) (cpu.Span, error) {
	if t.seq == nil {
		t.seq, t.cached = e.cache.Open(t.prompt)
		e.count(func(s *Stats) { s.Cached += uint64(t.cached) })
	}
	at := t.seq.Len()
	s := cpu.Span{Start: at, Logits: 1}
	if at < len(t.prompt) {
		rows = min(rows, len(t.prompt)-at)
		s.Tokens = t.prompt[at : at+rows]
		if at+rows < len(t.prompt) {
			s.Logits = 0
		}
		e.count(func(s *Stats) { s.Prompt += uint64(rows) })
	} else {
		s.Tokens = []int32{t.next}
	}
	if err := t.seq.Grow(at + len(s.Tokens)); err != nil {
		return s, &infer.Error{Kind: infer.ErrInternal, Message: "no room for the request", Err: err}
	}
	s.Pages = t.seq.Pages()
	return s, nil
}

func (e *Engine) count(f func(*Stats)) {
	e.mu.Lock()
	f(&e.stats)
	e.mu.Unlock()
}

// take commits what was computed, chooses each sequence's next token, in parallel, and writes it. It returns the tasks that ended.
func (e *Engine) take(b *cpu.Batch, tasks []*task, logits []float32) map[*task]bool {
	var writing []*task
	for i, t := range tasks {
		t.seq.Commit(b.Spans[i].Tokens...)
		if b.Spans[i].Logits > 0 {
			writing = append(writing, t)
		} else {
			t.stream.put(infer.Progress{Done: t.seq.Len(), Total: len(t.prompt), Cached: t.cached})
		}
	}
	v := e.cfg.Vocab
	e.pool.Each(len(writing), 1, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			writing[i].choose(logits[i*v : (i+1)*v])
		}
	})
	e.count(func(s *Stats) { s.Steps++; s.Tokens += uint64(len(writing)) })
	ended := map[*task]bool{}
	for _, t := range writing {
		if d, done := e.write(t); done {
			ended[t] = true
			e.finish(t)
			t.stream.done(d)
		}
	}
	return ended
}

// choose samples t's next token.
func (t *task) choose(logits []float32) {
	if t.probs != nil {
		copy(t.probs, logits)
	}
	t.next = t.sampler.Next(logits, uint64(t.written))
}

// write adds the chosen token to the answer. done reports whether the answer ended with it.
func (e *Engine) write(t *task) (d infer.Done, done bool) {
	id := t.next
	t.written++
	t.sampler.Accept(id)
	if t.keep {
		t.chosen = append(t.chosen, id)
	}
	if e.ends[id] && !t.r.IgnoreEOS {
		return e.close(t, infer.StopEnd, ""), true
	}
	var prob infer.TokenLogprob
	if t.probs != nil {
		prob = e.logprob(t, id)
	}
	if stop, stopped := t.out.add(t.decoder.Next(id), prob); stopped {
		return e.close(t, infer.StopString, stop), true
	}
	if t.written >= t.max {
		return e.close(t, infer.StopLength, ""), true
	}
	return d, false
}

func (e *Engine) close(t *task, why infer.StopReason, stop string) infer.Done {
	t.out.flush()
	return infer.Done{
		Reason: why, StopString: stop, Usage: infer.Usage{Prompt: len(t.prompt), Cached: t.cached, Completion: t.written},
	}
}

// logprob is id's log probability and those of the likeliest others.
func (e *Engine) logprob(t *task, id int32) infer.TokenLogprob {
	p, ids, ps := sample.Logprobs(t.probs, id, t.r.TopLogprobs)
	out := e.named(id, p)
	for i := range ids {
		out.Top = append(out.Top, e.named(ids[i], ps[i]))
	}
	return out
}

func (e *Engine) named(id int32, p float64) infer.TokenLogprob {
	b := e.tok.Bytes(id)
	if b == nil {
		b = []byte(e.tok.Piece(id))
	}
	return infer.TokenLogprob{Token: string(b), Logprob: p, Bytes: b}
}
