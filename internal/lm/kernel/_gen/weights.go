package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// layout is one packed layout: its geometry, as in layout.go of the kernels, and how an octet of weights is made.
type layout struct {
	name              string
	superCols, cols   int // of a super-block and of a sub-block
	header, sub, data int // bytes of a header and of a sub-block, and where its lines begin
	line              int // bytes of a line of 32 rows
	perLine           int // columns in a line
	kind              string
}

func layouts() []layout {
	return []layout{
		{"F32", 32, 32, 0, 32 * 128, 0, 128, 1, "f32"},
		{"F16", 32, 32, 0, 32 * 64, 0, 64, 1, "f16"},
		{"BF16", 32, 32, 0, 32 * 64, 0, 64, 1, "bf16"},
		{"8", 32, 32, 64, 32 * 32, 0, 32, 1, "scaled"},
		{"4", 32, 32, 128, 16 * 32, 0, 32, 2, "affine"},
		{"5", 32, 32, 128, 32 * 32, 0, 32, 1, "affine"},
		{"K4", 256, 32, 128, 64 + 16*32, 64, 32, 2, "k"},
		{"K5", 256, 32, 128, 64 + 32*32, 64, 32, 1, "k"},
		{"K6", 256, 16, 64, 32 + 16*32, 32, 32, 1, "k6"},
	}
}

func (l layout) subs() int  { return l.superCols / l.cols }
func (l layout) super() int { return l.header + l.subs()*l.sub }

// scales are the registers that hold the scales and minima of four octets of rows during a sub-block.
type scales struct{ d, m []reg.VecVirtual }

// load reads the scales of a sub-block. h points to the header, b to the sub-block.
func (l layout) load(h, b reg.Register) scales {
	var s scales
	switch l.kind {
	case "scaled":
		s.d = ymms(4)
		for i, r := range s.d {
			VCVTPH2PS(Mem{Base: h, Disp: 16 * i}, r)
		}
	case "affine":
		s.d, s.m = ymms(4), ymms(4)
		for i := range 4 {
			VCVTPH2PS(Mem{Base: h, Disp: 16 * i}, s.d[i])
			VCVTPH2PS(Mem{Base: h, Disp: 64 + 16*i}, s.m[i])
		}
	case "k":
		s.d, s.m = ymms(4), ymms(4)
		for i := range 4 {
			product(h, 16*i, b, 8*i, s.d[i], false)
			product(h, 64+16*i, b, 32+8*i, s.m[i], false)
		}
	case "k6":
		s.d = ymms(4)
		for i := range 4 {
			product(h, 16*i, b, 8*i, s.d[i], true)
		}
	}
	return s
}

// product is a half precision number times a byte.
func product(h reg.Register, hd int, b reg.Register, bd int, out reg.VecVirtual, signed bool) {
	t := YMM()
	if signed {
		VPMOVSXBD(Mem{Base: b, Disp: bd}, t)
	} else {
		VPMOVZXBD(Mem{Base: b, Disp: bd}, t)
	}
	VCVTDQ2PS(t, t)
	VCVTPH2PS(Mem{Base: h, Disp: hd}, out)
	VMULPS(t, out, out)
}

// octet makes the weights of octet i of the line at disp, and hands each of its columns to use.
func (l layout) octet(s scales, b reg.Register, disp, i int, use func(col int, w reg.VecVirtual)) {
	at := Mem{Base: b, Disp: disp + i*l.line/4}
	t := YMM()
	switch l.kind {
	case "f32":
		VMOVUPS(at, t)
		use(0, t)
		return
	case "f16":
		VCVTPH2PS(at, t)
		use(0, t)
		return
	case "bf16":
		VPMOVZXWD(at, t)
		VPSLLD(U8(16), t, t)
		use(0, t)
		return
	case "scaled", "k6":
		VPMOVSXBD(at, t)
		VCVTDQ2PS(t, t)
		VMULPS(s.d[i], t, t)
		use(0, t)
		return
	}
	VPMOVZXBD(at, t)
	if l.perLine == 1 {
		l.affine(s, i, t)
		use(0, t)
		return
	}
	low := YMM()
	VPAND(dwords("nibbles", 15), t, low)
	l.affine(s, i, low)
	use(0, low)
	VPSRLD(U8(4), t, t)
	l.affine(s, i, t)
	use(1, t)
}

