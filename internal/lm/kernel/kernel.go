// Package kernel computes: matrices times activations, norms, rotations, gates, attention. Each operation exists once for every
// [Set]: in plain Go ("generic", always there) and in assembly for the processors we know. [Choose] takes the best that the machine
// runs.
//
// # Canonical arithmetic
//
// All sets give the same bits, for every number of rows, cut and thread count, because the order of all roundings is fixed:
//
//   - Exact matrices: an output is y = fma(w, x, y) from +0 over ascending columns. w is the weight that package tensor defines, x a
//     float32. fma rounds once.
//   - Fast matrices: activations are rounded to 8 bits in blocks of 32, a = scale*q with scale = max|x|/127 and q to nearest even.
//     An output is, from +0 over ascending blocks, y = fma(d*scale, dot, y), then, where the format has minima, y = fma(m*scale, sum, y);
//     dot is the integer product of the block, sum the sum of its activations, both exact. Formats without a fast kernel are computed
//     as in exact mode.
//   - Attention: a score is the exact product of query and key over ascending dimensions, times the scale. Probabilities are
//     exp(score - largest); they are summed in 16 lanes by position mod 16, in ascending order, and the lanes by halves: lane i with
//     i+8, then i+4, i+2, i+1. The output is y = fma(value, probability, y) from +0 over ascending positions, times 1/sum.
//   - Norms sum the squares in 16 lanes by index mod 16, y = fma(x, x, y), and the lanes by halves as above.
//   - exp is one polynomial with a fixed order of operations ([Exp]).
//
// So a prompt read in one piece, in many, or found in a cache, gives equal logits, bit for bit; tests compare bits.
//
// Functions of a Set may be called concurrently as long as they write to different places; an [Acts] is loaded by several threads at
// once, each its own tiles. Slices must have the lengths that are written down: they are checked only where that costs nothing.
package kernel

import (
	"fmt"
	"strings"
)

// Mode is how matrices are multiplied.
type Mode uint8

// The modes.
const (
	Exact Mode = iota // activations stay float32
	Fast              // activations are rounded to 8 bits
)

// String returns "exact" or "fast".
func (m Mode) String() string {
	if m == Fast {
		return "fast"
	}
	return "exact"
}

// Set is one implementation of all kernels.
type Set struct {
	name string
	// gemv multiplies one group with one row of activations: y[0:GroupRows].
	gemv [layouts]func(w *byte, x *float32, supers int, y *float32)
	// product adds to 16 outputs of m rows, for m = 2 to TileQ and half a group, with weights made in registers: c[j*ldc+i]. x lies as
	// for tile32. nil where a set has only unpack and tile32.
	product [layouts][TileQ + 1]productFunc
	// unpack writes subs sub-blocks as float32 to dst, [column][GroupRows].
	unpack [layouts]func(header, sub *byte, subs int, dst *float32)
	// tile16 and tile32 add to so many outputs of m rows, for m = 1 to TileQ: c[j*ldc+i] = fma(w[k*ldw+i], x[k*m+j], c[j*ldc+i]) over
	// ascending k. Meanwhile they may fetch what lies at next, 16 or 32 bytes for each column.
	tile16, tile32 [TileQ + 1]tileFunc
	// fast multiplies one group with m rows of rounded activations, for m = 1 to TileQ: adds to c[j*ldc+i].
	fast [layouts]fastFunc
	// read adds up n bytes, n a multiple of 512; nil where there is nothing better than Go.
	read func(p *byte, n int) byte
	// quantize rounds blocks of 32.
	quantize func(x *float32, blocks int, q *int8, scale, sum *float32)

	// interleave is dst[k*m+i] = src[i*ld+k] for m = 2 to TileQ rows and k < n, n a multiple of 8.
	interleave [TileQ + 1]func(dst, src *float32, ld, n int)

	// The following take n elements, n a multiple of 8, and sumSquares of 16.
	sumSquares func(x *float32, n int) float32
	// normalize is dst = x*f*w, add dst += src, scale dst = src*f. rope rotates pairs.
	normalize func(dst, x, w *float32, n int, f float32)
	add       func(dst, src *float32, n int)
	scale     func(dst, src *float32, n int, f float32)
	rope      func(a, b, cos, sin *float32, n int)
	// gate is dst = g / (1 + exp(-z)) * up, with z = g for SiLU.
	silu, gelu func(dst, gate, up *float32, n int)
	// softmax turns n scores into exp(s*scale - max) in place, and returns their sum; n is a multiple of 16 and only from <= i < to
	// count, the rest becomes 0.
	softmax func(s *float32, n, from, to int, scale float32) float32
}

type (
	tileFunc    func(w *float32, ldw int, x *float32, k int, c *float32, ldc int, next uintptr)
	productFunc func(w *byte, x *float32, supers int, c *float32, ldc, half int)
	fastFunc    func(w *byte, a *int8, scales, sums *float32, blocks, m int, c *float32, ldc int)
)

// Name is the set's name, such as "avx2".
func (s *Set) Name() string { return s.name }

// Sets returns the sets that this machine runs, best first.
func Sets() []*Set {
	sets := native()
	return append(sets, generic())
}

// Choose returns the set called name; "" and "auto" mean the best.
func Choose(name string) (*Set, error) {
	sets := Sets()
	if name == "" || name == "auto" {
		return sets[0], nil
	}
	var have []string
	for _, s := range sets {
		if s.name == name {
			return s, nil
		}
		have = append(have, s.name)
	}
	if why, ok := Missing()[name]; ok {
		return nil, fmt.Errorf("kernels %q cannot run here: %s; this machine runs %s", name, why, strings.Join(have, ", "))
	}
	return nil, fmt.Errorf("kernels %q are not known; this machine runs %s", name, strings.Join(have, ", "))
}
