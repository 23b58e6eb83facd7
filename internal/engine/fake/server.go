package fake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	// Die ends the process, for the faults that do; nil makes them close the connection instead.
	Die func(s Script)
	// Noise writes to the process's output, for the faults that do; nil drops it.
	Noise io.Writer
}

// State is what GET /fake/state answers.
type State struct {
	// Active counts the answers that hold a slot now, Waiting those that wait for one.
	Active  int `json:"active"`
	Waiting int `json:"waiting"`
	// Finished, Failed and Cancelled count the answers that ended well, by a fault, and because the client was gone.
	Finished  int `json:"finished"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	// Tokens counts the tokens produced, PromptTokens those read.
	Tokens       int `json:"tokens"`
	PromptTokens int `json:"prompt_tokens"`
	// LastCancel is when a client was last seen to be gone.
	LastCancel time.Time `json:"last_cancel"`
}

// Received is one request, as GET /fake/requests lists them.
type Received struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body,omitempty"`
	// Raw is the body if it was no JSON.
	Raw string `json:"raw,omitempty"`
}

// Server is a scripted engine.
type Server struct {
	cfg     Config
	mux     *http.ServeMux
	slots   chan struct{}
	started time.Time

	mu       sync.Mutex // guards the fields below
	script   Script
	state    State
	received []Received
	answered int
	previous string // the last message of the request before
	hoard    [][]byte
}

// receivedMax is how many requests are kept; older ones are dropped.
const receivedMax = 1000

// NewServer returns a scripted engine. It loads from now on.
func NewServer(c Config) *Server {
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
	s := &Server{cfg: c, mux: http.NewServeMux(), slots: make(chan struct{}, c.Slots), started: time.Now(), script: c.Script}
	s.mux.HandleFunc("GET /fake/state", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.State()) })
	s.mux.HandleFunc("GET /fake/requests", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Received()) })
	s.mux.HandleFunc("POST /fake/script", s.takeScript)
	switch c.As {
	case MLX:
		s.mlxRoutes()
	case Squatter:
		s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		})
	default:
		s.llamaRoutes()
	}
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	open := r.URL.Path == "/health" || strings.HasPrefix(r.URL.Path, "/fake/")
	if s.cfg.Key != "" && !open && r.Header.Get("Authorization") != "Bearer "+s.cfg.Key {
		writeJSON(w, http.StatusUnauthorized, llamaError(http.StatusUnauthorized, "Invalid API Key"))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// State says what runs now and what became of the rest.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Received lists the requests for answers so far.
func (s *Server) Received() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// SetScript changes the behaviour from now on.
func (s *Server) SetScript(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

func (s *Server) takeScript(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
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

func (s *Server) update(f func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.state)
}

// loaded returns how far loading is, from 0 to 1.
func (s *Server) loaded() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.script.SilentAt == "load" {
		return 0.5
	}
	if s.script.Load <= 0 {
		return 1
	}
	return min(1, float64(time.Since(s.started))/float64(s.script.Load))
}

// maxBody bounds a request's body.
const maxBody = 100 << 20

// read takes a request's body and keeps it for /fake/requests.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (*request, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	rec := Received{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: b}
	if !json.Valid(b) {
		rec.Body, rec.Raw = nil, string(b)
	}
	s.mu.Lock()
	s.received = append(s.received, rec)
	if len(s.received) > receivedMax {
		s.received = s.received[1:]
	}
	s.mu.Unlock()
	var req request
	if err := json.Unmarshal(b, &req); err != nil {
		return nil, fmt.Errorf("parse error: %w", err)
	}
	return &req, nil
}

// base is the script for one more answer, with the fault of an engine that lied about being ready worked in, and the text that
// the answer is made from if requests are mixed up.
func (s *Server) base(last string) (script Script, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	script, text = s.script, last
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
		script.Status, script.StatusBody = http.StatusInternalServerError, "object"
	}
	if s.answered == 0 && script.DieAt == "warmup" {
		script.DieAt = "start"
	} else if script.DieAt == "warmup" {
		script.DieAt = ""
	}
	s.answered++
	if script.Grow > 0 {
		block := make([]byte, script.Grow<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1 // touched, so that it is really taken
		}
		s.hoard = append(s.hoard, block)
	}
	return script, text
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
