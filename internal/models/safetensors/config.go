package safetensors

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Config is what config.json says about a model. A number that the file does not give is 0. In a model that also sees or
// hears, the numbers are those of its language part (text_config).
type Config struct {
	// ModelType is the family, such as "qwen3"; Architectures the classes that load it.
	ModelType     string
	Architectures []string

	Context, Hidden, Layers      int
	Heads, KVHeads, HeadDim      int
	VocabSize                    int
	Experts, ExpertsUsed         int
	MTPLayers                    int
	SlidingWindow, SlidingPeriod int
	// FullInterval is n when each nth layer has full attention and the others a fixed state (Qwen3-Next and later).
	FullInterval int
	// LayerTypes names each layer's attention, such as "full_attention"; empty if the file does not list them.
	LayerTypes []string
	// KVLoraRank and RopeHeadDim are the two parts of the latent that MLA models keep for each token.
	KVLoraRank, RopeHeadDim int
	// SharedKVLayers is how many of the last layers use the KV of earlier ones.
	SharedKVLayers int

	// Quantization is nil for full precision.
	Quantization *Quantization
}

// Quantization is how the weights of a folder are packed.
type Quantization struct {
	// Method is "mlx" for the block that MLX writes, else quantization_config's quant_method, such as "awq".
	Method string
	// Bits, GroupSize and Mode ("affine", "mxfp4", ...) hold for modules without an override. They are 0 and empty for a
	// method other than mlx that does not say.
	Bits, GroupSize int
	Mode            string
	// Overrides maps a module's path to its own setting.
	Overrides map[string]Override
}

// Override is the setting of one module.
type Override struct {
	// Plain reports whether the module is kept in full precision.
	Plain           bool
	Bits, GroupSize int
	Mode            string
}

// Module returns the setting of the module at path (a tensor's name without ".weight").
func (q *Quantization) Module(path string) Override {
	if o, ok := q.Overrides[path]; ok {
		return o
	}
	return Override{Bits: q.Bits, GroupSize: q.GroupSize, Mode: q.Mode}
}

// jsonConfig holds the keys of config.json under the names that different families use.
type jsonConfig struct {
	ModelType      string          `json:"model_type"`
	Architectures  []string        `json:"architectures"`
	Context        int             `json:"max_position_embeddings"`
	ContextGPT2    int             `json:"n_positions"`
	Hidden         int             `json:"hidden_size"`
	Layers         int             `json:"num_hidden_layers"`
	Heads          int             `json:"num_attention_heads"`
	KVHeads        int             `json:"num_key_value_heads"`
	HeadDim        int             `json:"head_dim"`
	VocabSize      int             `json:"vocab_size"`
	Experts        int             `json:"num_experts"`
	ExpertsLocal   int             `json:"num_local_experts"`
	ExpertsRouted  int             `json:"n_routed_experts"`
	ExpertsUsed    int             `json:"num_experts_per_tok"`
	MTP            int             `json:"num_nextn_predict_layers"`
	MTPQwen        int             `json:"mtp_num_hidden_layers"`
	SlidingWindow  int             `json:"sliding_window"`
	UseSliding     *bool           `json:"use_sliding_window"`
	SlidingPeriod  period          `json:"sliding_window_pattern"`
	FullInterval   int             `json:"full_attention_interval"`
	LayerTypes     []string        `json:"layer_types"`
	KVLoraRank     int             `json:"kv_lora_rank"`
	RopeHeadDim    int             `json:"qk_rope_head_dim"`
	SharedKVLayers int             `json:"num_kv_shared_layers"`
	Text           *jsonConfig     `json:"text_config"`
	MLX            json.RawMessage `json:"quantization"`
	HF             json.RawMessage `json:"quantization_config"`
}

// period is every how many layers one has full attention. Most families write a number, EXAONE 4 writes a picture of one
// period: "LLLG", three local layers and a global one.
type period int

