package sample

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// noise returns logits that look like a model's.
func noise(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64() * 3)
	}
	return out
}

// want is the chain in the plainest way: the probability of each token.
func want(p Params, history []int32, logits []float32) []float64 {
	x := make([]float64, len(logits))
	for i, v := range logits {
		x[i] = float64(v)
		if b, ok := p.Bias[int32(i)]; ok {
			x[i] = float64(v + float32(b))
		}
	}
	last := history[max(0, len(history)-p.PenaltyLast):]
	for i := range x {
		n := 0
		for _, id := range last {
			if int(id) == i {
				n++
			}
		}
		if n == 0 {
			continue
		}
		switch r := cmp.Or(p.RepetitionPenalty, 1); {
		case x[i] > 0:
			x[i] /= r
		default:
			x[i] *= r
		}
		x[i] = float64(float32(x[i] - float64(n)*p.FrequencyPenalty - p.PresencePenalty))
	}
	for _, id := range p.Ban {
		x[id] = math.Inf(-1)
	}
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[b], x[a]) })
	if p.Temperature == 0 {
		return softmaxOf(x, order[:1], 1)
	}
	if p.TopK > 0 {
		order = order[:min(p.TopK, len(order))]
	}
	if p.TopP > 0 && p.TopP < 1 {
		probs, sum := softmaxOf(x, order, 1), 0.0
		for i, id := range order {
			if sum += probs[id]; sum >= p.TopP {
				order = order[:i+1]
				break
			}
		}
	}
	if p.MinP > 0 {
		probs := softmaxOf(x, order, 1)
		least := probs[order[0]] * p.MinP
		order = slices.DeleteFunc(order, func(id int) bool { return probs[id] < least })
	}
	return softmaxOf(x, order, p.Temperature)
}

