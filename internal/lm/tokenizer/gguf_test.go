package tokenizer

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// metadataFile makes a GGUF file of the values.
func metadataFile(t testing.TB, values map[string]any) *gguf.File {
	t.Helper()
	w := gguf.NewWriter()
	for k, v := range values {
		if err := w.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tinyBytes are the values of a byte-level tokenizer.
func tinyBytes() map[string]any {
	var tokens []string
	letters := byteLetters()
	for b := range 256 {
		tokens = append(tokens, letters.letter[b])
	}
	tokens = append(tokens, "ab", "abc", "Ġa", "<s>", "<|im_end|>", "<user>")
	kinds := slices.Repeat([]int32{1}, len(tokens))
	kinds[259], kinds[261] = 3, 4
	return map[string]any{
		keyModel: "gpt2", keyPre: "gpt-2", keyTokens: tokens, keyKinds: kinds, keyMerges: []string{"a b", "ab c", "Ġ a"},
		"tokenizer.ggml.bos_token_id": uint32(259), "tokenizer.ggml.eos_token_id": uint32(260),
	}
}

// tinyMarks are the values of a tokenizer with scores.
func tinyMarks() map[string]any {
	tokens := []string{"<unk>", "<s>", "</s>"}
	kinds := []int32{2, 3, 3}
	for b := range 256 {
		tokens, kinds = append(tokens, bytePiece(byte(b))), append(kinds, 6)
	}
	for _, p := range []string{"▁", "a", "b", "c", "ab", "▁a", "▁ab", "abc", "xy", "<", "/", "s", ">", "</", "s>", "c▁", "<tool>"} {
		tokens, kinds = append(tokens, p), append(kinds, 1)
	}
	kinds[len(kinds)-1] = 4
	scores := make([]float32, len(tokens))
	for i := range scores {
		scores[i] = -float32(i)
	}
	return map[string]any{keyModel: "llama", keyTokens: tokens, keyKinds: kinds, keyScores: scores}
}

func tinyTokens() []string { return tinyBytes()[keyTokens].([]string) }

func fromValues(t testing.TB, values map[string]any) *Tokenizer {
	t.Helper()
	tok, err := FromGGUF(metadataFile(t, values))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestHostileGGUF: what contradicts itself is refused, and the error names the key.
func TestHostileGGUF(t *testing.T) {
	cases := []struct {
		name  string
		base  func() map[string]any
		key   string
		value any // nil: the key is missing
		kind  error
		want  string
	}{
		{"no model", tinyBytes, keyModel, nil, ErrInvalid, "no such key"},
		{"model of another kind", tinyBytes, keyModel, uint32(1), gguf.ErrKind, ""},
		{"unknown model", tinyBytes, keyModel, "bert", ErrUnsupported, `"bert"; known are gpt2, llama, gemma4`},
		{"unknown pre", tinyBytes, keyPre, "gpt-9", ErrUnsupported, `"gpt-9"; known are`},
		{"pre of another kind", tinyBytes, keyPre, true, gguf.ErrKind, ""},
		{"no tokens", tinyBytes, keyTokens, nil, ErrInvalid, "no such key"},
		{"empty tokens", tinyBytes, keyTokens, []string{}, ErrInvalid, "no tokens"},
		{"tokens of another kind", tinyBytes, keyTokens, []int32{1}, gguf.ErrKind, ""},
		{"too many tokens", tinyBytes, keyTokens, make([]string, maxTokens+1), ErrInvalid, "at most"},
		{"token twice", tinyBytes, keyTokens, append(tinyTokens()[:261], "ab"), ErrInvalid, `tokens 256 and 261 are both "ab"`},
		{"few kinds", tinyBytes, keyKinds, []int32{1, 1}, ErrInvalid, "2 elements for 262 tokens"},
		{"kinds of another kind", tinyBytes, keyKinds, "x", gguf.ErrKind, ""},
		{"unknown kind", tinyBytes, keyKinds, slices.Repeat([]int32{7}, 262), ErrInvalid, "type 7"},
		{"negative kind", tinyBytes, keyKinds, slices.Repeat([]int32{-1}, 262), ErrInvalid, "type -1"},
		{"no merges", tinyBytes, keyMerges, nil, ErrInvalid, "no such key"},
		{"merge of one", tinyBytes, keyMerges, []string{"ab"}, ErrInvalid, "merge 0 is not two tokens"},
		{"empty merge", tinyBytes, keyMerges, []string{"a b", ""}, ErrInvalid, "merge 1 is not two tokens"},
		{"merge of nothing", tinyBytes, keyMerges, []string{"a "}, ErrInvalid, "not both tokens"},
		{"merge of strangers", tinyBytes, keyMerges, []string{"a zz"}, ErrInvalid, "not both tokens"},
		{"merge to a stranger", tinyBytes, keyMerges, []string{"b a"}, ErrInvalid, `makes "ba", which is no token`},
		{"bos out of range", tinyBytes, "tokenizer.ggml.bos_token_id", uint32(262), ErrInvalid, "token 262 of 262"},
		{"eos out of range", tinyBytes, "tokenizer.ggml.eos_token_id", uint32(math.MaxUint32), ErrInvalid, "of 262"},
		{"negative eot", tinyBytes, "tokenizer.ggml.eot_token_id", int32(-1), ErrInvalid, "token -1"},
		{"eom of another kind", tinyBytes, "tokenizer.ggml.eom_token_id", "x", gguf.ErrKind, ""},
		{"add_bos of another kind", tinyBytes, "tokenizer.ggml.add_bos_token", "x", gguf.ErrKind, ""},
		{"add_eos of another kind", tinyBytes, "tokenizer.ggml.add_eos_token", "x", gguf.ErrKind, ""},
		{"long special token", tinyBytes, keyTokens, append(tinyTokens()[:261], strings.Repeat("x", maxAdded+1)), ErrInvalid, "1025 bytes"},
		{"no scores", tinyMarks, keyScores, nil, ErrInvalid, "no such key"},
		{"few scores", tinyMarks, keyScores, []float32{1}, ErrInvalid, "1 elements"},
		{"scores of another kind", tinyMarks, keyScores, slices.Repeat([]string{"x"}, 276), gguf.ErrKind, ""},
		{"no number", tinyMarks, keyScores, slices.Repeat([]float32{float32(math.NaN())}, 276), ErrInvalid, "token 0 is no number"},
		{"prefix of another kind", tinyMarks, "tokenizer.ggml.add_space_prefix", "x", gguf.ErrKind, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			values := c.base()
			values[c.key] = c.value
			if c.value == nil {
				delete(values, c.key)
			}
			_, err := FromGGUF(metadataFile(t, values))
			var e *Error
			if !errors.As(err, &e) || e.Where != c.key || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %s: %s (%v)", err, c.key, c.want, c.kind)
			}
		})
	}
}

// TestTinyGGUF looks at all that a tokenizer says of itself.
func TestTinyGGUF(t *testing.T) {
	tok := fromValues(t, tinyBytes())
	if id, ok := tok.BOS(); id != 259 || !ok {
		t.Errorf("BOS %d, %v", id, ok)
	}
	if id, ok := tok.EOS(); id != 260 || !ok {
		t.Errorf("EOS %d, %v", id, ok)
	}
	if tok.Size() != 262 || tok.AddsBOS() || tok.AddsEOS() {
		t.Errorf("size %d, BOS %v, EOS %v", tok.Size(), tok.AddsBOS(), tok.AddsEOS())
	}
	// <|im_end|> is said to be a normal token; its spelling says more.
	if got := tok.Ends(); !slices.Equal(got, []int32{260}) {
		t.Errorf("ends %v", got)
	}
	for id, want := range map[int32]bool{260: true, 259: true, 261: false, 97: false} {
		if tok.Control(id) != want {
			t.Errorf("control token %d: %v", id, !want)
		}
	}
	for _, id := range []int32{-1, 262, math.MaxInt32, math.MinInt32} {
		if tok.Bytes(id) != nil || tok.Piece(id) != "" || tok.Control(id) || len(tok.Decoder().Next(id)) != 0 {
			t.Errorf("token %d exists", id)
		}
	}
	if id, ok := tok.Lookup("Ġa"); id != 258 || !ok || string(tok.Bytes(id)) != " a" || tok.Piece(id) != "Ġa" {
		t.Errorf("Lookup %d, %v", id, ok)
	}
	if _, ok := tok.Lookup("nothing"); ok {
		t.Error("Lookup finds what is not there")
	}
	if _, ok := tok.Lookup(""); ok {
		t.Error("Lookup finds a token without a name")
	}
	if tok.Bytes(259) != nil || string(tok.Bytes(261)) != "<user>" {
		t.Errorf("bytes of <s> %q, of <user> %q", tok.Bytes(259), tok.Bytes(261))
	}
}

// TestAddsBOS: what a file says goes before what its family does.
func TestAddsBOS(t *testing.T) {
	values := tinyBytes()
	values[keyPre] = "llama-bpe"
	tok := fromValues(t, values)
	if got := tok.Encode("ab", Options{BOS: true}); !tok.AddsBOS() || !slices.Equal(got, []int32{259, 256}) {
		t.Errorf("Llama 3: %v", got)
	}
	if got := tok.Encode("ab", Options{}); !slices.Equal(got, []int32{256}) {
		t.Errorf("without BOS: %v", got)
	}
	if got := tok.Encode("", Options{BOS: true}); !slices.Equal(got, []int32{259}) {
		t.Errorf("nothing: %v", got)
	}
	values["tokenizer.ggml.add_bos_token"] = false
	if tok := fromValues(t, values); tok.AddsBOS() || len(tok.Encode("ab", Options{BOS: true})) != 1 {
		t.Error("add_bos_token = false is not heard")
	}
	delete(values, "tokenizer.ggml.add_bos_token")
	delete(values, "tokenizer.ggml.bos_token_id")
	if tok := fromValues(t, values); tok.AddsBOS() {
		t.Error("a token that does not exist is added")
	}
}

// TestPlainText: no text that users write becomes a control token, neither found nor merged.
func TestPlainText(t *testing.T) {
	for name, values := range map[string]map[string]any{"bytes": tinyBytes(), "marks": tinyMarks()} {
		t.Run(name, func(t *testing.T) {
			if name == "bytes" {
				values[keyMerges] = []string{"a b", "< s", "<s >"}
				values[keyTokens] = append(values[keyTokens].([]string), "<s")
				values[keyKinds] = append(values[keyKinds].([]int32), 1)
			}
			tok := fromValues(t, values)
			for id := range int32(tok.Size()) {
				if !tok.Control(id) {
					continue
				}
				spelling := tok.Piece(id)
				if got := tok.Encode("a"+spelling+"b", Options{}); slices.Contains(got, id) {
					t.Errorf("%q becomes %v", spelling, got)
				}
				if got := tok.Encode("a"+spelling+"b", Options{Special: true}); !slices.Contains(got, id) {
					t.Errorf("%q is not found: %v", spelling, got)
				}
			}
		})
	}
}

// TestByteSpelling: the spelling of a byte token is text like any other.
func TestByteSpelling(t *testing.T) {
	tok := fromValues(t, tinyMarks())
	id, ok := tok.Lookup("<0x41>")
	if !ok || slices.Contains(tok.Encode("<0x41>", Options{Special: true}), id) {
		t.Errorf("token %d, %v", id, ok)
	}
	if got := tok.Encode("A", Options{}); !slices.Contains(got, id) {
		t.Errorf("A is %v, without %d", got, id)
	}
	if string(tok.Bytes(id)) != "A" {
		t.Errorf("<0x41> stands for %q", tok.Bytes(id))
	}
}

// TestPseudoCharacters: x and y are no tokens, but xy is.
func TestPseudoCharacters(t *testing.T) {
	tok := fromValues(t, tinyMarks())
	xy, _ := tok.Lookup("xy")
	x, _ := tok.Lookup(bytePiece('x'))
	mark, _ := tok.Lookup("▁")
	for text, want := range map[string][]int32{"xy": {mark, xy}, "xx": {mark, x, x}, "xxyx": {mark, x, xy, x}} {
		if got := tok.Encode(text, Options{}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestEnds looks for the tokens after which generation ends, in real vocabularies.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		path string
		want []string
	}{
		{"vocab:llama-bpe", []string{"<|end_of_text|>", "<|eot_id|>"}},
		{"vocab:qwen2", []string{"<|endoftext|>", "<|im_end|>"}},
		{"vocab:llama-spm", []string{"</s>"}},
		{"vocab:phi-3", []string{"<|endoftext|>", "<|end|>"}},
		{"vocab:gemma-4", []string{"<eos>", "<|tool_response>", "<turn|>"}},
		{"vocab:deepseek-llm", []string{"<｜end▁of▁sentence｜>"}},
		{"vocab:falcon", []string{"<|endoftext|>"}},
		{"STOKER_TEST_MODEL_CHAT", []string{"<|endoftext|>", "<|im_end|>", "<reponame>"}},
		{"STOKER_TEST_MODEL_BASE", []string{"<eos>", "<end_of_turn>"}},
	} {
		t.Run(c.path, func(t *testing.T) {
			rc := referenceCase{GGUF: c.path}
			tok := load(t, rc.ggufPath(t))
			if got := pieces(tok, tok.Ends()); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestConcurrentEncode: many goroutines share a tokenizer and its cache. The race detector watches.
func TestConcurrentEncode(t *testing.T) {
	tok := fromValues(t, tinyBytes())
	texts := testStrings(t, 300)
	want := make([][]int32, len(texts))
	for i, s := range texts {
		want[i] = tok.Encode(s, Options{})
	}
	shared := fromValues(t, tinyBytes())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range texts {
				k := (i*(2*g+1) + g) % len(texts)
				if got := shared.Encode(texts[k], Options{}); !slices.Equal(got, want[k]) {
					t.Errorf("%q: %v, want %v", texts[k], got, want[k])
				}
			}
		})
	}
	wg.Wait()
}
