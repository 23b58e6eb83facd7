package sample

import (
	"math"

	"github.com/stoker-llm/stoker/internal/infer"
)

// The defaults are those of llama.cpp (common/common.h), so that a client that says nothing gets the same kind of answer from either
// engine.
const (
	defaultTemperature = 0.8
	defaultTopK        = 40
	defaultTopP        = 0.95
	defaultMinP        = 0.05
	defaultPenaltyLast = 64
)

// FromRequest fills the defaults in and checks the numbers. Errors are *infer.Error that name the field as OpenAI spells it.
func FromRequest(r infer.Sampling) (Params, error) {
	p := Params{
		Temperature: or(r.Temperature, defaultTemperature),
		TopK:        or(r.TopK, defaultTopK), TopP: or(r.TopP, defaultTopP), MinP: or(r.MinP, defaultMinP),
		RepetitionPenalty: or(r.RepetitionPenalty, 1), FrequencyPenalty: or(r.FrequencyPenalty, 0), PresencePenalty: or(r.PresencePenalty, 0),
		PenaltyLast: defaultPenaltyLast, Seed: uint64(or(r.Seed, 0)),
	}
	checks := []struct {
		field     string
		v         float64
		low, high float64
	}{
		{"temperature", p.Temperature, 0, 100},
		{"top_p", p.TopP, 0, 1},
		{"min_p", p.MinP, 0, 1},
		{"top_k", float64(p.TopK), -1, math.MaxInt32},
		{"repetition_penalty", p.RepetitionPenalty, 0.01, 100},
		{"frequency_penalty", p.FrequencyPenalty, -2, 2},
		{"presence_penalty", p.PresencePenalty, -2, 2},
	}
	for _, c := range checks {
		if !(c.v >= c.low && c.v <= c.high) {
			return p, infer.Errorf(infer.ErrInvalid, c.field, "%s is %g, want %g to %g", c.field, c.v, c.low, c.high)
		}
	}
	if r.TopP != nil && *r.TopP == 0 { // the likeliest token alone, and not "off"
		p.TopP = math.SmallestNonzeroFloat64
	}
	for id, b := range r.LogitBias {
		if id < 0 || id > math.MaxInt32 || math.IsNaN(b) || math.Abs(b) > 100 {
			return p, infer.Errorf(infer.ErrInvalid, "logit_bias", "token %d with the bias %g: want a token id and -100 to 100", id, b)
		}
		if p.Bias == nil {
			p.Bias = map[int32]float64{}
		}
		p.Bias[int32(id)] = b
		if b <= -100 { // OpenAI: a ban
			p.Ban = append(p.Ban, int32(id))
		}
	}
	return p, nil
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
