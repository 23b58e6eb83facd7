// Package lmserve is the child role "lm": the embedded engine in a process of its own, which serves one model on a unix socket in
// the dialect of package wire/native. A fault in it takes no other model with it, its memory is its own, and its threads do not
// starve whoever talks to clients.
//
//	stoker lm --model PATH --socket PATH --window N --parallel N [--mode exact] [--kernel auto] [--threads N]
//
// Routes: GET /state (loading with bytes, ready, counters), GET /facts, POST /generate (a stream of events), POST /count. A client
// that goes away ends its own work. The process ends with a line of JSON on standard error, {"kind": ..., "message": ...}, and
// status 1 when the model cannot be loaded, and with status 0 after SIGTERM or SIGINT.
package lmserve

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// Role is the first word of a command line that asks for this role.
const Role = "lm"

// Is reports whether args, without the program's own name, ask for this role.
func Is(args []string) bool { return len(args) > 0 && args[0] == Role }

// State is what GET /state says.
type State struct {
	// Phase is "weights" while the model loads, then "ready".
	Phase       string `json:"phase"`
	Done, Total int64
	Stats       lm.Stats `json:"stats"`
}

// Count is what POST /count says.
type Count struct {
	Tokens int `json:"tokens"`
}

// settings are the command line.
type settings struct {
	model, socket string
	o             lm.Options
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet(Role, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.model, "model", "", "GGUF file or Hugging Face folder")
	f.StringVar(&s.socket, "socket", "", "unix socket to serve on")
	f.IntVar(&s.o.Window, "window", 0, "tokens that one request can use; 0: what the model was trained for")
	f.IntVar(&s.o.Parallel, "parallel", 1, "requests at once")
	f.StringVar(&s.o.Mode, "mode", "exact", "exact or fast")
	f.StringVar(&s.o.Kernel, "kernel", "auto", "set of kernels")
	f.IntVar(&s.o.Threads, "threads", 0, "threads; 0: one for each processor")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.model == "" || s.socket == "" || f.NArg() > 0 {
		return s, errors.New("want --model and --socket, and nothing else")
	}
	return s, nil
}

// Main is the role. It returns the exit status.
func Main(args []string, stderr io.Writer) int {
	s, err := parse(args[1:], stderr)
	if err != nil {
		fmt.Fprintln(stderr, "stoker lm:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, s); err != nil {
		if b, jerr := json.Marshal(native.ErrorOf(err)); jerr == nil {
			fmt.Fprintln(stderr, string(b))
		}
		return 1
	}
	return 0
}

// server is the process's state.
type server struct {
	mu     sync.Mutex // guards the rest
	state  State
	engine *lm.Engine // nil while it loads
}

// serve listens first, so that a load can be watched, and loads then.
func serve(ctx context.Context, s settings) error {
	threads := s.o.Threads
	if threads == 0 {
		threads = runtime.NumCPU()
	}
	runtime.GOMAXPROCS(threads + 1) // the kernels' threads spin: the rest of the program needs one of its own
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		return err
	}
	sv := &server{state: State{Phase: "weights"}}
	h := &http.Server{Handler: sv.routes()}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	defer h.Close()

	s.o.Progress = func(done, total int64) {
		sv.mu.Lock()
		sv.state.Done, sv.state.Total = done, total
		sv.mu.Unlock()
	}
	e, err := lm.Open(ctx, s.model, s.o)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to end while loading
		}
		return err
	}
	sv.mu.Lock()
	sv.engine, sv.state.Phase = e, "ready"
	sv.mu.Unlock()
	select {
	case <-ctx.Done():
		return e.Close()
	case err := <-failed:
		return errors.Join(err, e.Close())
	}
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", s.showState)
	mux.HandleFunc("GET /facts", s.ready(func(w http.ResponseWriter, _ *http.Request, e *lm.Engine) { write(w, http.StatusOK, e.Facts()) }))
	mux.HandleFunc("POST /count", s.ready(count))
	mux.HandleFunc("POST /generate", s.ready(generate))
	return mux
}

func (s *server) showState(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	st, e := s.state, s.engine
	s.mu.Unlock()
	if e != nil {
		st.Stats = e.Stats()
	}
	write(w, http.StatusOK, st)
}

// ready refuses requests while the model loads.
func (s *server) ready(f func(http.ResponseWriter, *http.Request, *lm.Engine)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		e := s.engine
		s.mu.Unlock()
		if e == nil {
			refuse(w, infer.Errorf(infer.ErrLoading, "", "the model is still being loaded"))
			return
		}
		f(w, r, e)
	}
}

func count(w http.ResponseWriter, r *http.Request, e *lm.Engine) {
	req, err := native.DecodeRequest(r.Body)
	if err != nil {
		refuse(w, infer.Errorf(infer.ErrInternal, "", "%v", err))
		return
	}
	n, err := e.CountTokens(req)
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, Count{n})
}

// generate streams one answer. What is wrong with a request is said before the stream begins.
func generate(w http.ResponseWriter, r *http.Request, e *lm.Engine) {
	req, err := native.DecodeRequest(r.Body)
	if err != nil {
		refuse(w, infer.Errorf(infer.ErrInternal, "", "%v", err))
		return
	}
	// Reading on tells when the client is gone.
	stream, err := e.Generate(r.Context(), req)
	if err != nil {
		refuse(w, err)
		return
	}
	defer stream.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return
	}
	var buf []byte
	for {
		ev, err := stream.Next(r.Context())
		if errors.Is(err, io.EOF) {
			return
		}
		buf = buf[:0]
		if err != nil {
			buf, err = native.AppendError(buf, err)
		} else {
			buf, err = native.AppendEvent(buf, ev)
		}
		if err != nil {
			panic(http.ErrAbortHandler) // never end cleanly on a failure
		}
		if _, err := w.Write(buf); err != nil || out.Flush() != nil {
			return
		}
		if ev == nil {
			return
		}
	}
}

// refuse answers with an error in place of a stream.
func refuse(w http.ResponseWriter, err error) { write(w, http.StatusBadRequest, native.ErrorOf(err)) }

func write(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b) //nolint:errcheck // the client is gone then, and nobody else can be told
}
