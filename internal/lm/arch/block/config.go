package block

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Meta is what a model file or folder says about its shape, in one vocabulary for GGUF metadata and config.json. A number the
// file does not give is 0.
type Meta struct {
	// Arch is the architecture's name, such as "llama".
	Arch string

	Layers, Hidden, FFN, Heads, KVHeads, HeadDim, Vocab, Context int
	// RopeDim is how many of a head's dimensions are rotated; 0 means all.
	RopeDim   int
	Eps       float64
	RopeBase  float64
	RopeLocal float64 // base of the sliding layers
	Scaling   Scaling
	// Window is how many positions a sliding layer sees, itself included. Every Pattern-th layer is not sliding; Sliding, if not
	// nil, says it for each layer.
	Window, Pattern int
	Sliding         []bool
	// QueryScalar is query_pre_attn_scalar: attention scores are divided by its square root instead of the head size's.
	QueryScalar float64
	// Activation is the feed-forward part's function in config.json's words; empty if the file does not say.
	Activation string
	// UnitOffset reports whether norm weights are stored with 1 subtracted (Gemma in its own files; GGUF files have it added).
	UnitOffset bool
}

// Scaling stretches rotary positions.
type Scaling struct {
	// Type is "" for none, "linear" or "llama3".
	Type                 string
	Factor               float64
	LowFreq, HighFreq    float64 // llama3
	Original             float64 // llama3: the context before stretching
	FrequencyDivisors    []float32
	FrequencyDivisorsKey string // the tensor they came from
}

// Config is a decoder's shape, checked and complete.
type Config struct {
	Arch                                                         string
	Layers, Hidden, FFN, Heads, KVHeads, HeadDim, Vocab, Context int
	Eps                                                          float32
	// Rope rotates the layers that see everything, and Local the sliding ones.
	Rope, Local Rope
	// Window is how many positions a sliding layer sees, itself included; Sliding says which layers are. Both empty: none.
	Window  int
	Sliding []bool
	// AttnScale multiplies attention scores, EmbedScale embeddings (0: not).
	AttnScale, EmbedScale float32
	// UnitOffset is added to norm weights: 0 or 1.
	UnitOffset float32
}

// Rope says how positions turn into angles.
type Rope struct {
	Base    float64
	Dim     int
	Scaling Scaling
}

// Slides reports whether layer sees a window only.
func (c *Config) Slides(layer int) bool {
	return c.Window > 0 && len(c.Sliding) > layer && c.Sliding[layer]
}

// RopeOf returns the rotation of layer.
func (c *Config) RopeOf(layer int) Rope {
	if c.Slides(layer) {
		return c.Local
	}
	return c.Rope
}

// Base checks m and returns the Config that most decoders have: all layers see everything, scores are scaled by the root of the
// head size, embeddings are taken as they are. activations are the names of the feed-forward function that the architecture is built
// with. Errors name the number at fault.
func Base(m Meta, activations ...string) (Config, error) {
	if m.Activation != "" && !slices.Contains(activations, m.Activation) {
		return Config{}, fmt.Errorf("the feed-forward function %q is not known here; known is %s", m.Activation, strings.Join(activations, ", "))
	}
	c := Config{
		Arch: m.Arch, Layers: m.Layers, Hidden: m.Hidden, FFN: m.FFN, Heads: m.Heads, KVHeads: m.KVHeads, HeadDim: m.HeadDim,
		Vocab: m.Vocab, Context: m.Context, Eps: float32(m.Eps),
	}
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if m.RopeBase == 0 {
		m.RopeBase = 10000
	}
	c.Rope = Rope{Base: m.RopeBase, Dim: c.HeadDim, Scaling: m.Scaling}
	c.Local = c.Rope
	if err := c.check(m); err != nil {
		return Config{}, err
	}
	c.AttnScale = float32(1 / math.Sqrt(float64(c.HeadDim)))
	return c, nil
}

// The largest shapes that are believed. They are far above any model's and keep products within an int.
const (
	maxLayers = 1 << 12
	maxWidth  = 1 << 20
	maxVocab  = 1 << 24
)

