package weights_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/cpu"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/kv"
	"github.com/stoker-llm/stoker/internal/lm/pool"
	"github.com/stoker-llm/stoker/internal/lm/tensor"
	"github.com/stoker-llm/stoker/internal/lm/weights"
	"github.com/stoker-llm/stoker/internal/models/gguf"
)

func tiny(t *testing.T, arch string) string {
	t.Helper()
	dir := os.Getenv("STOKER_TEST_TINY")
	if dir == "" {
		t.Fatal("STOKER_TEST_TINY is not set: run `make test`, or set it to what `go run ./test/assets path tiny` prints")
	}
	return filepath.Join(dir, "tiny-"+arch+".gguf")
}

// logits computes some tokens with the model at path.
func logits(t *testing.T, path string) []float32 {
	t.Helper()
	f, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := f.Program(kernel.Exact)
	if err != nil {
		t.Fatal(err)
	}
	workers := pool.New(1)
	defer workers.Close()
	w, err := cpu.Load(t.Context(), p, cpu.LoadOptions{Pool: workers})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Free()
	c, err := kv.New(kv.Shape{Layers: p.Config.Layers, Heads: p.Config.KVHeads, HeadDim: p.Config.HeadDim}, 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Free()
	m, err := cpu.New(p, cpu.Options{Set: kernel.Sets()[0], Pool: workers, KV: c, MaxRows: 128, MaxLogits: 1, MaxContext: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	seq := c.Private()
	if err := seq.Grow(100); err != nil {
		t.Fatal(err)
	}
	tokens := make([]int32, 100)
	for i := range tokens {
		tokens[i] = int32(i*7919+13) % int32(p.Config.Vocab)
	}
	return slices.Clone(m.Run(&cpu.Batch{Spans: []cpu.Span{{Tokens: tokens, Pages: seq.Pages(), Logits: 1}}}, nil))
}

// TestFolderIsTheSameModel writes each tiny GGUF model as a Hugging Face folder, with the names, row order and norms of such, and
// wants the same bits.
func TestFolderIsTheSameModel(t *testing.T) {
	for _, arch := range []string{"llama", "qwen2", "qwen3", "gemma3"} {
		t.Run(arch, func(t *testing.T) {
			dir := t.TempDir()
			convert(t, tiny(t, arch), arch, dir)
			want, got := logits(t, tiny(t, arch)), logits(t, dir)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("logit %d is %v from the folder, %v from the file", i, got[i], want[i])
				}
			}
		})
	}
}

// convert writes a GGUF model as a folder in float32.
func convert(t *testing.T, path, arch, dir string) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Map(); err != nil {
		t.Fatal(err)
	}
	num := func(key string) int64 {
		n, err := f.Int(arch + "." + key)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	base, err := f.Float(arch + ".rope.freq_base")
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{
		"model_type": map[string]string{"gemma3": "gemma3_text"}[arch], "hidden_size": num("embedding_length"), "num_hidden_layers": num("block_count"),
		"intermediate_size": num("feed_forward_length"), "num_attention_heads": num("attention.head_count"),
		"num_key_value_heads": num("attention.head_count_kv"), "head_dim": num("attention.key_length"), "rms_norm_eps": 1e-6,
		"max_position_embeddings": num("context_length"), "rope_theta": base, "tie_word_embeddings": true, "hidden_act": "silu",
	}
	if arch == "gemma3" {
		config["hidden_act"], config["sliding_window"], config["rope_local_base_freq"] = "gelu_pytorch_tanh", num("attention.sliding_window"), 10000.0
		config["query_pre_attn_scalar"], config["sliding_window_pattern"] = num("attention.key_length"), 6
	} else {
		config["model_type"] = arch
	}
	var tensors []floatTensor
	for _, tn := range f.Tensors() {
		x := read(t, f, tn)
		switch {
		case arch == "llama" && (strings.HasSuffix(tn.Name, "attn_q.weight") || strings.HasSuffix(tn.Name, "attn_k.weight")):
			x.rows = apart(x, int(num("attention.key_length")))
		case arch == "gemma3" && strings.Contains(tn.Name, "norm"):
			for i := range x.rows[0] {
				x.rows[0][i]--
			}
		}
		if tn.Name == "token_embd.weight" {
			config["vocab_size"] = len(x.rows)
		}
		x.name = theirs(tn.Name, arch)
		tensors = append(tensors, x)
	}
	writeSafetensors(t, filepath.Join(dir, "model.safetensors"), tensors)
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// theirs is Hugging Face's name, spelled out again so that a slip in the table shows.
func theirs(name, arch string) string {
	r := strings.NewReplacer(
		"token_embd", "model.embed_tokens", "output_norm", "model.norm", "blk.", "model.layers.", "attn_q_norm", "self_attn.q_norm", "attn_k_norm",
		"self_attn.k_norm", "attn_norm", "input_layernorm", "attn_q", "self_attn.q_proj", "attn_k", "self_attn.k_proj", "attn_v", "self_attn.v_proj",
		"attn_output", "self_attn.o_proj", "ffn_gate", "mlp.gate_proj", "ffn_up", "mlp.up_proj", "ffn_down", "mlp.down_proj",
	).Replace(name)
	if arch == "gemma3" {
		return strings.NewReplacer("post_attention_norm", "post_attention_layernorm", "post_ffw_norm", "post_feedforward_layernorm",
			"ffn_norm", "pre_feedforward_layernorm").Replace(r)
	}
	return strings.ReplaceAll(r, "ffn_norm", "post_attention_layernorm")
}

type floatTensor struct {
	name string
	rows [][]float32
	flat bool
}

func read(t *testing.T, f *gguf.File, tn gguf.Tensor) floatTensor {
	t.Helper()
	b, err := f.Bytes(tn)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]float32, tn.Elements())
	if err := tensor.Dequantize(tn.Type, b, all); err != nil {
		t.Fatal(err)
	}
	x := floatTensor{flat: len(tn.Dims) == 1}
	for n := int(tn.Dims[0]); len(all) > 0; all = all[n:] {
		x.rows = append(x.rows, all[:n])
	}
	return x
}

