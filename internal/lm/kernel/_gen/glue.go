package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func float(name string, f float32) Mem { return dwords(name, math.Float32bits(f)) }

// halves sums two registers of lanes 0 to 7 and 8 to 15 by halves, into the lowest element of the result.
func halves(a, b reg.VecVirtual) reg.VecVirtual {
	VADDPS(b, a, a)
	x, y := XMM(), XMM()
	VEXTRACTF128(U8(1), a, y)
	VADDPS(y, a.AsX(), x)
	VMOVHLPS(x, x, y)
	VADDPS(y, x, x)
	VMOVSHDUP(x, y)
	VADDSS(y, x, x)
	return x
}

func sumSquares() {
	TEXT("sumSquaresAVX2", 4, "func(x *float32, n int) float32")
	Doc("sumSquaresAVX2 sums n squares, n a multiple of 16, in 16 lanes.")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	acc := ymms(2)
	zero(acc)
	Label("squares")
	for i, a := range acc {
		v := YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v)
		VFMADD231PS(v, v, a)
	}
	ADDQ(U8(64), x)
	SUBQ(U8(16), n)
	JNZ(LabelRef("squares"))
	Store(halves(acc[0], acc[1]), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// normalize is dst = x * f * w.
func normalize() {
	TEXT("normalizeAVX2", 4, "func(dst *float32, x *float32, w *float32, n int, f float32)")
	Doc("normalizeAVX2 is dst = (x * f) * w for n elements, n a multiple of 8.")
	dst, x, w, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("w"), GP64()), Load(Param("n"), GP64())
	low, f := XMM(), YMM()
	Load(Param("f"), low)
	VBROADCASTSS(low, f)
	Label("normalize")
	v := YMM()
	VMULPS(Mem{Base: x}, f, v)
	VMULPS(Mem{Base: w}, v, v)
	VMOVUPS(v, Mem{Base: dst})
	advance(32, dst, x, w)
	SUBQ(U8(8), n)
	JNZ(LabelRef("normalize"))
	VZEROUPPER()
	RET()
}

// rope rotates pairs.
func rope() {
	TEXT("ropeAVX2", 4, "func(a *float32, b *float32, cos *float32, sin *float32, n int)")
	Doc("ropeAVX2 rotates the pairs (a, b) by n angles, n a multiple of 8.")
	a, b, n := Load(Param("a"), GP64()), Load(Param("b"), GP64()), Load(Param("n"), GP64())
	cos, sin := Load(Param("cos"), GP64()), Load(Param("sin"), GP64())
	Label("rope")
	p, q, c, s := YMM(), YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: a}, p)
	VMOVUPS(Mem{Base: b}, q)
	VMOVUPS(Mem{Base: cos}, c)
	VMOVUPS(Mem{Base: sin}, s)
	x, y := YMM(), YMM()
	VMULPS(c, p, x)
	VMULPS(s, q, y)
	VSUBPS(y, x, x)
	VMOVUPS(x, Mem{Base: a})
	VMULPS(c, q, q)
	VMULPS(s, p, p)
	VADDPS(p, q, q)
	VMOVUPS(q, Mem{Base: b})
	advance(32, a, b, cos, sin)
	SUBQ(U8(8), n)
	JNZ(LabelRef("rope"))
	VZEROUPPER()
	RET()
}

