package tensor

import "math"

// BF16ToF32 widens the upper half of a float32.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to the nearest bfloat16, halves to even. A number too large for it becomes infinite, NaN stays NaN and becomes quiet.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// F32ToF16 rounds to the nearest IEEE half precision number, halves to even. A number too large for it becomes infinite, NaN stays NaN,
// keeps the upper bits of its payload and becomes quiet, as the conversions of x86 and arm64 do it.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign, exp, man := uint16(b>>16&0x8000), int(b>>23&0xff)-112, b&0x7fffff
	switch {
	case f != f:
		return sign | 0x7e00 | uint16(man>>13)
	case exp >= 31: // 65536 and more; what rounds up to that from below carries over in even
		return sign | 0x7c00
	case exp > 0:
		return sign | uint16(even(uint32(exp)<<23|man, 13))
	case exp < -10: // less than half of the smallest subnormal number
		return sign
	}
	return sign | uint16(even(man|1<<23, 14-exp))
}

// even returns b / 2^n, rounded to the nearest integer, halves to even.
func even(b uint32, n int) uint32 { return (b + 1<<(n-1) - 1 + b>>n&1) >> n }

// F16ToF32 widens an IEEE half precision number.
func F16ToF32(h uint16) float32 {
	sign, exp, man := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0: // zero or subnormal: man x 2^-24, exact in float32
		f := float32(man) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// FMA32 returns a*b+c rounded once to float32, on every machine the same bits. The product of two float32 is exact in float64; if
// adding c is not, the sum is rounded to odd there, after which rounding to float32 is right (Boldo and Melquiond, "Emulation of FMA
// and correctly rounded sums: proved algorithms using rounding to odd", 2008).
func FMA32(a, b, c float32) float32 {
	p, z := float64(float64(a)*float64(b)), float64(c)
	s := p + z
	if math.Float64bits(s)&0x1fffffff != 0x10000000 && !(math.Abs(s) < 0x1p-126) {
		return float32(s) // not half way between two float32, so rounding twice does no harm
	}
	// TwoSum (Knuth): e is what s lacks.
	t := float64(s - p)
	e := float64(p-float64(s-t)) + float64(z-t)
	if bits := math.Float64bits(s); e != 0 && bits&1 == 0 {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}
