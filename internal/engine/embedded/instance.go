package embedded

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/supervise"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// instance is one running engine with its model.
type instance struct {
	proc   *supervise.Process
	saw    *witness
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

func newInstance(p *supervise.Process, saw *witness, socket string) *instance {
	in := &instance{proc: p, saw: saw, conn: newConn(socket), socket: socket, done: make(chan struct{})}
	in.life, in.end = context.WithCancel(context.Background())
	go in.watch()
	return in
}

// watch records the end of the process. It is the goroutine that the instance owns.
func (in *instance) watch() {
	<-in.proc.Done()
	exit := exitOf(in.proc.Exit(), in.saw.words(in.proc.Tail()))
	in.mu.Lock()
	in.exit = &exit
	in.mu.Unlock()
	in.end()
	in.conn.client.CloseIdleConnections()
	os.Remove(in.socket) // a child that ended in order removed it itself
	close(in.done)
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

// stopping reports whether the instance's life is over.
func (in *instance) stopping() bool { return in.life.Err() != nil }

// lifetime returns ctx bounded by the instance's life.
func (in *instance) lifetime(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(in.life, cancel)
	return ctx, func() { stop(); cancel() }
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

// canceled is the error of work whose client is gone.
func canceled(ctx context.Context) error {
	return &infer.Error{Kind: infer.ErrCanceled, Message: "the request was canceled", Err: context.Cause(ctx)}
}

// failed types the error of a request that got no answer. ctx is the client's own.
func (in *instance) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil && !in.stopping() {
		return canceled(ctx)
	}
	if e, ok := errors.AsType[*infer.Error](err); ok && !in.stopping() {
		return e
	}
	return in.lost(err)
}

// written is a request in the child's dialect.
func (in *instance) written(r *infer.Request) ([]byte, error) {
	if in.stopping() {
		return nil, in.lost(nil)
	}
	body, err := native.EncodeRequest(r)
	if err != nil {
		return nil, &infer.Error{Kind: infer.ErrInvalid, Message: "the request holds a value that cannot be passed on", Err: err}
	}
	return body, nil
}

// CountTokens returns how many tokens Generate would read for r.
func (in *instance) CountTokens(ctx context.Context, r *infer.Request) (int, error) {
	body, err := in.written(r)
	if err != nil {
		return 0, err
	}
	own, cancel := in.lifetime(ctx)
	defer cancel()
	var out native.Count
	if err := in.conn.fetch(own, native.CountPath, body, &out); err != nil {
		return 0, in.failed(ctx, err)
	}
	return out.Tokens, nil
}

// Generate starts one answer. It returns when the engine has checked the request and put it in line.
func (in *instance) Generate(ctx context.Context, r *infer.Request) (engine.Stream, error) {
	body, err := in.written(r)
	if err != nil {
		return nil, err
	}
	own, cancel := in.lifetime(ctx)
	resp, err := in.conn.do(own, native.GeneratePath, body) //nolint:bodyclose // the stream closes it
	if err != nil {
		cancel()
		return nil, in.failed(ctx, err)
	}
	return newStream(ctx, cancel, in, resp), nil
}