// UnmarshalJSON reads either form.
func (p *period) UnmarshalJSON(text []byte) error {
	var picture string
	if json.Unmarshal(text, &picture) == nil {
		*p = period(len(picture))
		return nil
	}
	return json.Unmarshal(text, (*int)(p))
}

// ParseConfig decodes config.json.
func ParseConfig(text []byte) (*Config, error) {
	var j jsonConfig
	if err := unmarshal(text, &j, "config.json"); err != nil {
		return nil, err
	}
	lang := &j
	if j.Text != nil && j.Layers == 0 {
		lang = j.Text
	}
	c := lang.config()
	if lang != &j {
		c.Architectures = j.Architectures
		c.ModelType = first(j.ModelType, c.ModelType)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	var err error
	c.Quantization, err = parseQuantization(firstRaw(j.MLX, lang.MLX), firstRaw(j.HF, lang.HF))
	return c, err
}

func (j *jsonConfig) config() *Config {
	c := &Config{
		ModelType: j.ModelType, Architectures: j.Architectures,
		Context: first(j.Context, j.ContextGPT2), Hidden: j.Hidden, Layers: j.Layers,
		Heads: j.Heads, KVHeads: first(j.KVHeads, j.Heads), HeadDim: j.HeadDim,
		VocabSize: j.VocabSize,
		Experts:   first(j.Experts, j.ExpertsLocal, j.ExpertsRouted), ExpertsUsed: j.ExpertsUsed,
		MTPLayers:     first(j.MTP, j.MTPQwen),
		SlidingWindow: j.SlidingWindow, SlidingPeriod: int(j.SlidingPeriod),
		FullInterval: j.FullInterval, LayerTypes: j.LayerTypes,
		KVLoraRank: j.KVLoraRank, RopeHeadDim: j.RopeHeadDim, SharedKVLayers: j.SharedKVLayers,
	}
	if j.UseSliding != nil && !*j.UseSliding {
		c.SlidingWindow = 0 // Qwen writes a window and then says that it is not used
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	return c
}

// maxCount bounds every number of config.json: products of three of them still fit an int64.
const maxCount = 1 << 20

func (c *Config) check() error {
	fields := []struct {
		key string
		n   int
		max int
	}{
		{"max_position_embeddings", c.Context, 1 << 40},
		{"hidden_size", c.Hidden, maxCount},
		{"num_hidden_layers", c.Layers, 1 << 16},
		{"num_attention_heads", c.Heads, maxCount},
		{"num_key_value_heads", c.KVHeads, maxCount},
		{"head_dim", c.HeadDim, maxCount},
		{"vocab_size", c.VocabSize, 1 << 30},
		{"num_experts", c.Experts, maxCount},
		{"num_experts_per_tok", c.ExpertsUsed, maxCount},
		{"num_nextn_predict_layers", c.MTPLayers, maxCount},
		{"sliding_window", c.SlidingWindow, 1 << 40},
		{"sliding_window_pattern", c.SlidingPeriod, maxCount},
		{"full_attention_interval", c.FullInterval, maxCount},
		{"kv_lora_rank", c.KVLoraRank, maxCount},
		{"qk_rope_head_dim", c.RopeHeadDim, maxCount},
		{"num_kv_shared_layers", c.SharedKVLayers, maxCount},
	}
	for _, f := range fields {
		if f.n < 0 || f.n > f.max {
			return fmt.Errorf("config.json: %s is %d: %w", f.key, f.n, ErrInvalid)
		}
	}
	if len(c.LayerTypes) > 1<<16 {
		return fmt.Errorf("config.json: layer_types has %d entries: %w", len(c.LayerTypes), ErrInvalid)
	}
	return nil
}

// parseQuantization reads the block that MLX writes, else the one of other tools. "quantization_config" is also a mirror
// of MLX's own block, written for the hub's tooling.
func parseQuantization(mlx, hf json.RawMessage) (*Quantization, error) {
	if mlx != nil {
		return parseMLX(mlx, "quantization")
	}
	if hf == nil {
		return nil, nil
	}
	var j struct {
		Method string `json:"quant_method"`
		Bits   int    `json:"bits"`
		Group  int    `json:"group_size"`
	}
	if err := unmarshal(hf, &j, "config.json: quantization_config"); err != nil {
		return nil, err
	}
	if j.Method == "" && j.Bits > 0 && j.Group > 0 {
		return parseMLX(hf, "quantization_config")
	}
	return &Quantization{Method: first(j.Method, "unknown"), Bits: j.Bits, GroupSize: j.Group}, nil
}

// mlxSetting is the setting of a whole folder or one module.
type mlxSetting struct {
	Group int    `json:"group_size"`
	Bits  int    `json:"bits"`
	Mode  string `json:"mode"`
}

func parseMLX(raw json.RawMessage, key string) (*Quantization, error) {
	what := "config.json: " + key
	var all mlxSetting
	var members map[string]json.RawMessage
	if err := unmarshal(raw, &members, what); err != nil {
		return nil, err
	}
	if err := unmarshal(raw, &all, what); err != nil {
		return nil, err
	}
	q := &Quantization{Method: "mlx", Bits: all.Bits, GroupSize: all.Group, Mode: first(all.Mode, "affine")}
	if err := checkMLX(what, q.Mode, q.Bits, q.GroupSize); err != nil {
		return nil, err
	}
	for path, raw := range members {
		o, ok, err := parseOverride(what+": "+clip(path), raw, q)
		if err != nil {
			return nil, err
		}
		if ok {
			if q.Overrides == nil {
				q.Overrides = map[string]Override{}
			}
			q.Overrides[path] = o
		}
	}
	return q, nil
}

// parseOverride reads one member of the block: false keeps the module in full precision, true gives it the common setting,
// an object its own. Other members are the common settings themselves; ok is false for them.
func parseOverride(what string, raw json.RawMessage, q *Quantization) (o Override, ok bool, err error) {
	switch text := strings.TrimSpace(string(raw)); {
	case text == "false":
		return Override{Plain: true}, true, nil
	case text == "true":
		return Override{Bits: q.Bits, GroupSize: q.GroupSize, Mode: q.Mode}, true, nil
	case !strings.HasPrefix(text, "{"):
		return Override{}, false, nil
	}
	var s mlxSetting
	if err := unmarshal(raw, &s, what); err != nil {
		return Override{}, false, err
	}
	o = Override{Bits: first(s.Bits, q.Bits), GroupSize: first(s.Group, q.GroupSize), Mode: first(s.Mode, q.Mode)}
	return o, true, checkMLX(what, o.Mode, o.Bits, o.GroupSize)
}

// checkMLX refuses what MLX cannot have written, by name. Folders of other quantisers borrow the block with modes of their
// own, and read as one of ours they would give noise.
func checkMLX(what, mode string, bits, group int) error {
	if !slices.Contains([]string{"affine", "mxfp4", "mxfp8", "nvfp4"}, mode) {
		return fmt.Errorf("%s: unknown quantisation mode %q: %w", what, clip(mode), ErrInvalid)
	}
	if !slices.Contains([]int{2, 3, 4, 5, 6, 8}, bits) {
		return fmt.Errorf("%s: %d bits are not a width that MLX packs: %w", what, bits, ErrInvalid)
	}
	if !slices.Contains([]int{16, 32, 64, 128}, group) {
		return fmt.Errorf("%s: a group of %d is not one that MLX packs: %w", what, group, ErrInvalid)
	}
	return nil
}

// first returns the first of vs that is not zero.
func first[T comparable](vs ...T) T {
	var zero T
	for _, v := range vs {
		if v != zero {
			return v
		}
	}
	return zero
}

func firstRaw(vs ...json.RawMessage) json.RawMessage {
	for _, v := range vs {
		if len(v) > 0 && string(v) != "null" {
			return v
		}
	}
	return nil
}
