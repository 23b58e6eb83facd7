package llamacpp

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/infer"
)

// Bodies recorded from llama-server.
const (
	bodyExceed    = `{"error":{"code":400,"message":"request (3011 tokens) exceeds the available context size (1024 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":3011,"n_ctx":1024}}`
	bodyField     = `{"error":{"code":400,"message":"Field 'temperature': [json.exception.type_error.302] type must be number, but is string","type":"invalid_request_error"}}`
	bodyTemplate  = `{"error":{"code":500,"message":"System message must be at the beginning.","type":"server_error"}}`
	bodyLoading   = `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`
	bodyNoInfill  = `{"error":{"code":501,"message":"Infill is not supported by this model","type":"not_supported_error"}}`
	bodyWrongKey  = `{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`
	bodyProxyText = `proxy error: Failed to read connection`
)

func TestRefusal(t *testing.T) {
	blameless := func() (string, bool) { return "", false }
	client := func() (string, bool) { return "messages", true }
	format := func() (string, bool) { return "response_format", true }
	tests := []struct {
		name   string
		status int
		body   string
		blame  func() (string, bool)
		kind   infer.ErrorKind
		param  string
		words  string
	}{
		{"over the window", 400, bodyExceed, blameless, infer.ErrContextLength, "messages", "3011 tokens"},
		{"bad field", 400, bodyField, blameless, infer.ErrInvalid, "", "temperature"},
		{"schema it cannot compile", 400, bodyField, format, infer.ErrInvalid, "response_format", "temperature"},
		{"template exception is the client's", 500, bodyTemplate, client, infer.ErrInvalid, "messages", "System message"},
		{"own failure", 500, bodyTemplate, blameless, infer.ErrEngine, "", "System message"},
		{"loading", 503, bodyLoading, blameless, infer.ErrLoading, "", "Loading"},
		{"cannot", 501, bodyNoInfill, blameless, infer.ErrUnsupported, "", "Infill"},
		{"our key is wrong", 401, bodyWrongKey, blameless, infer.ErrEngine, "", "API Key"},
		{"another program's words", 502, bodyProxyText, blameless, infer.ErrEngine, "", "502"},
		{"empty body", 413, "", blameless, infer.ErrEngine, "", "413"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := &http.Response{StatusCode: tt.status, Body: io.NopCloser(strings.NewReader(tt.body))}
			e := refusal(readAnswerError(resp), tt.blame)
			if e.Kind != tt.kind || e.Param != tt.param {
				t.Errorf("kind %q, param %q, want %q, %q", e.Kind, e.Param, tt.kind, tt.param)
			}
			if !strings.Contains(e.Message, tt.words) {
				t.Errorf("message = %q, want %q in it", e.Message, tt.words)
			}
			if tt.kind == infer.ErrContextLength && (e.PromptTokens != 3011 || e.Window != 1024) {
				t.Errorf("numbers = %d, %d, want 3011, 1024", e.PromptTokens, e.Window)
			}
		})
	}
}
