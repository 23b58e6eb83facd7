package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/stoker-llm/stoker/internal/lm/tensor"
)

// generic is the set in plain Go: the truth for the others, on every machine.
func generic() *Set {
	s := &Set{name: "generic", sumSquares: sumSquares, silu: siluMul, gelu: geluMul, softmax: softmaxRow, quantize: quantizeBlocks}
	s.normalize, s.add, s.scale, s.rope = normalize, add, scale, rope
	for l := range layouts {
		if l.rounded() {
			s.fast[l] = func(w *byte, a *int8, scales, sums *float32, blocks, m int, c *float32, ldc int) {
				fastGroup(l, w, a, scales, sums, blocks, m, c, ldc)
			}
			continue
		}
		s.unpack[l] = func(header, sub *byte, subs int, dst *float32) { unpack(l, header, sub, subs, dst) }
		s.gemv[l] = func(w *byte, x *float32, supers int, y *float32) { gemv(l, w, x, supers, y) }
	}
	for m := 1; m <= TileQ; m++ {
		s.tile16[m] = tileOf(16, m)
		s.tile32[m] = tileOf(32, m)
		s.interleave[m] = func(dst, src *float32, ld, n int) { interleave(m, dst, src, ld, n) }
	}
	return s
}

func bytesAt(p *byte, n int) []byte { return unsafe.Slice(p, n) }
func at[T any](p *T, n int) *T      { return (*T)(unsafe.Add(unsafe.Pointer(p), n*int(unsafe.Sizeof(*p)))) }

func floatsAt(p *float32, n int) []float32    { return unsafe.Slice(p, n) }
func half(b []byte, lane int) float32         { return tensor.F16ToF32(binary.LittleEndian.Uint16(b[2*lane:])) }
func fma32(a, b, c float32) float32           { return tensor.FMA32(a, b, c) }
func nibbleAt(lines []byte, k, l int) float32 { return float32(lines[k/2*32+l] >> (4 * (k % 2)) & 15) }

// unpack writes sub-blocks as float32.
func unpack(l Layout, header, sub *byte, subs int, dst *float32) {
	sh := l.shape()
	// The simple layouts have one sub-block in a super-block: several sub-blocks are several super-blocks then.
	step := sh.sub
	if sh.superCols == sh.subCols {
		step = sh.super()
	}
	out := floatsAt(dst, subs*sh.subCols*GroupRows)
	h := bytesAt(header, sh.header)
	for i := range subs {
		b := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(sub), i*step)), sh.sub)
		if i > 0 && step != sh.sub {
			h = unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(header), i*step)), sh.header)
		}
		for k := range sh.subCols {
			row := out[(i*sh.subCols+k)*GroupRows:][:GroupRows]
			for lane := range row {
				row[lane] = weight(l, h, b, k, lane)
			}
		}
	}
}

// weight is element k of a lane in a sub-block.
func weight(l Layout, h, b []byte, k, lane int) float32 {
	switch l {
	case layF32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b[(k*32+lane)*4:]))
	case layF16:
		return half(b[k*64:], lane)
	case layBF16:
		return tensor.BF16ToF32(binary.LittleEndian.Uint16(b[k*64+2*lane:]))
	case lay8:
		return half(h, lane) * float32(int8(b[k*32+lane]))
	case lay4:
		return fma32(half(h, lane), nibbleAt(b, k, lane), half(h[64:], lane))
	case lay5:
		return fma32(half(h, lane), float32(b[k*32+lane]), half(h[64:], lane))
	case layK4, layK5:
		s, m := half(h, lane)*float32(b[lane]), half(h[64:], lane)*float32(b[32+lane])
		if l == layK4 {
			return fma32(s, nibbleAt(b[64:], k, lane), -m)
		}
		return fma32(s, float32(b[64+k*32+lane]), -m)
	case layK6:
		return float32(half(h, lane)*float32(int8(b[lane]))) * float32(int8(b[32+k*32+lane]))
	}
	panic("kernel: no such layout")
}

