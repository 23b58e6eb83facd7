//go:build !purego

package kernel

//go:generate sh -c "cd _gen && go run . -out ../avx2_amd64.s -stubs ../avx2_decl_amd64.go -pkg kernel && go run ./stamp"

import (
	"math"

	"golang.org/x/sys/cpu"
)

// hasAVX2 reports whether the processor runs the avx2 set.
func hasAVX2() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpuidF16C() }

// native returns the sets in assembly that this machine runs.
func native() []*Set {
	if !hasAVX2() {
		return nil
	}
	return []*Set{avx2()}
}

// Missing returns the sets that exist and cannot run here, with the reason.
func Missing() map[string]string {
	if hasAVX2() {
		return map[string]string{}
	}
	return map[string]string{"avx2": "the processor has no AVX2, FMA and F16C"}
}

// avx2 is the set for processors with AVX2, FMA and F16C: Intel from Haswell (2013), AMD from Zen (2017).
func avx2() *Set {
	s := &Set{name: "avx2", sumSquares: sumSquaresAVX2, silu: siluAVX2, gelu: geluAVX2, quantize: quantizeAVX2, read: readAVX2}
	s.normalize, s.add, s.scale, s.rope = normalizeAVX2, addAVX2, scaleAVX2, ropeAVX2
	s.softmax = func(x *float32, n, from, to int, scale float32) float32 {
		row := floatsAt(x, n)
		for i := range from {
			row[i] = float32(math.Inf(-1))
		}
		for i := to; i < n; i++ {
			row[i] = float32(math.Inf(-1))
		}
		return softmaxAVX2(x, n, scale)
	}
	s.gemv = [layouts]func(w *byte, x *float32, supers int, y *float32){
		layF32: gemvF32, layF16: gemvF16, layBF16: gemvBF16, lay8: gemv8, lay4: gemv4, lay5: gemv5, layK4: gemvK4, layK5: gemvK5, layK6: gemvK6,
	}
	s.product = [layouts][TileQ + 1]productFunc{
		layF32:  {2: productF32x2, productF32x3, productF32x4, productF32x5, productF32x6},
		layF16:  {2: productF16x2, productF16x3, productF16x4, productF16x5, productF16x6},
		layBF16: {2: productBF16x2, productBF16x3, productBF16x4, productBF16x5, productBF16x6},
		lay8:    {2: product8x2, product8x3, product8x4, product8x5, product8x6},
		lay4:    {2: product4x2, product4x3, product4x4, product4x5, product4x6},
		lay5:    {2: product5x2, product5x3, product5x4, product5x5, product5x6},
		layK4:   {2: productK4x2, productK4x3, productK4x4, productK4x5, productK4x6},
		layK5:   {2: productK5x2, productK5x3, productK5x4, productK5x5, productK5x6},
		layK6:   {2: productK6x2, productK6x3, productK6x4, productK6x5, productK6x6},
	}
	s.unpack = [layouts]func(header, sub *byte, subs int, dst *float32){
		layF32: unpackF32, layF16: unpackF16, layBF16: unpackBF16, lay8: unpack8, lay4: unpack4, lay5: unpack5,
		layK4: unpackK4, layK5: unpackK5, layK6: unpackK6,
	}
	s.tile16 = [TileQ + 1]tileFunc{nil, tile16x1, tile16x2, tile16x3, tile16x4, tile16x5, tile16x6}
	s.tile32 = [TileQ + 1]tileFunc{nil, tile32x1, tile32x2, tile32x3, tile32x4, tile32x5, tile32x6}
	s.interleave = [TileQ + 1]func(dst, src *float32, ld, n int){2: interleave2, interleave3, interleave4, interleave5, interleave6}
	s.fast[fast8] = rowByRow(fast8AVX2)
	s.fast[fast4] = rowByRow(fast4AVX2)
	return s
}

// rowByRow makes a kernel for several rows from one for a single row.
func rowByRow(f func(w *byte, a *int8, scales, sums *float32, blocks int, c *float32)) fastFunc {
	return func(w *byte, a *int8, scales, sums *float32, blocks, m int, c *float32, ldc int) {
		for j := range m {
			f(w, at(a, j*blocks*32), at(scales, j*blocks), at(sums, j*blocks), blocks, at(c, j*ldc))
		}
	}
}
