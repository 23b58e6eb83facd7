package lmserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// server answers on the socket.
type server struct {
	stderr io.Writer
	exit   func(status int) // os.Exit

	mu     sync.Mutex // guards the rest
	state  native.State
	engine Engine // nil while it loads
}

// progress notes how far the load is.
func (s *server) progress(done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Done, s.state.Total = done, total
}

// loaded opens the routes that need the model.
func (s *server) loaded(e Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine, s.state.Phase, s.state.Done = e, native.PhaseReady, s.state.Total
}

func (s *server) current() (native.State, Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.engine
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+native.StatePath, s.showState)
	mux.HandleFunc("GET "+native.FactsPath, s.withEngine(showFacts))
	mux.HandleFunc("POST "+native.CountPath, s.withEngine(count))
	mux.HandleFunc("POST "+native.GeneratePath, s.withEngine(generate))
	return s.visibly(mux)
}

// visibly ends the process on a panic. net/http would drop the one connection and go on, with an engine in an unknown state.
func (s *server) visibly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v) // a connection that we cut off ourselves
			}
			fmt.Fprintf(s.stderr, "panic: %v\n\n%s", v, debug.Stack())
			s.exit(2)
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *server) showState(w http.ResponseWriter, _ *http.Request) {
	st, e := s.current()
	if e != nil {
		n := e.Stats()
		st.Requests, st.Tokens, st.Prompt, st.Cached, st.Steps = n.Requests, n.Tokens, n.Prompt, n.Cached, n.Steps
		st.Active, st.Waiting, st.Memory = n.Active, n.Waiting, n.Memory
	}
	reply(w, http.StatusOK, st)
}

func showFacts(w http.ResponseWriter, _ *http.Request, e Engine) {
	f := e.Facts()
	reply(w, http.StatusOK, native.Facts{
		Architecture: f.Arch, Quantization: f.Quantization, Mode: f.Mode, Kernel: f.Kernel, Threads: f.Threads, Window: f.Window,
		Parallel: f.Parallel, Chat: f.Chat,
	})
}

// withEngine refuses requests while the model loads.
func (s *server) withEngine(f func(http.ResponseWriter, *http.Request, Engine)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, e := s.current()
		if e == nil {
			refuse(w, infer.Errorf(infer.ErrLoading, "", "the model is still being loaded"))
			return
		}
		f(w, r, e)
	}
}

// question reads a request to its end: only then does a server notice that its client is gone.
func question(w http.ResponseWriter, r *http.Request) (*infer.Request, bool) {
	req, err := native.DecodeRequest(r.Body)
	if err != nil {
		refuse(w, &infer.Error{Kind: infer.ErrInternal, Message: "the embedded engine does not understand its driver", Err: err})
	}
	return req, err == nil
}

func count(w http.ResponseWriter, r *http.Request, e Engine) {
	req, ok := question(w, r)
	if !ok {
		return
	}
	n, err := e.CountTokens(req)
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, native.Count{Tokens: n})
}

// generate streams one answer. What is wrong with a request is said before the stream begins.
func generate(w http.ResponseWriter, r *http.Request, e Engine) {
	req, ok := question(w, r)
	if !ok {
		return
	}
	stream, err := e.Generate(r.Context(), req)
	if err != nil {
		refuse(w, err)
		return
	}
	defer stream.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if out.Flush() == nil {
		pump(r.Context(), w, out, stream)
	}
}

// pump writes events, each at once, up to the last one or an error. A stream that cannot be ended in order is cut off.
func pump(ctx context.Context, w io.Writer, out *http.ResponseController, stream Stream) {
	var buf []byte
	for {
		ev, end := stream.Next(ctx)
		if errors.Is(end, io.EOF) {
			return
		}
		var err error
		if end != nil {
			buf, err = native.AppendError(buf[:0], end)
		} else {
			buf, err = native.AppendEvent(buf[:0], ev)
		}
		if err == nil {
			_, err = w.Write(buf)
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if end != nil {
			return
		}
	}
}

// refuse answers with an error in place of a stream.
func refuse(w http.ResponseWriter, err error) {
	reply(w, native.Status(infer.KindOf(err)), native.ErrorOf(err))
}

func reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b) //nolint:errcheck // the client is gone then, and nobody else can be told
}
