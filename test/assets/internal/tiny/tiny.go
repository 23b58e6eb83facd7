// Package tiny makes GGUF models of a few megabytes for fast tests: random
// weights of the right shapes, with a real vocabulary and for some a real chat template.
// They load like their big kin and generate nonsense, the same nonsense each time.
//
// [WriteAll] writes the models of [Models]. The weights depend on the names of model and
// tensor only, so each run and each machine writes the same bytes. Nothing
// is shared between calls; a call holds one vocabulary in memory at a time.
package tiny

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// Version goes up whenever the files change, so that caches make them anew.
const Version = 1

// Model is one model to make. Sizes are in elements.
type Model struct {
	Arch     string    // general.architecture
	Name     string    // of the file, without .gguf; empty: tiny-Arch
	Vocab    string    // vocabulary, as in ggml-vocab-NAME.gguf
	Template string    // chat template, as in templates/NAME.jinja; empty: none
	Matrix   gguf.Type // of the layers' matrices: F32, F16, Q8_0 or Q4_0; embeddings are Q8_0

	Layers, Hidden, FFN      int64
	Heads, KVHeads, HeadSize int64
	Context                  int64
	Window                   int64 // sliding window; 0: none
	RopeBase                 float32
	QKVBias, QKNorm          bool // biases, and norms of q and k per head
	PostNorm                 bool // norms behind attention and behind the feed-forward part
}

// Models returns the models, one for each architecture that the tests tell apart.
func Models() []Model {
	base := Model{Layers: 2, Hidden: 64, FFN: 128, Heads: 4, KVHeads: 2, HeadSize: 32, Context: 4096, RopeBase: 10000}

	llama := base
	llama.Arch, llama.Vocab, llama.Template = "llama", "llama-bpe", "meta-llama-Llama-3.1-8B-Instruct"
	llama.Matrix, llama.RopeBase = gguf.F16, 500000

	qwen2 := base
	qwen2.Arch, qwen2.Vocab, qwen2.Template = "qwen2", "qwen2", "Qwen-Qwen2.5-7B-Instruct"
	qwen2.Matrix, qwen2.RopeBase, qwen2.QKVBias = gguf.Q8_0, 1000000, true
	qwen2.Heads, qwen2.KVHeads = 2, 1 // engines want heads times head size to be the hidden size

	qwen3 := base
	qwen3.Arch, qwen3.Vocab, qwen3.Template = "qwen3", "qwen2", "Qwen-Qwen3-0.6B"
	qwen3.Matrix, qwen3.RopeBase, qwen3.QKNorm = gguf.F32, 1000000, true

	gemma3 := base
	gemma3.Arch, gemma3.Vocab = "gemma3", "llama-spm"
	gemma3.Matrix, gemma3.RopeBase, gemma3.QKNorm, gemma3.PostNorm = gguf.Q8_0, 1000000, true, true
	gemma3.Layers, gemma3.Window = 6, 64 // five layers with the window, then one without

	return []Model{llama, qwen2, qwen3, gemma3}
}

// Large returns models of the shape of Llama 3.2 1B in two formats, for measurements: speed does not depend on what weights say.
func Large() []Model {
	m := Model{
		Arch: "llama", Vocab: "llama-bpe", Layers: 16, Hidden: 2048, FFN: 8192, Heads: 32, KVHeads: 8, HeadSize: 64, Context: 8192,
		RopeBase: 500000, Name: "random-1b-q8_0", Matrix: gguf.Q8_0,
	}
	four := m
	four.Name, four.Matrix = "random-1b-q4_0", gguf.Q4_0
	return []Model{m, four}
}

// File is the name of the model's file.
func (m Model) File() string {
	if m.Name != "" {
		return m.Name + ".gguf"
	}
	return "tiny-" + m.Arch + ".gguf"
}

// WriteAll writes models into dir. Source is the models folder of llama.cpp's
// source, with vocabularies and templates.
func WriteAll(models []Model, source, dir string) error {
	for _, m := range models {
		if err := writeFile(m, source, filepath.Join(dir, m.File())); err != nil {
			return fmt.Errorf("%s: %w", m.File(), err)
		}
	}
	return nil
}

func writeFile(m Model, source, path string) error {
	vocab, err := gguf.Open(filepath.Join(source, "ggml-vocab-"+m.Vocab+".gguf"))
	if err != nil {
		return err
	}
	defer vocab.Close()
	template := ""
	if m.Template != "" {
		b, err := os.ReadFile(filepath.Join(source, "templates", m.Template+".jinja"))
		if err != nil {
			return err
		}
		template = string(b)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(Write(f, m, vocab, template), f.Close())
}

// Write writes one model to w, with the vocabulary of another file.
func Write(w io.Writer, m Model, vocab *gguf.File, template string) error {
	out := gguf.NewWriter()
	if err := setHeader(out, m); err != nil {
		return err
	}
	if err := copyVocabulary(out, vocab); err != nil {
		return err
	}
	if template != "" {
		if err := out.Set("tokenizer.chat_template", template); err != nil {
			return err
		}
	}
	tokens, _, err := vocab.Len("tokenizer.ggml.tokens")
	if err != nil {
		return err
	}
	for _, t := range m.tensors(tokens) {
		if err := out.Add(t.spec(m.Arch)); err != nil {
			return err
		}
	}
	_, err = out.WriteTo(w)
	return err
}

// field is one metadata key with its value.
type field struct {
	key   string
	value any
}

func setHeader(out *gguf.Writer, m Model) error {
	fields := []field{
		{"general.architecture", m.Arch},
		{"general.type", "model"},
		{"general.name", "tiny random " + m.Arch},
		{"general.quantization_version", uint32(2)},
		{m.Arch + ".context_length", uint32(m.Context)},
		{m.Arch + ".embedding_length", uint32(m.Hidden)},
		{m.Arch + ".block_count", uint32(m.Layers)},
		{m.Arch + ".feed_forward_length", uint32(m.FFN)},
		{m.Arch + ".attention.head_count", uint32(m.Heads)},
		{m.Arch + ".attention.head_count_kv", uint32(m.KVHeads)},
		{m.Arch + ".attention.key_length", uint32(m.HeadSize)},
		{m.Arch + ".attention.value_length", uint32(m.HeadSize)},
		{m.Arch + ".attention.layer_norm_rms_epsilon", float32(1e-6)},
		{m.Arch + ".rope.dimension_count", uint32(m.HeadSize)},
		{m.Arch + ".rope.freq_base", m.RopeBase},
	}
	if m.Window > 0 {
		fields = append(fields, field{m.Arch + ".attention.sliding_window", uint32(m.Window)})
	}
	for _, f := range fields {
		if err := out.Set(f.key, f.value); err != nil {
			return err
		}
	}
	return nil
}