// softmaxOf is the probability of each token when only those in ids can be chosen.
func softmaxOf(x []float64, ids []int, temperature float64) []float64 {
	out := make([]float64, len(x))
	sum := 0.0
	for _, id := range ids {
		out[id] = math.Exp((x[id] - x[ids[0]]) / temperature)
		sum += out[id]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

var chains = []struct {
	name string
	p    Params
}{
	{"greedy", Params{}},
	{"temperature", Params{Temperature: 0.8}},
	{"hot", Params{Temperature: 3}},
	{"top-k", Params{Temperature: 1, TopK: 5}},
	{"top-k over the vocabulary", Params{Temperature: 1, TopK: 1000}},
	{"top-p", Params{Temperature: 1, TopP: 0.7}},
	{"top-p of nearly all", Params{Temperature: 1, TopP: 0.999999}},
	{"top-p of the likeliest", Params{Temperature: 1, TopP: math.SmallestNonzeroFloat64}},
	{"min-p", Params{Temperature: 1, MinP: 0.1}},
	{"min-p of 1", Params{Temperature: 1, MinP: 1}},
	{"top-p and min-p", Params{Temperature: 0.5, TopP: 0.9, MinP: 0.2}},
	{"llama.cpp's defaults", Params{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}},
	{"bias and ban", Params{Temperature: 1, Bias: map[int32]float64{3: 4.5, 60: -2, 9999: 1}, Ban: []int32{1, 7}}},
	{"bias, greedy", Params{Bias: map[int32]float64{3: 100}}},
	{"ban, greedy", Params{Bias: map[int32]float64{3: 100}, Ban: []int32{3}}},
	{"repetition", Params{Temperature: 1, TopK: 20, RepetitionPenalty: 1.3, PenaltyLast: 8}},
	{"repetition, greedy", Params{RepetitionPenalty: 5, PenaltyLast: 8}},
	{"frequency", Params{Temperature: 1, FrequencyPenalty: 0.7, PenaltyLast: 8}},
	{"presence", Params{Temperature: 1, PresencePenalty: 1.5, PenaltyLast: 8}},
	{"all", Params{
		Temperature: 1.2, TopK: 30, TopP: 0.9, MinP: 0.02, RepetitionPenalty: 1.1, FrequencyPenalty: 0.3, PresencePenalty: -0.4,
		PenaltyLast: 8, Bias: map[int32]float64{2: 1}, Ban: []int32{0},
	}},
}

// TestChainsAgainstExactProbabilities draws often, and compares counts with the exact probabilities by a chi-square test.
func TestChainsAgainstExactProbabilities(t *testing.T) {
	const draws = 20_000
	for _, tt := range chains {
		t.Run(tt.name, func(t *testing.T) {
			logits := noise(64, 5)
			logits[12] = logits[11]                                // a tie
			history := []int32{50, 3, 3, 9, 12, 63, 3, 20, 21, 22} // the first two are older than what penalties see
			exact := want(tt.p, history, logits)
			counts := make([]int, len(logits))
			for seed := range uint64(10) {
				tt.p.Seed = seed * 12345
				s := New(tt.p)
				for _, id := range history {
					s.Accept(id)
				}
				for step := range uint64(draws / 10) {
					counts[s.Next(slices.Clone(logits), step)]++
				}
			}
			chiSquare(t, counts, exact, draws)
		})
	}
}

// chiSquare fails if counts are further from the probabilities than chance takes them in one of a million cases. Rare values are put
// together, and impossible ones must not come.
func chiSquare(t *testing.T, counts []int, exact []float64, draws int) {
	t.Helper()
	sum, freedom := 0.0, -1
	rare, rareCount := 0.0, 0
	add := func(p float64, n int) {
		e := p * float64(draws)
		sum += (float64(n) - e) * (float64(n) - e) / e
		freedom++
	}
	for i, p := range exact {
		switch {
		case p == 0 && counts[i] > 0:
			t.Errorf("token %d came %d times and is impossible", i, counts[i])
		case p*float64(draws) < 10:
			rare += p
			rareCount += counts[i]
		default:
			add(p, counts[i])
		}
	}
	if rare*float64(draws) >= 1 {
		add(rare, rareCount)
	}
	// The cube root of chi-square over its freedom is close to normal (Wilson and Hilferty, 1931).
	f := float64(max(freedom, 1))
	z := (math.Cbrt(sum/f) - (1 - 2/(9*f))) / math.Sqrt(2/(9*f))
	if freedom > 0 && z > 4.75 {
		t.Errorf("chi-square %.1f with %d degrees of freedom is %.1f standard deviations off\ncounts %v\nexact %.4f",
			sum, freedom, z, counts, exact)
	}
}

// TestChainsOnManyLogits compares what is left after each chain with the plain one, on logits of many shapes.
func TestChainsOnManyLogits(t *testing.T) {
	for _, tt := range chains {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(50) {
				logits := noise(100+int(seed), seed)
				history := []int32{50, 3, 3, 9, 12, 63, 3, 20, 21, 22}
				exact := want(tt.p, history, logits)
				s := New(tt.p)
				for _, id := range history {
					s.Accept(id)
				}
				id := s.Next(slices.Clone(logits), seed)
				if tt.p.Temperature == 0 {
					if exact[id] != 1 {
						t.Fatalf("seed %d: took %d, which is not the likeliest", seed, id)
					}
					continue
				}
				sum, left := 0.0, 0
				for _, c := range s.cand {
					sum += c.p
				}
				for _, c := range s.cand {
					if p := c.p / sum; math.Abs(p-exact[c.id]) > 1e-12 {
						t.Fatalf("seed %d: token %d has the probability %g, want %g", seed, c.id, p, exact[c.id])
					}
				}
				for _, p := range exact {
					if p > 0 {
						left++
					}
				}
				if len(s.cand) != left {
					t.Fatalf("seed %d: %d tokens are left, want %d", seed, len(s.cand), left)
				}
			}
		})
	}
}

func TestSameSeedSameToken(t *testing.T) {
	p := Params{Temperature: 1, TopK: 50, Seed: 7}
	logits := noise(1000, 3)
	alone := New(p)
	var first []int32
	for step := range uint64(100) {
		first = append(first, alone.Next(slices.Clone(logits), step))
	}
	// The same steps in another order, by a sampler that did other things before.
	again := New(p)
	again.Next(noise(500, 4), 999)
	for step := 99; step >= 0; step-- {
		if id := again.Next(slices.Clone(logits), uint64(step)); id != first[step] {
			t.Fatalf("step %d: token %d, want %d", step, id, first[step])
		}
	}
	p.Seed = 8
	other, same := New(p), 0
	for step := range uint64(100) {
		if other.Next(slices.Clone(logits), step) == first[step] {
			same++
		}
	}
	if same > 50 {
		t.Errorf("another seed gave %d of 100 equal tokens", same)
	}
}

