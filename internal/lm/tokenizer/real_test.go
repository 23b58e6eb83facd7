package tokenizer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// realPath returns the value of a variable that `make test` sets.
func realPath(t testing.TB, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out the tests with real vocabularies")
	}
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("%s is not set: run `make test`, or set it to what `go run ./test/assets path` prints", name)
	}
	return v
}

// llamaVocabs is the folder of llama.cpp's vocabularies.
func llamaVocabs(t testing.TB) string {
	t.Helper()
	return filepath.Join(realPath(t, "STOKER_TEST_LLAMA_SRC"), "models")
}

// built are the tokenizers of real vocabularies that tests have built so far, by path.
var built sync.Map

// load returns a tokenizer of a file, which the test may change.
func load(t testing.TB, path string) *Tokenizer {
	t.Helper()
	if tok, ok := built.Load(path); ok {
		return copyOf(tok.(*Tokenizer))
	}
	tok := build(t, path)
	built.Store(path, tok)
	return copyOf(tok)
}

// copyOf copies a tokenizer, but not its cache.
func copyOf(t *Tokenizer) *Tokenizer {
	c := &Tokenizer{
		vocab: t.vocab, pairs: t.pairs, cache: newWordCache(), raw: t.raw, edited: t.edited, edits: t.edits, prep: t.prep, stages: t.stages,
		symbols: t.symbols, whole: t.whole, strips: t.strips, bos: t.bos, eos: t.eos, addsBOS: t.addsBOS, addsEOS: t.addsEOS, ends: t.ends,
	}
	c.encoders.New = func() any { return &encoder{t: c} }
	return c
}

func build(t testing.TB, path string) *Tokenizer {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func loadVocab(t testing.TB, name string) *Tokenizer {
	t.Helper()
	return load(t, filepath.Join(llamaVocabs(t), "ggml-vocab-"+name+".gguf"))
}

// unsupportedVocabs are the vocabularies with test strings that we do not read, by the name of what they need.
var unsupportedVocabs = map[string]string{"bert-bge": `tokenizer.ggml.model: "bert"`}

// TestLlamaVocabs holds us to llama.cpp's own test strings.
func TestLlamaVocabs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(llamaVocabs(t), "ggml-vocab-*.gguf.inp"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d vocabularies with test strings, %v", len(files), err)
	}
	for _, inp := range files {
		path := strings.TrimSuffix(inp, ".inp")
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "ggml-vocab-"), ".gguf")
		t.Run(name, func(t *testing.T) {
			if want := unsupportedVocabs[name]; want != "" {
				checkUnsupported(t, path, want)
				return
			}
			checkPairs(t, load(t, path), path, name)
		})
	}
}

func checkUnsupported(t *testing.T, path, want string) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = FromGGUF(f)
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want) {
		t.Fatalf("%v, want it refused with %q", err, want)
	}
	t.Logf("not supported: %v", err)
}

// checkPairs encodes the strings beside a vocabulary. Those of qwen35 come from llama.cpp, which does not normalise text; the model's own
// tokenizer does (NFC), and so do we: strings on which that shows are counted and named, and compared without normalisation.
func checkPairs(t *testing.T, tok *Tokenizer, path, name string) {
	t.Helper()
	texts, want := readPairs(t, path)
	var unlike []string
	for i, text := range texts {
		got := tok.Encode(text, Options{})
		if name == "qwen35" && !norm.NFC.IsNormalString(text) {
			unlike = append(unlike, fmt.Sprintf("%.40q", text))
			bare := load(t, path)
			bare.edits = nil
			got = bare.Encode(text, Options{})
		}
		if !slices.Equal(got, want[i]) {
			t.Errorf("%q\n got %v\nwant %v", text, got, want[i])
		}
	}
	if len(unlike) > 0 {
		t.Logf("%d of %d strings are normalised here and not in llama.cpp: %s", len(unlike), len(texts), strings.Join(unlike, ", "))
	}
	if name == "qwen35" && len(unlike) != 3 {
		t.Errorf("%d strings are not in NFC, want 3", len(unlike))
	}
}

// readPairs reads the test strings beside a vocabulary and their tokens.
func readPairs(t testing.TB, path string) (texts []string, want [][]int32) {
	t.Helper()
	inp, err := os.ReadFile(path + ".inp")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(path + ".out")
	if err != nil {
		t.Fatal(err)
	}
	texts = strings.Split(string(inp), "\n__ggml_vocab_test__\n")
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(texts) < 40 || len(texts) != len(lines) && len(texts) != len(lines)+1 {
		t.Fatalf("%d texts, %d lines", len(texts), len(lines))
	}
	for _, line := range lines {
		var ids []int32
		for _, s := range strings.Fields(line) {
			id, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, int32(id))
		}
		want = append(want, ids)
	}
	return texts[:len(lines)], want
}
