package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// llamaRoutes are the routes of llama-server that a supervisor or client uses.
func (s *Server) llamaRoutes() {
	s.mux.HandleFunc("GET /health", s.whenLoaded(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	}))
	s.mux.HandleFunc("GET /props", s.whenLoaded(s.llamaProps))
	s.mux.HandleFunc("GET /v1/models", s.whenLoaded(s.llamaModels))
	s.mux.HandleFunc("POST /tokenize", s.whenLoaded(s.llamaTokenize))
	s.mux.HandleFunc("POST /apply-template", s.whenLoaded(s.llamaTemplate))
	s.mux.HandleFunc("POST /v1/chat/completions/input_tokens", s.whenLoaded(s.llamaCount))
	for _, p := range []string{"POST /v1/chat/completions", "POST /chat/completions"} {
		s.mux.HandleFunc(p, s.whenLoaded(func(w http.ResponseWriter, r *http.Request) { s.llamaAnswer(w, r, chatShape{alias: s.cfg.Alias}) }))
	}
	s.mux.HandleFunc("POST /v1/completions", s.whenLoaded(func(w http.ResponseWriter, r *http.Request) {
		s.llamaAnswer(w, r, textShape{alias: s.cfg.Alias})
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

func (s *Server) llamaProps(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"default_generation_settings": map[string]any{"n_ctx": s.window()},
		"total_slots":                 s.cfg.Slots, "model_alias": s.cfg.Alias, "build_info": "b0-fake", "bos_token": "<s>", "eos_token": "</s>",
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
	req, err := s.read(w, r)
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, llamaError(http.StatusInternalServerError, err.Error()))
		return
	}
	_, chat := sh.(chatShape)
	q, err := req.question(s.base, chat)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, llamaError(http.StatusBadRequest, err.Error()))
		return
	}
	if n, most := len(q.prompt), s.window(); n >= most {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": map[string]any{
			"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": n, "n_ctx": most,
			"message": fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", n, most),
		}})
		return
	}
	q.max = min(q.max, s.window()-len(q.prompt))
	s.answer(w, r, q, sh)
}

// frame begins an event with the head of an OpenAI chunk; the caller appends the choices' members.
func frame(object, alias string) []byte {
	b := append(make([]byte, 0, 256), `data: {"id":"chatcmpl-fake","object":"`...)
	b = append(append(b, object...), `","created":1700000000,"model":`...)
	b = rawjson.AppendString(b, alias)
	return append(b, `,"choices":[`...)
}

// chatShape is llama-server's chat.
type chatShape struct{ alias string }

func (c chatShape) delta(members string, text string) []byte {
	b := append(frame("chat.completion.chunk", c.alias), `{"index":0,"finish_reason":null,"delta":{`...)
	b = appendRaw(append(b, members...), text)
	return append(b, '}', '}', ']', '}', '\n', '\n')
}

func (c chatShape) progress(q *question, done, total int) []byte {
	if !q.progress {
		return nil
	}
	b := append(frame("chat.completion.chunk", c.alias), `{"index":0,"finish_reason":null,"delta":{"role":"assistant","content":null}}],`...)
	return appendProgress(b, done, total)
}

func appendProgress(b []byte, done, total int) []byte {
	return append(fmt.Appendf(b, `"prompt_progress":{"total":%d,"cache":0,"processed":%d,"time_ms":1}}`, total, done), '\n', '\n')
}

func (c chatShape) think(token string) []byte { return c.delta(`"reasoning_content":`, token) }

func (c chatShape) text(q *question, token string) []byte {
	if q.probs < 0 {
		return c.delta(`"content":`, token)
	}
	b := append(frame("chat.completion.chunk", c.alias), `{"index":0,"finish_reason":null,"delta":{"content":`...)
	b = append(appendRaw(b, token), `},"logprobs":{"content":[`...)
	return append(appendProb(b, token, q.probs), ']', '}', '}', ']', '}', '\n', '\n')
}

func (c chatShape) call(k *call) [][]byte {
	b := append(frame("chat.completion.chunk", c.alias), `{"index":0,"finish_reason":null,"delta":{"tool_calls":[{"index":0,"id":"fakecall0","type":"function","function":{"name":`...)
	b = append(rawjson.AppendString(b, k.Name), `,"arguments":""}}]}}]}`...)
	frames := [][]byte{append(b, '\n', '\n')}
	for _, piece := range Tokenize(k.Args) {
		b := append(frame("chat.completion.chunk", c.alias), `{"index":0,"finish_reason":null,"delta":{"tool_calls":[{"index":0,"function":{"arguments":`...)
		b = append(rawjson.AppendString(b, piece), `}}]}}]}`...)
		frames = append(frames, append(b, '\n', '\n'))
	}
	return frames
}

func (c chatShape) finish(_ *question, a *reply, n counts) []byte {
	b := append(frame("chat.completion.chunk", c.alias), `{"index":0,"finish_reason":"`...)
	b = append(append(b, a.reason...), `","delta":{}}],`...)
	return append(appendTimings(b, n), '}', '\n', '\n')
}

func appendTimings(b []byte, n counts) []byte {
	return fmt.Appendf(b, `"timings":{"cache_n":0,"prompt_n":%d,"prompt_ms":1,"predicted_n":%d,"predicted_ms":1}`, n.prompt, n.completion)
}

func (c chatShape) usage(q *question, n counts) []byte {
	if !q.usage {
		return nil
	}
	b := append(frame("chat.completion.chunk", c.alias), `],"usage":`...)
	return append(appendUsage(b, n), '}', '\n', '\n')
}

