package models

import (
	"math"
	"math/bits"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// CacheType is the number format of a KV cache, in llama.cpp's words.
type CacheType string

// The cache formats. F16 is where engines start.
const (
	CacheF32  CacheType = "f32"
	CacheF16  CacheType = "f16"
	CacheBF16 CacheType = "bf16"
	CacheQ8_0 CacheType = "q8_0"
	CacheQ5_1 CacheType = "q5_1"
	CacheQ5_0 CacheType = "q5_0"
	CacheQ4_1 CacheType = "q4_1"
	CacheQ4_0 CacheType = "q4_0"
	CacheIQ4  CacheType = "iq4_nl"
)

// Known reports whether t is one of the cache formats.
func (t CacheType) Known() bool { _, ok := t.storage(); return ok }

func (t CacheType) storage() (gguf.Type, bool) {
	switch t {
	case CacheF32:
		return gguf.F32, true
	case CacheF16, "":
		return gguf.F16, true
	case CacheBF16:
		return gguf.BF16, true
	case CacheQ8_0:
		return gguf.Q8_0, true
	case CacheQ5_1:
		return gguf.Q5_1, true
	case CacheQ5_0:
		return gguf.Q5_0, true
	case CacheQ4_1:
		return gguf.Q4_1, true
	case CacheQ4_0:
		return gguf.Q4_0, true
	case CacheIQ4:
		return gguf.IQ4_NL, true
	default:
		return 0, false
	}
}

// bytes is what n elements take. An unknown type counts as f32, the largest: a plan then errs on the safe side.
func (t CacheType) bytes(n int64) int64 {
	s, ok := t.storage()
	if !ok {
		s = gguf.F32
	}
	block := s.BlockSize()
	return (n + block - 1) / block * s.BlockBytes()
}

// KV says what the model remembers of each token, and what it holds whatever the number of tokens. It is the same for all
// sequences; each parallel one needs all of it for itself.
type KV struct {
	// FullLayers remember every token, SlidingLayers only the last SlidingWindow ones, and FixedLayers no token: they have a
	// state of fixed size, or use another layer's KV.
	FullLayers    int `json:"full_layers"`
	SlidingLayers int `json:"sliding_layers"`
	FixedLayers   int `json:"fixed_layers"`
	// FullKeys and FullValues are the elements that one token takes in all full layers together; SlidingKeys and
	// SlidingValues the same for the sliding ones. A model that keeps a common latent (MLA) has no values.
	FullKeys      int64 `json:"full_keys"`
	FullValues    int64 `json:"full_values"`
	SlidingKeys   int64 `json:"sliding_keys,omitempty"`
	SlidingValues int64 `json:"sliding_values,omitempty"`
	SlidingWindow int   `json:"sliding_window,omitempty"`
	// StateBytes is the fixed state of one sequence.
	StateBytes int64 `json:"state_bytes,omitempty"`
}

// slidingSlack is the tokens beyond the window that an engine keeps for the piece of a prompt it reads at once, and
// cellStep the multiple to which it rounds up: both llama.cpp's defaults (-ub 512, 256 cells).
const (
	slidingSlack = 512
	cellStep     = 256
)

// PerToken is the bytes that each further token takes, with keys stored as k and values as v.
func (kv KV) PerToken(k, v CacheType) int64 {
	return k.bytes(kv.FullKeys) + v.bytes(kv.FullValues)
}

// Sliding is the bytes that the sliding layers take in a sequence of window tokens. From the sliding window and some
// tokens on it does not grow.
func (kv KV) Sliding(window int, k, v CacheType) int64 {
	cells := min(int64(window), int64(kv.SlidingWindow)+slidingSlack)
	cells = (cells + cellStep - 1) / cellStep * cellStep
	return product(cells, k.bytes(kv.SlidingKeys)+v.bytes(kv.SlidingValues))
}

// SlidingBound is the most that Sliding can be.
func (kv KV) SlidingBound(k, v CacheType) int64 {
	return kv.Sliding(kv.SlidingWindow+slidingSlack, k, v)
}

// Bytes is what one sequence of window tokens takes in all layers, its fixed state included.
func (kv KV) Bytes(window int, k, v CacheType) int64 {
	n := product(int64(window), kv.PerToken(k, v))
	more := kv.Sliding(window, k, v) + kv.StateBytes
	if n > math.MaxInt64-more || more < 0 {
		return math.MaxInt64
	}
	return n + more
}

// product multiplies, and stays at the largest number instead of overflowing: the sizes come out of foreign files.
func product(a, b int64) int64 {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo <= math.MaxInt64 {
		return int64(lo)
	}
	return math.MaxInt64
}

// layer is what one layer remembers per token.
type layer struct {
	keys, values int64
	sliding      bool
	// fixed reports whether the layer remembers no tokens.
	fixed bool
}

func (kv *KV) add(l layer) {
	switch {
	case l.fixed || l.keys == 0:
		kv.FixedLayers++
	case l.sliding:
		kv.SlidingLayers++
		kv.SlidingKeys += l.keys
		kv.SlidingValues += l.values
	default:
		kv.FullLayers++
		kv.FullKeys += l.keys
		kv.FullValues += l.values
	}
}
