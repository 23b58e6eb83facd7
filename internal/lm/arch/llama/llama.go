// Package llama lists the steps of the Llama family: Llama 2 and 3, Mistral, SmolLM, TinyLlama and others that call themselves
// "llama". Pre-norm decoder, rotary positions, grouped-query attention, SiLU-gated feed-forward part; biases where the file has
// them.
//
// Source of the shape: transformers, models/llama/modeling_llama.py and models/mistral/modeling_mistral.py.
package llama

import "github.com/stoker-llm/stoker/internal/lm/arch/block"

// Config returns the shape that m describes.
func Config(m block.Meta) (block.Config, error) {
	c, err := block.Base(m, "silu", "swish")
	if err != nil {
		return c, err
	}
	// Mistral's first version: every layer slides, and positions turn alike everywhere.
	if m.Window > 0 {
		if m.Sliding == nil {
			m.Sliding = make([]bool, c.Layers)
			for l := range m.Sliding {
				m.Sliding[l] = true
			}
		}
		err = c.Slide(m, 1, c.Rope.Base)
		c.Local = c.Rope
	}
	return c, err
}

// Build lists the steps.
func Build(b *block.Builder) {
	b.Embed()
	for l := range b.Config.Layers {
		b.PreNormLayer(l, false, block.SiLU)
	}
	b.Head()
}
