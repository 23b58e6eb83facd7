package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// keys are metadata of a file; an "A." at the beginning of a key stands for the architecture.
type keys map[string]any

// encode makes a GGUF file of metadata and one tensor.
func encode(tb testing.TB, arch string, ks keys) []byte {
	tb.Helper()
	w := gguf.NewWriter()
	must(tb, w.Set("general.architecture", arch))
	for k, v := range ks {
		if rest, ok := strings.CutPrefix(k, "A."); ok {
			k = arch + "." + rest
		}
		must(tb, w.Set(k, v))
	}
	must(tb, w.Add(gguf.TensorSpec{Name: "t", Type: gguf.Q8_0, Dims: []int64{32, 2}, Write: func(w io.Writer) error {
		_, err := w.Write(make([]byte, 68))
		return err
	}}))
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// put writes a file, with the folders above it, and returns its path.
func put(tb testing.TB, path string, content []byte) string {
	tb.Helper()
	must(tb, os.MkdirAll(filepath.Dir(path), 0o700))
	must(tb, os.WriteFile(path, content, 0o600))
	return path
}

func bools(period, n int, last bool) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = (i%period == period-1) == last
	}
	return out
}

func TestKV(t *testing.T) {
	dims := func(layers, heads, kv, embd int, more keys) keys {
		ks := keys{"A.block_count": uint32(layers), "A.attention.head_count": uint32(heads), "A.embedding_length": uint32(embd)}
		if kv >= 0 {
			ks["A.attention.head_count_kv"] = uint32(kv)
		}
		for k, v := range more {
			ks[k] = v
		}
		return ks
	}
	tests := []struct {
		name, arch string
		keys       keys
		want       KV
		perToken   int64
	}{
		{"grouped heads", "llama", dims(32, 32, 8, 4096, nil), KV{FullLayers: 32, FullKeys: 32 * 8 * 128, FullValues: 32 * 8 * 128}, 128 << 10},
		{"KV heads default to heads", "gpt2", dims(2, 4, -1, 64, nil), KV{FullLayers: 2, FullKeys: 128, FullValues: 128}, 512},
		{
			"head sizes of their own", "qwen3", dims(36, 32, 8, 2560, keys{"A.attention.key_length": uint32(128), "A.attention.value_length": uint32(128)}),
			KV{FullLayers: 36, FullKeys: 36 * 1024, FullValues: 36 * 1024},
			144 << 10,
		},
		{
			"one head count for each layer", "deci", dims(3, 8, -1, 64, keys{"A.attention.head_count_kv": []int32{8, 0, 2}}),
			KV{FullLayers: 2, FixedLayers: 1, FullKeys: 80, FullValues: 80},
			320,
		},
		{
			"sliding by the architecture's period", "gemma3", dims(18, 4, 1, 1024, keys{"A.attention.sliding_window": uint32(512)}),
			KV{FullLayers: 3, SlidingLayers: 15, FullKeys: 768, FullValues: 768, SlidingKeys: 3840, SlidingValues: 3840, SlidingWindow: 512},
			3072,
		},
		{
			"sliding by the file's period", "gemma3", dims(4, 4, 1, 1024, keys{"A.attention.sliding_window": uint32(512), "A.attention.sliding_window_pattern": uint32(2)}),
			KV{FullLayers: 2, SlidingLayers: 2, FullKeys: 512, FullValues: 512, SlidingKeys: 512, SlidingValues: 512, SlidingWindow: 512},
			2048,
		},
		{
			"the full layer first", "smallthinker", dims(5, 2, 1, 128, keys{"A.attention.sliding_window": uint32(64)}),
			KV{FullLayers: 2, SlidingLayers: 3, FullKeys: 128, FullValues: 128, SlidingKeys: 192, SlidingValues: 192, SlidingWindow: 64},
			512,
		},
		{
			"sliding by a list, heads of another size, shared layers", "gemma4", dims(7, 4, 1, 1024, keys{
				"A.attention.sliding_window": uint32(512), "A.attention.sliding_window_pattern": bools(6, 7, false),
				"A.attention.key_length": uint32(512), "A.attention.value_length": uint32(512),
				"A.attention.key_length_swa": uint32(256), "A.attention.value_length_swa": uint32(256), "A.attention.shared_kv_layers": uint32(1),
			}),
			KV{FullLayers: 1, SlidingLayers: 5, FixedLayers: 1, FullKeys: 512, FullValues: 512, SlidingKeys: 1280, SlidingValues: 1280, SlidingWindow: 512},
			2048,
		},
		{
			"a window that the engine ignores", "phi3", dims(2, 2, 2, 64, keys{"A.attention.sliding_window": uint32(512)}),
			KV{FullLayers: 2, FullKeys: 128, FullValues: 128},
			512,
		},
		{
			"a latent", "deepseek2", dims(61, 128, 1, 7168, keys{
				"A.attention.key_length": uint32(576), "A.attention.value_length": uint32(512),
				"A.attention.key_length_mla": uint32(192), "A.attention.value_length_mla": uint32(128),
			}),
			KV{FullLayers: 61, FullKeys: 61 * 576},
			61 * 576 * 2,
		},
		{
			"each fourth layer full, the others a state", "qwen35moe", dims(41, 16, 2, 2048, keys{
				"A.attention.key_length":   uint32(256),
				"A.attention.value_length": uint32(256), "A.nextn_predict_layers": uint32(1), "A.ssm.conv_kernel": uint32(4),
				"A.ssm.inner_size": uint32(4096), "A.ssm.state_size": uint32(128), "A.ssm.group_count": uint32(16),
			}),
			KV{FullLayers: 10, FixedLayers: 30, FullKeys: 5120, FullValues: 5120, StateBytes: 30 * 4 * (3*(4096+2*16*128) + 128*4096)},
			20 << 10,
		},
		{
			"layers without heads hold a state", "lfm2", dims(2, 2, -1, 64, keys{"A.attention.head_count_kv": []uint32{0, 1}, "A.shortconv.l_cache": uint32(3)}),
			KV{FullLayers: 1, FixedLayers: 1, FullKeys: 32, FullValues: 32, StateBytes: 4 * 64 * 2},
			128,
		},
		{
			"both in each layer", "falcon-h1", dims(2, 2, 1, 64, keys{"A.ssm.conv_kernel": uint32(2), "A.ssm.inner_size": uint32(8), "A.ssm.state_size": uint32(4)}),
			KV{FullLayers: 2, FullKeys: 64, FullValues: 64, StateBytes: 2 * 4 * (8 + 32)},
			256,
		},
		{
			"a list of the layers with a state", "qwen3next", dims(2, 2, 1, 64, keys{"A.attention.recurrent_layers": []bool{false, true}}),
			KV{FullLayers: 1, FixedLayers: 1, FullKeys: 32, FullValues: 32},
			128,
		},
		{"no attention at all", "rwkv7", keys{"A.block_count": uint32(3), "A.embedding_length": uint32(64)}, KV{FixedLayers: 3}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info := inspect(t, put(t, filepath.Join(t.TempDir(), "m.gguf"), encode(t, tt.arch, tt.keys)))
			if diff := cmp.Diff(tt.want, info.KV); diff != "" {
				t.Errorf("KV (-want +got):\n%s", diff)
			}
			if info.KVBytesPerToken != tt.perToken {
				t.Errorf("%d bytes per token, want %d", info.KVBytesPerToken, tt.perToken)
			}
		})
	}
}

