package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// mlxRoutes are the routes of mlx_lm.server, with its ways: an HTTP/1.0 server that ends each body by closing the connection,
// says it is well from its first moment, demands a Content-Length, answers 404 for whatever goes wrong before an answer, and
// closes without a word when a field has the wrong type.
func (s *Server) mlxRoutes() {
	s.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	s.mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
			"id": s.cfg.Alias, "object": "model", "created": s.started.Unix(),
		}}})
	})
	for _, p := range []string{"POST /v1/chat/completions", "POST /chat/completions"} {
		s.mux.HandleFunc(p, func(w http.ResponseWriter, r *http.Request) {
			s.mlxAnswer(w, r, func(model string) shape { return mlxShape{chatShape{alias: model}} })
		})
	}
	s.mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		s.mlxAnswer(w, r, func(model string) shape { return textShape{alias: model} })
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Transfer-Encoding", "identity")
		http.Error(w, "Not Found", http.StatusNotFound)
	})
}

func mlxError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
}

func (s *Server) mlxAnswer(w http.ResponseWriter, r *http.Request, shapeFor func(model string) shape) {
	w.Header().Set("Transfer-Encoding", "identity") // no chunks: the end of the connection is the end of the body
	if r.ContentLength < 0 {
		mlxError(w, http.StatusLengthRequired, "Content-Length is required")
		return
	}
	req, err := s.read(w, r)
	if err != nil {
		mlxError(w, http.StatusBadRequest, err.Error())
		return
	}
	if s.mlxTypeFault(req) {
		panic(http.ErrAbortHandler) // an exception in the handler: the connection closes without a reply
	}
	if s.loaded() < 1 {
		<-r.Context().Done() // it loads on the generating thread, and the request waits for that
		return
	}
	model := s.lastModel()
	sh := shapeFor(model)
	_, chat := sh.(mlxShape)
	q, err := req.question(s.base, chat)
	if err != nil {
		mlxError(w, http.StatusNotFound, err.Error())
		return
	}
	s.answer(w, r, q, sh)
}

// mlxTypeFault reports whether the last request holds what mlx_lm.server's checks throw at: a null, or stream_options
// without include_usage.
func (s *Server) mlxTypeFault(req *request) bool {
	body := s.lastBody()
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return true
	}
	for _, v := range fields {
		if bytes.Equal(bytes.TrimSpace(v), []byte("null")) {
			return true
		}
	}
	if v, ok := fields["xtc_probability"]; ok && !strings.Contains(string(v), ".") {
		return true
	}
	return req.StreamOptions != nil && req.StreamOptions.IncludeUsage == nil
}

func (s *Server) lastBody() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received[len(s.received)-1].Body
}

// lastModel is the model that the last request asked for: mlx_lm.server says it back.
func (s *Server) lastModel() string {
	var in struct {
		Model string `json:"model"`
	}
	if json.Unmarshal(s.lastBody(), &in) != nil || in.Model == "" {
		return "default_model"
	}
	return in.Model
}

// mlxShape is mlx_lm.server's chat: the role in every delta, reasoning under its own name, a tool call in one piece, and a
// usage chunk that calls itself a whole completion.
type mlxShape struct{ chatShape }

func (m mlxShape) progress(q *question, done, total int) []byte {
	if !q.stream {
		return nil
	}
	return fmt.Appendf(nil, ": keepalive %d/%d\n\n", done, total)
}

func (m mlxShape) think(token string) []byte {
	return m.delta(`"role":"assistant","reasoning":`, token)
}

func (m mlxShape) text(_ *question, token string) []byte {
	return m.delta(`"role":"assistant","content":`, token)
}

func (m mlxShape) call(k *call) [][]byte {
	b := append(frame("chat.completion.chunk", m.alias), `{"index":0,"finish_reason":null,"delta":{"role":"assistant","tool_calls":[`...)
	one, err := json.Marshal(map[string]any{"index": 0, "id": "fakecall0", "type": "function", "function": map[string]string{
		"name": k.Name, "arguments": k.Args,
	}})
	if err != nil {
		return nil
	}
	return [][]byte{append(append(b, one...), "]}}]}\n\n"...)}
}

func (m mlxShape) finish(_ *question, a *reply, _ counts) []byte {
	b := append(frame("chat.completion.chunk", m.alias), `{"index":0,"finish_reason":"`...)
	return append(append(b, a.reason...), `","delta":{"role":"assistant","content":""}}]}`+"\n\n"...)
}

func (m mlxShape) usage(q *question, n counts) []byte {
	if !q.usage {
		return nil
	}
	b := append(frame("chat.completion", m.alias), `],"usage":`...)
	return append(appendUsage(b, n), '}', '\n', '\n')
}

func (m mlxShape) whole(_ *question, a *reply, n counts) any {
	msg := map[string]any{"role": "assistant", "content": strings.Join(a.tokens, "")}
	if len(a.think) > 0 {
		msg["reasoning"] = strings.Join(a.think, "")
	}
	if a.call != nil {
		msg["tool_calls"] = []any{map[string]any{
			"id": "fakecall0", "type": "function",
			"function": map[string]string{"name": a.call.Name, "arguments": a.call.Args},
		}}
	}
	return map[string]any{
		"id": "chatcmpl-fake", "object": "chat.completion", "created": 1700000000, "model": m.alias, "usage": usageMap(n),
		"choices": []any{map[string]any{"index": 0, "finish_reason": a.reason, "message": msg}},
	}
}
