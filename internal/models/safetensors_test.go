package models

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/models/safetensors"
)

// st is a tensor of a safetensors file.
type st struct {
	name, dtype string
	shape       []int64
	size        int64
}

// encodeST makes a safetensors file.
func encodeST(tb testing.TB, tensors ...st) []byte {
	tb.Helper()
	header := map[string]any{"__metadata__": map[string]string{"format": "mlx"}}
	var off int64
	for _, t := range tensors {
		header[t.name] = map[string]any{"dtype": t.dtype, "shape": t.shape, "data_offsets": []int64{off, off + t.size}}
		off += t.size
	}
	text, err := json.Marshal(header)
	must(tb, err)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(b, text...), make([]byte, off)...)
}

const smallConfig = `{"model_type":"llama","max_position_embeddings":2048,"hidden_size":128,"num_hidden_layers":2,
	"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":320`

func TestInspectMLXFolder(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "config.json"), []byte(smallConfig+`,"quantization":{"group_size":64,"bits":4,"embed":{"bits":8,"group_size":64}}}`))
	one := encodeST(t, st{"embed.weight", "U32", []int64{4, 32}, 512}, st{"embed.scales", "BF16", []int64{4, 2}, 16}, st{"embed.biases", "BF16", []int64{4, 2}, 16})
	two := encodeST(t, st{"q.weight", "U32", []int64{256, 16}, 16384}, st{"q.scales", "BF16", []int64{256, 2}, 1024},
		st{"q.biases", "BF16", []int64{256, 2}, 1024}, st{"q.bias", "BF16", []int64{256}, 512}, st{"norm.weight", "BF16", []int64{128}, 256})
	first := put(t, filepath.Join(dir, "model-00001-of-00002.safetensors"), one)
	second := put(t, filepath.Join(dir, "model-00002-of-00002.safetensors"), two)
	put(t, filepath.Join(dir, "optimizer.safetensors"), []byte("not part of the model"))
	put(t, filepath.Join(dir, "tokenizer_config.json"), []byte(`{"tokenizer_class":"GPT2Tokenizer","chat_template":"old"}`))
	put(t, filepath.Join(dir, "chat_template.jinja"), []byte("new"))
	want := &Info{
		Path: dir, Format: FormatSafetensors, Files: []string{first, second}, FileBytes: int64(len(one) + len(two)),
		Architecture: "llama", Tensors: 8, TensorBytes: 544 + 19200, Parameters: 4*128 + 256*128 + 256 + 128,
		Quantization: Quantization{
			Name: "affine 4 bit g64",
			Types: []TypeCount{
				{"affine 4 bit g64", 1, 256 * 128, 16384}, {"affine 8 bit g64", 1, 4 * 128, 512}, {"BF16", 2, 384, 768}, {"BF16 scales", 4, 0, 2080},
			},
			MLX: &MLXQuantization{Method: "mlx", Mode: "affine", Bits: 4, GroupSize: 64, Overrides: 1},
		},
		TrainedContext: 2048, Embedding: 128, Layers: 2, Heads: 4, KVHeads: 2, KeyHeadSize: 32, ValueHeadSize: 32,
		Vocab: Vocab{Model: "GPT2Tokenizer", Size: 320}, HasChatTemplate: true, ChatTemplate: "new",
		KV: KV{FullLayers: 2, FullKeys: 128, FullValues: 128}, KVBytesPerToken: 512,
	}
	if diff := cmp.Diff(want, inspect(t, dir)); diff != "" {
		t.Errorf("without an index (-want +got):\n%s", diff)
	}
	put(t, filepath.Join(dir, safetensors.IndexName), []byte(`{"weight_map":{"q.weight":"model-00002-of-00002.safetensors","embed.weight":"model-00001-of-00002.safetensors"}}`))
	if diff := cmp.Diff(want, inspect(t, dir)); diff != "" {
		t.Errorf("with an index (-want +got):\n%s", diff)
	}
	must(t, os.Remove(second))
	if _, err := Inspect(dir); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "model-00002-of-00002.safetensors") {
		t.Errorf("a file missing: %v, want an error that names it", err)
	}
}

func TestInspectSafetensorsFile(t *testing.T) {
	path := put(t, filepath.Join(t.TempDir(), "model.safetensors"), encodeST(t, st{"a", "F32", []int64{4}, 16}, st{"b.weight", "F16", []int64{2, 4}, 16}))
	got := inspect(t, path)
	if got.Format != FormatSafetensors || got.Parameters != 12 || got.Quantization.Name != "F16" || got.Architecture != "" || got.Quantization.MLX != nil {
		t.Errorf("info %+v: want 12 parameters, most of them F16, and no architecture", got)
	}
	put(t, filepath.Join(filepath.Dir(path), "config.json"), []byte(smallConfig+"}"))
	if got := inspect(t, path); got.Architecture != "llama" || got.Layers != 2 {
		t.Errorf("with a config beside it: %+v", got)
	}
}

