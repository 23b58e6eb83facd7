package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantize rounds blocks of 32 activations to 8 bits.
func quantize() {
	TEXT("quantizeAVX2", 4, "func(x *float32, blocks int, q *int8, scale *float32, sum *float32)")
	Doc("quantizeAVX2 rounds blocks of 32 activations to 8 bits, with a scale and a sum for each block.")
	x, n, q := Load(Param("x"), GP64()), Load(Param("blocks"), GP64()), Load(Param("q"), GP64())
	scale, sum := Load(Param("scale"), GP64()), Load(Param("sum"), GP64())
	Label("quantize")
	v := ymms(4)
	most := YMM()
	for i, r := range v {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, r)
		if i == 0 {
			VANDPS(dwords("magnitude", 1<<31-1), r, most)
			continue
		}
		a := YMM()
		VANDPS(dwords("magnitude", 1<<31-1), r, a)
		VMAXPS(a, most, most)
	}
	m, t := XMM(), XMM()
	VEXTRACTF128(U8(1), most, t)
	VMAXPS(t, most.AsX(), m)
	VMOVHLPS(m, m, t)
	VMAXPS(t, m, m)
	VMOVSHDUP(m, t)
	VMAXSS(t, m, m)
	// A block of next to nothing becomes zeros: its scale would have no inverse.
	some := XMM()
	VCMPSS(U8(13) /* at least */, float("quantMin", 1e-30), m, some)
	d, inv := XMM(), XMM()
	VDIVSS(float("f127", 127), m, d)
	VANDPS(some, d, d)
	VMOVSS(d, Mem{Base: scale})
	VMOVSS(float("f127", 127), inv)
	VDIVSS(m, inv, inv)
	VANDPS(some, inv, inv)
	f := YMM()
	VBROADCASTSS(inv, f)
	total := YMM()
	for i, r := range v {
		VMULPS(f, r, r)
		VCVTPS2DQ(r, r)
		if i == 0 {
			VMOVDQA(r, total)
		} else {
			VPADDD(r, total, total)
		}
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	order := YMM()
	VMOVDQU(permutation(), order)
	VPERMD(v[0], order, v[0])
	VMOVDQU(v[0], Mem{Base: q})
	lo, hi := XMM(), XMM()
	VEXTRACTI128(U8(1), total, hi)
	VPADDD(hi, total.AsX(), lo)
	VPSHUFD(U8(0x4e), lo, hi)
	VPADDD(hi, lo, lo)
	VPSHUFD(U8(0xb1), lo, hi)
	VPADDD(hi, lo, lo)
	VCVTDQ2PS(lo, lo)
	VMOVSS(lo, Mem{Base: sum})
	ADDQ(U32(128), x)
	ADDQ(U8(32), q)
	ADDQ(U8(4), scale)
	ADDQ(U8(4), sum)
	SUBQ(U8(1), n)
	JNZ(LabelRef("quantize"))
	VZEROUPPER()
	RET()
}

// permutation puts the dwords behind two rounds of packing into their order.
func permutation() Mem {
	m := GLOBL("packOrder", 16|8)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}
	return m
}

