package tiny

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// vocabulary is a vocabulary file with one key of each type that the real ones have.
func vocabulary(t *testing.T) *gguf.File {
	t.Helper()
	w := gguf.NewWriter()
	for _, f := range []field{
		{"general.architecture", "llama"},
		{"llama.block_count", uint32(32)},
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.tokens", []string{"a", "b", "<eos>"}},
		{"tokenizer.ggml.scores", []float32{0, -1, -2}},
		{"tokenizer.ggml.token_type", []int32{1, 1, 3}},
		{"tokenizer.ggml.eos_token_id", uint32(2)},
		{"tokenizer.ggml.add_bos_token", true},
		{"tokenizer.chat_template", "the vocabulary's own"},
	} {
		if err := w.Set(f.key, f.value); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return parse(t, b.Bytes())
}

func parse(t *testing.T, b []byte) *gguf.File {
	t.Helper()
	f, err := gguf.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, m Model, template string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, m, vocabulary(t), template); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestVocabularyIsCopiedWithItsTypes(t *testing.T) {
	from := vocabulary(t)
	f := parse(t, write(t, Models()[0], "the model's"))
	for _, key := range from.Keys() {
		if !strings.HasPrefix(key, "tokenizer.ggml.") {
			continue
		}
		want, err := value(from, key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := value(f, key)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	if got, err := f.String("tokenizer.chat_template"); err != nil || got != "the model's" {
		t.Errorf("chat template %q, %v", got, err)
	}
}

func TestWithoutTemplateThereIsNone(t *testing.T) {
	f := parse(t, write(t, Models()[0], ""))
	if slices.Contains(f.Keys(), "tokenizer.chat_template") {
		t.Error("a model without a template has the vocabulary's")
	}
}

func TestHeaderAndTensors(t *testing.T) {
	for _, m := range Models() {
		t.Run(m.Arch, func(t *testing.T) {
			f := parse(t, write(t, m, ""))
			if got, err := f.String("general.architecture"); err != nil || got != m.Arch {
				t.Errorf("architecture %q, %v", got, err)
			}
			if got, err := f.Int(m.Arch + ".block_count"); err != nil || got != m.Layers {
				t.Errorf("layers %d, %v", got, err)
			}
			shapes := map[string][]int64{
				"token_embd.weight":        {m.Hidden, 3},
				"blk.0.attn_q.weight":      {m.Hidden, m.Heads * m.HeadSize},
				"blk.1.attn_k.weight":      {m.Hidden, m.KVHeads * m.HeadSize},
				"blk.1.attn_output.weight": {m.Heads * m.HeadSize, m.Hidden},
				"blk.1.ffn_down.weight":    {m.FFN, m.Hidden},
			}
			for name, want := range shapes {
				tensor, ok := f.Tensor(name)
				if !ok || !slices.Equal(tensor.Dims, want) {
					t.Errorf("%s: %v, %v, want %v", name, tensor.Dims, ok, want)
				}
			}
			for name, want := range map[string]bool{
				"blk.0.attn_q.bias":                m.QKVBias,
				"blk.0.attn_q_norm.weight":         m.QKNorm,
				"blk.0.post_attention_norm.weight": m.PostNorm,
			} {
				if _, got := f.Tensor(name); got != want {
					t.Errorf("has %s: %v, want %v", name, got, want)
				}
			}
		})
	}
}

// The files of one Version are the same everywhere and for ever: caches rely on
// it. Whoever means to change them raises Version and pins the new sum.
func TestSameBytesEveryTime(t *testing.T) {
	const version, want = 1, "704d3d7b83e84fd2063f84e9e8ac82b35907a2198d5e1b7e6dc8731ec8c6abe6"
	h := sha256.New()
	for _, m := range Models() {
		b := write(t, m, "template")
		if !bytes.Equal(b, write(t, m, "template")) {
			t.Errorf("%s differs from one time to the next", m.Arch)
		}
		h.Write(b)
	}
	if got := hex.EncodeToString(h.Sum(nil)); Version != version || got != want {
		t.Errorf("version %d writes %s; version %d wrote %s", Version, got, version, want)
	}
}

func TestModelsDiffer(t *testing.T) {
	a := write(t, Models()[0], "")
	m := Models()[0]
	m.Arch = "other"
	if f, g := parse(t, a), parse(t, write(t, m, "")); bytes.Equal(data(t, f, "token_embd.weight"), data(t, g, "token_embd.weight")) {
		t.Error("two models have the same weights")
	}
}

func data(t *testing.T, f *gguf.File, name string) []byte {
	t.Helper()
	tensor, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	b := make([]byte, tensor.Size)
	if _, err := f.Data(tensor).ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHalf(t *testing.T) {
	tests := []struct {
		in   float32
		want uint16
	}{
		{0, 0},
		{1, 0x3c00},
		{-2, 0xc000},
		{0.1, 0x2e66},
		{65504, 0x7bff},
		{1 + 1.0/2048, 0x3c00},        // a tie goes to the even neighbour, below
		{1 + 3.0/2048, 0x3c02},        // and here above
		{1 + 1.0/2048 + 1e-6, 0x3c01}, // more than a tie
		{2 - 1.0/4096, 0x4000},        // carries into the exponent
		{1e-6, 0},                     // below the smallest normal number
	}
	for _, tt := range tests {
		if got := half(tt.in); got != tt.want {
			t.Errorf("half(%v) = %#04x, want %#04x", tt.in, got, tt.want)
		}
	}
}

func TestQ8IsWithinHalfAStep(t *testing.T) {
	block := make([]float32, 32)
	for i := range block {
		block[i] = float32(math.Sin(float64(i)))
	}
	b := encodeQ8(nil, block)
	if len(b) != 34 {
		t.Fatalf("%d bytes, want 34", len(b))
	}
	scale := float32(math.Abs(math.Sin(11))) / 127 // 11 radians has the largest sine of these
	if got := binary.LittleEndian.Uint16(b); got != half(scale) {
		t.Errorf("scale %#04x, want %#04x", got, half(scale))
	}
	for i, v := range block {
		back := float32(int8(b[2+i])) * scale
		if diff := math.Abs(float64(back - v)); diff > float64(scale)*0.51 {
			t.Errorf("element %d: %v became %v", i, v, back)
		}
	}
	if zero := encodeQ8(nil, make([]float32, 32)); !bytes.Equal(zero, make([]byte, 34)) {
		t.Errorf("zeros became %v", zero)
	}
}

func TestQ4IsWithinAStep(t *testing.T) {
	block := make([]float32, 32)
	for i := range block {
		block[i] = float32(math.Cos(float64(i)))
	}
	b := encodeQ4(nil, block)
	if len(b) != 18 {
		t.Fatalf("%d bytes, want 18", len(b))
	}
	const scale = -1.0 / 8 // the largest is cos 0
	if got := binary.LittleEndian.Uint16(b); got != half(scale) {
		t.Errorf("scale %#04x, want %#04x", got, half(scale))
	}
	for i, v := range block {
		q := b[2+i%16] & 15
		if i >= 16 {
			q = b[2+i%16] >> 4
		}
		if back := float32(int(q)-8) * scale; math.Abs(float64(back-v)) > 1.0/8 {
			t.Errorf("element %d: %v became %v", i, v, back)
		}
	}
}

func TestUnsuitableVocabularyIsRefused(t *testing.T) {
	w := gguf.NewWriter()
	if err := w.Set("tokenizer.ggml.odd", []float64{1}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	err := Write(&bytes.Buffer{}, Models()[0], parse(t, b.Bytes()), "")
	if err == nil || !strings.Contains(err.Error(), "tokenizer.ggml.odd") {
		t.Errorf("got %v, want an error that names the key", err)
	}
}

// The real engine is the judge of whether these are models. llama-bench loads one,
// reads a prompt and generates, and then ends by itself.
func TestRealEngineRunsThem(t *testing.T) {
	dir, server := needed(t, "STOKER_TEST_TINY"), needed(t, "STOKER_TEST_LLAMA_SERVER")
	bench := filepath.Join(filepath.Dir(server), "llama-bench")
	for _, m := range Models() {
		t.Run(m.Arch, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), bench, "-m", filepath.Join(dir, m.File()),
				"-p", "80", "-n", "4", "-r", "1", "-t", "1", "--no-warmup", "-o", "json")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			var runs []struct {
				Model  string `json:"model_type"`
				Prompt int    `json:"n_prompt"`
				Gen    int    `json:"n_gen"`
			}
			if err := json.Unmarshal(out, &runs); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if len(runs) != 2 || runs[0].Prompt != 80 || runs[1].Gen != 4 || !strings.HasPrefix(runs[0].Model, m.Arch) {
				t.Errorf("llama-bench reports %+v", runs)
			}
		})
	}
}

// needed returns the path that `make test` sets in the variable.
func needed(t *testing.T, name string) string {
	t.Helper()
	if path := os.Getenv(name); path != "" {
		return path
	}
	if testing.Short() {
		t.Skipf("%s is not set, and -short is", name)
	}
	t.Fatalf("%s is not set: run `make test`, or set it to what `go run ./test/assets path` prints", name)
	return ""
}
