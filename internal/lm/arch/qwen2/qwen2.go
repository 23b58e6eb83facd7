// Package qwen2 lists the steps of Qwen 2 and 2.5: as Llama, with biases on queries, keys and values.
//
// Source of the shape: transformers, models/qwen2/modeling_qwen2.py.
package qwen2

import "github.com/stoker-llm/stoker/internal/lm/arch/block"

// Config returns the shape that m describes. Qwen's files may speak of sliding layers that transformers itself leaves unused
// unless use_sliding_window is set; m then lists them in Sliding.
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
		b.PreNormLayer(l, false, block.SiLU)
	}
	b.Head()
}