// The sums that llama.cpp printed for a toy of 4 layers, 128 wide keys and values, at 4096 cells.
func TestKVBytesByType(t *testing.T) {
	kv := KV{FullLayers: 4, FullKeys: 512, FullValues: 512}
	tests := []struct {
		typ CacheType
		mib float64
	}{{CacheF16, 8}, {"", 8}, {CacheBF16, 8}, {CacheF32, 16}, {CacheQ8_0, 4.25}, {CacheQ4_0, 2.25}, {CacheIQ4, 2.25}, {CacheQ5_1, 3}, {"unheard of", 16}}
	for _, tt := range tests {
		if got := float64(kv.Bytes(4096, tt.typ, tt.typ)) / (1 << 20); got != tt.mib {
			t.Errorf("%q: %g MiB, want %g", tt.typ, got, tt.mib)
		}
	}
	if got := kv.PerToken(CacheQ8_0, CacheF16); got != 512/32*34+1024 {
		t.Errorf("keys as q8_0, values as f16: %d bytes per token", got)
	}
	if CacheType("q3_k").Known() || !CacheQ5_0.Known() || !CacheQ4_1.Known() {
		t.Error("the list of cache types is wrong")
	}
}

func TestKVSliding(t *testing.T) {
	kv := KV{FullLayers: 1, SlidingLayers: 1, FullKeys: 10, FullValues: 10, SlidingKeys: 1, SlidingValues: 1, SlidingWindow: 1024, StateBytes: 7}
	tests := []struct {
		window int
		cells  int64
	}{{256, 256}, {1000, 1024}, {1536, 1536}, {131072, 1536}}
	for _, tt := range tests {
		if got := kv.Sliding(tt.window, CacheF16, CacheF16); got != tt.cells*4 {
			t.Errorf("window %d: sliding layers take %d bytes, want %d cells of 4", tt.window, got, tt.cells)
		}
		if got, want := kv.Bytes(tt.window, CacheF16, CacheF16), int64(tt.window)*40+tt.cells*4+7; got != want {
			t.Errorf("window %d: %d bytes, want %d", tt.window, got, want)
		}
	}
	if got := kv.SlidingBound(CacheF16, CacheF16); got != 1536*4 {
		t.Errorf("bound %d, want %d", got, 1536*4)
	}
	if got := (KV{FullKeys: 1 << 60}).Bytes(1<<40, CacheF16, CacheF16); got != 1<<63-1 {
		t.Errorf("an absurd size wrapped around to %d", got)
	}
}