// apart puts a head's rows, which lie as pairs, into two halves.
func apart(x floatTensor, dim int) [][]float32 {
	var out [][]float32
	for h := 0; h < len(x.rows); h += dim {
		for a := range 2 {
			for j := range dim / 2 {
				out = append(out, x.rows[h+2*j+a])
			}
		}
	}
	return out
}

func writeSafetensors(t *testing.T, path string, tensors []floatTensor) {
	t.Helper()
	header, data := map[string]any{}, []byte(nil)
	for _, x := range tensors {
		begin := len(data)
		for _, row := range x.rows {
			for _, v := range row {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			}
		}
		shape := []int{len(x.rows), len(x.rows[0])}
		if x.flat {
			shape = shape[1:]
		}
		header[x.name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{begin, len(data)}}
	}
	h, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(h)))
	if err := os.WriteFile(path, append(append(out, h...), data...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	folder := func(config string) string {
		d := t.TempDir()
		writeSafetensors(t, filepath.Join(d, "model.safetensors"), []floatTensor{{name: "x", rows: [][]float32{{1}}}})
		if err := os.WriteFile(filepath.Join(d, "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		return d
	}
	text := filepath.Join(dir, "text.gguf")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		kind       infer.ErrorKind
		want       string
	}{
		{"nothing there", filepath.Join(dir, "none"), infer.ErrInvalid, "no such file"},
		{"a text file", text, infer.ErrInvalid, "GGUF"},
		{"an empty folder", dir, infer.ErrInvalid, "config.json"},
		{"an unknown type", folder(`{"model_type":"mamba"}`), infer.ErrUnsupported, `"mamba"; it knows llama, qwen2, qwen3, gemma3`},
		{"experts", folder(`{"model_type":"llama","num_hidden_layers":1,"num_experts":8}`), infer.ErrUnsupported, "8 experts"},
		{"no shape", folder(`{"model_type":"llama"}`), infer.ErrUnsupported, "number of layers is 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := weights.Open(tt.path)
			if err == nil {
				_, err = f.Program(kernel.Exact)
			}
			if infer.KindOf(err) != tt.kind || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%v (%s), want %q in one of kind %s", err, infer.KindOf(err), tt.want, tt.kind)
			}
		})
	}
}

// TestRopeScaling checks the three ranges of Llama 3.1 8B's scaling, and a linear one.
func TestRopeScaling(t *testing.T) {
	llama3 := block.Rope{Base: 500000, Dim: 128, Scaling: block.Scaling{Type: "llama3", Factor: 8, LowFreq: 1, HighFreq: 4, Original: 8192}}.InvFreq()
	plain := block.Rope{Base: 500000, Dim: 128}.InvFreq()
	for i, f := range llama3 {
		wave := 2 * math.Pi / float64(plain[i])
		switch {
		case wave < 2048 && f != plain[i]:
			t.Errorf("frequency %d of wavelength %g changed from %g to %g", i, wave, plain[i], f)
		case wave > 8192 && math.Abs(float64(f)*8/float64(plain[i])-1) > 1e-6:
			t.Errorf("frequency %d of wavelength %g is %g, want an eighth of %g", i, wave, f, plain[i])
		case wave >= 2048 && wave <= 8192 && (f > plain[i] || f < plain[i]/8):
			t.Errorf("frequency %d of wavelength %g is %g, want between %g and an eighth of it", i, wave, f, plain[i])
		}
	}
	linear := block.Rope{Base: 10000, Dim: 64, Scaling: block.Scaling{Type: "linear", Factor: 4}}.InvFreq()
	if linear[0] != 0.25 {
		t.Errorf("the first linear frequency is %v, want a quarter", linear[0])
	}
}
