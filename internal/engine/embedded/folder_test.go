package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// TestFolder serves a Hugging Face folder with random weights, named as a folder and by its file, to the end.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hub")
	writeFolder(t, dir)
	for name, path := range map[string]string{"folder": dir, "file": filepath.Join(dir, "model.safetensors")} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, path)
			s.Model.Format, s.Window = "safetensors", 64
			if d, err := realDriver(t).Demand(t.Context(), s.Model); err != nil || d.Architecture != "llama" {
				t.Fatalf("Demand = %+v, %v", d, err)
			}
			in := begin(t, realDriver(t), s)
			r := chat("añ", 3)
			r.IgnoreEOS = true
			st, err := in.Generate(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			done := final(t, st)
			// The template writes <user> in front, and a token is a byte.
			n, err := in.CountTokens(t.Context(), r)
			if want := len("<user>añ"); err != nil || n != want || done.Usage.Prompt != want || done.Usage.Completion != 3 {
				t.Errorf("counted %d (%v), used %+v, want a prompt of %d", n, err, done.Usage, want)
			}
		})
	}
}

func final(t *testing.T, st engine.Stream) infer.Done {
	t.Helper()
	defer st.Close()
	for {
		ev, err := st.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := ev.(infer.Done); ok {
			return d
		}
	}
}

// writeFolder writes a llama model of one layer whose tokens are bytes.
func writeFolder(t *testing.T, dir string) {
	t.Helper()
	const hidden, heads, inner, vocab = 64, 2, 96, 257
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	shapes := map[string][]int{
		"model.embed_tokens.weight": {vocab, hidden}, "model.norm.weight": {hidden},
		"model.layers.0.input_layernorm.weight": {hidden}, "model.layers.0.post_attention_layernorm.weight": {hidden},
		"model.layers.0.mlp.gate_proj.weight": {inner, hidden}, "model.layers.0.mlp.up_proj.weight": {inner, hidden},
		"model.layers.0.mlp.down_proj.weight": {hidden, inner},
	}
	for _, p := range []string{"q", "k", "v", "o"} {
		shapes["model.layers.0.self_attn."+p+"_proj.weight"] = []int{hidden, hidden}
	}
	header, data := map[string]any{}, []byte(nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for name, shape := range shapes {
		at, n := len(data), 1
		for _, d := range shape {
			n *= d
		}
		for range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(rng.NormFloat64()*0.1)))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{at, len(data)}}
	}
	head := asJSON(t, header)
	files := map[string][]byte{
		"model.safetensors": append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), data...),
		"config.json": asJSON(t, map[string]any{
			"model_type": "llama", "hidden_size": hidden, "num_hidden_layers": 1, "intermediate_size": inner, "num_attention_heads": heads,
			"num_key_value_heads": heads, "rms_norm_eps": 1e-5, "max_position_embeddings": 128, "rope_theta": 10000.0, "vocab_size": vocab,
			"tie_word_embeddings": true, "hidden_act": "silu",
		}),
		"tokenizer.json": asJSON(t, byteTokenizer()),
		"tokenizer_config.json": asJSON(t, map[string]any{
			"eos_token": "<end>", "chat_template": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
		}),
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// byteTokenizer is GPT-2's without a single merge.
func byteTokenizer() map[string]any {
	vocab := map[string]int{"<end>": 256}
	next := rune(256)
	for b := range rune(256) {
		shown := b
		if b <= ' ' || b >= 127 && b <= 160 || b == 173 {
			shown, next = next, next+1
		}
		vocab[string(shown)] = int(b)
	}
	return map[string]any{
		"version": "1.0", "normalizer": nil, "post_processor": nil,
		"added_tokens":  []any{map[string]any{"id": 256, "content": "<end>", "special": true, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"decoder":       map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}, "byte_fallback": false, "ignore_merges": false},
	}
}
