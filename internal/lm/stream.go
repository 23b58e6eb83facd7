package lm

import (
	"context"
	"io"
	"sync"

	"github.com/stoker-llm/stoker/internal/infer"
)

// Stream is one answer being written. It belongs to one reader; Close may be called from any goroutine. Events wait in the stream
// for a slow reader, at most those of one window of tokens, so that nobody else waits for it.
type Stream struct {
	cancel context.CancelFunc
	// more holds one token when there may be something new.
	more chan struct{}

	mu     sync.Mutex // guards the rest
	events []infer.Event
	err    error // final, after events; io.EOF behind Done
}

func newStream(cancel context.CancelFunc) *Stream {
	return &Stream{cancel: cancel, more: make(chan struct{}, 1)}
}

// Next returns the next event; behind infer.Done io.EOF. Any other error is final and means that the answer is not whole. It is an
// *infer.Error unless ctx ended.
func (s *Stream) Next(ctx context.Context) (infer.Event, error) {
	for {
		s.mu.Lock()
		if len(s.events) > 0 {
			ev := s.events[0]
			s.events = s.events[1:]
			s.mu.Unlock()
			return ev, nil
		}
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close stops the work on the answer, if it still goes on.
func (s *Stream) Close() error {
	s.cancel()
	return nil
}

func (s *Stream) put(ev infer.Event) {
	s.mu.Lock()
	s.events = append(s.events, ev)
	s.mu.Unlock()
	s.wake()
}

// end closes the stream: with io.EOF behind a Done, or with the reason why there is none.
func (s *Stream) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.wake()
}

func (s *Stream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *Stream) done(d infer.Done) {
	s.put(d)
	s.end(io.EOF)
}