// add is dst += src.
func add() {
	TEXT("addAVX2", 4, "func(dst *float32, src *float32, n int)")
	Doc("addAVX2 is dst += src for n elements, n a multiple of 8.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	Label("add")
	v := YMM()
	VMOVUPS(Mem{Base: dst}, v)
	VADDPS(Mem{Base: src}, v, v)
	VMOVUPS(v, Mem{Base: dst})
	advance(32, dst, src)
	SUBQ(U8(8), n)
	JNZ(LabelRef("add"))
	VZEROUPPER()
	RET()
}

// scale is dst = src * f.
func scale() {
	TEXT("scaleAVX2", 4, "func(dst *float32, src *float32, n int, f float32)")
	Doc("scaleAVX2 is dst = src * f for n elements, n a multiple of 8.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	low, f := XMM(), YMM()
	Load(Param("f"), low)
	VBROADCASTSS(low, f)
	Label("scale")
	v := YMM()
	VMULPS(Mem{Base: src}, f, v)
	VMOVUPS(v, Mem{Base: dst})
	advance(32, dst, src)
	SUBQ(U8(8), n)
	JNZ(LabelRef("scale"))
	VZEROUPPER()
	RET()
}

// advance moves pointers by n bytes.
func advance(n int, pointers ...reg.Register) {
	for _, p := range pointers {
		ADDQ(U8(n), p)
	}
}

// exp replaces x by e to the power of x: the same operations as Exp in Go.
func exp(x reg.VecVirtual) reg.VecVirtual {
	tiny, n, r, p := YMM(), YMM(), YMM(), YMM()
	VCMPPS(U8(1) /* less */, float("expMin", -87.33654), x, tiny)
	VMINPS(float("expMax", 88), x, x)
	VMULPS(float("log2e", 1.44269504088896341), x, n)
	VROUNDPS(U8(0), n, n)
	VMOVAPS(x, r)
	VFNMADD231PS(float("ln2hi", 0.693359375), n, r)
	VFNMADD231PS(float("ln2lo", -2.12194440e-4), n, r)
	VMOVUPS(float("exp5", 1.9875691500e-4), p)
	VFMADD213PS(float("exp4", 1.3981999507e-3), r, p)
	VFMADD213PS(float("exp3", 8.3334519073e-3), r, p)
	VFMADD213PS(float("exp2", 4.1665795894e-2), r, p)
	VFMADD213PS(float("exp1", 1.6666665459e-1), r, p)
	VFMADD213PS(float("exp0", 5.0000001201e-1), r, p)
	sq := YMM()
	VMULPS(r, r, sq)
	VFMADD213PS(r, sq, p)
	VADDPS(float("one", 1), p, p)
	VCVTPS2DQ(n, n)
	VPSLLD(U8(23), n, n)
	VPADDD(n, p, p)
	VANDNPS(p, tiny, p)
	return p
}

func gate(kind string) {
	name := kind + "AVX2"
	TEXT(name, 4, "func(dst *float32, gate *float32, up *float32, n int)")
	Doc(name + " is dst = gate / (1 + exp(-z)) * up for n elements, n a multiple of 8.")
	dst, g, up, n := Load(Param("dst"), GP64()), Load(Param("gate"), GP64()), Load(Param("up"), GP64()), Load(Param("n"), GP64())
	Label(kind)
	v, z := YMM(), YMM()
	VMOVUPS(Mem{Base: g}, v)
	if kind == "gelu" {
		VMULPS(v, v, z)
		VMULPS(v, z, z)
		VFMADD132PS(float("geluCubic", 0.044715), v, z)
		VMULPS(float("geluTwo", 1.5957691216057308), z, z)
		VXORPS(dwords("sign", 1<<31), z, z)
	} else {
		VXORPS(dwords("sign", 1<<31), v, z)
	}
	e := exp(z)
	VADDPS(float("one", 1), e, e)
	VDIVPS(e, v, v)
	VMULPS(Mem{Base: up}, v, v)
	VMOVUPS(v, Mem{Base: dst})
	advance(32, dst, g, up)
	SUBQ(U8(8), n)
	JNZ(LabelRef(kind))
	VZEROUPPER()
	RET()
}

func softmax() {
	TEXT("softmaxAVX2", 4, "func(s *float32, n int, scale float32) float32")
	Doc("softmaxAVX2 turns n scores, n a multiple of 16, into exp(s*scale - largest), and returns their sum.")
	s, n := Load(Param("s"), GP64()), Load(Param("n"), GP64())
	scale, most := YMM(), YMM()
	low := XMM()
	Load(Param("scale"), low)
	VBROADCASTSS(low, scale)
	VMOVUPS(float("minusInf", float32(math.Inf(-1))), most)
	p, left := GP64(), GP64()
	MOVQ(s, p)
	MOVQ(n, left)
	Label("softmax_max")
	v := YMM()
	VMULPS(Mem{Base: p}, scale, v)
	VMAXPS(v, most, most)
	ADDQ(U8(32), p)
	SUBQ(U8(8), left)
	JNZ(LabelRef("softmax_max"))
	x, y := XMM(), XMM()
	VEXTRACTF128(U8(1), most, y)
	VMAXPS(y, most.AsX(), x)
	VMOVHLPS(x, x, y)
	VMAXPS(y, x, x)
	VMOVSHDUP(x, y)
	VMAXSS(y, x, x)
	VBROADCASTSS(x, most)
	acc := ymms(2)
	zero(acc)
	Label("softmax_exp")
	for i, a := range acc {
		v := YMM()
		VMULPS(Mem{Base: s, Disp: 32 * i}, scale, v)
		VSUBPS(most, v, v)
		e := exp(v)
		VMOVUPS(e, Mem{Base: s, Disp: 32 * i})
		VADDPS(e, a, a)
	}
	ADDQ(U8(64), s)
	SUBQ(U8(16), n)
	JNZ(LabelRef("softmax_exp"))
	Store(halves(acc[0], acc[1]), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// read only loads n bytes, n a multiple of 512: what the memory can give at most.
func read() {
	TEXT("readAVX2", 4, "func(p *byte, n int) byte")
	Doc("readAVX2 reads n bytes, n a multiple of 512, and does next to nothing with them: the measure for memory bandwidth.")
	p, n := Load(Param("p"), GP64()), Load(Param("n"), GP64())
	acc := ymms(8)
	zero(acc)
	Label("read_loop")
	for i := range 16 {
		if i%2 == 0 {
			PREFETCHT0(Mem{Base: p, Disp: ahead + 32*i})
		}
		VPADDB(Mem{Base: p, Disp: 32 * i}, acc[i%8], acc[i%8])
	}
	ADDQ(U32(512), p)
	SUBQ(U32(512), n)
	JNZ(LabelRef("read_loop"))
	for _, a := range acc[1:] {
		VPADDB(a, acc[0], acc[0])
	}
	r := GP32()
	VMOVD(acc[0].AsX(), r)
	Store(r.As8(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// cpuid reads the F16C bit: leaf 1, ECX, bit 29 (Intel SDM, volume 2, CPUID).
func cpuid() {
	TEXT("cpuidF16C", 4, "func() bool")
	Doc("cpuidF16C reports whether the processor converts half precision, which golang.org/x/sys/cpu does not tell.")
	MOVL(U32(1), reg.EAX)
	XORL(reg.ECX, reg.ECX)
	CPUID()
	SHRL(U8(29), reg.ECX)
	ANDL(U8(1), reg.ECX)
	Store(reg.CL, ReturnIndex(0))
	RET()
}
