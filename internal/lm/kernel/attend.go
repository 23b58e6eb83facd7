package kernel

// pageLen is the positions of a KV page.
const pageLen = 32

// Attention is queries of one sequence that look at the keys and values of one KV head.
type Attention struct {
	HeadDim int
	Scale   float32
	// K and V are pages of 32 positions, [HeadDim][32] and [32][HeadDim]. First is the position of the first slot of the first page, a
	// multiple of 32.
	K, V  [][]float32
	First int
	// Q are the queries, at most TileQ, and Out takes the results: HeadDim floats each. Query i sees positions From[i] <= p < To[i], at
	// least one.
	Q, Out   [][]float32
	From, To []int
	// Scratch has AttendFloats floats.
	Scratch []float32
}

// AttendFloats is the scratch that attention over so many positions takes.
func AttendFloats(headDim, positions int) int {
	positions = (positions + pageLen - 1) / pageLen * pageLen
	return TileQ * (2*positions + 2*headDim)
}

// Attend computes a. Results do not depend on which other queries are computed with one, nor on pages that it does not see.
func (s *Set) Attend(a *Attention) {
	n, d := len(a.Q), a.HeadDim
	last := 0
	for _, to := range a.To {
		last = max(last, to-a.First)
	}
	pages := (last + pageLen - 1) / pageLen
	width := pages * pageLen
	queries, rest := a.Scratch[:n*d], a.Scratch[n*d:]
	scores, rest := rest[:n*width], rest[n*width:]
	probs, rest := rest[:n*width], rest[n*width:]
	out := rest[:n*d]

	for i, q := range a.Q {
		copy(out[i*d:], q[:d])
	}
	s.side(n, queries, out, d, d)
	clear(scores)
	for p := range pages {
		s.tile32[n](&a.K[p][:d*pageLen][0], pageLen, &queries[0], d, &scores[p*pageLen], width, next(a.K, p))
	}
	var inv [TileQ]float32
	for i := range n {
		row := scores[i*width : (i+1)*width]
		inv[i] = 1 / s.softmax(&row[0], width, max(0, a.From[i]-a.First), a.To[i]-a.First, a.Scale)
	}
	s.side(n, probs, scores, width, width)
	clear(out)
	for p := range pages {
		v := a.V[p][:d*pageLen]
		slots := min(pageLen, last-p*pageLen) // what lies behind was never written
		x := &probs[p*pageLen*n]
		c := 0
		for ; c+32 <= d; c += 32 {
			s.tile32[n](&v[c], d, x, slots, &out[c], d, next(a.V, p))
		}
		if c < d {
			s.tile16[n](&v[c], d, x, slots, &out[c], d, next(a.V, p))
		}
	}
	for i, o := range a.Out {
		s.scale(&o[:d][0], &out[i*d], d, inv[i])
	}
}

// next is the page behind page p, or what is read instead.
func next(pages [][]float32, p int) uintptr { return address(pages[min(p+1, len(pages)-1)]) }

// StoreKV writes the key and value of one position to slot of its page.
func (s *Set) StoreKV(kpage, vpage []float32, slot int, k, v []float32) {
	for i, x := range k {
		kpage[i*pageLen+slot] = x
	}
	copy(vpage[slot*len(v):], v)
}