func gemv(l Layout, w *byte, x *float32, supers int, y *float32) {
	sh := l.shape()
	var tile [32 * GroupRows]float32
	out := floatsAt(y, GroupRows)
	clear(out)
	xs := floatsAt(x, supers*sh.superCols)
	group := bytesAt(w, supers*sh.super())
	for ; len(group) > 0; group = group[sh.super():] {
		for j := range sh.superCols / sh.subCols {
			unpack(l, &group[0], &group[sh.header+j*sh.sub], 1, &tile[0])
			for k := range sh.subCols {
				v := xs[k]
				for i, wt := range tile[k*GroupRows:][:GroupRows] {
					out[i] = fma32(wt, v, out[i])
				}
			}
			xs = xs[sh.subCols:]
		}
	}
}

// tileOf makes a tile of m rows and so many outputs.
func tileOf(outputs, m int) tileFunc {
	return func(w *float32, ldw int, x *float32, k int, c *float32, ldc int, _ uintptr) {
		if k == 0 {
			return
		}
		ws, xs, cs := floatsAt(w, (k-1)*ldw+outputs), floatsAt(x, k*m), floatsAt(c, (m-1)*ldc+outputs)
		for j := range m {
			out := cs[j*ldc:][:outputs]
			for p := range k {
				v := xs[p*m+j]
				for i, wt := range ws[p*ldw:][:outputs] {
					out[i] = fma32(wt, v, out[i])
				}
			}
		}
	}
}

func interleave(m int, dst, src *float32, ld, n int) {
	d, x := floatsAt(dst, n*m), floatsAt(src, (m-1)*ld+n)
	for i := range m {
		for k, v := range x[i*ld:][:n] {
			d[k*m+i] = v
		}
	}
}

// quantMin is the least largest number of a block that is not rounded to zeros: the scale of less would have no inverse.
const quantMin = 1e-30

// quantizeBlocks rounds activations to 8 bits.
func quantizeBlocks(x *float32, blocks int, q *int8, scale, sum *float32) {
	xs, qs := floatsAt(x, blocks*32), unsafe.Slice(q, blocks*32)
	scales, sums := floatsAt(scale, blocks), floatsAt(sum, blocks)
	for b := range blocks {
		in := xs[b*32:][:32]
		var most float32
		for _, v := range in {
			most = max(most, float32(math.Abs(float64(v))))
		}
		var d, inv float32
		if most >= quantMin {
			d, inv = most/127, 127/most
		}
		total := int32(0)
		for i, v := range in {
			n := int32(math.RoundToEven(float64(v * inv)))
			qs[b*32+i] = int8(n)
			total += n
		}
		scales[b], sums[b] = d, float32(total)
	}
}

// fastGroup multiplies one group with rounded activations of m rows.
func fastGroup(l Layout, w *byte, a *int8, scales, sums *float32, blocks, m int, c *float32, ldc int) {
	sh := l.shape()
	group, qs := bytesAt(w, blocks*sh.super()), unsafe.Slice(a, m*blocks*32)
	ds, ss, cs := floatsAt(scales, m*blocks), floatsAt(sums, m*blocks), floatsAt(c, (m-1)*ldc+GroupRows)
	for b := range blocks {
		sb := group[b*sh.super():][:sh.super()]
		for j := range m {
			act, d := qs[(j*blocks+b)*32:][:32], ds[j*blocks+b]
			for lane := range GroupRows {
				y := &cs[j*ldc+lane]
				*y = fma32(half(sb, lane)*d, float32(dot(l, sb[sh.header:], act, lane)), *y)
				if l == fast4 {
					*y = fma32(half(sb[64:], lane)*d, ss[j*blocks+b], *y)
				}
			}
		}
	}
}

// dot is the integer product of a lane's 32 weights with rounded activations.
func dot(l Layout, lines []byte, a []int8, lane int) int32 {
	sum := int32(0)
	for k, v := range a {
		if l == fast8 {
			sum += int32(int8(lines[k/4*128+lane*4+k%4])) * int32(v)
			continue
		}
		r := k % 16
		sum += int32(lines[r/4*128+lane*4+r%4]>>(k/16*4)&15) * int32(v)
	}
	return sum
}
