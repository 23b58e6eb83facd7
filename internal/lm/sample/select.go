package sample

import (
	"cmp"
	"math"
	"slices"
)

// argmax is the first of the largest.
func argmax(logits []float32) int32 {
	best, most := 0, float32(math.Inf(-1))
	i := 0
	for ; i+4 <= len(logits); i += 4 { // one branch that is nearly never taken for four
		v := logits[i : i+4 : i+4]
		if v[0] > most || v[1] > most || v[2] > most || v[3] > most {
			for j, x := range v {
				if x > most {
					best, most = i+j, x
				}
			}
		}
	}
	for ; i < len(logits); i++ {
		if logits[i] > most {
			best, most = i, logits[i]
		}
	}
	return int32(best)
}

// usable reports whether a token with this logit can be chosen.
func usable(v float32) bool { return v > float32(math.Inf(-1)) } // false for NaN too

// candidates collects the tokens that top-k leaves, the likeliest first and equal ones in the order of their ids. If it leaves all,
// they stay in the order of ids: sorting 262,144 tokens takes longer than a small model takes for a token.
func (s *Sampler) candidates(logits []float32) {
	k := s.p.TopK
	s.sorted = k > 0 && k < len(logits)
	if s.sorted {
		s.cand = best(s.cand[:0], logits, k)
		return
	}
	s.cand = s.cand[:0]
	for i, v := range logits {
		if usable(v) {
			s.cand = append(s.cand, candidate{id: int32(i), logit: v})
		}
	}
}

// best appends the k best tokens to an empty list, in order. k is at least 1.
func best(h []candidate, logits []float32, k int) []candidate {
	i := 0
	for ; i < len(logits) && len(h) < k; i++ {
		if usable(logits[i]) {
			h = append(h, candidate{id: int32(i), logit: logits[i]})
		}
	}
	// From here on h is a heap whose top is the worst of the k best so far: most tokens fail the one comparison with it.
	build(h, worse)
	for ; i < len(logits); i++ {
		if v := logits[i]; v > h[0].logit {
			h[0] = candidate{id: int32(i), logit: v}
			sink(h, 0, worse)
		}
	}
	slices.SortFunc(h, byLogit)
	return h
}

// nucleus keeps the best candidates whose weights add up to enough, in order; rest is what the others weigh at most. They come off a
// heap one by one, since there are few of them, as a rule.
func (s *Sampler) nucleus(enough, rest float64) {
	// What is lighter than this weighs less than the rest even all together, so the nucleus has no need of it. The half is for rounding.
	light := rest / float64(len(s.cand)) / 2
	h := slices.DeleteFunc(s.cand, func(c candidate) bool { return c.p < light })
	build(h, better)
	n := len(h)
	for total := 0.0; n > 0 && total < enough; {
		total += h[0].p
		n--
		h[0], h[n] = h[n], h[0]
		sink(h[:n], 0, better)
	}
	s.cand = h[n:]
	slices.Reverse(s.cand)
	s.sorted = true
}

// byLogit orders the likeliest first.
func byLogit(a, b candidate) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

func better(a, b candidate) bool { return a.logit > b.logit || a.logit == b.logit && a.id < b.id }

func worse(a, b candidate) bool { return better(b, a) }

// build makes a heap with the first, by before, on top.
func build(h []candidate, before func(a, b candidate) bool) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		sink(h, i, before)
	}
}

// sink moves the candidate at i down the heap to its place.
func sink(h []candidate, i int, before func(a, b candidate) bool) {
	for {
		first := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if before(h[c], h[first]) {
				first = c
			}
		}
		if first == i {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}
