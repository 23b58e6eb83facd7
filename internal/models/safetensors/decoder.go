package safetensors

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// Decoder is what config.json says to somebody who wants to run the model, beside what [Config] says to everybody. A number that the
// file does not give is 0. In a model that also sees or hears, the numbers are those of its language part (text_config).
type Decoder struct {
	Config

	// FFN is intermediate_size, the width inside the feed-forward part.
	FFN int
	// Eps is rms_norm_eps.
	Eps float64
	// Activation is the function of the feed-forward part, such as "silu" or "gelu_pytorch_tanh".
	Activation string
	// Rope is the rotation of layers that see everything, and LocalRope that of sliding ones. They are equal if the file gives one.
	Rope, LocalRope Rope
	// SlidingFrom is the first layer that slides in a Qwen model whose file turns its window on without listing the layers
	// (max_window_layers).
	SlidingFrom int
	// QueryScalar is query_pre_attn_scalar: scores are divided by its root instead of that of the head size.
	QueryScalar float64
	// AttnSoftcap and FinalSoftcap bound attention scores and logits (Gemma 2); 0 means no bound.
	AttnSoftcap, FinalSoftcap float64
	// AttentionBias and MLPBias report whether those projections have biases, in families that leave it open. (Qwen 2 always has some,
	// for queries, keys and values, and its files do not say it.)
	AttentionBias, MLPBias bool
	// TieEmbeddings reports whether the output matrix is the embedding; nil if the file does not say, and then the family decides:
	// Llama and Qwen have two matrices, Gemma has one.
	TieEmbeddings *bool
	// BOS and EOS are the tokens that begin and end a text.
	BOS, EOS []int
}

// jsonDecoder holds the keys of config.json that only an engine wants. They are apart from jsonConfig because some families write
// other kinds of values there (Gemma 3n a width for each layer), which must not keep anybody from looking at the model.
type jsonDecoder struct {
	Layers         int             `json:"num_hidden_layers"`
	FFN            int             `json:"intermediate_size"`
	Eps            float64         `json:"rms_norm_eps"`
	HiddenAct      string          `json:"hidden_act"`
	GemmaAct       string          `json:"hidden_activation"`
	RopeTheta      float64         `json:"rope_theta"`
	RopeLocal      float64         `json:"rope_local_base_freq"`
	RopeScaling    json.RawMessage `json:"rope_scaling"`
	RopeParameters json.RawMessage `json:"rope_parameters"`
	Partial        float64         `json:"partial_rotary_factor"`
	UseSliding     bool            `json:"use_sliding_window"`
	SlidingFrom    int             `json:"max_window_layers"`
	QueryScalar    float64         `json:"query_pre_attn_scalar"`
	AttnSoftcap    float64         `json:"attn_logit_softcapping"`
	FinalSoftcap   float64         `json:"final_logit_softcapping"`
	AttentionBias  bool            `json:"attention_bias"`
	MLPBias        bool            `json:"mlp_bias"`
	Tie            *bool           `json:"tie_word_embeddings"`
	BOS            tokens          `json:"bos_token_id"`
	EOS            tokens          `json:"eos_token_id"`
	Text           *jsonDecoder    `json:"text_config"`
}

// ParseDecoder decodes config.json for somebody who wants to run the model. It refuses what [ParseConfig] refuses, and values of a
// kind that the decoders we know do not have.
func ParseDecoder(text []byte) (*Decoder, error) {
	c, err := ParseConfig(text)
	if err != nil {
		return nil, err
	}
	var j jsonDecoder
	if err := unmarshal(text, &j, "config.json"); err != nil {
		return nil, err
	}
	lang := &j
	if j.Text != nil && j.Layers == 0 {
		lang = j.Text
	}
	d, err := lang.decoder()
	if err != nil {
		return nil, err
	}
	d.Config = *c
	// What the file says about the whole model goes before what it says about a part.
	d.TieEmbeddings = first(j.Tie, lang.Tie)
	d.BOS, d.EOS = firstTokens(j.BOS, lang.BOS), firstTokens(j.EOS, lang.EOS)
	return d, d.check()
}

func (j *jsonDecoder) decoder() (*Decoder, error) {
	d := &Decoder{
		FFN: j.FFN, Eps: j.Eps, Activation: first(j.GemmaAct, j.HiddenAct), QueryScalar: j.QueryScalar,
		AttnSoftcap: j.AttnSoftcap, FinalSoftcap: j.FinalSoftcap, AttentionBias: j.AttentionBias, MLPBias: j.MLPBias,
	}
	if j.UseSliding {
		d.SlidingFrom = j.SlidingFrom
	}
	var err error
	d.Rope, d.LocalRope, err = j.ropes()
	return d, err
}

// check refuses numbers that no model has.
func (d *Decoder) check() error {
	if n := len(d.BOS) + len(d.EOS); n > 1<<12 {
		return fmt.Errorf("config.json: bos_token_id and eos_token_id name %d tokens: %w", n, ErrInvalid)
	}
	return cmp.Or(
		d.Rope.check("rope_parameters"), d.LocalRope.check("rope_parameters of sliding layers"),
		checkFloats([]floatField{
			{"intermediate_size", float64(d.FFN), 1 << 24},
			{"max_window_layers", float64(d.SlidingFrom), maxCount},
			{"rms_norm_eps", d.Eps, 1},
			{"query_pre_attn_scalar", d.QueryScalar, maxCount},
			{"attn_logit_softcapping", d.AttnSoftcap, 1e9},
			{"final_logit_softcapping", d.FinalSoftcap, 1e9},
		}),
	)
}

// floatField is a number of config.json that may be 0 to most.
type floatField struct {
	key     string
	x, most float64
}

func checkFloats(fields []floatField) error {
	for _, f := range fields {
		if !(f.x >= 0 && f.x <= f.most) {
			return fmt.Errorf("config.json: %s is %g, want 0 to %g: %w", f.key, f.x, f.most, ErrInvalid)
		}
	}
	return nil
}

// tokens is one token id or a list of them. Files also write null, and some -1 for none.
type tokens []int

// UnmarshalJSON reads either form.
func (t *tokens) UnmarshalJSON(text []byte) error {
	*t = nil
	var list []*int
	if json.Unmarshal(text, &list) != nil {
		var one *int
		if err := json.Unmarshal(text, &one); err != nil {
			return err
		}
		list = []*int{one}
	}
	for _, id := range list {
		if id != nil && *id >= 0 {
			*t = append(*t, *id)
		}
	}
	return nil
}

func firstTokens(a, b tokens) []int {
	if len(a) > 0 {
		return a
	}
	return b
}
