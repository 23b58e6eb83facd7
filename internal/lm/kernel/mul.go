package kernel

import "unsafe"

// TileQ is the most rows that a tile takes at once, of activations or of attention's queries: so many fit into the registers beside
// the weights.
const TileQ = 6

// tileCols is how many columns of a group are unpacked at a time: 128 x 32 floats stay in the first cache.
const tileCols = 128

// productCols is how many columns of a group are multiplied at a time where weights are made in registers: both halves of the group
// then find them in the first cache.
const productCols = 256

// Acts holds activations in the form that kernels read them in. They are cut into tiles of at most TileQ rows, as even as possible;
// a tile of m rows lies as [cols][m].
type Acts struct {
	cols  int
	float []float32
	// Rounded activations: 8 bits, with a scale and the sum of each block of 32. Row by row within a tile.
	q      []int8
	scales []float32
	sums   []float32
}

// NewActs makes room for max rows of cols activations.
func NewActs(m Mode, max, cols int) *Acts {
	a := &Acts{cols: cols, float: make([]float32, max*cols)}
	if m == Fast {
		a.q, a.scales, a.sums = make([]int8, max*cols), make([]float32, max*cols/32), make([]float32, max*cols/32)
	}
	return a
}

// Tiles is the number of tiles that m rows take.
func (a *Acts) Tiles(m int) int { return tiles(m) }

func tiles(m int) int { return (m + TileQ - 1) / TileQ }

// tileRows returns the rows [lo, hi) of tile i of m rows.
func tileRows(i, m int) (lo, hi int) {
	t := tiles(m)
	return i * m / t, (i + 1) * m / t
}

// Load prepares tiles [lo, hi) of m rows for matrices of layout l. Row i is x[i*ldx:], as long as the matrix has columns.
func (s *Set) Load(a *Acts, l Layout, x []float32, ldx, m, lo, hi int) {
	for t := lo; t < hi; t++ {
		from, to := tileRows(t, m)
		if l.rounded() {
			for r := from; r < to; r++ {
				b := a.cols / 32
				s.quantize(&x[r*ldx], b, &a.q[r*a.cols], &a.scales[r*b], &a.sums[r*b])
			}
			continue
		}
		s.side(to-from, a.float[from*a.cols:to*a.cols], x[from*ldx:], ldx, a.cols)
	}
}

// side writes m rows of n numbers side by side: [n][m].
func (s *Set) side(m int, dst, src []float32, ld, n int) {
	if m == 1 {
		copy(dst, src[:n])
		return
	}
	s.interleave[m](&dst[:n*m][0], &src[:(m-1)*ld+n][0], ld, n)
}

// Scratch is what one thread needs to multiply.
type Scratch struct {
	weights []float32 // tileCols x GroupRows
	out     []float32 // rows x GroupRows
}

// NewScratch makes scratch for up to rows rows of activations.
func NewScratch(rows int) *Scratch {
	return &Scratch{weights: make([]float32, tileCols*GroupRows), out: make([]float32, rows*GroupRows)}
}

// Mul computes groups [lo, hi) of w times the m rows in a, which was loaded for w's layout: out[i*ldo+r] is output r of row i.
// Outputs beyond w's rows are not written.
func (s *Set) Mul(w *Matrix, a *Acts, m, lo, hi int, out []float32, ldo int, sc *Scratch) {
	for g := lo; g < hi; g++ {
		group := w.mem[g*w.stride : (g+1)*w.stride]
		rows := min(GroupRows, w.rows-g*GroupRows)
		if m == 1 && !w.layout.rounded() && rows == GroupRows {
			s.gemv[w.layout](&group[0], &a.float[0], w.supers, &out[g*GroupRows])
			continue
		}
		c := sc.out[:m*GroupRows]
		switch {
		case w.layout.rounded():
			s.mulFast(w, group, a, m, c)
		case m == 1:
			s.gemv[w.layout](&group[0], &a.float[0], w.supers, &c[0])
		case m <= TileQ && s.product[w.layout][m] != nil:
			s.mulTile(w, group, a, m, c)
		default:
			s.mulTiles(w, group, a, m, c, sc.weights)
		}
		for i := range m {
			copy(out[i*ldo+g*GroupRows:][:rows], c[i*GroupRows:])
		}
	}
}

// mulFast multiplies one group with rounded activations.
func (s *Set) mulFast(w *Matrix, group []byte, a *Acts, m int, c []float32) {
	clear(c)
	b := a.cols / 32
	for t := range tiles(m) {
		from, to := tileRows(t, m)
		s.fast[w.layout](&group[0], &a.q[from*a.cols], &a.scales[from*b], &a.sums[from*b], b, to-from, &c[from*GroupRows], GroupRows)
	}
}

// mulTile multiplies one group with the rows of a single tile, without unpacking it to memory first.
func (s *Set) mulTile(w *Matrix, group []byte, a *Acts, m int, c []float32) {
	clear(c)
	step := max(1, productCols/w.shape.superCols)
	for super := 0; super < w.supers; super += step {
		n, piece := min(step, w.supers-super), &group[super*w.shape.super()]
		x := &a.float[super*w.shape.superCols*m]
		s.product[w.layout][m](piece, x, n, &c[0], GroupRows, 0)
		s.product[w.layout][m](piece, x, n, &c[16], GroupRows, 1)
	}
}

// mulTiles multiplies one group with several rows: a piece of the weights is unpacked, and all tiles take it from the cache.
// Between pieces the outputs wait in c, so that each stays one chain over ascending columns.
func (s *Set) mulTiles(w *Matrix, group []byte, a *Acts, m int, c, weights []float32) {
	clear(c)
	for col := 0; col < w.cols; {
		n := min(tileCols, w.cols-col)
		s.unpackCols(w, group, col, n, weights)
		next := address(group) + uintptr((col+n)/32*(w.stride/(w.cols/32)))
		for t := range tiles(m) {
			from, to := tileRows(t, m)
			rows := to - from
			x := &a.float[from*a.cols+col*rows]
			s.tile32[rows](&weights[0], GroupRows, x, n, &c[from*GroupRows], GroupRows, next+uintptr(min(t, 3)*32*n))
		}
		col += n
	}
}

// address is where b lies. A number, because what is fetched may lie behind the matrix, where no pointer may point.
func address[T any](b []T) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// unpackCols writes columns [col, col+n) of a group to dst.
func (s *Set) unpackCols(w *Matrix, group []byte, col, n int, dst []float32) {
	sh := w.shape
	for done := 0; done < n; {
		super := group[(col+done)/sh.superCols*sh.super():]
		at := (col + done) % sh.superCols
		take := n - done
		if sh.superCols > sh.subCols {
			take = min(take, sh.superCols-at) // one header
		}
		s.unpack[w.layout](&super[0], &super[sh.header+at/sh.subCols*sh.sub], take/sh.subCols, &dst[done*GroupRows])
		done += take
	}
}

// Read reads memory and does next to nothing with it: the limit that a product with one row can be compared with. It returns a sum,
// so that the work is not left out.
func (s *Set) Read(memory []byte) byte {
	n := len(memory) &^ 511
	var sum byte
	if s.read != nil && n > 0 {
		sum, memory = s.read(&memory[0], n), memory[n:]
	}
	for _, b := range memory {
		sum += b
	}
	return sum
}
