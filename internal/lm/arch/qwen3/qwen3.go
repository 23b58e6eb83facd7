// Package qwen3 lists the steps of Qwen 3's dense models: as Llama, with a norm over each head of queries and keys before they are
// rotated.
//
// Source of the shape: transformers, models/qwen3/modeling_qwen3.py.
package qwen3

import "github.com/stoker-llm/stoker/internal/lm/arch/block"

// Config returns the shape that m describes. Sliding layers count only if m lists them, as for Qwen 2.
func Config(m block.Meta) (block.Config, error) {
	c, err := block.Base(m, "silu", "swish")
	if err == nil && m.Sliding != nil {
		err = c.Slide(m, 1, c.Rope.Base)
		c.Local = c.Rope
	}
	return c, err
}

// Build lists the steps.
func Build(b *block.Builder) {
	b.Embed()
	for l := range b.Config.Layers {
		b.PreNormLayer(l, true, block.SiLU)
	}
	b.Head()
}
