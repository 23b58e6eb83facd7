package safetensors

import "encoding/json"

// Rope is how positions turn into rotations.
type Rope struct {
	// Theta is the base of the frequencies; 0 if the file does not say.
	Theta float64
	// Partial is the share of a head's dimensions that are rotated; 0 if the file does not say, which means all.
	Partial float64
	// Scaling stretches positions; its Type is empty if nothing is stretched.
	Scaling RopeScaling
}

// RopeScaling is rope_scaling of config.json. A number that the file does not give is 0.
type RopeScaling struct {
	// Type is "linear", "llama3", "yarn", "longrope", "dynamic" and so on. The file's "default" is empty here.
	Type string
	// Factor is how many times longer the context is made.
	Factor float64
	// LowFreq and HighFreq are low_freq_factor and high_freq_factor, and Original is original_max_position_embeddings (llama3).
	LowFreq, HighFreq, Original float64
}

// jsonRope holds the members of rope_scaling (up to transformers 4) and of rope_parameters (from 5 on), which holds theta too.
type jsonRope struct {
	Theta    float64 `json:"rope_theta"`
	Partial  float64 `json:"partial_rotary_factor"`
	Type     string  `json:"rope_type"`
	OldType  string  `json:"type"`
	Factor   float64 `json:"factor"`
	LowFreq  float64 `json:"low_freq_factor"`
	HighFreq float64 `json:"high_freq_factor"`
	Original float64 `json:"original_max_position_embeddings"`
}

func (j jsonRope) rope() Rope {
	r := Rope{Theta: j.Theta, Partial: j.Partial, Scaling: RopeScaling{
		Type: first(j.Type, j.OldType), Factor: j.Factor, LowFreq: j.LowFreq, HighFreq: j.HighFreq, Original: j.Original,
	}}
	if r.Scaling.Type == "default" {
		r.Scaling = RopeScaling{}
	}
	return r
}

// ropes returns the rotations of layers that see everything and of those that slide. Theta is written in four ways: on its own; on
// its own with a second one for the sliding layers, which are never stretched (Gemma 3 up to transformers 4); in rope_parameters; and
// in rope_parameters of each kind of layer (Gemma 3 from transformers 5 on).
func (j *jsonDecoder) ropes() (full, local Rope, err error) {
	var scaling jsonRope
	if raw := firstRaw(j.RopeScaling); raw != nil {
		if err := unmarshal(raw, &scaling, "config.json: rope_scaling"); err != nil {
			return full, local, err
		}
	}
	full = scaling.rope()
	if raw := firstRaw(j.RopeParameters); raw != nil {
		if full, local, err = parseRopeParameters(raw); err != nil {
			return full, local, err
		}
	}
	full.Theta = first(full.Theta, j.RopeTheta)
	full.Partial = first(full.Partial, j.Partial)
	if local == (Rope{}) {
		local = full
		if j.RopeLocal != 0 {
			local = Rope{Theta: j.RopeLocal, Partial: full.Partial}
		}
	}
	return full, local, nil
}

// parseRopeParameters reads the object of all layers, or the one object for each kind of layer. local is empty if there is only one.
func parseRopeParameters(raw json.RawMessage) (full, local Rope, err error) {
	const what = "config.json: rope_parameters"
	var kinds struct {
		Full    json.RawMessage `json:"full_attention"`
		Sliding json.RawMessage `json:"sliding_attention"`
	}
	if err := unmarshal(raw, &kinds, what); err != nil {
		return full, local, err
	}
	whole, sliding := firstRaw(kinds.Full), firstRaw(kinds.Sliding)
	var j jsonRope
	if err := unmarshal(firstRaw(whole, raw), &j, what); err != nil {
		return full, local, err
	}
	full = j.rope()
	if sliding == nil {
		return full, local, nil
	}
	j = jsonRope{}
	err = unmarshal(sliding, &j, what+": sliding_attention")
	return full, j.rope(), err
}

// check refuses numbers that no model has. key is where they stand.
func (r Rope) check(key string) error {
	return checkFloats([]floatField{
		{key + ": rope_theta", r.Theta, 1e15},
		{key + ": partial_rotary_factor", r.Partial, 1},
		{key + ": factor", r.Scaling.Factor, 1e6},
		{key + ": low_freq_factor", r.Scaling.LowFreq, 1e6},
		{key + ": high_freq_factor", r.Scaling.HighFreq, 1e6},
		{key + ": original_max_position_embeddings", r.Scaling.Original, 1 << 40},
	})
}
