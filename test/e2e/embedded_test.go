package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// chatModel is the real chat model, which is all that these tests need.
func chatModel(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out the tests with a real engine")
	}
	model := os.Getenv("STOKER_TEST_MODEL_CHAT")
	if model == "" {
		t.Fatal("STOKER_TEST_MODEL_CHAT is not set: run `make test`, or set it to what `go run ./test/assets path smollm2` prints")
	}
	return model
}

// TestEmbedded is the first try of somebody who has nothing but this program and a model file: stoker's own engine, chosen by itself.
func TestEmbedded(t *testing.T) {
	s := launch(t, []string{"PATH=/nonexistent"}, chatModel(t), "--served-model-name", "smollm2", "--ctx", "2048", "--port", "0")
	s.await("ok")

	r := s.post("/v1/chat/completions", ask("smollm2", "What is the capital of France?", obj{"stream": true, "temperature": 0}))
	ev := events(r.body)
	if r.status != 200 || r.err != nil || len(ev) < 5 || ev[len(ev)-1] != "[DONE]" {
		t.Fatalf("status %d, %v, %s", r.status, r.err, r.body)
	}
	if text := content(t, r.body); text != "The capital of France is Paris." {
		t.Errorf("the answer is %q", text)
	}
	for name, want := range map[string]string{"X-Stoker-Engine": "embedded", "X-Stoker-Mode": "exact", "X-Stoker-Window": "2048"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	for param, extra := range map[string]obj{
		"tools":           {"tools": []obj{{"type": "function", "function": obj{"name": "f", "parameters": obj{"type": "object"}}}}},
		"response_format": {"response_format": obj{"type": "json_object"}},
	} {
		r := s.post("/v1/chat/completions", ask("smollm2", "x", extra))
		if got := dig(t, r.body, "error", "param"); r.status != 400 || got != param {
			t.Errorf("%s: status %d, %s", param, r.status, r.body)
		}
	}
	if r := s.post("/v1/completions", obj{"model": "smollm2", "prompt": "x", "suffix": "y"}); r.status != 400 || dig(t, r.body, "error", "param") != "suffix" {
		t.Errorf("suffix: status %d, %s", r.status, r.body)
	}
	over := s.post("/v1/chat/completions", ask("smollm2", strings.Repeat("word ", 3000), nil))
	if got := dig(t, over.body, "error", "code"); over.status != 400 || got != "context_length_exceeded" || !strings.Contains(string(over.body), "2048") {
		t.Errorf("over the window: status %d, %s", over.status, over.body)
	}
}

// TestEmbeddedFast: the mode is a setting, and each answer says which one made it; packed weights are kept for the next
// start if that is asked for.
func TestEmbeddedFast(t *testing.T) {
	s := launch(t, []string{"PATH=/nonexistent", "STOKER_EMBEDDED_MODE=fast"}, chatModel(t), "--served-model-name", "m", "--ctx", "512", "--port", "0",
		"--engine-arg", "threads=1", "--engine-arg", "pack-cache=on")
	st := s.await("ok")
	if f := st.Models[0].Facts; f.Mode != "fast" || !strings.HasSuffix(f.Build, "kernels, 1 thread") {
		t.Errorf("the facts are %+v", f)
	}
	r := s.post("/v1/chat/completions", ask("m", "What is the capital of France?", nil))
	if got := r.header.Get("X-Stoker-Mode"); r.status != 200 || got != "fast" {
		t.Errorf("status %d, mode %q, %s", r.status, got, r.body)
	}
	packs, err := filepath.Glob(filepath.Join(s.home, ".cache", "stoker", "packed", "*"))
	if err != nil || len(packs) != 1 {
		t.Errorf("the packed weights: %q, %v", packs, err)
	}
}