func appendUsage(b []byte, n counts) []byte {
	return fmt.Appendf(b, `{"completion_tokens":%d,"prompt_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}`,
		n.completion, n.prompt, n.prompt+n.completion)
}

func (chatShape) done() []byte { return []byte("data: [DONE]\n\n") }

func (chatShape) fault() []byte {
	return []byte(`data: {"error":{"code":500,"message":"scripted failure","type":"server_error"}}` + "\n\n")
}

func (c chatShape) whole(_ *question, a *reply, n counts) any {
	msg := map[string]any{"role": "assistant", "content": strings.Join(a.tokens, "")}
	if len(a.think) > 0 {
		msg["reasoning_content"] = strings.Join(a.think, "")
	}
	if a.call != nil {
		msg["tool_calls"] = []any{map[string]any{
			"id": "fakecall0", "type": "function",
			"function": map[string]string{"name": a.call.Name, "arguments": a.call.Args},
		}}
	}
	return map[string]any{
		"id": "chatcmpl-fake", "object": "chat.completion", "created": 1700000000, "model": c.alias,
		"choices": []any{map[string]any{"index": 0, "finish_reason": a.reason, "message": msg}}, "usage": usageMap(n),
	}
}

func usageMap(n counts) map[string]any {
	return map[string]any{"completion_tokens": n.completion, "prompt_tokens": n.prompt, "total_tokens": n.prompt + n.completion}
}

// textShape is the OpenAI completions route.
type textShape struct{ alias string }

func (c textShape) chunk(text, reason string) []byte {
	b := append(frame("text_completion", c.alias), `{"index":0,"logprobs":null,"text":`...)
	b = append(appendRaw(b, text), `,"finish_reason":`...)
	if reason == "" {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendQuote(b, reason)
	}
	return append(b, '}', ']', '}', '\n', '\n')
}

func (c textShape) progress(*question, int, int) []byte           { return nil }
func (c textShape) think(token string) []byte                     { return c.chunk(token, "") }
func (c textShape) text(_ *question, token string) []byte         { return c.chunk(token, "") }
func (c textShape) call(*call) [][]byte                           { return nil }
func (c textShape) finish(_ *question, a *reply, _ counts) []byte { return c.chunk("", a.reason) }
func (c textShape) usage(q *question, n counts) []byte {
	if !q.usage {
		return nil
	}
	b := append(frame("text_completion", c.alias), `],"usage":`...)
	return append(appendUsage(b, n), '}', '\n', '\n')
}
func (textShape) done() []byte  { return chatShape{}.done() }
func (textShape) fault() []byte { return chatShape{}.fault() }

func (c textShape) whole(_ *question, a *reply, n counts) any {
	return map[string]any{
		"id": "cmpl-fake", "object": "text_completion", "created": 1700000000, "model": c.alias, "usage": usageMap(n),
		"choices": []any{map[string]any{"index": 0, "finish_reason": a.reason, "text": strings.Join(a.tokens, ""), "logprobs": nil}},
	}
}

// nativeShape is llama-server's own completion route.
type nativeShape struct{}

func (nativeShape) progress(q *question, done, total int) []byte {
	if !q.progress {
		return nil
	}
	return appendProgress([]byte(`data: {"index":0,"content":"","stop":false,`), done, total)
}

func (nativeShape) think(token string) []byte { return nativeShape{}.text(&question{probs: -1}, token) }

func (nativeShape) text(q *question, token string) []byte {
	b := appendRaw([]byte(`data: {"index":0,"stop":false,"content":`), token)
	if q.probs >= 0 {
		b = append(appendProb(append(b, `,"completion_probabilities":[`...), token, q.probs), ']')
	}
	return append(b, '}', '\n', '\n')
}

func (nativeShape) call(*call) [][]byte { return nil }

func (nativeShape) finish(_ *question, a *reply, n counts) []byte {
	kind := map[string]string{"stop": "eos", "length": "limit"}[a.reason]
	if a.stopWord != "" {
		kind = "word"
	}
	b := fmt.Appendf(nil, `data: {"index":0,"content":"","stop":true,"stop_type":%q,"tokens_predicted":%d,"tokens_evaluated":%d,"stopping_word":`,
		kind, n.completion, n.prompt)
	b = append(rawjson.AppendString(b, a.stopWord), ',')
	return append(appendTimings(b, n), '}', '\n', '\n')
}

func (nativeShape) usage(*question, counts) []byte { return nil }
func (nativeShape) done() []byte                   { return nil }
func (nativeShape) fault() []byte                  { return chatShape{}.fault() }

func (nativeShape) whole(_ *question, a *reply, n counts) any {
	return map[string]any{
		"content": strings.Join(a.tokens, ""), "stop": true, "stop_type": "eos", "stopping_word": a.stopWord,
		"tokens_predicted": n.completion, "tokens_evaluated": n.prompt,
	}
}

// appendRaw appends s as a JSON string and keeps bytes that are no UTF-8 as they are: engines cut characters.
func appendRaw(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// appendProb appends one token's log probability with n alternatives.
func appendProb(dst []byte, token string, n int) []byte {
	one := func(token string, p float64) {
		dst = fmt.Appendf(dst, `{"id":%d,"logprob":%g,"bytes":[`, tokenID(token), p)
		for i := range len(token) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(token[i]), 10)
		}
		dst = rawjson.AppendString(append(dst, `],"token":`...), token)
	}
	one(token, -0.25)
	dst = append(dst, `,"top_logprobs":[`...)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		t := token
		if i > 0 {
			t = "alternative" + strconv.Itoa(i)
		}
		one(t, -0.25-float64(i))
		dst = append(dst, '}')
	}
	return append(dst, ']', '}')
}