func TestInspectGGUF(t *testing.T) {
	path := put(t, filepath.Join(t.TempDir(), "m.gguf"), encode(t, "llama", keys{
		"general.name": "Tiny", "A.context_length": uint32(512), "A.block_count": uint32(2), "A.expert_count": uint32(8),
		"A.expert_used_count": uint32(2), "A.nextn_predict_layers": uint32(1), "A.attention.head_count": uint32(2), "A.embedding_length": uint32(16),
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": []string{"a", "b", "c"},
		"tokenizer.chat_template": "{{ messages }}", "tokenizer.chat_template.tool_use": "{{ tools }}",
	}))
	got := inspect(t, path)
	st, err := os.Stat(path)
	must(t, err)
	want := &Info{
		Path: path, Format: FormatGGUF, Files: []string{path}, FileBytes: st.Size(), Architecture: "llama", Name: "Tiny",
		Tensors: 1, TensorBytes: 68, Parameters: 64,
		Quantization:   Quantization{Name: "Q8_0", Types: []TypeCount{{"Q8_0", 1, 64, 68}}},
		TrainedContext: 512, Embedding: 16, Layers: 1, MTPLayers: 1, Heads: 2, KVHeads: 2, KeyHeadSize: 8, ValueHeadSize: 8,
		Experts: 8, ExpertsUsed: 2, Vocab: Vocab{"gpt2", "qwen2", 3},
		HasChatTemplate: true, ChatTemplate: "{{ messages }}", TemplateNames: []string{"tool_use"},
		KV: KV{FullLayers: 1, FullKeys: 16, FullValues: 16}, KVBytesPerToken: 64,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	text, err := json.Marshal(got)
	must(t, err)
	for _, field := range []string{`"format":"gguf"`, `"kv_bytes_per_token":64`, `"has_chat_template":true`, `"trained_context":512`} {
		if !strings.Contains(string(text), field) {
			t.Errorf("JSON has no %s: %s", field, text)
		}
	}
}

func TestInspectGGUFRefuses(t *testing.T) {
	two := keys{"A.block_count": uint32(2), "A.attention.head_count": uint32(2)}
	with := func(k string, v any) keys {
		out := keys{k: v}
		for k, v := range two {
			if _, set := out[k]; !set {
				out[k] = v
			}
		}
		return out
	}
	tests := []struct {
		name string
		keys keys
		kind error
		word string
	}{
		{"layers of a wrong kind", with("A.block_count", "two"), gguf.ErrKind, "block_count"},
		{"absurd number of layers", with("A.block_count", uint64(1<<60)), gguf.ErrInvalid, "block_count"},
		{"negative", with("A.embedding_length", int32(-1)), gguf.ErrInvalid, "embedding_length"},
		{"absurd head size", with("A.attention.key_length", uint64(1<<62)), gguf.ErrInvalid, "key_length"},
		{"too few head counts", with("A.attention.head_count_kv", []uint32{1}), gguf.ErrInvalid, "head_count_kv"},
		{"too many head counts", with("A.attention.head_count_kv", make([]uint8, 5000)), gguf.ErrInvalid, "head_count_kv"},
		{"absurd head count of a layer", with("A.attention.head_count_kv", []int64{1, -5}), gguf.ErrInvalid, "element 1"},
		{"more predicting layers than layers", with("A.nextn_predict_layers", uint32(3)), gguf.ErrInvalid, "nextn_predict_layers"},
		{"template that is a number", with("tokenizer.chat_template", uint32(3)), gguf.ErrKind, "chat_template"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := put(t, filepath.Join(t.TempDir(), "m.gguf"), encode(t, "llama", tt.keys))
			info, err := Inspect(path)
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.word) || !strings.Contains(err.Error(), path) {
				t.Errorf("%+v, error %v; want %v that names %s and the path", info, err, tt.kind, tt.word)
			}
		})
	}
	t.Run("no architecture", func(t *testing.T) {
		var b bytes.Buffer
		_, err := gguf.NewWriter().WriteTo(&b)
		must(t, err)
		if _, err := Inspect(put(t, filepath.Join(t.TempDir(), "m.gguf"), b.Bytes())); !errors.Is(err, ErrNotAModel) {
			t.Errorf("error %v, want ErrNotAModel", err)
		}
	})
	t.Run("another file", func(t *testing.T) {
		if _, err := Inspect(put(t, filepath.Join(t.TempDir(), "m.txt"), []byte("hello world"))); !errors.Is(err, ErrNotAModel) {
			t.Errorf("error %v, want ErrNotAModel", err)
		}
	})
	t.Run("absent", func(t *testing.T) {
		if _, err := Inspect(filepath.Join(t.TempDir(), "m")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v, want os.ErrNotExist", err)
		}
	})
}

