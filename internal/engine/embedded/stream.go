package embedded

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// stream is one answer being read. The socket is read in Next itself: a goroutine between would cost each token a wake-up.
type stream struct {
	in     *instance
	ctx    context.Context // Generate's: when it ends, the work does
	cancel func()
	body   io.ReadCloser
	events *native.Reader
	err    error
	// watched is the context that Next was called with last, and unwatch stops watching it.
	watched context.Context
	unwatch func() bool
	closing sync.Once
}

var _ engine.Stream = (*stream)(nil)

// newStream takes over resp and cancel.
func newStream(ctx context.Context, cancel func(), in *instance, resp *http.Response) *stream {
	return &stream{in: in, ctx: ctx, cancel: cancel, body: resp.Body, events: native.NewReader(resp.Body)}
}

// Next returns the next event of the answer.
func (s *stream) Next(ctx context.Context) (infer.Event, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.watch(ctx)
	ev, err := s.events.Next()
	if err == nil {
		return ev, nil
	}
	s.err = err
	if !errors.Is(err, io.EOF) {
		s.err = s.broken(ctx, err)
	}
	s.release()
	return nil, s.err
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

// broken says why the stream ended before its final event.
func (s *stream) broken(ctx context.Context, err error) error {
	if !s.in.stopping() {
		for _, c := range []context.Context{ctx, s.ctx} {
			if c.Err() != nil {
				return canceled(c)
			}
		}
	}
	if e, said := errors.AsType[*infer.Error](err); said && !s.in.stopping() {
		return e
	}
	if _, bad := errors.AsType[*native.BadLineError](err); bad || errors.Is(err, native.ErrLineTooLong) {
		return &infer.Error{Kind: infer.ErrEngine, Message: "the embedded engine sent an event that cannot be read", Err: err}
	}
	return s.in.lost(err)
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
