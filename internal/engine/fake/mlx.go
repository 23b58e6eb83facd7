package fake

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// mlxMaxTokens is the length of an answer whose request says none.
const mlxMaxTokens = 512

// mlxRoutes are the routes of mlx_lm.server (seen with 0.32.2), with its ways: HTTP/1.0, each body ended by closing the connection,
// well from its first moment, a Content-Length demanded, 404 for whatever goes wrong once the request was taken apart.
func (s *Server) mlxRoutes() {
	s.mux.HandleFunc("GET /health", oldHTTP(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	}))
	for _, p := range []string{"GET /v1/models", "GET /v1/models/"} {
		s.mux.HandleFunc(p, oldHTTP(s.info(s.mlxModels)))
	}
	s.mux.HandleFunc("OPTIONS /", oldHTTP(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for _, p := range []string{"POST /v1/chat/completions", "POST /chat/completions"} {
		s.mux.HandleFunc(p, oldHTTP(func(w http.ResponseWriter, r *http.Request) {
			s.mlxAnswer(w, r, true, func(model string) shape { return mlxShape{newChatShape(model)} })
		}))
	}
	s.mux.HandleFunc("POST /v1/completions", oldHTTP(func(w http.ResponseWriter, r *http.Request) {
		s.mlxAnswer(w, r, false, func(model string) shape { return mlxTextShape{newTextShape(model)} })
	}))
	s.mux.HandleFunc("/", oldHTTP(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "Not Found") //nolint:errcheck // the client is gone
	}))
}

// oldHTTP answers as an HTTP/1.0 server does: no chunks, and one request for each connection.
func oldHTTP(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The server writes the version of the request that it passed to us.
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0
		w.Header().Set("Connection", "close")
		w.Header().Set("Server", "BaseHTTP/0.6 Python/3.12.1")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		next(w, r)
	}
}

func (s *Server) mlxModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.cfg.Alias, "object": "model", "created": s.started.Unix(),
	}}})
}

func mlxError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
}

func (s *Server) mlxAnswer(w http.ResponseWriter, r *http.Request, chat bool, shapeFor func(model string) shape) {
	if r.ContentLength < 0 {
		mlxError(w, http.StatusLengthRequired, "Content-Length header is required")
		return
	}
	req, rec, err := s.read(w, r)
	model := ""
	if req != nil {
		if m, wrong := mlxCheck(req.raw, chat); wrong != nil {
			err = wrong // it looks at the types one by one
		} else {
			model = m
		}
	}
	if err != nil {
		s.mlxRefuse(w, rec, http.StatusBadRequest, err.Error())
		return
	}
	s.mark(rec, Waiting)
	if !s.awaitLoad(r.Context()) { // it loads on the generating thread, and the request waits for that
		s.mark(rec, Cancelled)
		return
	}
	req.ResponseFormat, req.JSONSchema, req.ToolChoice, req.NPredict = nil, nil, nil, nil // it knows none of them
	q, err := req.question(setting{base: s.base, chat: chat, max: mlxMaxTokens, greedy: true})
	if err != nil {
		s.mlxRefuse(w, rec, http.StatusNotFound, err.Error())
		return
	}
	q.rec = rec
	if q.stream {
		q.probs = -1
	}
	if o := req.StreamOptions; o != nil && o.IncludeUsage == nil {
		q.script.Omit = append(slices.Clone(q.script.Omit), "usage", "done") // it throws when it looks for the member
	}
	s.answer(w, r, q, shapeFor(model))
}

func (s *Server) mlxRefuse(w http.ResponseWriter, rec *record, status int, message string) {
	if rec != nil {
		s.mark(rec, Refused)
	}
	mlxError(w, status, message)
}

// mlxTypes are the types that it checks, by the name it has for them. null has none of them, but for those that may be missing.
var mlxTypes = [...]struct {
	field, typ string
	optional   bool
}{
	{"stream", "bool", false},
	{"max_tokens", "int", false},
	{"temperature", "('float', 'int')", false},
	{"top_p", "('float', 'int')", false},
	{"top_k", "int", false},
	{"min_p", "('float', 'int')", false},
	{"repetition_penalty", "('float', 'int')", false},
	{"presence_penalty", "('float', 'int')", false},
	{"frequency_penalty", "('float', 'int')", false},
	{"logprobs", "bool", false},
	{"top_logprobs", "int", false},
	{"xtc_probability", "float", false},
	{"xtc_threshold", "float", false},
	{"model", "str", false},
	{"seed", "int", true},
	{"logit_bias", "dict", true},
}

// mlxCheck refuses what mlx_lm.server refuses before it looks at the model, and returns the model's name in the request.
func mlxCheck(body []byte, chat bool) (model string, err error) {
	if !json.Valid(body) {
		return "", mlxWords("Invalid JSON in request body: Expecting value")
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return "", mlxWords("Request should be a JSON dictionary")
	}
	for _, c := range mlxTypes {
		v, there := fields[c.field]
		if !there || pythonType(v) == "None" && c.optional {
			continue
		}
		if t := pythonType(v); !strings.Contains(c.typ, t) {
			name := c.field
			if name == "model" {
				name = "requested_model"
			}
			return "", fmt.Errorf("%s must be of type %s", name, c.typ)
		}
	}
	need, what := "prompt", "a prompt"
	if chat {
		need, what = "messages", "messages"
	}
	if _, there := fields[need]; !there {
		return "", mlxWords("Request did not contain " + what)
	}
	model = "default_model"
	if v, there := fields["model"]; there {
		err = json.Unmarshal(v, &model)
	}
	return model, err
}

