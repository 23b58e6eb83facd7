package tensor

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// encoder returns the function that encodes one block of t (or any number of elements if a block is one), nil for formats that are only decoded.
func encoder(t gguf.Type) func(src []float32, dst []byte) {
	switch t {
	case gguf.F32:
		return toF32
	case gguf.F16:
		return toF16
	case gguf.BF16:
		return toBF16
	case gguf.Q8_0:
		return toQ8
	case gguf.Q4_0:
		return toQ40
	case gguf.Q4_1:
		return toQ41
	case gguf.Q5_0:
		return toQ50
	case gguf.Q5_1:
		return toQ51
	}
	return nil
}

// Quantize encodes src as type t into dst, which must hold exactly src's blocks. The bytes are those of ggml's quantize_row_*_ref, which
// llama-quantize writes without an importance matrix. F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 can be encoded; the other formats
// are an error that names them.
//
// C leaves the conversion of a float to an integer that cannot hold it undefined, which ggml does where 1/scale overflows (a scale below
// 2^-128, which rounds to 0 in the block, so that all its numbers are 0 whatever their quants say) and for numbers that are not finite.
// Such a quant is 0 here, as it is on x86.
func Quantize(t gguf.Type, src []float32, dst []byte) error {
	f := encoder(t)
	if f == nil {
		if Supported(t) {
			return fmt.Errorf("format %s can be read but not written: use llama-quantize", t)
		}
		return fmt.Errorf("format %s is not supported", t)
	}
	if err := checkSize(t, len(src), len(dst)); err != nil {
		return err
	}
	n, b := int(t.BlockSize()), int(t.BlockBytes())
	if n == 1 {
		f(src, dst)
		return nil
	}
	for len(src) > 0 {
		f(src[:n], dst[:b])
		src, dst = src[n:], dst[b:]
	}
	return nil
}

func putHalf(b []byte, f float32) { binary.LittleEndian.PutUint16(b, F32ToF16(f)) }

func toF32(src []float32, dst []byte) {
	for i, x := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
	}
}

func toF16(src []float32, dst []byte) {
	for i, x := range src {
		putHalf(dst[2*i:], x)
	}
}

func toBF16(src []float32, dst []byte) {
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(x))
	}
}

// inverse is 1/d, or 0 for 0.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// truncate returns the low byte of f's integer part, 0 if that is not an int32.
func truncate(f float32) byte {
	if !(f > -1<<31 && f < 1<<31) {
		return 0
	}
	return byte(int32(f))
}

// round returns the nearest integer as truncate does; halves go away from zero, as in C's roundf.
func round(f float32) byte { return truncate(float32(math.Round(float64(f)))) }

// nibble is truncate to at most limit, in signed arithmetic as ggml does it.
func nibble(f float32, limit int8) byte { return byte(min(int8(truncate(f)), limit)) }

func toQ8(src []float32, dst []byte) {
	var most float32
	for _, x := range src {
		if a := abs(x); !(most > a) { // like ggml's MAX, also for NaN
			most = a
		}
	}
	d := most / 127
	putHalf(dst, d)
	id := inverse(d)
	for i, x := range src {
		dst[2+i] = round(x * id)
	}
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// peak is the number of src that is furthest from 0, the first of equals, with its sign.
func peak(src []float32) float32 {
	var most, at float32
	for _, x := range src {
		if most < abs(x) {
			most, at = abs(x), x
		}
	}
	return at
}

// bounds is the least and the largest number of src.
func bounds(src []float32) (least, most float32) {
	least, most = math.MaxFloat32, -math.MaxFloat32
	for _, x := range src {
		if x < least {
			least = x
		}
		if x > most {
			most = x
		}
	}
	return least, most
}

func toQ40(src []float32, dst []byte) {
	d := peak(src) / -8
	putHalf(dst, d)
	id := inverse(d)
	for i := range 16 {
		lo, hi := nibble(float32(src[i]*id)+8.5, 15), nibble(float32(src[i+16]*id)+8.5, 15)
		dst[2+i] = lo | hi<<4
	}
}

func toQ41(src []float32, dst []byte) {
	least, most := bounds(src)
	d := (most - least) / 15
	putHalf(dst, d)
	putHalf(dst[2:], least)
	id := inverse(d)
	for i := range 16 {
		lo, hi := nibble(float32((src[i]-least)*id)+0.5, 15), nibble(float32((src[i+16]-least)*id)+0.5, 15)
		dst[4+i] = lo | hi<<4
	}
}

func toQ50(src []float32, dst []byte) {
	d := peak(src) / -16
	putHalf(dst, d)
	id := inverse(d)
	fives(dst[2:], func(i int) byte { return nibble(float32(src[i]*id)+16.5, 31) })
}

func toQ51(src []float32, dst []byte) {
	least, most := bounds(src)
	d := (most - least) / 31
	putHalf(dst, d)
	putHalf(dst[2:], least)
	id := inverse(d)
	fives(dst[4:], func(i int) byte { return truncate(float32((src[i]-least)*id) + 0.5) })
}

// fives stores 32 numbers of 5 bits: 4 bytes of upper bits, then 16 of pairs of lower ones.
func fives(dst []byte, q func(i int) byte) {
	var high uint32
	for i := range 16 {
		lo, hi := q(i), q(i+16)
		dst[4+i] = lo&15 | hi<<4
		high |= uint32(lo>>4&1)<<i | uint32(hi>>4&1)<<(i+16)
	}
	binary.LittleEndian.PutUint32(dst, high)
}
