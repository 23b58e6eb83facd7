package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/infer"
)

// ahead is how many events an answer may be ahead of its client: room for a moment of a busy machine, and no more memory than
// the socket's own buffer.
const ahead = 64

// fullBuffer is when a batch of frames is written though more events are ready.
const fullBuffer = 16 << 10

// news is what the reader of an answer tells its writer: that it began, an event, or why it failed. The end of the channel
// is the end of a whole answer.
type news struct {
	begun *fleet.Answer
	ev    infer.Event
	err   error
}

// pump writes one answer to its client as a stream.
type pump struct {
	x      *exchange
	t      *task
	frames framer
	buf    []byte
	// wrote is when the client last got something, and limited when its write limit was last moved.
	wrote, limited time.Time
	timer          *time.Timer
}

// stream answers as an event stream. The answer is got in the background, so that the wall clock is heard while the engine
// is silent, in whatever phase.
func (g *Gateway) stream(x *exchange, t *task) error {
	ctx, stop := context.WithCancel(x.r.Context())
	feed := make(chan news, ahead)
	go g.read(ctx, t, feed)
	defer func() { // the reader is gone, and the turn given back, when the handler returns
		stop()
		for range feed {
		}
	}()
	buf := g.buffers.Get().(*[]byte)
	p := &pump{x: x, t: t, frames: t.frames(t.head), buf: (*buf)[:0], timer: time.NewTimer(g.opts.CommitAfter)}
	defer p.timer.Stop()
	defer func() {
		*buf = p.buf
		g.buffers.Put(buf)
	}()
	return p.run(ctx, feed)
}

// read gets the answer and passes it on until it ends or ctx does.
func (g *Gateway) read(ctx context.Context, t *task, feed chan<- news) {
	defer close(feed)
	tell := func(n news) bool {
		select {
		case feed <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	a, err := g.opts.Fleet.Generate(ctx, t.model, t.req)
	if err != nil {
		tell(news{err: err})
		return
	}
	defer a.Close()
	if !tell(news{begun: a}) {
		return
	}
	for {
		ev, err := a.Next()
		if errors.Is(err, io.EOF) || !tell(news{ev: ev, err: err}) || err != nil {
			return
		}
	}
}

// run writes until the answer or the client ends. Its error is a status as long as nothing was committed.
func (p *pump) run(ctx context.Context, feed <-chan news) error {
	for {
		select {
		case n, more := <-feed:
			if done, err := p.batch(n, more, feed); done || err != nil {
				return err
			}
		case <-p.timer.C:
			if err := p.tick(); err != nil {
				return err
			}
		case <-ctx.Done():
			p.x.story.abort = true
			return &infer.Error{Kind: infer.ErrCanceled, Message: "the client is gone", Err: context.Cause(ctx)}
		}
	}
}

// batch writes n and whatever else is ready in one piece: under load several tokens share a write, and the first one never
// waits. It reports whether the answer is over.
func (p *pump) batch(n news, more bool, feed <-chan news) (done bool, err error) {
	p.buf = p.buf[:0]
	for {
		if !more {
			p.buf = p.frames.AppendEnd(p.buf)
			return true, p.write()
		}
		if n.err != nil {
			return true, p.fail(n.err)
		}
		p.take(n)
		if len(p.buf) >= fullBuffer {
			return false, p.write()
		}
		select {
		case n, more = <-feed:
		default:
			return false, p.write()
		}
	}
}

func (p *pump) take(n news) {
	if n.begun != nil {
		f := n.begun.Facts
		p.x.story.engine = f.Engine
		if !p.x.committed {
			p.x.origin(f.Engine, f.Mode, f.Window)
		}
		return
	}
	p.x.story.note(n.ev)
	p.buf = p.frames.Append(p.buf, n.ev)
}

// fail ends the stream with err: as a status if there is still a choice, else as the error event behind what was written.
func (p *pump) fail(err error) error {
	if !p.x.committed && len(p.buf) == 0 {
		return err
	}
	p.buf = p.frames.AppendError(p.buf, err)
	if lost := p.write(); lost != nil {
		return lost
	}
	p.x.story.abort = true
	return err
}

// tick is the wall clock: it commits a stream that was silent for long enough, and after that keeps it alive.
func (p *pump) tick() error {
	beat := p.x.g.opts.Heartbeat
	silent := time.Since(p.wrote)
	if p.x.committed && silent < beat {
		p.timer.Reset(beat - silent)
		return nil
	}
	if !p.x.committed {
		p.x.originOf(p.t.model)
	}
	p.buf = p.frames.AppendHeartbeat(p.buf[:0])
	if err := p.write(); err != nil {
		return err
	}
	if beat > 0 {
		p.timer.Reset(beat)
	}
	return nil
}

// write sends the buffer, if there is something in it, and the status before the first time.
func (p *pump) write() error {
	if len(p.buf) == 0 {
		return nil
	}
	p.wrote = time.Now()
	// The limit is moved now and then and not with each token: a client is dropped after 3/4 of it at the earliest.
	if p.wrote.Sub(p.limited) > p.x.g.opts.WriteStall/4 {
		p.limited = p.wrote
		p.x.patience()
	}
	if !p.x.committed {
		p.commit()
	}
	if _, err := p.x.w.Write(p.buf); err != nil {
		return p.x.lost(err)
	}
	if err := p.x.out.Flush(); err != nil {
		return p.x.lost(err)
	}
	return nil
}

func (p *pump) commit() {
	h := p.x.w.Header()
	h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"} // nginx would send it in one lump
	p.x.committed, p.x.story.status = true, http.StatusOK
	p.x.w.WriteHeader(http.StatusOK)
	if beat := p.x.g.opts.Heartbeat; beat > 0 {
		p.timer.Reset(beat)
	} else {
		p.timer.Stop()
	}
}
