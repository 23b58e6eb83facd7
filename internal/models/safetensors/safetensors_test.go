package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// file makes a safetensors file of a header and n bytes of data.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func read(b []byte) (*Header, error) { return Read(bytes.NewReader(b), int64(len(b))) }

const good = `{"__metadata__":{"format":"mlx"},"b":{"dtype":"U32","shape":[2,1],"data_offsets":[4,12]},` +
	`"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"none":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]}}  `

func TestRead(t *testing.T) {
	got, err := read(file(good, 12))
	if err != nil {
		t.Fatal(err)
	}
	want := &Header{
		Tensors: []Tensor{
			{"a", "F16", []int64{2}, 0, 4}, {"none", "F32", []int64{0, 7}, 4, 0}, {"b", "U32", []int64{2, 1}, 4, 8},
		},
		Metadata:   map[string]string{"format": "mlx"},
		DataOffset: 8 + int64(len(good)),
		Size:       8 + int64(len(good)) + 12,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if n := got.Tensors[2].Elements(); n != 2 {
		t.Errorf("b has %d elements, want 2", n)
	}
}

// one makes the header of a file of one tensor.
func one(dtype, shape, offsets string) string {
	return `{"t":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}}`
}

// hostile are files that must be refused.
func hostile() []struct {
	name string
	file []byte
	kind error
	text string
} {
	length := func(n uint64) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), "{}"...) }
	return []struct {
		name string
		file []byte
		kind error
		text string
	}{
		{"empty", nil, ErrTruncated, "0 bytes"},
		{"header of 2^60 bytes", length(1 << 60), ErrInvalid, "1152921504606846976"},
		{"header of 2^64-1 bytes", length(1<<64 - 1), ErrInvalid, "allows"},
		{"header longer than the file", length(90_000_000), ErrTruncated, "90000000"},
		{"no JSON", file("hello", 0), ErrInvalid, "not a JSON object"},
		{"a list", file("[]", 0), ErrInvalid, "not a JSON object"},
		{"JSON without an end", file(`{"a":`, 9), ErrInvalid, "not valid JSON"},
		{"text behind the JSON", file(`{} {}`, 0), ErrInvalid, "behind"},
		{"tensor twice", file(`{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), ErrInvalid, `"t" appears twice`},
		{"a tensor that is a number", file(`{"t":5}`, 0), ErrInvalid, `"t"`},
		{"shape of texts", file(`{"t":{"dtype":"U8","shape":["x"],"data_offsets":[0,1]}}`, 1), ErrInvalid, "shape"},
		{"unknown dtype", file(one("Q4", "[1]", "[0,1]"), 1), ErrInvalid, `"Q4"`},
		{"negative dimension", file(one("U8", "[-1]", "[0,1]"), 1), ErrInvalid, `"t"`},
		{"size that overflows", file(one("U8", "[4294967296,4294967296]", "[0,0]"), 1), ErrInvalid, `"t"`},
		{"overflow behind a zero", file(one("U8", "[0,4294967296,4294967296]", "[0,0]"), 1), ErrInvalid, `"t"`},
		{"no range", file(one("U8", "[1]", "[0]"), 1), ErrInvalid, "not a range"},
		{"backward range", file(one("U8", "[1]", "[1,0]"), 1), ErrInvalid, "not a range"},
		{"negative range", file(one("U8", "[1]", "[-1,0]"), 1), ErrInvalid, "not a range"},
		{"range of another size", file(one("F32", "[1]", "[0,3]"), 4), ErrInvalid, "32 bits"},
		{"cut off", file(one("F32", "[4]", "[0,16]"), 15), ErrTruncated, "15 bytes of data"},
		{"overlap", file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), ErrInvalid, `"b" overlaps`},
		{"metadata of numbers", file(`{"__metadata__":{"a":1}}`, 0), ErrInvalid, "__metadata__"},
	}
}

func TestHostile(t *testing.T) {
	for _, tt := range hostile() {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			h, err := read(tt.file)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatalf("accepted: %+v", h)
			}
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q, want %v that says %q", err, tt.kind, tt.text)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
				t.Errorf("refusing a file of %d bytes took %d bytes of memory", len(tt.file), used)
			}
		})
	}
}

func TestTruncatedAnywhere(t *testing.T) {
	whole := file(good, 12)
	for n := range whole {
		if h, err := read(whole[:n]); !errors.Is(err, ErrTruncated) {
			t.Errorf("cut to %d of %d bytes: %+v, %v; want ErrTruncated", n, len(whole), h, err)
		}
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, file(good, 12), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := Open(path)
	if err != nil || len(h.Tensors) != 3 {
		t.Errorf("Open: %+v, %v; want three tensors", h, err)
	}
	if _, err := Open(path + ".absent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err := Open(filepath.Dir(path)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a folder: %v, want ErrInvalid", err)
	}
}

func TestParseIndex(t *testing.T) {
	got, err := ParseIndex([]byte(`{"metadata":{"total_size":1.2e9,"total_parameters":135000000},
		"weight_map":{"a":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors","c":"model-00001-of-00002.safetensors"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.TotalSize != 1_200_000_000 || got.TotalParameters != 135_000_000 {
		t.Errorf("size %d, parameters %d", got.TotalSize, got.TotalParameters)
	}
	if diff := cmp.Diff([]string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}, got.Files()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"not JSON":             `{`,
		"no tensors":           `{"weight_map":{}}`,
		"a path":               `{"weight_map":{"a":"../../etc/x.safetensors"}}`,
		"an absolute path":     `{"weight_map":{"a":"/x.safetensors"}}`,
		"the folder above":     `{"weight_map":{"a":".."}}`,
		"another kind of file": `{"weight_map":{"a":"model.bin"}}`,
		"numbers":              `{"weight_map":{"a":1}}`,
	} {
		if x, err := ParseIndex([]byte(text)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %+v, %v; want ErrInvalid", name, x, err)
		}
	}
}

func TestParseConfig(t *testing.T) {
	tests := []struct {
		name, text string
		want       Config
	}{
		{
			"llama", `{"model_type":"llama","architectures":["LlamaForCausalLM"],"max_position_embeddings":8192,"hidden_size":576,
			"num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,"vocab_size":49152}`,
			Config{
				ModelType: "llama", Architectures: []string{"LlamaForCausalLM"}, Context: 8192, Hidden: 576, Layers: 30,
				Heads: 9, KVHeads: 3, HeadDim: 64, VocabSize: 49152,
			},
		},
		{
			"KV heads default to heads", `{"hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,"head_dim":null,"sliding_window":null}`,
			Config{Hidden: 64, Layers: 1, Heads: 4, KVHeads: 4, HeadDim: 16},
		},
		{
			"the language part of a model that sees", `{"model_type":"qwen3_5","architectures":["X"],"vision_config":{"hidden_size":1},
			"text_config":{"model_type":"qwen3_5_text","num_hidden_layers":2,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,
			"layer_types":["linear_attention","full_attention"],"num_experts":256,"num_experts_per_tok":8,"mtp_num_hidden_layers":1}}`,
			Config{
				ModelType: "qwen3_5", Architectures: []string{"X"}, Layers: 2, Heads: 8, KVHeads: 2, HeadDim: 256,
				LayerTypes: []string{"linear_attention", "full_attention"}, Experts: 256, ExpertsUsed: 8, MTPLayers: 1,
			},
		},
		{"a window that is not used", `{"sliding_window":4096,"use_sliding_window":false}`, Config{}},
		{"a pattern in letters", `{"sliding_window":4096,"sliding_window_pattern":"LLLG"}`, Config{SlidingWindow: 4096, SlidingPeriod: 4}},
		{
			"a latent", `{"kv_lora_rank":512,"qk_rope_head_dim":64,"n_routed_experts":64,"num_nextn_predict_layers":1}`,
			Config{KVLoraRank: 512, RopeHeadDim: 64, Experts: 64, MTPLayers: 1},
		},
		{
			"MLX", `{"quantization":{"group_size":64,"bits":4,"model.embed":{"bits":8},"lm_head":false,"model.x":true},
			"quantization_config":{"group_size":32,"bits":2}}`,
			Config{Quantization: &Quantization{Method: "mlx", Bits: 4, GroupSize: 64, Mode: "affine", Overrides: map[string]Override{
				"model.embed": {Bits: 8, GroupSize: 64, Mode: "affine"}, "lm_head": {Plain: true}, "model.x": {Bits: 4, GroupSize: 64, Mode: "affine"},
			}}},
		},
		{
			"MLX's mirror alone", `{"quantization_config":{"group_size":32,"bits":4,"mode":"mxfp4"}}`,
			Config{Quantization: &Quantization{Method: "mlx", Bits: 4, GroupSize: 32, Mode: "mxfp4"}},
		},
		{
			"another quantiser", `{"quantization_config":{"quant_method":"awq","bits":4,"group_size":128}}`,
			Config{Quantization: &Quantization{Method: "awq", Bits: 4, GroupSize: 128}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseConfig([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	tests := []struct{ name, text, word string }{
		{"not JSON", `{`, "config.json"},
		{"a number too large", `{"hidden_size":10000000}`, "hidden_size"},
		{"a negative number", `{"num_hidden_layers":-1}`, "num_hidden_layers"},
		{"a text for a number", `{"hidden_size":"x"}`, "hidden_size"},
		{"unknown mode", `{"quantization":{"group_size":64,"bits":4,"mode":"turbo"}}`, "turbo"},
		{"unknown mode of a module", `{"quantization":{"group_size":64,"bits":4,"model.x":{"mode":"jang"}}}`, "model.x"},
		{"odd bits", `{"quantization":{"group_size":64,"bits":7}}`, "7 bits"},
		{"no bits", `{"quantization":{}}`, "0 bits"},
		{"odd group", `{"quantization":{"group_size":3,"bits":4}}`, "group of 3"},
		{"a text", `{"quantization":"mlx"}`, "quantization"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ParseConfig([]byte(tt.text))
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.word) {
				t.Errorf("%+v, error %v; want ErrInvalid that says %q", c, err, tt.word)
			}
		})
	}
}

func TestModule(t *testing.T) {
	q := &Quantization{Method: "mlx", Bits: 4, GroupSize: 64, Mode: "affine", Overrides: map[string]Override{"a": {Plain: true}}}
	if got, want := q.Module("b"), (Override{Bits: 4, GroupSize: 64, Mode: "affine"}); got != want {
		t.Errorf("b: %+v, want %+v", got, want)
	}
	if got, want := q.Module("a"), (Override{Plain: true}); got != want {
		t.Errorf("a: %+v, want %+v", got, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file(good, 12))
	for _, h := range hostile() {
		f.Add(h.file)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := read(b)
		if err != nil {
			return
		}
		var end int64
		for _, tensor := range h.Tensors {
			if tensor.Offset < end || tensor.Size < 0 || tensor.Elements() < 0 || h.DataOffset+tensor.Offset+tensor.Size > int64(len(b)) {
				t.Errorf("tensor %+v does not lie in a file of %d bytes, behind byte %d of the data", tensor, len(b), end)
			}
			end = tensor.Offset + tensor.Size
		}
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"hidden_size":64,"num_attention_heads":4,"layer_types":["a"],"text_config":{"text_config":{}}}`))
	f.Add([]byte(`{"quantization":{"group_size":64,"bits":4,"x":{"bits":8},"y":false}}`))
	f.Add([]byte(`{"quantization_config":{"quant_method":"gptq"},"sliding_window_pattern":"LLLG"}`))
	f.Add([]byte(`{"text_config":null,"quantization":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		if c.Layers < 0 || c.HeadDim < 0 || c.HeadDim > 1<<20 || c.KVHeads < 0 {
			t.Errorf("config %+v makes no sense", c)
		}
		if q := c.Quantization; q != nil && q.Method == "mlx" && (q.Bits < 2 || q.Bits > 8 || q.GroupSize < 16) {
			t.Errorf("quantisation %+v makes no sense", q)
		}
	})
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"model.safetensors"}}`))
	f.Add([]byte(`{"metadata":{"total_size":-1e300},"weight_map":{"a":"../model.safetensors"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := ParseIndex(text)
		if err != nil {
			return
		}
		for _, name := range x.Files() {
			if strings.ContainsAny(name, "/") || name == ".." {
				t.Errorf("file %q leads out of the folder", name)
			}
		}
	})
}