// TestUniform checks the random numbers along both of their counters: a chi-square over 64 boxes, and the correlation of neighbours.
func TestUniform(t *testing.T) {
	const draws = 64_000
	along := map[string]func(i uint64) float64{
		"steps":           func(i uint64) float64 { return uniform(1, i) },
		"seeds":           func(i uint64) float64 { return uniform(i, 0) },
		"seeds and steps": func(i uint64) float64 { return uniform(i, i) },
		"seeds of time":   func(i uint64) float64 { return uniform(1_700_000_000_000_000_000+i*1000, 5) },
	}
	for name, f := range along {
		t.Run(name, func(t *testing.T) {
			counts, exact := make([]int, 64), make([]float64, 64)
			sum := 0.0
			for i := range uint64(draws) {
				x := f(i)
				if x < 0 || x >= 1 {
					t.Fatalf("%g is not in [0, 1)", x)
				}
				counts[int(x*64)]++
				sum += (x - 0.5) * (f(i+1) - 0.5) * 12
			}
			for i := range exact {
				exact[i] = 1.0 / 64
			}
			chiSquare(t, counts, exact, draws)
			if r := sum / draws * math.Sqrt(draws); math.Abs(r) > 5 {
				t.Errorf("neighbours correlate: %.1f standard deviations", r)
			}
		})
	}
}

func TestBrokenLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	tests := []struct {
		name   string
		logits []float32
		want   []int32 // the tokens that may come
	}{
		{"not numbers", []float32{nan, nan, nan}, []int32{0}},
		{"nothing possible", []float32{-inf, -inf}, []int32{0}},
		{"one number among others", []float32{nan, -inf, 3, nan}, []int32{2}},
		{"infinite ones share", []float32{1, inf, 2, inf}, []int32{1, 3}},
		{"zeros", []float32{0, float32(math.Copysign(0, -1))}, []int32{0, 1}},
		{"very far apart", []float32{-math.MaxFloat32, math.MaxFloat32}, []int32{1}},
		{"far apart", []float32{-15000, 0}, []int32{1}},
		{"one token", []float32{5}, []int32{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range chains {
				c.p.Bias, c.p.Ban = nil, nil
				came := map[int32]bool{}
				for step := range uint64(50) {
					id := New(c.p).Next(slices.Clone(tt.logits), step)
					came[id] = true
					if !slices.Contains(tt.want, id) {
						t.Fatalf("%s: token %d, want one of %v", c.name, id, tt.want)
					}
				}
				if c.name == "temperature" && len(came) != len(tt.want) {
					t.Errorf("only %v came, want all of %v", came, tt.want)
				}
			}
			chosen, _, list := Logprobs(tt.logits, 0, 5)
			for _, p := range append(list, chosen) {
				if !(p <= 0 && p >= leastLogprob) {
					t.Errorf("log probability %g", p)
				}
			}
		})
	}
}

func TestGreedyTakesTheFirstOfEqualOnes(t *testing.T) {
	for n := 1; n < 40; n++ {
		for at := range n {
			logits := make([]float32, n)
			for i := at; i < n; i += 3 {
				logits[i] = 1
			}
			if got := argmax(logits); int(got) != at {
				t.Fatalf("%d logits: token %d, want %d", n, got, at)
			}
		}
	}
}

func TestPenaltiesForget(t *testing.T) {
	s := New(Params{PresencePenalty: 2, PenaltyLast: 3})
	logits := func() []float32 { return []float32{0, 1, 0.5, 0.2, 0.1} }
	for _, step := range []struct{ accept, want int32 }{{1, 2}, {2, 3}, {3, 4}, {4, 1}, {4, 1}, {4, 1}, {1, 2}} {
		s.Accept(step.accept)
		if got := s.Next(logits(), 0); got != step.want {
			t.Errorf("after %d: token %d, want %d", step.accept, got, step.want)
		}
	}
	s.Accept(-1) // tokens of no vocabulary do no harm
	s.Accept(99)
	s.Next(logits(), 0)
}

