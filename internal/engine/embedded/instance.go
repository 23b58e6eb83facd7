package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/supervise"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// conn talks HTTP to one child.
type conn struct{ client *http.Client }

func newConn(socket string) *conn {
	dialer := &net.Dialer{}
	return &conn{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
		DisableCompression: true,
	}}}
}

// answerLimit bounds answers that are read whole.
const answerLimit = 1 << 20

// do sends a request; body is nil for a GET. An answer that is not 200 is the engine's own *infer.Error.
func (c *conn) do(ctx context.Context, path string, body []byte) (*http.Response, error) {
	method, reader := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, reader = http.MethodPost, bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lm"+path, reader)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	var e native.Error
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil || json.Unmarshal(b, &e) != nil || e.Kind == "" {
		return nil, infer.Errorf(infer.ErrEngine, "", "the embedded engine answers %s without a reason", resp.Status)
	}
	return nil, e.Infer()
}

func (c *conn) get(ctx context.Context, path string, v any) error { return c.fetch(ctx, path, nil, v) }

func (c *conn) fetch(ctx context.Context, path string, body []byte, v any) error {
	resp, err := c.do(ctx, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// instance is one running engine with its model.
type instance struct {
	proc   *supervise.Process
	conn   *conn
	socket string
	facts  engine.Facts

	// life is the instance's own lifetime: it ends when a stop is asked for and when the process is gone.
	life context.Context
	end  context.CancelFunc
	done chan struct{}

	mu   sync.Mutex // guards exit
	exit *engine.Exit
}

var (
	_ engine.Instance     = (*instance)(nil)
	_ engine.TokenCounter = (*instance)(nil)
)

func newInstance(p *supervise.Process, socket string) *instance {
	in := &instance{proc: p, conn: newConn(socket), socket: socket, done: make(chan struct{})}
	in.life, in.end = context.WithCancel(context.Background())
	go in.watch()
	return in
}

// watch records the end of the process. It is the goroutine that the instance owns.
func (in *instance) watch() {
	<-in.proc.Done()
	exit := exitOf(in.proc.Exit(), in.proc.Tail())
	in.mu.Lock()
	in.exit = &exit
	in.mu.Unlock()
	in.end()
	in.conn.client.CloseIdleConnections()
	os.Remove(in.socket) //nolint:errcheck // the caller removes the whole folder
	close(in.done)
}

// exitOf types the end of a process that had served.
func exitOf(e *supervise.Exit, tail []string) engine.Exit {
	out := engine.Exit{Reason: engine.ExitCrashed, Code: e.Code, Signal: e.Signal, Detail: e.String(), At: e.At}
	switch {
	case e.Asked:
		out.Reason = engine.ExitStopped
		return out
	case e.OutOfMemory || hasLine(tail, "fatal error: runtime: out of memory") || hasLine(tail, "runtime: cannot allocate memory"):
		out.Reason = engine.ExitOutOfMemory
	case e.ShimLost:
		out.Reason = engine.ExitLost
	}
	for _, line := range tail {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "SIG") {
			out.Detail += ": " + line
			break
		}
	}
	return out
}

func hasLine(tail []string, prefix string) bool {
	for _, line := range tail {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// Facts returns what the engine confirmed.
func (in *instance) Facts() engine.Facts { return in.facts }

// State says what is known of the process.
func (in *instance) State() engine.State {
	in.mu.Lock()
	defer in.mu.Unlock()
	return engine.State{PID: in.proc.PID(), Exit: in.exit, LogTail: in.proc.Tail()}
}

// Done is closed when the process is gone.
func (in *instance) Done() <-chan struct{} { return in.done }

// Stop ends open answers, then the process by the ladder.
func (in *instance) Stop(ctx context.Context) error {
	in.end()
	if err := in.proc.Stop(ctx, supervise.DefaultLadder); err != nil {
		return err
	}
	<-in.done
	return nil
}

// exitWait is how long a broken connection waits for the process's end that may explain it.
const exitWait = time.Second

// lost is the error of work that broke off, with the engine's end if there was one.
func (in *instance) lost(err error) error {
	t := time.NewTimer(exitWait)
	defer t.Stop()
	msg := "the embedded engine closed the connection before the answer was whole"
	select {
	case <-in.done:
		msg = "the embedded engine is gone: " + in.State().Exit.Detail
	case <-t.C:
	}
	switch {
	case errors.Is(err, context.Canceled):
		err = nil // our own closing of a dead connection adds nothing
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF // io.EOF means a whole answer to whoever reads the stream
	}
	return &infer.Error{Kind: infer.ErrEngineLost, Message: msg, Err: err}
}

func canceled(ctx context.Context) error {
	return &infer.Error{Kind: infer.ErrCanceled, Message: "the request was canceled", Err: context.Cause(ctx)}
}

// explain types an error of a connection.
func (in *instance) explain(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*infer.Error](err); ok {
		return e
	}
	if ctx.Err() != nil && in.life.Err() == nil {
		return canceled(ctx)
	}
	return in.lost(err)
}

// CountTokens returns how many tokens Generate would read for r.
func (in *instance) CountTokens(ctx context.Context, r *infer.Request) (int, error) {
	body, err := native.EncodeRequest(r)
	if err != nil {
		return 0, &infer.Error{Kind: infer.ErrInternal, Message: "the request cannot be written", Err: err}
	}
	var out struct {
		Tokens int `json:"tokens"`
	}
	if err := in.conn.fetch(ctx, "/count", body, &out); err != nil {
		return 0, in.explain(ctx, err)
	}
	return out.Tokens, nil
}

// Generate starts one answer.
func (in *instance) Generate(ctx context.Context, r *infer.Request) (engine.Stream, error) {
	if in.life.Err() != nil {
		return nil, in.lost(nil)
	}
	body, err := native.EncodeRequest(r)
	if err != nil {
		return nil, &infer.Error{Kind: infer.ErrInternal, Message: "the request cannot be written", Err: err}
	}
	own, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(in.life, cancel)
	resp, err := in.conn.do(own, "/generate", body)
	if err != nil {
		unlink()
		cancel()
		return nil, in.explain(ctx, err)
	}
	return &stream{in: in, ctx: ctx, cancel: func() { unlink(); cancel() }, body: resp.Body, r: native.NewReader(resp.Body)}, nil
}

// stream is one answer being read. The socket is read in Next itself.
type stream struct {
	in     *instance
	ctx    context.Context // Generate's: when it ends, the work does
	cancel func()
	body   io.ReadCloser
	r      *native.Reader
	err    error
	// watched is the context that Next was called with last, and unwatch stops watching it.
	watched context.Context
	unwatch func() bool
	closing sync.Once
}

var _ engine.Stream = (*stream)(nil)

// Next returns the next event of the answer.
func (s *stream) Next(ctx context.Context) (infer.Event, error) {
	if s.err != nil {
		return nil, s.err
	}
	if ctx != s.watched { // the end of ctx ends the answer; a reader that keeps to one context pays for it once
		if s.unwatch != nil {
			s.unwatch()
		}
		s.watched, s.unwatch = ctx, context.AfterFunc(ctx, s.cancel)
	}
	ev, err := s.r.Next()
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

// broken says why the stream ended before its final event.
func (s *stream) broken(ctx context.Context, err error) error {
	for _, c := range []context.Context{ctx, s.ctx} {
		if c.Err() != nil && s.in.life.Err() == nil {
			return canceled(c)
		}
	}
	if e, ok := errors.AsType[*infer.Error](err); ok && s.in.life.Err() == nil {
		return e
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
