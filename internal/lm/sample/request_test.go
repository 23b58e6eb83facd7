package sample

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/stoker-llm/stoker/internal/infer"
)

func TestFromRequest(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	i := func(v int) *int { return &v }
	seed := int64(-1)
	defaults := Params{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepetitionPenalty: 1, PenaltyLast: 64}
	with := func(change func(p *Params)) Params {
		p := defaults
		change(&p)
		return p
	}
	tests := []struct {
		name string
		r    infer.Sampling
		want Params
	}{
		{"nothing said", infer.Sampling{}, defaults},
		{"greedy", infer.Sampling{Temperature: f(0)}, with(func(p *Params) { p.Temperature = 0 })},
		{"top-p of 0 is the likeliest token", infer.Sampling{TopP: f(0)}, with(func(p *Params) { p.TopP = math.SmallestNonzeroFloat64 })},
		{"top-k and min-p off", infer.Sampling{TopK: i(-1), MinP: f(0)}, with(func(p *Params) { p.TopK, p.MinP = -1, 0 })},
		{
			"penalties and seed",
			infer.Sampling{FrequencyPenalty: f(-2), PresencePenalty: f(2), RepetitionPenalty: f(1.1), Seed: &seed},
			with(func(p *Params) {
				p.FrequencyPenalty, p.PresencePenalty, p.RepetitionPenalty, p.Seed = -2, 2, 1.1, math.MaxUint64
			}),
		},
		{
			"a bias of -100 is a ban",
			infer.Sampling{LogitBias: map[int]float64{5: -100, 6: 3}},
			with(func(p *Params) { p.Bias, p.Ban = map[int32]float64{5: -100, 6: 3}, []int32{5} }),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := FromRequest(tt.r)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestFromRequestRefuses(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	k := -2
	tests := []struct {
		field string
		r     infer.Sampling
	}{
		{"temperature", infer.Sampling{Temperature: f(-0.1)}},
		{"temperature", infer.Sampling{Temperature: f(math.NaN())}},
		{"temperature", infer.Sampling{Temperature: f(math.Inf(1))}},
		{"top_p", infer.Sampling{TopP: f(1.1)}},
		{"min_p", infer.Sampling{MinP: f(-1)}},
		{"top_k", infer.Sampling{TopK: &k}},
		{"repetition_penalty", infer.Sampling{RepetitionPenalty: f(0)}},
		{"frequency_penalty", infer.Sampling{FrequencyPenalty: f(3)}},
		{"presence_penalty", infer.Sampling{PresencePenalty: f(-3)}},
		{"logit_bias", infer.Sampling{LogitBias: map[int]float64{-1: 1}}},
		{"logit_bias", infer.Sampling{LogitBias: map[int]float64{1: 101}}},
		{"logit_bias", infer.Sampling{LogitBias: map[int]float64{1: math.NaN()}}},
		{"logit_bias", infer.Sampling{LogitBias: map[int]float64{math.MaxInt32 + 1: 1}}},
	}
	for _, tt := range tests {
		_, err := FromRequest(tt.r)
		if e, ok := errors.AsType[*infer.Error](err); !ok || e.Kind != infer.ErrInvalid || e.Param != tt.field {
			t.Errorf("%+v: got %v, want an error of kind %s about %s", tt.r, err, infer.ErrInvalid, tt.field)
		}
	}
}