func TestInspectFolderRefuses(t *testing.T) {
	tensor := encodeST(t, st{"a", "F32", []int64{4}, 16})
	tests := []struct {
		name  string
		files map[string]string
		kind  error
		word  string
	}{
		{"nothing", nil, ErrNotAModel, "model*.safetensors"},
		{"a broken config", map[string]string{"model.safetensors": string(tensor), "config.json": "{"}, safetensors.ErrInvalid, "config.json"},
		{"a broken index", map[string]string{"model.safetensors": string(tensor), safetensors.IndexName: "{}"}, safetensors.ErrInvalid, "weight_map"},
		{"a broken header", map[string]string{"model.safetensors": "????????????"}, safetensors.ErrInvalid, "model.safetensors"},
		{"a cut file", map[string]string{"model.safetensors": string(tensor[:len(tensor)-1])}, safetensors.ErrTruncated, "model.safetensors"},
		{"a tensor in two files", map[string]string{"model-1.safetensors": string(tensor), "model-2.safetensors": string(tensor)}, safetensors.ErrInvalid, `"a"`},
		{"a broken tokenizer", map[string]string{"model.safetensors": string(tensor), "tokenizer_config.json": "["}, safetensors.ErrInvalid, "tokenizer_config.json"},
		{"a template that is none", map[string]string{"model.safetensors": string(tensor), "tokenizer_config.json": `{"chat_template":5}`}, safetensors.ErrInvalid, "chat_template"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				put(t, filepath.Join(dir, name), []byte(text))
			}
			if info, err := Inspect(dir); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.word) {
				t.Errorf("%+v, error %v; want %v that says %q", info, err, tt.kind, tt.word)
			}
		})
	}
}

func TestConfigKV(t *testing.T) {
	tests := []struct {
		name string
		c    safetensors.Config
		want KV
	}{
		{
			"layers by name",
			safetensors.Config{
				Layers: 4, KVHeads: 2, HeadDim: 8, SlidingWindow: 128,
				LayerTypes: []string{"sliding_attention", "full_attention", "linear_attention", "sliding_attention"},
			},
			KV{FullLayers: 1, SlidingLayers: 2, FixedLayers: 1, FullKeys: 16, FullValues: 16, SlidingKeys: 32, SlidingValues: 32, SlidingWindow: 128},
		},
		{
			"layers by interval",
			safetensors.Config{Layers: 8, KVHeads: 2, HeadDim: 8, FullInterval: 4},
			KV{FullLayers: 2, FixedLayers: 6, FullKeys: 32, FullValues: 32},
		},
		{
			"sliding by period",
			safetensors.Config{Layers: 6, KVHeads: 1, HeadDim: 8, SlidingWindow: 64, SlidingPeriod: 6},
			KV{FullLayers: 1, SlidingLayers: 5, FullKeys: 8, FullValues: 8, SlidingKeys: 40, SlidingValues: 40, SlidingWindow: 64},
		},
		{
			"a window without a pattern counts as full",
			safetensors.Config{Layers: 2, KVHeads: 1, HeadDim: 8, SlidingWindow: 64},
			KV{FullLayers: 2, FullKeys: 16, FullValues: 16},
		},
		{"a latent", safetensors.Config{Layers: 2, KVHeads: 128, HeadDim: 8, KVLoraRank: 512, RopeHeadDim: 64}, KV{FullLayers: 2, FullKeys: 1152}},
		{"shared layers", safetensors.Config{Layers: 3, KVHeads: 1, HeadDim: 8, SharedKVLayers: 2}, KV{FullLayers: 1, FixedLayers: 2, FullKeys: 8, FullValues: 8}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var info Info
			describeConfig(&info, &tt.c)
			if diff := cmp.Diff(tt.want, info.KV); diff != "" {
				t.Errorf("KV (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamedTemplates(t *testing.T) {
	var info Info
	must(t, describeTokenizerConfig(&info, []byte(`{"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]}`)))
	if info.ChatTemplate != "D" || !cmp.Equal(info.TemplateNames, []string{"tool_use"}) {
		t.Errorf("template %q, names %v", info.ChatTemplate, info.TemplateNames)
	}
	info = Info{}
	must(t, describeTokenizerConfig(&info, []byte(`{"chat_template":null}`)))
	if info.ChatTemplate != "" {
		t.Errorf("a template out of nothing: %q", info.ChatTemplate)
	}
}

func FuzzTokenizerConfig(f *testing.F) {
	f.Add([]byte(`{"tokenizer_class":"X","chat_template":"T"}`))
	f.Add([]byte(`{"chat_template":[{"name":"default","template":"D"},null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var info Info
		if err := describeTokenizerConfig(&info, text); err != nil && !errors.Is(err, safetensors.ErrInvalid) {
			t.Errorf("error %v is not ErrInvalid", err)
		}
	})
}
