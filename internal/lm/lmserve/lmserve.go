// Package lmserve is the child role "lm": the embedded engine in a process of its own, which serves one model on a unix socket in
// the dialect of package wire/native. A fault in it takes no other model with it, its memory is its own, and its threads do not
// starve whoever talks to clients.
//
//	stoker lm --model PATH --socket PATH --window N --parallel N [--mode exact] [--kernel avx2] [--threads N]
//
// The socket answers from the start, so a load can be watched: GET /state has its bytes, then counters. GET /facts, POST /generate (a
// stream of events, a line each) and POST /count answer once the model is loaded. A client that goes away ends its own work within
// one step of the engine; a slow one waits in its own goroutine and holds up nobody.
//
// The process ends with status 0 after SIGTERM or SIGINT. When the model cannot be loaded it ends with status 1, and its last line on
// standard error is the reason as native.Error. A panic, wherever it comes up, ends the process with a stack and status 2: half an
// engine that goes on would answer other requests wrongly, and nobody would know.
package lmserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// Engine is what is served: *lm.Engine, or a scripted one in tests.
type Engine interface {
	Generate(ctx context.Context, r *infer.Request) (Stream, error)
	CountTokens(r *infer.Request) (int, error)
	Facts() lm.Facts
	Stats() lm.Stats
	Close() error
}

// Stream is one answer being written; see lm.Stream.
type Stream interface {
	Next(ctx context.Context) (infer.Event, error)
	Close() error
}

// opener loads a model. Its errors are *infer.Error, or the cause of ctx.
type opener func(ctx context.Context, path string, o lm.Options) (Engine, error)

// engine makes an Engine of lm's: a method that returns *lm.Stream is not one that returns Stream.
type engine struct{ *lm.Engine }

// Generate starts an answer.
func (e engine) Generate(ctx context.Context, r *infer.Request) (Stream, error) {
	s, err := e.Engine.Generate(ctx, r)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openLM(ctx context.Context, path string, o lm.Options) (Engine, error) {
	e, err := lm.Open(ctx, path, o)
	if err != nil {
		return nil, err
	}
	return engine{e}, nil
}

// Is reports whether args, without the program's own name, ask for this role.
func Is(args []string) bool { return native.IsChild(args) }

// Main is the role. It returns the exit status.
func Main(args []string, stderr io.Writer) int { return run(args, stderr, openLM) }

func run(args []string, stderr io.Writer, open opener) int {
	c, err := native.ParseCommand(args, stderr)
	switch {
	case errors.Is(err, native.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "stoker lm:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, c, stderr, open); err != nil {
		say(stderr, err)
		return 1
	}
	return 0
}

// say writes an error as the line that the driver looks for.
func say(stderr io.Writer, err error) {
	b, jerr := json.Marshal(native.ErrorOf(err))
	if jerr != nil {
		b = []byte(err.Error())
	}
	fmt.Fprintf(stderr, "%s\n", b)
}

// options are the engine's part of the command.
func options(c native.Command) lm.Options {
	o := lm.Options{Window: c.Window, Parallel: c.Parallel, Mode: c.Mode, Kernel: c.Kernel, Threads: c.Threads, PackDir: c.PackDir}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0) // what this process may use, where the system limits it
	}
	return o
}

// serve listens first, so that the load can be watched, and loads then. It returns nil when ctx ends.
func serve(ctx context.Context, c native.Command, stderr io.Writer, open opener) error {
	o := options(c)
	// The kernels' threads spin: whoever speaks HTTP needs one beside them.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.Threads + 1))
	l, err := net.Listen("unix", c.Socket)
	if err != nil {
		return &infer.Error{Kind: infer.ErrUnavailable, Message: "the embedded engine cannot listen on its socket", Err: err}
	}
	s := &server{stderr: stderr, exit: os.Exit}
	s.state.Phase = native.PhaseWeights
	h := &http.Server{Handler: s.handler(), ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	defer h.Close()

	o.Progress = s.progress
	e, err := open(ctx, c.Model, o)
	if ctx.Err() != nil && err != nil {
		return nil // it was asked to end while it loaded
	}
	if err != nil {
		return err
	}
	s.loaded(e)
	select {
	case <-ctx.Done():
		return end(h, e)
	case err := <-failed:
		return errors.Join(&infer.Error{Kind: infer.ErrInternal, Message: "the embedded engine's socket failed", Err: err}, e.Close())
	}
}

// goodbye is how long open answers have to pass on why they end.
const goodbye = 500 * time.Millisecond

// end ends all answers, with an error each, and frees the model.
func end(h *http.Server, e Engine) error {
	if err := e.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	h.Shutdown(ctx) //nolint:errcheck // whoever did not read by now is cut off
	return nil
}