func TestInspectSplit(t *testing.T) {
	dir := t.TempDir()
	part := func(n int) string {
		ks := keys{"split.no": uint16(n - 1), "split.count": uint16(3), "split.tensors.count": int32(3)}
		return put(t, filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", n)), encode(t, "llama", ks))
	}
	first, second := part(1), part(2)
	if _, err := Inspect(first); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "part 3 of 3") {
		t.Errorf("third part missing: %v", err)
	}
	third := part(3)
	info := inspect(t, first)
	if diff := cmp.Diff([]string{first, second, third}, info.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if info.Split == nil || info.Split.Count != 3 || info.Tensors != 3 || info.TensorBytes != 3*68 || info.FileBytes <= 3*68 {
		t.Errorf("split %+v, %d tensors of %d bytes in %d", info.Split, info.Tensors, info.TensorBytes, info.FileBytes)
	}
	if _, err := Inspect(second); !errors.Is(err, ErrNotAModel) || !strings.Contains(err.Error(), "m-00001-of-00003.gguf") {
		t.Errorf("second part: %v, want an error that names the first", err)
	}
	renamed := filepath.Join(dir, "renamed.gguf")
	must(t, os.Rename(first, renamed))
	if _, err := Inspect(renamed); !errors.Is(err, ErrNotAModel) || !strings.Contains(err.Error(), "-00001-of-00003.gguf") {
		t.Errorf("renamed part: %v, want an error that says how it was called", err)
	}
	must(t, os.Rename(renamed, first))
	must(t, os.WriteFile(third, encode(t, "llama", nil)[:100], 0o600))
	if _, err := Inspect(first); !errors.Is(err, gguf.ErrTruncated) || !strings.Contains(err.Error(), "part 3 of 3") {
		t.Errorf("third part cut off: %v", err)
	}
}

// No file makes Inspect fail otherwise than with an error, or find sizes that contradict each other.
func FuzzInspectGGUF(f *testing.F) {
	f.Add(encode(f, "llama", keys{"A.block_count": uint32(4), "A.attention.head_count": uint32(4), "A.embedding_length": uint32(64)}))
	f.Add(encode(f, "gemma3", keys{"A.block_count": uint32(4), "A.attention.head_count": []uint32{1, 2, 3, 4}, "A.attention.sliding_window": uint32(9)}))
	f.Add(encode(f, "qwen3next", keys{"A.block_count": uint32(4), "A.full_attention_interval": uint32(0), "A.nextn_predict_layers": uint32(4)}))
	f.Add(encode(f, "gemma3n", keys{"A.block_count": uint32(2), "A.attention.sliding_window": uint32(1), "A.attention.sliding_window_pattern": []bool{true, true}}))
	f.Add(encode(f, "x", keys{"split.count": uint16(2), "split.no": uint16(0)}))
	path := filepath.Join(f.TempDir(), "m.gguf")
	f.Fuzz(func(t *testing.T, b []byte) {
		must(t, os.WriteFile(path, b, 0o600))
		info, err := Inspect(path)
		if err != nil {
			return
		}
		kv := info.KV
		if kv.FullLayers+kv.SlidingLayers+kv.FixedLayers != info.Layers || kv.FullKeys < 0 || kv.FullValues < 0 || kv.StateBytes < 0 {
			t.Errorf("KV %+v of %d layers makes no sense", kv, info.Layers)
		}
		if n := kv.Bytes(4096, CacheF16, CacheF16); n < kv.StateBytes {
			t.Errorf("KV %+v takes %d bytes", kv, n)
		}
	})
}