// affine turns integers into d*q + m, or d*q - m where the format subtracts.
func (l layout) affine(s scales, i int, t reg.VecVirtual) {
	VCVTDQ2PS(t, t)
	if l.kind == "k" {
		VFMSUB213PS(s.m[i], s.d[i], t)
		return
	}
	VFMADD213PS(s.m[i], s.d[i], t)
}

// unroll is how many lines are written out in a row.
const unroll = 4

// ahead is how far in front of the reading weights are fetched, in bytes.
const ahead = 4096

// fetch asks for the memory that line k of a later block will come from.
func (l layout) fetch(p reg.Register, k int) {
	if l.line < 64 && k%2 == 1 {
		return
	}
	for at := 0; at < l.line; at += 64 {
		PREFETCHT0(Mem{Base: p, Disp: ahead + k*l.line + at})
	}
}

// gemv multiplies a group with one row: y[0:32] = chain over all columns.
func gemv(l layout) {
	TEXT("gemv"+l.name, 4 /* NOSPLIT */, "func(w *byte, x *float32, supers int, y *float32)")
	Doc(fmt.Sprintf("gemv%s multiplies a group of layout %s with one row of activations.", l.name, l.name))
	w, x, n, y := Load(Param("w"), GP64()), Load(Param("x"), GP64()), Load(Param("supers"), GP64()), Load(Param("y"), GP64())
	acc := ymms(4)
	zero(acc)
	name := "gemv" + l.name
	b := w
	if l.header > 0 && l.subs() > 1 {
		b = GP64()
	}
	Label(name + "_super")
	h := w
	if l.subs() > 1 {
		LEAQ(Mem{Base: w, Disp: l.header}, b)
	}
	subs := GP64()
	if l.subs() > 1 {
		MOVQ(U32(l.subs()), subs)
		Label(name + "_sub")
	}
	base := 0
	if l.subs() == 1 {
		base = l.header
	}
	s := l.load(h, b)
	lines := l.cols / l.perLine
	count := GP64()
	p := GP64()
	LEAQ(Mem{Base: b, Disp: base + l.data}, p)
	MOVQ(U32(lines/unroll), count)
	Label(name + "_lines")
	for k := range unroll {
		l.fetch(p, k)
		v := ymms(l.perLine)
		for c := range v {
			VBROADCASTSS(Mem{Base: x, Disp: 4 * (k*l.perLine + c)}, v[c])
		}
		for i := range 4 {
			l.octet(s, p, k*l.line, i, func(c int, wt reg.VecVirtual) { VFMADD231PS(wt, v[c], acc[i]) })
		}
	}
	ADDQ(U32(unroll*l.line), p)
	ADDQ(U32(unroll*l.perLine*4), x)
	SUBQ(U8(1), count)
	JNZ(LabelRef(name + "_lines"))
	if l.subs() > 1 {
		ADDQ(U32(l.sub), b)
		SUBQ(U8(1), subs)
		JNZ(LabelRef(name + "_sub"))
	}
	ADDQ(U32(l.super()), w)
	SUBQ(U8(1), n)
	JNZ(LabelRef(name + "_super"))
	for i, a := range acc {
		VMOVUPS(a, Mem{Base: y, Disp: 32 * i})
	}
	VZEROUPPER()
	RET()
}

