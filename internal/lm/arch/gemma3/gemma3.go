// Package gemma3 lists the steps of Gemma 3's text models. Beside what Llama has: embeddings scaled by the root of the hidden size,
// norms around both parts of a layer and over each head of queries and keys, a GELU-gated feed-forward part, and five of six layers
// that see a window only and rotate with a base of their own.
//
// Source of the shape: transformers, models/gemma3/modeling_gemma3.py; what GGUF files leave unsaid (the pattern of six, the local
// base of 10000, the 27B model's attention scale) is from llama.cpp, src/models/gemma3.cpp.
package gemma3

import (
	"math"

	"github.com/stoker-llm/stoker/internal/lm/arch/block"
)

const (
	pattern   = 6     // every sixth layer sees everything
	localBase = 10000 // rotary base of the sliding layers
	layers27B = 62    // the one size whose files in GGUF do not say that its scores are scaled otherwise
)

// Config returns the shape that m describes.
func Config(m block.Meta) (block.Config, error) {
	c, err := block.Base(m, "gelu_pytorch_tanh")
	if err != nil {
		return c, err
	}
	c.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
	if m.UnitOffset {
		c.UnitOffset = 1
	}
	switch {
	case m.QueryScalar > 0:
		c.AttnScale = float32(1 / math.Sqrt(m.QueryScalar))
	case c.Layers == layers27B:
		c.AttnScale = float32(1 / math.Sqrt(float64(c.Hidden)/float64(c.Heads)))
	}
	return c, c.Slide(m, pattern, localBase)
}

// Build lists the steps.
func Build(b *block.Builder) {
	b.Embed()
	for l := range b.Config.Layers {
		n := block.Layer(l)
		b.Norm(n("attn_norm"), n("attn_norm.weight"), block.Hidden, block.Normed)
		b.Attention(l, true)
		b.Norm(n("attn_post_norm"), n("post_attention_norm.weight"), block.Branch, block.Branch)
		b.Add(n("attn_add"))
		b.Norm(n("ffn_norm"), n("ffn_norm.weight"), block.Hidden, block.Normed)
		b.FeedForward(l, block.GELUTanh)
		b.Norm(n("ffn_post_norm"), n("post_ffw_norm.weight"), block.Branch, block.Branch)
		b.Add(n("out"))
	}
	b.Head()
}