func TestLogprobs(t *testing.T) {
	logits := noise(500, 9)
	logits[40], logits[30] = 20, 20
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v))
	}
	chosen, ids, list := Logprobs(logits, 77, 500)
	if w := math.Log(math.Exp(float64(logits[77])) / sum); math.Abs(chosen-w) > 1e-12 {
		t.Errorf("log probability %g, want %g", chosen, w)
	}
	total := 0.0
	for i, id := range ids {
		if w := math.Log(math.Exp(float64(logits[id])) / sum); math.Abs(list[i]-w) > 1e-12 {
			t.Errorf("token %d: log probability %g, want %g", id, list[i], w)
		}
		total += math.Exp(list[i])
	}
	if len(ids) != 500 || math.Abs(total-1) > 1e-12 {
		t.Errorf("%d tokens, %g in all, want 500 and 1", len(ids), total)
	}
	_, ids, _ = Logprobs(logits, 0, 3)
	if len(ids) != 3 || ids[0] != 30 || ids[1] != 40 {
		t.Errorf("the first three are %v, want the equal ones 30 and 40 first", ids)
	}
	if _, ids, list = Logprobs(logits, 0, 0); ids != nil || list != nil {
		t.Errorf("got %v, %v, want none", ids, list)
	}
}

// FuzzNext runs a chain on any bits, and checks that the token is one that the plain chain allows.
func FuzzNext(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 192, 127, 0, 0, 128, 127}, 1.0, 2, 0.9, 0.1, 1.1, uint64(1))
	f.Add([]byte{0, 0, 128, 255, 0, 0, 0, 0}, 0.0, 0, 1.0, 0.0, 1.0, uint64(0))
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 1e-300, 1, 0.0, 1.0, 0.0, uint64(9))
	f.Fuzz(func(t *testing.T, bits []byte, temperature float64, k int, topP, minP, repeat float64, seed uint64) {
		var logits []float32
		for ; len(bits) >= 4; bits = bits[4:] {
			logits = append(logits, math.Float32frombits(binary.LittleEndian.Uint32(bits)))
		}
		if len(logits) == 0 {
			return
		}
		p := Params{
			Temperature: temperature, TopK: k, TopP: topP, MinP: minP, RepetitionPenalty: repeat, PenaltyLast: 4, Seed: seed, Ban: []int32{0},
		}
		s, again := New(p), New(p)
		s.Accept(1)
		again.Accept(1)
		id := s.Next(slices.Clone(logits), seed)
		if id < 0 || int(id) >= len(logits) {
			t.Fatalf("token %d of %d", id, len(logits))
		}
		if other := again.Next(slices.Clone(logits), seed); other != id {
			t.Fatalf("token %d, then %d", id, other)
		}
		// A penalty may take a very large logit out of the range of numbers.
		possible := slices.ContainsFunc(logits[1:], func(v float32) bool { return math.Abs(float64(v)) < 1e20 })
		if (id == 0 || !usable(logits[id])) && possible && repeat < 1e10 && repeat > 1e-10 {
			t.Fatalf("token %d was chosen, which is banned or impossible: %v", id, logits)
		}
		chosen, _, list := Logprobs(logits, id, k)
		for _, q := range append(list, chosen) {
			if !(q <= 0 && q >= leastLogprob) {
				t.Fatalf("log probability %g", q)
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	const vocabulary = 262_144
	logits := noise(vocabulary, 2)
	for _, bench := range []struct {
		name string
		p    Params
	}{
		{"greedy", Params{}},
		{"defaults", Params{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}},
		{"top-p alone", Params{Temperature: 0.8, TopP: 0.95}},
		{"top-p of a sharp one", Params{Temperature: 0.8, TopP: 0.5, Bias: map[int32]float64{5: 20}}},
		{"temperature alone", Params{Temperature: 0.8}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := New(bench.p)
			scratch := make([]float32, vocabulary)
			copy(scratch, logits)
			for b.Loop() {
				s.Next(scratch, 1)
				if bench.p.Bias != nil {
					scratch[5] = logits[5]
				}
			}
		})
	}
	b.Run("logprobs", func(b *testing.B) {
		for b.Loop() {
			Logprobs(logits, 5, 20)
		}
	})
}