// row1 multiplies a group with one row of rounded activations; dot adds a block's integer products of octet i to sums.
func row1(name string, header, super int, minima bool, dot func(w, a reg.Register, sums []reg.VecVirtual)) {
	TEXT(name, 4, "func(w *byte, a *int8, scales *float32, sums *float32, blocks int, c *float32)")
	Doc(name + " adds the products of a group with one row of rounded activations to c[0:32].")
	w, a, ds := Load(Param("w"), GP64()), Load(Param("a"), GP64()), Load(Param("scales"), GP64())
	ss, n, c := Load(Param("sums"), GP64()), Load(Param("blocks"), GP64()), Load(Param("c"), GP64())
	acc := ymms(4)
	for i, r := range acc {
		VMOVUPS(Mem{Base: c, Disp: 32 * i}, r)
	}
	Label(name + "_block")
	sums := ymms(4)
	dot(w, a, sums)
	d := YMM()
	VBROADCASTSS(Mem{Base: ds}, d)
	for i := range 4 {
		s := YMM()
		VCVTPH2PS(Mem{Base: w, Disp: 16 * i}, s)
		VMULPS(d, s, s)
		VCVTDQ2PS(sums[i], sums[i])
		VFMADD231PS(s, sums[i], acc[i])
	}
	if minima {
		t := YMM()
		VBROADCASTSS(Mem{Base: ss}, t)
		for i := range 4 {
			s := YMM()
			VCVTPH2PS(Mem{Base: w, Disp: 64 + 16*i}, s)
			VMULPS(d, s, s)
			VFMADD231PS(s, t, acc[i])
		}
		ADDQ(U8(4), ss)
	}
	ADDQ(U32(super), w)
	ADDQ(U8(32), a)
	ADDQ(U8(4), ds)
	SUBQ(U8(1), n)
	JNZ(LabelRef(name + "_block"))
	for i, r := range acc {
		VMOVUPS(r, Mem{Base: c, Disp: 32 * i})
	}
	VZEROUPPER()
	RET()
}

// fast8 takes the weights without their sign and gives it to the activations: so no pair of products leaves 16 bits, and -128 is
// no exception.
func fast8() {
	row1("fast8AVX2", 64, 64+1024, false, func(w, a reg.Register, sums []reg.VecVirtual) {
		ones := YMM()
		VMOVDQU(dwords("wordOnes", 0x00010001), ones)
		zero(sums)
		for t := range 8 {
			PREFETCHT0(Mem{Base: w, Disp: ahead + 128*t})
			PREFETCHT0(Mem{Base: w, Disp: ahead + 128*t + 64})
			act := YMM()
			VPBROADCASTD(Mem{Base: a, Disp: 4 * t}, act)
			for i := range 4 {
				p, size := YMM(), YMM()
				VMOVDQU(Mem{Base: w, Disp: 64 + 128*t + 32*i}, p)
				VPABSB(p, size)
				VPSIGNB(p, act, p)
				VPMADDUBSW(p, size, p)
				VPMADDWD(ones, p, p)
				VPADDD(p, sums[i], sums[i])
			}
		}
	})
}

// fast4 sums the products of a block in 16 bits: 16 products of at most 15 * 127 fit.
func fast4() {
	row1("fast4AVX2", 128, 128+512, true, func(w, a reg.Register, sums []reg.VecVirtual) {
		mask := YMM()
		VMOVDQU(dwords("byteNibbles", 0x0f0f0f0f), mask)
		for t := range 4 {
			PREFETCHT0(Mem{Base: w, Disp: ahead + 128*t})
			PREFETCHT0(Mem{Base: w, Disp: ahead + 128*t + 64})
			low, high := YMM(), YMM()
			VPBROADCASTD(Mem{Base: a, Disp: 4 * t}, low)
			VPBROADCASTD(Mem{Base: a, Disp: 16 + 4*t}, high)
			for i := range 4 {
				p, q := YMM(), YMM()
				VMOVDQU(Mem{Base: w, Disp: 128 + 128*t + 32*i}, q)
				VPAND(mask, q, p)
				VPSRLW(U8(4), q, q)
				VPAND(mask, q, q)
				VPMADDUBSW(low, p, p)
				VPMADDUBSW(high, q, q)
				if t == 0 {
					VPADDW(p, q, sums[i])
					continue
				}
				VPADDW(p, sums[i], sums[i])
				VPADDW(q, sums[i], sums[i])
			}
		}
		ones := YMM()
		VMOVDQU(dwords("wordOnes", 0x00010001), ones)
		for _, s := range sums {
			VPMADDWD(ones, s, s)
		}
	})
}