func (c *Config) check(m Meta) error {
	sizes := []struct {
		name     string
		n, limit int
	}{
		{"number of layers", c.Layers, maxLayers},
		{"hidden size", c.Hidden, maxWidth},
		{"feed-forward size", c.FFN, maxWidth},
		{"number of attention heads", c.Heads, maxWidth},
		{"number of KV heads", c.KVHeads, maxWidth},
		{"head size", c.HeadDim, 1 << 12},
		{"size of the vocabulary", c.Vocab, maxVocab},
	}
	for _, s := range sizes {
		if s.n < 1 || s.n > s.limit {
			return fmt.Errorf("the %s is %d, want 1 to %d", s.name, s.n, s.limit)
		}
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%d attention heads cannot share %d KV heads evenly", c.Heads, c.KVHeads)
	case c.HeadDim%16 != 0:
		return fmt.Errorf("the head size is %d, want a multiple of 16", c.HeadDim)
	case m.RopeDim != 0 && m.RopeDim != c.HeadDim:
		return fmt.Errorf("only %d of a head's %d dimensions are rotated: not supported", m.RopeDim, c.HeadDim)
	case !(c.Eps > 0 && c.Eps < 1):
		return fmt.Errorf("the norms' epsilon is %g, want more than 0", m.Eps)
	case !(m.RopeBase > 1):
		return fmt.Errorf("the rotary base is %g, want more than 1", m.RopeBase)
	case m.Window < 0:
		return fmt.Errorf("the sliding window is %d", m.Window)
	}
	return c.Rope.Scaling.check(c.HeadDim)
}

func (s Scaling) check(dim int) error {
	if n := len(s.FrequencyDivisors); n != 0 && n != dim/2 {
		return fmt.Errorf("%s holds %d numbers, want %d", s.FrequencyDivisorsKey, n, dim/2)
	}
	switch s.Type {
	case "":
		return nil
	case "linear":
		if !(s.Factor > 0) {
			return fmt.Errorf("the linear rotary scaling has the factor %g", s.Factor)
		}
		return nil
	case "llama3":
		if !(s.Factor > 0 && s.LowFreq > 0 && s.HighFreq > s.LowFreq && s.Original > 0) {
			return fmt.Errorf("the llama3 rotary scaling is incomplete: factor %g, low %g, high %g, original context %g",
				s.Factor, s.LowFreq, s.HighFreq, s.Original)
		}
		return nil
	}
	return fmt.Errorf("rotary scaling %q is not known; known are linear and llama3", s.Type)
}

// Slide makes m's sliding layers those of c, each with the rotary base of m.RopeLocal, or base if the file gives none.
func (c *Config) Slide(m Meta, pattern int, base float64) error {
	if m.Window == 0 {
		return nil
	}
	if m.Pattern > 0 {
		pattern = m.Pattern
	}
	c.Window, c.Sliding = m.Window, make([]bool, c.Layers)
	for l := range c.Sliding {
		c.Sliding[l] = (l+1)%pattern != 0
	}
	if m.Sliding != nil {
		if len(m.Sliding) != c.Layers {
			return fmt.Errorf("the kinds of %d layers are given, the model has %d", len(m.Sliding), c.Layers)
		}
		copy(c.Sliding, m.Sliding)
	}
	if m.RopeLocal > 0 {
		base = m.RopeLocal
	}
	c.Local = Rope{Base: base, Dim: c.HeadDim}
	return nil
}

// InvFreq returns the Dim/2 angles of one position step, each computed and rounded to float32 as Hugging Face's
// modeling_rope_utils does: 1 / base^(2i/dim), then the scaling.
func (r Rope) InvFreq() []float32 {
	f := make([]float32, r.Dim/2)
	for i := range f {
		e := float32(2*i) / float32(r.Dim)
		f[i] = 1 / float32(math.Pow(r.Base, float64(e)))
	}
	switch r.Scaling.Type {
	case "linear":
		for i := range f {
			f[i] /= float32(r.Scaling.Factor)
		}
	case "llama3":
		for i := range f {
			f[i] = r.Scaling.llama3(f[i])
		}
	}
	for i, d := range r.Scaling.FrequencyDivisors {
		f[i] /= d
	}
	return f
}

// llama3 is _compute_llama3_parameters of transformers: low frequencies are divided by the factor, high ones kept, and those
// between are mixed.
func (s Scaling) llama3(inv float32) float32 {
	wave := 2 * math.Pi / float64(inv)
	switch low, high := s.Original/s.LowFreq, s.Original/s.HighFreq; {
	case wave > low:
		return float32(float64(inv) / s.Factor)
	case wave < high:
		return inv
	}
	smooth := (s.Original/wave - s.LowFreq) / (s.HighFreq - s.LowFreq)
	return float32(float64((1-smooth)*float64(inv)/s.Factor) + float64(smooth*float64(inv))) // converted, so that no machine fuses them
}

// Angles writes the cosine and sine of pos times each inverse frequency. The angle is rounded to float32 first, as torch does it;
// a more exact one would differ from every other implementation at long contexts.
func Angles(inv []float32, pos int, cos, sin []float32) {
	p := float32(pos)
	for i, f := range inv {
		s, c := math.Sincos(float64(float32(p * f)))
		cos[i], sin[i] = float32(c), float32(s)
	}
}
