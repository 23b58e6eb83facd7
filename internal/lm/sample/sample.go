// Package sample chooses the next token from a model's logits.
//
//	p, err := sample.FromRequest(request.Sampling)
//	s := sample.New(p, vocabulary)
//	s.Accept(token)                 // for each token of the prompt and of the answer
//	id := s.Next(logits, step)
//
// The chain is llama.cpp's, in its order and with its defaults, so that engines agree: bias, penalties, then top-k, top-p, min-p,
// temperature, and a draw. The draw's random number is a function of seed and step only, so an answer depends on nothing but its own
// request.
//
// A Sampler belongs to one answer and one goroutine at a time. Functions are pure.
package sample

import "math"

// Params are the settings of a chain. The zero value of a field switches its stage off, except as noted.
type Params struct {
	// Temperature divides the logits; 0 takes the likeliest token.
	Temperature float64
	TopK        int
	TopP        float64 // 0 and 1 are off; FromRequest makes a tiny number of a request's 0
	MinP        float64
	// RepetitionPenalty divides (or, below 0, multiplies) the logits of tokens seen among the last PenaltyLast; 0 and 1 are off.
	// FrequencyPenalty is subtracted once for each time they were seen, PresencePenalty once.
	RepetitionPenalty, FrequencyPenalty, PresencePenalty float64
	PenaltyLast                                          int
	Bias                                                 map[int32]float64
	Seed                                                 uint64
	// Ban are tokens that are never chosen.
	Ban []int32
}

// Sampler chooses the tokens of one answer.
type Sampler struct {
	p Params
	// last is a ring of the tokens that penalties look at, and seen counts them.
	last []int32
	at   int
	seen map[int32]int
	// cand are the tokens that are left. Sorted reports whether the likeliest come first; else they are in the order of their ids.
	cand   []candidate
	sorted bool
}

// candidate is a token that can still be chosen. p is its weight at the temperature that was asked for last.
type candidate struct {
	id    int32
	logit float32
	p     float64
}

// New makes a sampler.
func New(p Params) *Sampler {
	s := &Sampler{p: p}
	if p.penalises() {
		s.seen = map[int32]int{}
	}
	return s
}

func (p *Params) penalises() bool {
	return p.PenaltyLast > 0 && (p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1 || p.FrequencyPenalty != 0 || p.PresencePenalty != 0)
}

// Accept notes a token of the text so far.
func (s *Sampler) Accept(id int32) {
	if s.seen == nil {
		return
	}
	if len(s.last) < s.p.PenaltyLast {
		s.last = append(s.last, id)
	} else {
		old := s.last[s.at]
		if s.seen[old]--; s.seen[old] == 0 {
			delete(s.seen, old)
		}
		s.last[s.at] = id
		s.at = (s.at + 1) % len(s.last)
	}
	s.seen[id]++
}

// Next returns the token for step, which counts the tokens of the answer. It may change logits. Logits that are not numbers are
// never chosen, and infinite ones share what there is. If nothing can be chosen, the answer is token 0: such a model is broken, and
// there is no right answer.
func (s *Sampler) Next(logits []float32, step uint64) int32 {
	s.adjust(logits)
	if s.p.Temperature <= 0 {
		return argmax(logits)
	}
	s.candidates(logits)
	if len(s.cand) == 0 {
		return 0
	}
	s.topP()
	s.minP()
	return s.draw(step)
}

// adjust applies what changes logits.
func (s *Sampler) adjust(logits []float32) {
	for id, b := range s.p.Bias {
		if id >= 0 && int(id) < len(logits) {
			logits[id] += float32(b)
		}
	}
	for id, n := range s.seen {
		if id < 0 || int(id) >= len(logits) {
			continue
		}
		x := float64(logits[id])
		if r := s.p.RepetitionPenalty; r > 0 && r != 1 {
			if x > 0 {
				x /= r
			} else {
				x *= r
			}
		}
		logits[id] = float32(x - float64(float64(n)*s.p.FrequencyPenalty) - s.p.PresencePenalty) // converted, so that no machine fuses them
	}
	for _, id := range s.p.Ban {
		if id >= 0 && int(id) < len(logits) {
			logits[id] = float32(math.Inf(-1))
		}
	}
}
