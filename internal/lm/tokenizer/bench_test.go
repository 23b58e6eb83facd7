package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// benchText is a megabyte or so of documentation and source code.
func benchText(b *testing.B) string {
	b.Helper()
	root := realPath(b, "STOKER_TEST_LLAMA_SRC")
	var out strings.Builder
	for _, name := range []string{"README.md", "AUTHORS", "docs/*.md", "src/llama-*.cpp", "gguf-py/gguf/*.py"} {
		files, err := filepath.Glob(filepath.Join(root, name))
		if err != nil || len(files) == 0 {
			b.Fatalf("%s: %d files, %v", name, len(files), err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				b.Fatal(err)
			}
			out.Write(text)
		}
	}
	return out.String()
}

func benchVocabs() []string {
	return []string{"llama-bpe", "qwen2", "gpt-2", "deepseek-llm", "command-r", "llama-spm", "gemma-4"}
}

// BenchmarkEncode encodes a large text; first with an empty cache, as a short program does.
func BenchmarkEncode(b *testing.B) {
	text := benchText(b)
	for _, name := range benchVocabs() {
		tok := loadVocab(b, name)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n += len(tok.Encode(text, Options{Special: true}))
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mtok/s")
		})
	}
}

// BenchmarkEncodeNew is BenchmarkEncode without the cache: all words are new.
func BenchmarkEncodeNew(b *testing.B) {
	text := benchText(b)
	for _, name := range benchVocabs() {
		tok := loadVocab(b, name)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			n := 0
			for b.Loop() {
				tok.cache = newWordCache()
				n += len(tok.Encode(text, Options{Special: true}))
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mtok/s")
		})
	}
}

// BenchmarkEncodeLongWord encodes one word of a megabyte.
func BenchmarkEncodeLongWord(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"same", strings.Repeat("a", 1<<20)},
		{"han", strings.Repeat("漢字假名交じり文", 1<<20/24)},
	} {
		for _, name := range []string{"llama-bpe", "gemma-4", "deepseek-llm"} {
			tok := loadVocab(b, name)
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(c.text)))
				for b.Loop() {
					tok.Encode(c.text, Options{})
				}
			})
		}
	}
}

// BenchmarkDecode decodes a large text token by token.
func BenchmarkDecode(b *testing.B) {
	text := benchText(b)
	tok := loadVocab(b, "llama-bpe")
	ids := tok.Encode(text, Options{})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Decode(ids)
	}
}

// BenchmarkFromGGUF builds tokenizers.
func BenchmarkFromGGUF(b *testing.B) {
	for _, c := range []struct{ name, path string }{
		{"smollm2", realPath(b, "STOKER_TEST_MODEL_CHAT")},
		{"gemma3", realPath(b, "STOKER_TEST_MODEL_BASE")},
		{"qwen2", filepath.Join(llamaVocabs(b), "ggml-vocab-qwen2.gguf")},
		{"gemma4", filepath.Join(llamaVocabs(b), "ggml-vocab-gemma-4.gguf")},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, err := gguf.Open(c.path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := FromGGUF(f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
