package weights

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/arch"
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/tensor"
	"github.com/stoker-llm/stoker/internal/lm/tokenizer"
	"github.com/stoker-llm/stoker/internal/models/gguf"
)

func openGGUF(path string) (*File, error) {
	g, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := fromGGUF(g)
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	f.Path = path
	return f, nil
}

func fromGGUF(g *gguf.File) (*File, error) {
	name, err := g.String("general.architecture")
	if err != nil {
		return nil, err
	}
	a, err := arch.Lookup(name)
	if err != nil {
		return nil, err
	}
	if n, err := g.Int("split.count"); err == nil && n > 1 {
		return nil, infer.Errorf(infer.ErrUnsupported, "model",
			"the model is split over %d files, which the embedded engine does not read: join them with llama-gguf-split --merge", n)
	}
	if err := g.Map(); err != nil {
		return nil, err
	}
	f := &File{
		Size: g.Size(), arch: a, src: ggufSource{g, a.Name == "llama"}, close: g.Close,
		vocab: func() (*tokenizer.Tokenizer, error) { return tokenizer.FromGGUF(g) },
	}
	f.Template, _ = g.String("tokenizer.chat_template") // without one the model cannot chat
	f.Quantization = quantization(g)
	f.Meta, err = ggufMeta(g, name)
	return f, err
}

// quantization is the format of most weights.
func quantization(g *gguf.File) string {
	n := map[gguf.Type]int64{}
	var most gguf.Type
	for _, t := range g.Tensors() {
		if len(t.Dims) > 1 {
			n[t.Type] += t.Elements()
			if n[t.Type] > n[most] {
				most = t.Type
			}
		}
	}
	return most.String()
}

// keys reads metadata of one architecture; the first error stays.
type keys struct {
	g      *gguf.File
	prefix string
	err    error
}

// num returns a number, 0 if the file does not give it.
func (k *keys) num(key string) int {
	n, err := k.g.Int(k.prefix + key)
	if err != nil && !errors.Is(err, gguf.ErrNoKey) {
		k.err = errors.Join(k.err, err)
	}
	if n < 0 || n > 1<<40 {
		k.err = errors.Join(k.err, fmt.Errorf("key %s%s is %d", k.prefix, key, n))
		return 0
	}
	return int(n)
}

func (k *keys) float(key string) float64 {
	x, err := k.g.Float(k.prefix + key)
	if err != nil && !errors.Is(err, gguf.ErrNoKey) {
		k.err = errors.Join(k.err, err)
	}
	return x
}

// ggufMeta reads the shape. The keys are those of llama.cpp's gguf-py/gguf/constants.py.
func ggufMeta(g *gguf.File, name string) (block.Meta, error) {
	k := &keys{g: g, prefix: name + "."}
	m := block.Meta{
		Arch: name, Layers: k.num("block_count"), Hidden: k.num("embedding_length"), FFN: k.num("feed_forward_length"),
		Heads: k.num("attention.head_count"), KVHeads: k.num("attention.head_count_kv"), HeadDim: k.num("attention.key_length"),
		Context: k.num("context_length"), RopeDim: k.num("rope.dimension_count"), Window: k.num("attention.sliding_window"),
		Eps: k.float("attention.layer_norm_rms_epsilon"), RopeBase: k.float("rope.freq_base"), RopeLocal: k.float("rope.freq_base_swa"),
	}
	if v := k.num("attention.value_length"); v != 0 && v != m.HeadDim {
		k.err = errors.Join(k.err, fmt.Errorf("keys of %d and values of %d floats a head", m.HeadDim, v))
	}
	if n := k.num("expert_count"); n > 0 {
		return m, infer.Errorf(infer.ErrUnsupported, "model", "the model has %d experts a layer, which the embedded engine does not know", n)
	}
	m.Pattern = ggufPattern(k, &m)
	m.Scaling = ggufScaling(k)
	if t, ok := g.Tensor("token_embd.weight"); ok && len(t.Dims) == 2 {
		m.Vocab = int(min(t.Dims[1], 1<<30))
	}
	return m, k.err
}

// ggufPattern reads which layers slide: a number or a list of truth values.
func ggufPattern(k *keys, m *block.Meta) int {
	const key = "attention.sliding_window_pattern"
	if kind, ok := k.g.Kind(k.prefix + key); !ok || kind != gguf.Array {
		return k.num(key)
	}
	list, err := k.g.Ints(k.prefix + key)
	if err != nil {
		k.err = errors.Join(k.err, err)
	}
	for _, x := range list {
		m.Sliding = append(m.Sliding, x != 0)
	}
	return 0
}

func ggufScaling(k *keys) block.Scaling {
	var s block.Scaling
	kind, err := k.g.String(k.prefix + "rope.scaling.type")
	if err == nil && kind != "none" {
		s.Type, s.Factor = kind, k.float("rope.scaling.factor")
	}
	const divisors = "rope_freqs.weight"
	if t, ok := k.g.Tensor(divisors); ok && t.Type == gguf.F32 {
		b, err := k.g.Bytes(t)
		if err == nil {
			s.FrequencyDivisors, s.FrequencyDivisorsKey = make([]float32, t.Elements()), divisors
			err = tensor.Dequantize(t.Type, b, s.FrequencyDivisors)
		}
		k.err = errors.Join(k.err, err)
	}
	return s
}

// ggufSource gives a GGUF file's tensors, whose names are the ones we use.
type ggufSource struct {
	g           *gguf.File
	interleaved bool
}

func (s ggufSource) Interleaved() bool { return s.interleaved }

func (s ggufSource) Tensor(name string) (block.Tensor, bool, error) {
	t, ok := s.g.Tensor(name)
	if !ok {
		return block.Tensor{}, false, nil
	}
	var cols int64
	rows := int64(1) // a tensor with one dimension is a row
	switch len(t.Dims) {
	case 1:
		cols = t.Dims[0]
	case 2:
		cols, rows = t.Dims[0], t.Dims[1]
	default:
		return block.Tensor{}, false, fmt.Errorf("tensor %s has %d dimensions", name, len(t.Dims))
	}
	r, c, err := dims(name, rows, cols)
	if err != nil {
		return block.Tensor{}, false, err
	}
	b, err := s.g.Bytes(t)
	return block.Tensor{Name: strings.Clone(name), Type: t.Type, Rows: r, Cols: c, Data: b}, err == nil, err
}
