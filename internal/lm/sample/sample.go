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

import (
	"cmp"
	"math"
	"slices"
)

// Params are the settings of a chain. The zero value of a field switches its stage off, except as noted.
type Params struct {
	// Temperature divides the logits; 0 takes the likeliest token.
	Temperature float64
	TopK        int
	TopP        float64 // 0 and 1 are off
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
	cand []candidate
}

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
// never chosen; if none is left, the answer is token 0.
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

// argmax is the first of the largest.
func argmax(logits []float32) int32 {
	best, most := 0, float32(math.Inf(-1))
	for i, v := range logits {
		if v > most {
			best, most = i, v
		}
	}
	return int32(best)
}

// candidates collects the tokens that top-k leaves, the likeliest first; equal ones in the order of their ids.
func (s *Sampler) candidates(logits []float32) {
	k := s.p.TopK
	if k <= 0 || k > len(logits) {
		k = len(logits)
	}
	s.cand = s.cand[:0]
	if k == len(logits) {
		for i, v := range logits {
			if usable(v) {
				s.cand = append(s.cand, candidate{id: int32(i), logit: v})
			}
		}
		slices.SortFunc(s.cand, byLogit)
		return
	}
	// A heap whose top is the worst of the k best so far: most tokens fail its one comparison.
	for i, v := range logits {
		c := candidate{id: int32(i), logit: v}
		switch {
		case !usable(v):
		case len(s.cand) < k:
			s.cand = append(s.cand, c)
			if len(s.cand) == k {
				for j := k/2 - 1; j >= 0; j-- {
					s.sink(j)
				}
			}
		case v > s.cand[0].logit:
			s.cand[0] = c
			s.sink(0)
		}
	}
	slices.SortFunc(s.cand, byLogit)
}

func usable(v float32) bool { return v > float32(math.Inf(-1)) } // false for NaN too

func byLogit(a, b candidate) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// sink moves the candidate at i down the heap, in which the last by byLogit is on top.
func (s *Sampler) sink(i int) {
	h := s.cand
	for {
		worst := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if byLogit(h[c], h[worst]) > 0 {
				worst = c
			}
		}
		if worst == i {
			return
		}
		h[i], h[worst] = h[worst], h[i]
		i = worst
	}
}

// weigh sets the probabilities of all candidates at a temperature, and returns their sum before they are divided by it.
func (s *Sampler) weigh(temperature float64) float64 {
	top, sum := float64(s.cand[0].logit), 0.0
	for i := range s.cand {
		s.cand[i].p = 1
		if d := (float64(s.cand[i].logit) - top) / temperature; !math.IsNaN(d) { // infinite ones share what there is
			s.cand[i].p = math.Exp(d)
		}
		sum += s.cand[i].p
	}
	return sum
}

// topP keeps the likeliest tokens whose probabilities, at temperature 1, add up to TopP.
func (s *Sampler) topP() {
	if s.p.TopP <= 0 || s.p.TopP >= 1 {
		return
	}
	sum := s.weigh(1)
	total := 0.0
	for i := range s.cand {
		if total += s.cand[i].p / sum; total >= s.p.TopP {
			s.cand = s.cand[:i+1]
			return
		}
	}
}

// minP keeps the tokens that are at least MinP times as likely, at temperature 1, as the likeliest.
func (s *Sampler) minP() {
	if s.p.MinP <= 0 {
		return
	}
	least := float64(s.cand[0].logit) + math.Log(s.p.MinP)
	for i := range s.cand {
		if float64(s.cand[i].logit) < least {
			s.cand = s.cand[:max(i, 1)]
			return
		}
	}
}

// draw takes a candidate by chance.
func (s *Sampler) draw(step uint64) int32 {
	x := uniform(s.p.Seed, step) * s.weigh(s.p.Temperature)
	for _, c := range s.cand {
		if x -= c.p; x < 0 {
			return c.id
		}
	}
	return s.cand[len(s.cand)-1].id // rounding left a rest
}

// uniform is a number in [0, 1) for each pair: two rounds of the SplitMix64 finaliser (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", 2014) over seed and step.
func uniform(seed, step uint64) float64 {
	return float64(mix(mix(seed+0x9e3779b97f4a7c15)^(step*0x9e3779b97f4a7c15+0xd1b54a32d192ed03))>>11) / (1 << 53)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Logprobs returns the natural logarithm of the probability of id, and the top likeliest tokens with theirs, from raw logits, before
// any setting of a request. Equal ones come in the order of their ids.
func Logprobs(logits []float32, id int32, top int) (chosen float64, ids []int32, logprobs []float64) {
	most := float64(logits[argmax(logits)])
	sum := 0.0
	for _, v := range logits {
		if usable(v) {
			sum += math.Exp(float64(v) - most)
		}
	}
	all := most + math.Log(sum)
	if top > 0 {
		s := Sampler{p: Params{TopK: top}}
		s.candidates(logits)
		for _, c := range s.cand {
			ids, logprobs = append(ids, c.id), append(logprobs, float64(c.logit)-all)
		}
	}
	return float64(logits[id]) - all, ids, logprobs
}
