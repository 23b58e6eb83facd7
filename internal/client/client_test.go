package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"github.com/stoker-llm/stoker/internal/infer"
)

const good = `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}

: keepalive

data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}

data: {"choices":[{"delta":{"content":"gr\u00f6\u00dfe"},"finish_reason":"length"}]}

data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}

data: [DONE]

`

// answering is a server that answers every request with a status and a body.
func answering(t *testing.T, status int, body string) *HTTP {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k" {
			t.Error("the key does not come along")
		}
		w.Header().Set("x-stoker-engine", "e")
		w.WriteHeader(status)
		w.Write([]byte(body)) //nolint:errcheck // a test
	}))
	t.Cleanup(srv.Close)
	return &HTTP{URL: srv.URL, Key: "k"}
}

func TestGenerate(t *testing.T) {
	r := &infer.Request{Kind: infer.Chat, Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: "hi"}}}}}
	pieces := 0
	a, err := answering(t, 200, good).Generate(t.Context(), "m", r, func(infer.Event) { pieces++ })
	if err != nil {
		t.Fatal(err)
	}
	want := infer.Usage{Prompt: 5, Cached: 1, Completion: 2}
	if a.Text != "größe" || a.Reasoning != "hm" || a.Stop != infer.StopLength || a.Usage != want || a.Engine != "e" || pieces != 3 {
		t.Errorf("%+v after %d pieces", a, pieces)
	}
	for name, tt := range map[string]struct {
		status int
		body   string
		says   string
	}{
		"cut off":       {200, strings.TrimSuffix(good, "data: [DONE]\n\n"), "cut off"},
		"error event":   {200, "data: {\"error\":{\"message\":\"the engine is gone\"}}\n\n", "the engine is gone"},
		"refused":       {404, `{"error":{"message":"no such model"}}`, "no such model"},
		"no error body": {502, "<html>", "502"},
		"nonsense":      {200, "data: {\n\n", "cannot be read"},
	} {
		if _, err := answering(t, tt.status, tt.body).Generate(t.Context(), "m", r, nil); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s gives %v, want %q in it", name, err, tt.says)
		}
	}
}

// TestFind: the discovery file counts only while somebody holds the lock, and only if it is ours.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	write := func(d Discovery) {
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(DiscoveryPath(dir), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := Discovery{Product: "stoker", InstanceID: "i", Socket: "/x"}
	write(d)
	if _, err := Find(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a file without a lock: %v", err)
	}
	l := flock.New(LockPath(dir))
	if ok, err := l.TryLock(); err != nil || !ok {
		t.Fatal(ok, err)
	}
	defer l.Close()
	if got, err := Find(dir); err != nil || got.InstanceID != "i" {
		t.Errorf("%+v, %v", got, err)
	}
	d.Product = "other"
	write(d)
	if _, err := Find(dir); err == nil || !strings.Contains(err.Error(), "not from stoker") {
		t.Errorf("somebody else's file: %v", err)
	}
	if err := os.Remove(DiscoveryPath(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a lock without a file: %v", err)
	}
}

// FuzzReadEvents: whatever comes, a stream is whole only with its end mark, and then Done is the last event.
func FuzzReadEvents(f *testing.F) {
	for _, s := range []string{good, "data: [DONE]\n\n", "data: {\"choices\":[{}]}\n\n", "data: null\n\n", "data: {\"error\":1}\n\n", "\r\r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var last infer.Event
		err := readEvents(strings.NewReader(text), func(ev infer.Event) { last = ev })
		if _, done := last.(infer.Done); done != (err == nil) {
			t.Errorf("%q: last event %T, error %v", text, last, err)
		}
	})
}
