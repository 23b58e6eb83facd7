package openai

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// engineError is what engines say in an error, in the union of their forms.
type engineError struct {
	message, typ, code string
	number             int // a numeric code, which is an HTTP status
	prompt, window     int
}

// DecodeError reads the body of an engine's error answer with its status. It takes every body: an object, a bare string,
// HTML or nothing. The result's message holds the engine's own words if they are words.
func DecodeError(status int, body []byte) *infer.Error {
	e := parseErrorBody(body)
	if e.message == "" {
		e.message = plainText(body)
	}
	return e.infer(status)
}

func parseErrorBody(body []byte) (e engineError) {
	if rawjson.KindOf(trimBody(body)) != rawjson.ObjectKind {
		return e
	}
	o := rawjson.Object(body)
	for o.Next() {
		switch string(o.Key()) {
		case "error":
			e.read(o.Value())
		case "message", "detail":
			if e.message == "" && rawjson.KindOf(o.Value()) == rawjson.String {
				e.message = rawjson.Text(o.Value())
			}
		}
	}
	return e
}

// read reads the value of an error member: an object, or the bare string of mlx_lm.server.
func (e *engineError) read(v []byte) {
	switch rawjson.KindOf(v) {
	case rawjson.String:
		e.message = rawjson.Text(v)
	case rawjson.ObjectKind:
		o := rawjson.Object(v)
		for o.Next() {
			e.member(string(o.Key()), o.Value())
		}
	}
}

func (e *engineError) member(key string, v []byte) {
	kind := rawjson.KindOf(v)
	n, _ := rawjson.Int(v)
	switch key {
	case "message":
		if kind == rawjson.String {
			e.message = rawjson.Text(v)
		}
	case "type":
		if kind == rawjson.String {
			e.typ = rawjson.Text(v)
		}
	case "code":
		e.number = int(n)
		if kind == rawjson.String {
			e.code = rawjson.Text(v)
		}
	case "n_prompt_tokens":
		e.prompt = int(n)
	case "n_ctx":
		e.window = int(n)
	}
}

// infer returns e in neutral words. A status of 0 means that the error came inside a stream.
func (e *engineError) infer(status int) *infer.Error {
	if status == 0 {
		status = e.number
	}
	out := &infer.Error{Kind: e.kind(status), Message: "the engine failed"}
	if e.message != "" {
		out.Message = "the engine said: " + clipMessage(e.message)
	} else if status != 0 {
		out.Message = "the engine failed with status " + http.StatusText(status)
	}
	if out.Kind == infer.ErrContextLength {
		out.PromptTokens, out.Window = e.prompt, e.window
	}
	return out
}

// kind classifies e. Types and codes say more than the status. 404 is an engine's fault: the paths are ours, and
// mlx_lm.server uses it for every failure before the first token.
func (e *engineError) kind(status int) infer.ErrorKind {
	switch {
	case e.typ == "exceed_context_size_error", e.code == "context_length_exceeded":
		return infer.ErrContextLength
	case e.typ == "unavailable_error":
		return infer.ErrLoading
	case e.typ == "not_supported_error", status == http.StatusNotImplemented:
		return infer.ErrUnsupported
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return infer.ErrInvalid
	case http.StatusRequestEntityTooLarge:
		return infer.ErrTooLarge
	case http.StatusTooManyRequests:
		return infer.ErrQueueFull
	case http.StatusServiceUnavailable:
		return infer.ErrUnavailable
	default:
		return infer.ErrEngine
	}
}

// maxEngineWords bounds what is repeated of an engine's message.
const maxEngineWords = 500

func clipMessage(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= maxEngineWords {
		return s
	}
	return s[:wholeLen(s[:maxEngineWords])] + "..."
}

// plainText returns body if it is a text for people, and "" for markup, JSON and bytes.
func plainText(body []byte) string {
	s := strings.TrimSpace(string(body))
	if s == "" || strings.ContainsAny(s[:1], "<{[\"") || !utf8.ValidString(s) {
		return ""
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) {
		return ""
	}
	return s
}
