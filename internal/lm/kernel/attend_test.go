package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// aligned makes memory as kernels want it.
func aligned(n int) []byte {
	b := make([]byte, n+64)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & 63)
	return b[off : off+n]
}

// history is keys and values of one head in pages.
type history struct {
	d          int
	keys, vals [][]float32 // by position
	k, v       [][]float32 // pages
}

func newHistory(rng *rand.Rand, d, n int) *history {
	h := &history{d: d}
	for p := range n {
		if p%pageLen == 0 {
			// What was never written must not matter, whatever it is.
			k, v := make([]float32, d*pageLen), make([]float32, d*pageLen)
			for i := range v {
				v[i] = float32(math.NaN())
			}
			h.k, h.v = append(h.k, k), append(h.v, v)
		}
		h.keys, h.vals = append(h.keys, floats(rng, d)), append(h.vals, floats(rng, d))
		generic().StoreKV(h.k[p/pageLen], h.v[p/pageLen], p%pageLen, h.keys[p], h.vals[p])
	}
	return h
}

// attend computes queries that see positions from[i] <= p < to[i].
func (h *history) attend(s *Set, q [][]float32, from, to []int) [][]float32 {
	first, last := from[0]/pageLen, 0
	for _, t := range to {
		last = max(last, (t+pageLen-1)/pageLen)
	}
	a := &Attention{
		HeadDim: h.d, Scale: 0.125, K: h.k[first:last], V: h.v[first:last], First: first * pageLen, Q: q, From: from, To: to,
		Scratch: make([]float32, AttendFloats(h.d, (last-first)*pageLen)),
	}
	for range q {
		a.Out = append(a.Out, make([]float32, h.d))
	}
	s.Attend(a)
	return a.Out
}

// TestAttendIsTheFormula compares with softmax(QK)V in float64.
func TestAttendIsTheFormula(t *testing.T) {
	forSets(t, func(t *testing.T, s *Set) {
		rng := rand.New(rand.NewPCG(1, 9))
		h := newHistory(rng, 64, 150)
		for _, seen := range [][2]int{{0, 1}, {0, 32}, {0, 150}, {33, 34}, {70, 150}, {5, 129}} {
			q := floats(rng, 64)
			got := h.attend(s, [][]float32{q}, []int{seen[0]}, []int{seen[1]})[0]
			want := h.formula(q, seen[0], seen[1])
			for i := range want {
				if math.Abs(float64(got[i])-want[i]) > 2e-6 {
					t.Fatalf("positions %v: number %d is %g, want %g", seen, i, got[i], want[i])
				}
			}
		}
	})
}

func (h *history) formula(q []float32, from, to int) []float64 {
	scores, most := make([]float64, to), math.Inf(-1)
	for p := from; p < to; p++ {
		for i, x := range q {
			scores[p] += float64(x) * float64(h.keys[p][i])
		}
		scores[p] *= 0.125
		most = max(most, scores[p])
	}
	sum, out := 0.0, make([]float64, h.d)
	for p := from; p < to; p++ {
		e := math.Exp(scores[p] - most)
		sum += e
		for i, v := range h.vals[p] {
			out[i] += e * float64(v)
		}
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// TestAttendIsCanonical computes each query alone with the generic set, and then in tiles of all sizes with each set.
func TestAttendIsCanonical(t *testing.T) {
	forSets(t, func(t *testing.T, s *Set) {
		for _, d := range []int{16, 32, 64, 80, 128, 256} {
			for _, window := range []int{0, 20, 64} {
				canonical(t, s, d, window)
			}
		}
	})
}

func canonical(t *testing.T, s *Set, d, window int) {
	rng := rand.New(rand.NewPCG(uint64(d), uint64(window)))
	h := newHistory(rng, d, 110)
	var q, want [][]float32
	var from, to []int
	for p := 90; p < 110; p++ {
		q, to = append(q, floats(rng, d)), append(to, p+1)
		from = append(from, 0)
		if window > 0 {
			from[len(from)-1] = max(0, p+1-window)
		}
		i := len(q) - 1
		want = append(want, h.attend(generic(), q[i:], from[i:], to[i:])[0])
	}
	for n := 1; n <= TileQ; n++ {
		for i := 0; i < len(q); i += n {
			end := min(i+n, len(q))
			for j, got := range h.attend(s, q[i:end], from[i:end], to[i:end]) {
				sameBits(t, fmt.Sprintf("size %d, window %d, query %d in a tile of %d", d, window, i+j, n), got, want[i+j])
			}
		}
	}
}
