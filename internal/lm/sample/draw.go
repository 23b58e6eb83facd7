package sample

import "math"

// topP keeps the likeliest tokens whose probabilities, at temperature 1, add up to TopP.
func (s *Sampler) topP() {
	if s.p.TopP <= 0 || s.p.TopP >= 1 {
		return
	}
	all := s.weigh(1)
	enough := all * s.p.TopP
	if !s.sorted {
		s.nucleus(enough, all-enough)
		return
	}
	total := 0.0
	for i := range s.cand {
		if total += s.cand[i].p; total >= enough {
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
	least := float64(s.most()) + math.Log(min(s.p.MinP, 1))
	kept := s.cand[:0]
	for _, c := range s.cand {
		if float64(c.logit) >= least {
			kept = append(kept, c)
		}
	}
	s.cand = kept
}

// most is the largest logit.
func (s *Sampler) most() float32 {
	most := s.cand[0].logit
	if s.sorted {
		return most
	}
	for _, c := range s.cand {
		if c.logit > most {
			most = c.logit
		}
	}
	return most
}

// weigh sets the weights of all candidates at a temperature, of which the largest is 1, and returns their sum.
func (s *Sampler) weigh(temperature float64) float64 {
	top, sum := float64(s.most()), 0.0
	for i := range s.cand {
		w := 1.0
		if d := (float64(s.cand[i].logit) - top) / temperature; !math.IsNaN(d) { // infinite ones share what there is
			w = math.Exp(d)
		}
		s.cand[i].p = w
		sum += w
	}
	return sum
}

// draw takes a candidate by chance.
func (s *Sampler) draw(step uint64) int32 {
	x := float64(s.weigh(s.p.Temperature) * uniform(s.p.Seed, step)) // converted, so that no machine fuses it with the difference
	last := s.cand[0].id
	for _, c := range s.cand {
		if c.p == 0 {
			continue
		}
		if x -= c.p; x < 0 {
			return c.id
		}
		last = c.id
	}
	return last // rounding left a rest
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