// unpack writes sub-blocks as float32, [column][32].
func unpack(l layout) {
	name := "unpack" + l.name
	TEXT(name, 4 /* NOSPLIT */, "func(header *byte, sub *byte, subs int, dst *float32)")
	Doc(fmt.Sprintf("%s writes sub-blocks of layout %s as float32, [column][32].", name, l.name))
	h, b, n, dst := Load(Param("header"), GP64()), Load(Param("sub"), GP64()), Load(Param("subs"), GP64()), Load(Param("dst"), GP64())
	count, p := GP64(), GP64()
	Label(name + "_sub")
	s := l.load(h, b)
	LEAQ(Mem{Base: b, Disp: l.data}, p)
	MOVQ(U32(l.cols/l.perLine/unroll), count)
	Label(name + "_lines")
	for k := range unroll {
		l.fetch(p, k)
		for i := range 4 {
			l.octet(s, p, k*l.line, i, func(c int, wt reg.VecVirtual) {
				VMOVUPS(wt, Mem{Base: dst, Disp: 128*(k*l.perLine+c) + 32*i})
			})
		}
	}
	ADDQ(U32(unroll*l.line), p)
	ADDQ(U32(unroll*l.perLine*128), dst)
	SUBQ(U8(1), count)
	JNZ(LabelRef(name + "_lines"))
	step := l.sub
	if l.subs() == 1 {
		step = l.super()
		ADDQ(U32(step), h)
	}
	ADDQ(U32(step), b)
	SUBQ(U8(1), n)
	JNZ(LabelRef(name + "_sub"))
	VZEROUPPER()
	RET()
}

// tile adds to vecs*8 outputs of m rows: c[j][i] = fma(w[k][i], x[k][j], c[j][i]).
func tile(m, vecs int) {
	name := fmt.Sprintf("tile%dx%d", vecs*8, m)
	TEXT(name, 4 /* NOSPLIT */, "func(w *float32, ldw int, x *float32, k int, c *float32, ldc int)")
	Doc(fmt.Sprintf("%s adds k products to %d outputs of %d rows.", name, vecs*8, m))
	w, ldw, x := Load(Param("w"), GP64()), Load(Param("ldw"), GP64()), Load(Param("x"), GP64())
	k, c, ldc := Load(Param("k"), GP64()), Load(Param("c"), GP64()), Load(Param("ldc"), GP64())
	SHLQ(U8(2), ldw)
	SHLQ(U8(2), ldc)
	acc := make([][]reg.VecVirtual, m)
	at := GP64()
	MOVQ(c, at)
	for j := range acc {
		acc[j] = ymms(vecs)
		for i, a := range acc[j] {
			VMOVUPS(Mem{Base: at, Disp: 32 * i}, a)
		}
		if j < m-1 {
			ADDQ(ldc, at)
		}
	}
	step := func(u int) {
		if m < vecs { // fewer rows than vectors: keep the rows in registers
			vs := ymms(m)
			for j, v := range vs {
				VBROADCASTSS(Mem{Base: x, Disp: 4 * (u*m + j)}, v)
			}
			for i := range vecs {
				r := YMM()
				VMOVUPS(Mem{Base: w, Disp: 32 * i}, r)
				for j, v := range vs {
					VFMADD231PS(r, v, acc[j][i])
				}
			}
			ADDQ(ldw, w)
			return
		}
		ws := ymms(vecs)
		for i, r := range ws {
			VMOVUPS(Mem{Base: w, Disp: 32 * i}, r)
		}
		ADDQ(ldw, w)
		for j := range m {
			v := YMM()
			VBROADCASTSS(Mem{Base: x, Disp: 4 * (u*m + j)}, v)
			for i, r := range ws {
				VFMADD231PS(r, v, acc[j][i])
			}
		}
	}
	const u = 4
	CMPQ(k, U8(u))
	JL(LabelRef(name + "_rest"))
	Label(name + "_loop")
	for i := range u {
		step(i)
	}
	ADDQ(U32(4*u*m), x)
	SUBQ(U8(u), k)
	CMPQ(k, U8(u))
	JGE(LabelRef(name + "_loop"))
	Label(name + "_rest")
	TESTQ(k, k)
	JZ(LabelRef(name + "_store"))
	Label(name + "_one")
	step(0)
	ADDQ(U32(4*m), x)
	SUBQ(U8(1), k)
	JNZ(LabelRef(name + "_one"))
	Label(name + "_store")
	for j := range acc {
		for i, a := range acc[j] {
			VMOVUPS(a, Mem{Base: c, Disp: 32 * i})
		}
		if j < m-1 {
			ADDQ(ldc, c)
		}
	}
	VZEROUPPER()
	RET()
}
