package fake

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// askLM sends a request to a scripted child and returns what it says.
func askLM(t *testing.T, s *Server, path string, r *infer.Request) (status int, body []byte) {
	t.Helper()
	b, err := native.EncodeRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(b)))
	return w.Code, w.Body.Bytes()
}

func lmChat(text string, tokens int) *infer.Request {
	zero := 0.0
	return &infer.Request{
		Kind: infer.Chat, MaxTokens: tokens, Sampling: infer.Sampling{Temperature: &zero}, Logprobs: true, TopLogprobs: 2,
		Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: text}}}},
	}
}

func TestLMAnswers(t *testing.T) {
	s := NewServer(Config{As: LM, Window: 64})
	status, body := askLM(t, s, native.GeneratePath, lmChat("a b", 4))
	text, probs := "", 0
	var done infer.Done
	events := native.NewReader(bytes.NewReader(body))
	ev, err := events.Next()
	for ; err == nil; ev, err = events.Next() {
		switch ev := ev.(type) {
		case infer.Text:
			text += ev.Text
			probs += len(ev.Logprobs[0].Top)
		case infer.Done:
			done = ev
		}
	}
	if status != http.StatusOK || !errors.Is(err, io.EOF) || text != "1 a 2 b" || probs != 8 {
		t.Errorf("status %d, %q with %d alternatives, %v", status, text, probs, err)
	}
	_, counted := askLM(t, s, native.CountPath, lmChat("a b", 4))
	var n native.Count
	if json.Unmarshal(counted, &n) != nil || n.Tokens != done.Usage.Prompt || done.Usage.Completion != 4 || done.Reason != infer.StopLength {
		t.Errorf("counted %s, done %+v", counted, done)
	}
}

func TestLMRefuses(t *testing.T) {
	with := func(f func(*infer.Request)) *infer.Request {
		r := lmChat("x", 4)
		f(r)
		return r
	}
	for name, tt := range map[string]struct {
		script string
		r      *infer.Request
		status int
		want   infer.Error
	}{
		"tools": {"", with(func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "f"}} }), 400, infer.Error{Kind: infer.ErrUnsupported, Param: "tools"}},
		"a format": {
			"", with(func(r *infer.Request) { r.Format.Kind = infer.FormatJSONObject }), 400,
			infer.Error{Kind: infer.ErrUnsupported, Param: "response_format"},
		},
		"a suffix":         {"", with(func(r *infer.Request) { r.Suffix = "x" }), 400, infer.Error{Kind: infer.ErrUnsupported, Param: "suffix"}},
		"a prompt too big": {"", lmChat(strings.Repeat("x ", 100), 4), 400, infer.Error{Kind: infer.ErrContextLength, Window: 64}},
		"no messages":      {"", &infer.Request{Kind: infer.Chat}, 400, infer.Error{Kind: infer.ErrInvalid}},
		"the script":       {"status: 500", lmChat("x", 4), 500, infer.Error{Kind: infer.ErrEngine}},
		"while it loads":   {"silent-at: load", lmChat("x", 4), 503, infer.Error{Kind: infer.ErrLoading}},
	} {
		script, err := ParseScript([]byte(tt.script))
		if err != nil {
			t.Fatal(err)
		}
		status, body := askLM(t, NewServer(Config{As: LM, Window: 64, Script: script}), native.GeneratePath, tt.r)
		e, err := native.DecodeError(body)
		if status != tt.status || err != nil || e.Kind != tt.want.Kind || e.Param != tt.want.Param || e.Window != tt.want.Window {
			t.Errorf("%s: status %d, %s, %v", name, status, body, err)
		}
	}
}
