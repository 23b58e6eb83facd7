package sample

import "math"

// leastLogprob stands for a probability of 0, whose logarithm has no place in JSON. OpenAI's interface does the same.
const leastLogprob = -9999

// Logprobs returns the natural logarithm of the probability of id, and the top likeliest tokens with theirs, from raw logits, before
// any setting of a request. Equal ones come in the order of their ids. Logits that are not numbers count for nothing. No result is
// below -9999, so all can be written as JSON.
func Logprobs(logits []float32, id int32, top int) (chosen float64, ids []int32, logprobs []float64) {
	d := distribution(logits)
	if top > 0 {
		for _, c := range best(nil, logits, min(top, len(logits))) {
			ids, logprobs = append(ids, c.id), append(logprobs, d.logprob(c.logit))
		}
	}
	return d.logprob(logits[id]), ids, logprobs
}

// softmax holds what the logarithm of a probability needs: the largest logit, and the logarithm of the sum of exp(v - most).
type softmax struct{ most, sum float64 }

func distribution(logits []float32) softmax {
	s := softmax{most: float64(logits[argmax(logits)])}
	sum := 0.0
	for _, v := range logits {
		d := float64(v) - s.most
		switch {
		case math.IsInf(float64(v), 1): // one of the infinite ones, which share what there is
			sum++
		case d > -60: // below it, all of a vocabulary together is lost in rounding
			sum += math.Exp(d)
		}
	}
	s.sum = math.Log(sum)
	return s
}

// logprob is the logarithm of the probability of a token with logit v.
func (s softmax) logprob(v float32) float64 {
	d := float64(v) - s.most
	if math.IsInf(s.most, 1) && math.IsInf(float64(v), 1) {
		d = 0
	}
	if p := d - s.sum; p > leastLogprob {
		return min(p, 0)
	}
	return leastLogprob // also for what is not a number
}
