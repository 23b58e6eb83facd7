// Package tensor holds the number formats of model files, in plain Go: the truth that all kernels are compared with.
//
// [Dequantize] gives exactly the float32 numbers that gguf-py and torch see: each arithmetic operation of the format's definition is
// done in float32 and rounded once. Explicit conversions keep the compiler from fusing a product with a sum on machines that could.
// [Quantize] gives exactly the bytes that llama-quantize writes, for the formats that are simple to write. [FMA32] is the one operation
// that kernels build sums of, the same bits on every machine.
//
// All functions are pure and may be called concurrently.
//
// The formats: ggml/src/ggml-common.h and ggml-quants.c of ggml-org/llama.cpp, and gguf-py/gguf/quants.py.
package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// Types returns the formats that are supported.
func Types() []gguf.Type {
	return []gguf.Type{
		gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K,
	}
}

// Supported reports whether t is one of Types.
func Supported(t gguf.Type) bool { return slices.Contains(Types(), t) }

// decoder returns the function that decodes one block of t, or any number of elements if a block is one element.
func decoder(t gguf.Type) func(src []byte, dst []float32) {
	switch t {
	case gguf.F32:
		return f32
	case gguf.F16:
		return f16
	case gguf.BF16:
		return bf16
	case gguf.Q8_0:
		return q8
	case gguf.Q4_0:
		return q40
	case gguf.Q4_1:
		return q41
	case gguf.Q5_0:
		return q50
	case gguf.Q5_1:
		return q51
	case gguf.Q4_K:
		return q4K
	case gguf.Q5_K:
		return q5K
	case gguf.Q6_K:
		return q6K
	}
	return nil
}

// Dequantize decodes len(dst) elements of type t from src, which must hold exactly their blocks.
func Dequantize(t gguf.Type, src []byte, dst []float32) error {
	f := decoder(t)
	if f == nil {
		return fmt.Errorf("format %s is not supported", t)
	}
	if err := checkSize(t, len(dst), len(src)); err != nil {
		return err
	}
	n, b := int(t.BlockSize()), int(t.BlockBytes())
	if n == 1 {
		f(src, dst)
		return nil
	}
	for len(dst) > 0 {
		f(src[:b], dst[:n])
		src, dst = src[b:], dst[n:]
	}
	return nil
}

// checkSize checks that n elements of t are whole blocks, which take size bytes.
func checkSize(t gguf.Type, n, size int) error {
	want, ok := t.RowBytes(int64(n))
	if !ok {
		return fmt.Errorf("%d elements are not whole blocks of %s, which has %d in each", n, t, t.BlockSize())
	}
	if want != int64(size) {
		return fmt.Errorf("%d elements of %s in %d bytes, want %d", n, t, size, want)
	}
	return nil
}

func half(b []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(b)) }

func f32(src []byte, dst []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func f16(src []byte, dst []float32) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func bf16(src []byte, dst []float32) {
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func q8(src []byte, dst []float32) {
	d := half(src)
	for i, q := range src[2:34] {
		dst[i] = d * float32(int8(q))
	}
}

func q40(src []byte, dst []float32) {
	d := half(src)
	for i, q := range src[2:18] {
		dst[i], dst[i+16] = d*float32(int(q&15)-8), d*float32(int(q>>4)-8)
	}
}

func q41(src []byte, dst []float32) {
	d, m := half(src), half(src[2:])
	for i, q := range src[4:20] {
		dst[i], dst[i+16] = float32(d*float32(q&15))+m, float32(d*float32(q>>4))+m
	}
}

func q50(src []byte, dst []float32) {
	d, high := half(src), binary.LittleEndian.Uint32(src[2:])
	for i, q := range src[6:22] {
		lo, hi := int(q&15)|int(high>>i&1)<<4, int(q>>4)|int(high>>(i+16)&1)<<4
		dst[i], dst[i+16] = d*float32(lo-16), d*float32(hi-16)
	}
}

func q51(src []byte, dst []float32) {
	d, m, high := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for i, q := range src[8:24] {
		lo, hi := uint32(q&15)|high>>i&1<<4, uint32(q>>4)|high>>(i+16)&1<<4
		dst[i], dst[i+16] = float32(d*float32(lo))+m, float32(d*float32(hi))+m
	}
}

// KScale returns scale and minimum j of the 12 packed bytes of a Q4_K or Q5_K block: 6 bits each (get_scale_min_k4 of ggml).
func KScale(b []byte, j int) (scale, minimum byte) {
	if j < 4 {
		return b[j] & 63, b[j+4] & 63
	}
	return b[j+4]&15 | b[j-4]>>6<<4, b[j+4]>>4 | b[j]>>6<<4
}

func q4K(src []byte, dst []float32) {
	d, dmin, q := half(src), half(src[2:]), src[16:]
	for j := range 8 {
		sc, mn := KScale(src[4:16], j)
		s, m := d*float32(sc), float32(dmin*float32(mn)) // both exact: 11 bits times 6
		for i := range 32 {
			x := q[j/2*32+i] >> (4 * (j % 2)) & 15
			dst[32*j+i] = float32(s*float32(x)) - m
		}
	}
}

func q5K(src []byte, dst []float32) {
	d, dmin, high, q := half(src), half(src[2:]), src[16:48], src[48:]
	for j := range 8 {
		sc, mn := KScale(src[4:16], j)
		s, m := d*float32(sc), float32(dmin*float32(mn)) // both exact: 11 bits times 6
		for i := range 32 {
			x := q[j/2*32+i]>>(4*(j%2))&15 | high[i]>>j&1<<4
			dst[32*j+i] = float32(s*float32(x)) - m
		}
	}
}

func q6K(src []byte, dst []float32) {
	low, high, scales, d := src[:128], src[128:192], src[192:208], half(src[208:])
	for i := range 256 {
		h, r := i/128, i%128
		l := low[h*64+r%64] >> (4 * (r / 64)) & 15
		u := high[h*32+r%32] >> (2 * (r / 32)) & 3
		s := d * float32(int8(scales[i/16]))
		dst[i] = s * float32(int(l|u<<4)-32)
	}
}
