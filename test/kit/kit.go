// Package kit is what tests of the whole program share: a model file of a few hundred bytes, a llama-server that is our
// scripted engine, and the way to the real engine and models. Its functions may be used from many tests at once.
package kit

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// Real are the real parts that `make test` provides.
type Real struct {
	// LlamaServer is the engine, Chat a small instruct model, Base one without a chat template.
	LlamaServer, Chat, Base string
}

// NeedReal returns the real parts. A test that needs them fails without them, and is skipped with -short.
func NeedReal(t testing.TB) Real {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out the tests with a real engine")
	}
	get := func(name string) string {
		v := os.Getenv(name)
		if v == "" {
			t.Fatalf("%s is not set: run `make test`, or set it to what `go run ./test/assets path` prints", name)
		}
		return v
	}
	return Real{
		LlamaServer: get("STOKER_TEST_LLAMA_SERVER"), Chat: get("STOKER_TEST_MODEL_CHAT"), Base: get("STOKER_TEST_MODEL_BASE"),
	}
}

// WriteModel writes a GGUF file that says it is a small llama model, with a chat template if chat is set. It has no weights worth
// the name: only the scripted engine can serve it.
func WriteModel(path string, chat bool) error {
	w := gguf.NewWriter()
	values := []struct {
		key   string
		value any
	}{
		{"general.architecture", "llama"},
		{"general.name", "scripted"},
		{"llama.context_length", uint32(4096)},
		{"llama.embedding_length", uint32(64)},
		{"llama.block_count", uint32(2)},
		{"llama.feed_forward_length", uint32(128)},
		{"llama.attention.head_count", uint32(4)},
		{"llama.attention.head_count_kv", uint32(2)},
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.tokens", []string{"a", "b"}},
	}
	for _, v := range values {
		if err := w.Set(v.key, v.value); err != nil {
			return err
		}
	}
	if chat {
		if err := w.Set("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}"); err != nil {
			return err
		}
	}
	err := w.Add(gguf.TensorSpec{Name: "token_embd.weight", Type: gguf.F32, Dims: []int64{64, 2}, Write: func(w io.Writer) error {
		_, err := w.Write(make([]byte, 4*64*2))
		return err
	}})
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := w.WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}

// WriteFakeLlama writes an executable that stands in for llama-server: program, which must know the command `engine fake`, plays it
// with the script. It returns the executable's path.
func WriteFakeLlama(dir, program, script string) (string, error) {
	scriptFile := filepath.Join(dir, "script.yaml")
	if err := os.WriteFile(scriptFile, []byte(script), 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "llama-server")
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' engine fake --as llama-server --script '%s' -- \"$@\"\n", program, scriptFile)
	return path, os.WriteFile(path, []byte(text), 0o700)
}
