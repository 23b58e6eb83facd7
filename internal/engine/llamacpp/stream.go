package llamacpp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/sse"
)

// decoder turns the data of one upstream event into neutral events. It returns infer.Done when the answer is whole. Errors
// are *infer.Error.
type decoder interface {
	decode(data []byte) ([]infer.Event, error)
}

// stream is one answer being read. The socket is read in Next itself: a goroutine between would cost each token a wake-up
// and gain nothing.
type stream struct {
	in     *instance
	ctx    context.Context // the answer's own lifetime, made from Generate's
	cancel context.CancelFunc
	body   io.ReadCloser
	events *sse.Reader
	dec    decoder

	// queue holds decoded events that were not handed out yet, err what follows them.
	queue []infer.Event
	err   error
	// watched is the context that Next was called with last, and unwatch stops watching it.
	watched context.Context
	unwatch func() bool

	closing sync.Once
}

var _ engine.Stream = (*stream)(nil)

// newStream takes over resp and cancel.
func newStream(ctx context.Context, cancel context.CancelFunc, in *instance, resp *http.Response, dec decoder) *stream {
	return &stream{
		in: in, ctx: ctx, cancel: cancel, body: resp.Body, dec: dec,
		events: sse.NewReader(resp.Body, sse.Limits{}),
	}
}

// Next returns the next event of the answer.
func (s *stream) Next(ctx context.Context) (infer.Event, error) {
	s.watch(ctx)
	for len(s.queue) == 0 {
		if s.err != nil {
			return nil, s.err
		}
		if s.err = s.fill(); s.err != nil {
			s.release()
			if !errors.Is(s.err, io.EOF) && ctx.Err() != nil {
				s.err = canceled(ctx)
			}
		}
	}
	ev := s.queue[0]
	s.queue = s.queue[1:]
	return ev, nil
}

// watch makes the end of ctx end the answer. A reader that keeps to one context pays for it once.
func (s *stream) watch(ctx context.Context) {
	if ctx == s.watched {
		return
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	s.watched, s.unwatch = ctx, context.AfterFunc(ctx, s.cancel)
}

// fill reads the socket until there is something to hand out. Events that came before a failure are kept.
func (s *stream) fill() error {
	s.queue = s.queue[:0]
	for len(s.queue) == 0 {
		item, err := s.events.Next()
		if err != nil {
			return s.broken(err)
		}
		if item.Kind != sse.Event {
			continue // the engine's own heartbeat
		}
		evs, err := s.dec.decode(item.Data)
		s.queue = append(s.queue, evs...)
		if err != nil {
			return err
		}
		if n := len(evs); n > 0 {
			if _, done := evs[n-1].(infer.Done); done {
				return io.EOF
			}
		}
	}
	return nil
}

// broken says why the stream ended before its final event.
func (s *stream) broken(err error) error {
	switch {
	case s.ctx.Err() != nil && !s.in.stopping():
		return canceled(s.ctx)
	case errors.Is(err, sse.ErrLineTooLong) || errors.Is(err, sse.ErrEventTooLong):
		return &infer.Error{Kind: infer.ErrEngine, Message: "llama-server sent an event that is too long", Err: err}
	}
	return s.in.lostError(err)
}

// Close stops the engine's work on this answer.
func (s *stream) Close() error {
	s.release()
	return nil
}

// release closes the connection, which is how the engine learns that nobody reads.
func (s *stream) release() {
	s.closing.Do(func() {
		s.cancel()
		_ = s.body.Close() // the connection is given up either way
	})
}

// badEvent is the error of an event that is not what llama-server sends.
func badEvent(err error) error {
	return &infer.Error{Kind: infer.ErrEngine, Message: "llama-server sent an event that cannot be read", Err: err}
}

// streamFault is the error object that an engine sends in the middle of an answer.
func streamFault(e *answerError) error {
	return &infer.Error{Kind: infer.ErrEngine, Message: "llama-server: " + e.Error()}
}