// pythonType is what Python's JSON reader makes of a value.
func pythonType(v json.RawMessage) string {
	switch v[0] {
	case '"':
		return "str"
	case '{':
		return "dict"
	case '[':
		return "list"
	case 't', 'f':
		return "bool"
	case 'n':
		return "None"
	}
	if strings.ContainsAny(string(v), ".eE") {
		return "float"
	}
	return "int"
}

// mlxShape is mlx_lm.server's chat: the role in every delta, reasoning under its own name, a tool call in one piece, and a
// usage chunk that calls itself a whole completion. An exception in the middle just ends the body.
type mlxShape struct{ chatShape }

func (m mlxShape) progress(dst []byte, q *question, done, total int) []byte {
	return keepAlive(dst, done, total)
}

func keepAlive(dst []byte, done, total int) []byte {
	if done == 0 {
		return dst
	}
	return fmt.Appendf(dst, ": keepalive %d/%d\n\n", done, total)
}

func (m mlxShape) role(dst []byte) []byte { return dst }

func (m mlxShape) think(dst []byte, token string) []byte {
	return m.delta(dst, `"role":"assistant","reasoning":`, token)
}

func (m mlxShape) text(dst []byte, _ *question, token string) []byte {
	return m.delta(dst, `"role":"assistant","content":`, token)
}

func (m mlxShape) call(k *call) [][]byte {
	one, err := json.Marshal(map[string]any{"index": 0, "id": callID, "type": "function", "function": map[string]string{
		"name": k.Name, "arguments": k.Args,
	}})
	if err != nil {
		return nil
	}
	b := append(append(m.frame(nil), `"role":"assistant","tool_calls":[`...), one...)
	return [][]byte{append(b, "]}}]}\n\n"...)}
}

func (m mlxShape) finish(dst []byte, _ *question, a *reply, _ counts) []byte {
	return append(append(dst, m.head...), `{"index":0,"finish_reason":"`+a.reason+`","delta":{"role":"assistant"}}]}`+"\n\n"...)
}

func (m mlxShape) usage(dst []byte, q *question, n counts) []byte {
	return mlxUsage(dst, m.alias, q, n)
}

func mlxUsage(dst []byte, model string, q *question, n counts) []byte {
	if !q.usage {
		return dst
	}
	b := append(append(dst, head("chat.completion", model)...), `],"usage":`...)
	return append(appendUsage(b, n), "}\n\n"...)
}

func (mlxShape) fault(dst []byte) []byte { return dst }

func (mlxShape) failStatus() int { return http.StatusNotFound }

func (mlxShape) refuse(w http.ResponseWriter, status int, message string) {
	mlxError(w, status, message)
}

func (m mlxShape) whole(q *question, a *reply, n counts) map[string]any {
	body := wholeChat(m.alias, "reasoning", q, a, n)
	if len(a.tokens) == 0 {
		choiceOf(body)["message"].(map[string]any)["content"] = nil
	}
	return mlxWhole(body, q, a)
}

func choiceOf(body map[string]any) map[string]any {
	return body["choices"].([]any)[0].(map[string]any)
}

// mlxWhole puts the log probabilities in mlx_lm.server's shape, and takes out what only llama-server has.
func mlxWhole(body map[string]any, q *question, a *reply) map[string]any {
	delete(body, "timings")
	if q.probs < 0 {
		return body
	}
	list := make([]any, len(a.tokens))
	for i, token := range a.tokens {
		one := map[string]any{"id": tokenID(token), "logprob": -0.25}
		if q.probs > 0 {
			top := maps.Clone(one)
			top["token"], one["token"] = token, token
			one["top_logprobs"] = []any{top}
		}
		list[i] = one
	}
	choiceOf(body)["logprobs"] = map[string]any{"content": list}
	return body
}

// mlxTextShape is mlx_lm.server's completions route.
type mlxTextShape struct{ textShape }

func (mlxTextShape) progress(dst []byte, _ *question, done, total int) []byte {
	return keepAlive(dst, done, total)
}

func (m mlxTextShape) finish(dst []byte, q *question, a *reply, _ counts) []byte {
	return append(m.chunk(dst, q, "", `"`+a.reason+`"`), "}\n\n"...)
}

func (m mlxTextShape) usage(dst []byte, q *question, n counts) []byte {
	return mlxUsage(dst, m.alias, q, n)
}

func (mlxTextShape) fault(dst []byte) []byte { return dst }

func (mlxTextShape) failStatus() int { return http.StatusNotFound }

func (mlxTextShape) refuse(w http.ResponseWriter, status int, message string) {
	mlxError(w, status, message)
}

func (m mlxTextShape) whole(q *question, a *reply, n counts) map[string]any {
	return mlxWhole(m.textShape.whole(q, a, n), q, a)
}

// mlxWords is an error in mlx_lm.server's own words, capitals and all.
type mlxWords string

func (w mlxWords) Error() string { return string(w) }
