package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// llamaRoutes are the routes of llama-server that a supervisor or client uses.
func (s *Server) llamaRoutes() {
	for _, p := range []string{"GET /health", "GET /v1/health"} {
		s.mux.HandleFunc(p, s.whenLoaded(func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		}))
	}
	s.mux.HandleFunc("GET /props", s.whenLoaded(s.info(s.llamaProps)))
	s.mux.HandleFunc("GET /slots", s.whenLoaded(s.info(s.llamaSlots)))
	s.mux.HandleFunc("GET /metrics", s.whenLoaded(s.info(s.llamaMetrics)))
	for _, p := range []string{"GET /v1/models", "GET /models"} {
		s.mux.HandleFunc(p, s.whenLoaded(s.info(s.llamaModels)))
	}
	s.mux.HandleFunc("POST /tokenize", s.whenLoaded(s.llamaTokenize))
	s.mux.HandleFunc("POST /apply-template", s.whenLoaded(s.llamaTemplate))
	s.mux.HandleFunc("POST /v1/chat/completions/input_tokens", s.whenLoaded(s.llamaCount))
	for _, p := range []string{"POST /v1/chat/completions", "POST /chat/completions"} {
		s.mux.HandleFunc(p, s.whenLoaded(func(w http.ResponseWriter, r *http.Request) { s.llamaAnswer(w, r, newChatShape(s.cfg.Alias)) }))
	}
	s.mux.HandleFunc("POST /v1/completions", s.whenLoaded(func(w http.ResponseWriter, r *http.Request) {
		s.llamaAnswer(w, r, newTextShape(s.cfg.Alias))
	}))
	for _, p := range []string{"POST /completion", "POST /completions"} {
		s.mux.HandleFunc(p, s.whenLoaded(func(w http.ResponseWriter, r *http.Request) { s.llamaAnswer(w, r, nativeShape{}) }))
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, llamaError(http.StatusNotFound, "File Not Found"))
	})
}

// llamaError is llama-server's error body.
func llamaError(status int, message string) any {
	kind := "server_error"
	switch status {
	case http.StatusBadRequest:
		kind = "invalid_request_error"
	case http.StatusUnauthorized:
		kind = "authentication_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	case http.StatusNotImplemented:
		kind = "not_supported_error"
	case http.StatusServiceUnavailable:
		kind = "unavailable_error"
	}
	return map[string]any{"error": map[string]any{"code": status, "message": message, "type": kind}}
}

// whenLoaded answers 503 while the model loads.
func (s *Server) whenLoaded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "llama.cpp")
		if s.loaded() < 1 {
			writeJSON(w, http.StatusServiceUnavailable, llamaError(http.StatusServiceUnavailable, "Loading model"))
			return
		}
		next(w, r)
	}
}

func (s *Server) window() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.script.Window > 0 {
		return s.script.Window
	}
	return s.cfg.Window
}

// buildInfo is the build in llama-server's form.
const buildInfo = "b0-fake"

func (s *Server) llamaProps(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"default_generation_settings": map[string]any{"n_ctx": s.window()},
		"total_slots":                 s.cfg.Slots, "model_alias": s.cfg.Alias, "build_info": buildInfo, "bos_token": "<s>", "eos_token": "</s>",
		"chat_template":      "{{ messages }}",
		"chat_template_caps": map[string]bool{"supports_tools": true, "supports_tool_calls": true},
		"modalities":         map[string]bool{"vision": false, "audio": false},
	})
}

func (s *Server) llamaModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.cfg.Alias, "object": "model", "created": s.started.Unix(), "owned_by": "llamacpp",
		"meta": map[string]any{"n_ctx": s.window(), "n_ctx_train": s.cfg.Window},
	}}})
}

