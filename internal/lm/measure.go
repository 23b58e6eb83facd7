package lm

import (
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/weights"
)

// Needs is what serving a model takes, from its header alone.
type Needs struct {
	Architecture, Quantization, Mode string
	// WeightBytes are the packed matrices, KVPerToken the bytes for one position over all layers, Overhead the rest: buffers, the
	// vocabulary and the mapped embeddings.
	WeightBytes, KVPerToken, Overhead int64
	TrainedContext                    int
	HasTemplate                       bool
}

// Measure reads the header of the model at path. Errors are those of Open.
func Measure(path, mode string) (Needs, error) {
	m, err := ModeOf(mode)
	if err != nil {
		return Needs{}, err
	}
	f, err := weights.Open(path)
	if err != nil {
		return Needs{}, err
	}
	defer f.Close()
	p, err := f.Program(m)
	if err != nil {
		return Needs{}, err
	}
	n := Needs{
		Architecture: f.Meta.Arch, Quantization: f.Quantization, Mode: m.String(), WeightBytes: p.Bytes(), KVPerToken: int64(4 * p.Config.KVFloats()),
		TrainedContext: p.Config.Context, HasTemplate: f.Template != "",
	}
	for b, w := range p.Widths {
		rows := maxRows
		if block.Buf(b) == block.Logits {
			rows = maxLogits
		}
		n.Overhead += int64(4 * w * rows)
	}
	n.Overhead += int64(len(p.Table.Tensor.Data)) + runtimeBytes + int64(p.Config.Vocab)*vocabBytes
	return n, nil
}

// What a process takes before it has a model, and a token of the vocabulary in the tokenizer's tables. Estimated from resident
// sizes on linux/amd64.
const (
	runtimeBytes = 24 << 20
	vocabBytes   = 160
)

// Kernels returns the sets of kernels that this machine runs, best first, and those it cannot, with the reason.
func Kernels() (have []string, missing map[string]string) {
	for _, s := range kernel.Sets() {
		have = append(have, s.Name())
	}
	return have, kernel.Missing()
}
