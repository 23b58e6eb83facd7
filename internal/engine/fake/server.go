package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Surface is the engine that is played.
type Surface string

// The surfaces.
const (
	LlamaServer Surface = "llama-server"
	MLX         Surface = "mlx-lm"
	// LM is stoker's own engine in its child role.
	LM Surface = "lm"
	// Squatter is somebody else's server that answers /health on the port one wanted.
	Squatter Surface = "squatter"
)

// Config is what a Server plays.
type Config struct {
	As     Surface
	Script Script
	// Window is the tokens of one slot, Slots how many answers run at once (llama-server). 0 means 4096 and 1.
	Window, Slots int
	// Alias is the model's name in answers.
	Alias string
	// Key, if set, must come with every request but those for health and for this package's own routes.
	Key string
	// Metrics opens /metrics, NoSlots closes /slots, as the flags of llama-server do.
	Metrics, NoSlots bool
	// Hold keeps the model loading until it is closed, however long the script says; nil keeps nothing.
	Hold <-chan struct{}
	// Die ends the process, for the faults that do; nil makes them close the connection instead.
	Die func(s Script)
	// Noise and Stdout are the process's standard error and output, for the faults that write to them; nil drops it.
	Noise, Stdout io.Writer
}

// Server is a scripted engine.
type Server struct {
	cfg     Config
	mux     *http.ServeMux
	slots   chan struct{}
	started time.Time
	total   work

	mu       sync.Mutex // guards the fields below
	script   Script
	state    State
	records  []*record
	answered int
	previous string // the last message of the request before
	hoard    [][]byte
}

// NewServer returns a scripted engine. It loads from now on.
func NewServer(c Config) *Server {
	c.fill()
	s := &Server{cfg: c, mux: http.NewServeMux(), slots: make(chan struct{}, c.Slots), started: time.Now(), script: c.Script}
	s.mux.HandleFunc("GET /fake/state", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.State()) })
	s.mux.HandleFunc("GET /fake/requests", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Requests()) })
	s.mux.HandleFunc("POST /fake/script", s.takeScript)
	switch c.As {
	case MLX:
		s.mlxRoutes()
	case LM:
		s.lmRoutes()
	case Squatter:
		s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		})
	default:
		s.llamaRoutes()
	}
	return s
}

func (c *Config) fill() {
	if c.As == "" {
		c.As = LlamaServer
	}
	if c.Window <= 0 {
		c.Window = 4096
	}
	if c.Slots <= 0 {
		c.Slots = 1
	}
	if c.Alias == "" {
		c.Alias = "fake"
	}
	if c.Noise == nil {
		c.Noise = io.Discard
	}
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	open := r.URL.Path == "/health" || r.URL.Path == "/v1/health" || strings.HasPrefix(r.URL.Path, "/fake/")
	if s.cfg.Key != "" && !open && r.Header.Get("Authorization") != "Bearer "+s.cfg.Key {
		writeJSON(w, http.StatusUnauthorized, llamaError(http.StatusUnauthorized, "Invalid API Key"))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// SetScript changes the behaviour from now on. Answers that have begun go on as they were.
func (s *Server) SetScript(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// maxScript bounds a script that is sent; see maxMarked.
const maxScript = 16 << 10

func (s *Server) takeScript(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxScript))
	if err == nil {
		var script Script
		if script, err = ParseScript(b); err == nil {
			s.SetScript(script)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	http.Error(w, err.Error(), http.StatusBadRequest)
}

// loaded returns how far loading is, from 0 to 1.
func (s *Server) loaded() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	far := 1.0
	if s.script.Load > 0 {
		far = min(1, float64(time.Since(s.started))/float64(s.script.Load))
	}
	if s.script.SilentAt == "load" {
		return min(far, 0.5)
	}
	select {
	case <-s.cfg.Hold:
	default:
		if s.cfg.Hold != nil {
			return min(far, 0.99)
		}
	}
	return far
}

// awaitLoad returns when the model is loaded, and reports whether the client is still there.
func (s *Server) awaitLoad(ctx context.Context) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.loaded() < 1 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// maxBody bounds a request's body.
const maxBody = 100 << 20

// read takes a request's body, and begins to follow the request. Both are nil if the body did not come whole.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (*request, *record, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, nil, err
	}
	rec := s.note(r, b)
	req := &request{raw: b}
	if err := json.Unmarshal(b, req); err != nil {
		return req, rec, fmt.Errorf("parse error: %w", err)
	}
	return req, rec, nil
}

// base is the script for one more answer, with the fault of an engine that lied about being ready worked in, whether it is the first
// answer, and the text that it is made from if requests are mixed up.
func (s *Server) base(last string) (script Script, first bool, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	script, first, text = s.script, s.answered == 0, last
	if script.OtherAnswer {
		text = s.previous
	}
	s.previous = last
	lie, err := script.lie()
	switch {
	case err != nil || lie == -1:
	case lie == -2:
		script.SilentAt = "start"
	case s.answered >= lie:
		script.Status, script.StatusBody = http.StatusInternalServerError, ""
	}
	s.answered++
	if script.Grow > 0 {
		block := make([]byte, script.Grow<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1 // touched, so that it is really taken
		}
		s.hoard = append(s.hoard, block)
	}
	return script, first, text
}

// info answers a question about the engine, or evades it as the script says.
func (s *Server) info(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		how := s.script.Info
		s.mu.Unlock()
		switch how {
		case "empty":
			writeJSON(w, http.StatusOK, struct{}{})
		case "wrong":
			writeJSON(w, http.StatusOK, map[string]any{
				"default_generation_settings": "none", "total_slots": "many", "data": 7, "object": nil, "build_info": []int{1},
			})
		case "html":
			writeHTML(w, http.StatusOK)
		case "hang":
			<-r.Context().Done()
		default:
			next(w, r)
		}
	}
}

func writeHTML(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	io.WriteString(w, "<html><body><h1>Bad Gateway</h1></body></html>") //nolint:errcheck // the client is gone
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	w.Write(append(b, '\n')) //nolint:errcheck // the client is gone
}