// llamaSlots shows the slots, the busy ones first.
func (s *Server) llamaSlots(w http.ResponseWriter, r *http.Request) {
	if s.cfg.NoSlots {
		writeJSON(w, http.StatusNotImplemented, llamaError(http.StatusNotImplemented, "This server does not support slots endpoint. Start it with `--slots`"))
		return
	}
	busy, window := s.State().Active, s.window()
	if r.URL.Query().Has("fail_on_no_slot") && busy >= s.cfg.Slots {
		writeJSON(w, http.StatusServiceUnavailable, llamaError(http.StatusServiceUnavailable, "no slot available"))
		return
	}
	list := make([]any, s.cfg.Slots)
	for i := range list {
		list[i] = map[string]any{"id": i, "n_ctx": window, "speculative": false, "is_processing": i < busy}
	}
	writeJSON(w, http.StatusOK, list)
}

func (s *Server) llamaMetrics(w http.ResponseWriter, _ *http.Request) {
	if !s.cfg.Metrics {
		writeJSON(w, http.StatusNotImplemented, llamaError(http.StatusNotImplemented, "This server does not support metrics endpoint. Start it with `--metrics`"))
		return
	}
	st := s.State()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	w.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(s.started.Unix(), 10))
	for _, m := range []struct {
		name, kind, text string
		n                int
	}{
		{"prompt_tokens_total", "counter", "Number of prompt tokens processed, excluding cached tokens", st.PromptTokens},
		{"prompt_tokens_cached_total", "counter", "Number of prompt tokens reused from the cache", 0},
		{"tokens_predicted_total", "counter", "Number of generation tokens processed", st.Tokens},
		{"requests_processing", "gauge", "Number of requests processing", st.Active},
		{"requests_deferred", "gauge", "Number of requests deferred", st.Waiting},
	} {
		fmt.Fprintf(w, "# HELP llamacpp:%s %s\n# TYPE llamacpp:%s %s\nllamacpp:%s %d\n", m.name, m.text, m.name, m.kind, m.name, m.n)
	}
}

func (s *Server) llamaTokenize(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Content    string `json:"content"`
		AddSpecial bool   `json:"add_special"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		writeJSON(w, http.StatusInternalServerError, llamaError(http.StatusInternalServerError, err.Error()))
		return
	}
	ids := []int{}
	for _, t := range Tokenize(in.Content) {
		ids = append(ids, tokenID(t))
	}
	writeJSON(w, http.StatusOK, map[string]any{"tokens": ids})
}

// plain reads a request for routes that produce no tokens.
func (s *Server) plain(w http.ResponseWriter, r *http.Request) *request {
	var req request
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&req)
	if err == nil && len(req.Messages) == 0 {
		err = fmt.Errorf("\"messages\" is required")
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, llamaError(http.StatusBadRequest, err.Error()))
		return nil
	}
	return &req
}

func (s *Server) llamaTemplate(w http.ResponseWriter, r *http.Request) {
	if req := s.plain(w, r); req != nil {
		writeJSON(w, http.StatusOK, map[string]string{"prompt": req.rendered()})
	}
}

func (s *Server) llamaCount(w http.ResponseWriter, r *http.Request) {
	if req := s.plain(w, r); req != nil {
		writeJSON(w, http.StatusOK, map[string]any{"object": "response.input_tokens", "input_tokens": len(Tokenize(req.rendered()))})
	}
}

func (s *Server) llamaAnswer(w http.ResponseWriter, r *http.Request, sh shape) {
	refuse := func(rec *record, status int, body any) {
		if rec != nil {
			s.mark(rec, Refused)
		}
		writeJSON(w, status, body)
	}
	req, rec, err := s.read(w, r)
	if err != nil {
		refuse(rec, http.StatusBadRequest, llamaError(http.StatusBadRequest, err.Error()))
		return
	}
	_, chat := sh.(chatShape)
	window := s.window()
	q, err := req.question(setting{base: s.base, chat: chat, max: window})
	if err != nil {
		refuse(rec, http.StatusBadRequest, llamaError(http.StatusBadRequest, err.Error()))
		return
	}
	q.rec = rec
	if n := len(q.prompt); n >= window {
		refuse(rec, http.StatusBadRequest, map[string]any{"error": map[string]any{
			"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": n, "n_ctx": window,
			"message": fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", n, window),
		}})
		return
	}
	q.max = min(q.max, window-len(q.prompt))
	s.answer(w, r, q, sh)
}
