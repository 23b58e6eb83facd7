package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unroll is how many lines are written out in a row.
const unroll = 4

// ahead is how far in front of the reading weights are fetched, in bytes.
const ahead = 4096

// walk is how a function passes over the super-blocks of a group: pointers to the header, the sub-block and its lines.
type walk struct {
	l          layout
	name       string
	h, b, p    reg.Register
	supers     reg.Register
	also       []reg.Register // more pointers that go with p
	subs, each reg.Register
}

// run emits the loops. sub is called before a sub-block's lines, lines for each piece of unroll lines.
func (w *walk) run(sub func(), lines func()) {
	l := w.l
	w.subs, w.each = GP64(), GP64()
	Label(w.name + "_super")
	if l.subs() > 1 {
		MOVQ(U32(l.subs()), w.subs)
		Label(w.name + "_sub")
	}
	sub()
	MOVQ(U32(l.lines()/unroll), w.each)
	Label(w.name + "_lines")
	lines()
	w.step(unroll * l.line)
	SUBQ(U8(1), w.each)
	JNZ(LabelRef(w.name + "_lines"))
	if l.perSub() {
		ADDQ(U32(l.sub), w.b)
		w.step(l.data)
	}
	if l.subs() > 1 {
		SUBQ(U8(1), w.subs)
		JNZ(LabelRef(w.name + "_sub"))
	}
	if l.header > 0 {
		ADDQ(U32(l.super()), w.h)
		w.step(l.header)
		if l.perSub() {
			ADDQ(U32(l.header), w.b)
		}
	}
	SUBQ(U8(1), w.supers)
	JNZ(LabelRef(w.name + "_super"))
}

func (w *walk) step(n int) {
	for _, p := range append([]reg.Register{w.p}, w.also...) {
		ADDQ(U32(n), p)
	}
}

// gemv multiplies a group with one row: y[0:32] = chain over all columns.
func gemv(l layout) {
	TEXT("gemv"+l.name, 4 /* NOSPLIT */, "func(w *byte, x *float32, supers int, y *float32)")
	Doc(fmt.Sprintf("gemv%s multiplies a group of layout %s with one row of activations.", l.name, l.name))
	h, x, n, y := Load(Param("w"), GP64()), Load(Param("x"), GP64()), Load(Param("supers"), GP64()), Load(Param("y"), GP64())
	w := walk{l: l, name: "gemv" + l.name, h: h, p: GP64(), supers: n}
	LEAQ(Mem{Base: h, Disp: l.header + l.data}, w.p)
	if l.perSub() {
		w.b = GP64()
		LEAQ(Mem{Base: h, Disp: l.header}, w.b)
	}
	acc := ymms(4)
	zero(acc)
	frame := l.frame(4, place{scales: l.perLine == 2})
	var s scales
	w.run(func() { s = l.load(w.h, w.b, frame) }, func() {
		for at := 0; at < unroll*l.line; at += 64 {
			PREFETCHT0(Mem{Base: w.p, Disp: ahead + at})
		}
		for k := range unroll {
			v := ymms(l.perLine)
			for c := range v {
				VBROADCASTSS(Mem{Base: x, Disp: 4 * (k*l.perLine + c)}, v[c])
			}
			for i := 0; i < 4; i += 2 {
				for c, col := range l.weights(s, w.p, k*l.line, []int{i, i + 1}, 0, l.perLine) {
					VFMADD231PS(col[0], v[c], acc[i])
					VFMADD231PS(col[1], v[c], acc[i+1])
				}
			}
		}
		ADDQ(U32(unroll*l.perLine*4), x)
	})
	for i, a := range acc {
		VMOVUPS(a, Mem{Base: y, Disp: 32 * i})
	}
	VZEROUPPER()
	RET()
}

// product multiplies half of a group with m rows: adds to 16 outputs of each row. Weights are made once for all rows, in registers.
func product(l layout, m int) {
	name := fmt.Sprintf("product%sx%d", l.name, m)
	TEXT(name, 4 /* NOSPLIT */, "func(w *byte, x *float32, supers int, c *float32, ldc int, half int)")
	Doc(fmt.Sprintf("%s adds the products of 16 rows of a group of layout %s with %d rows of activations.", name, l.name, m))
	h, x, n := Load(Param("w"), GP64()), Load(Param("x"), GP64()), Load(Param("supers"), GP64())
	half := Load(Param("half"), GP64())
	w := walk{l: l, name: name, h: h, p: GP64(), supers: n, also: []reg.Register{GP64()}}
	fetch := w.also[0]
	LEAQ(Mem{Base: h, Disp: l.header + l.data}, w.p)
	t := GP64()
	MOVQ(half, t)
	SHLQ(U8(6), t)
	LEAQ(Mem{Base: w.p, Index: t, Scale: 1}, fetch)
	IMUL3Q(U8(l.line/2), half, t)
	ADDQ(t, w.p)
	if l.perSub() {
		w.b = GP64()
		LEAQ(Mem{Base: h, Disp: l.header}, w.b)
		MOVQ(half, t)
		SHLQ(U8(4), t)
		ADDQ(t, w.b)
	}
	if l.header > 0 {
		SHLQ(U8(5), half)
		ADDQ(half, h)
	}
	at, ldc := Load(Param("c"), GP64()), Load(Param("ldc"), GP64())
	SHLQ(U8(2), ldc)
	acc := loadRows(at, ldc, m, 2)
	frame := l.frame(2, place{scales: l.perLine == 2 || m > 4, minima: m > 5})
	var s scales
	w.run(func() { s = l.load(w.h, w.b, frame) }, func() {
		for at := 0; at < unroll*l.line; at += 128 {
			PREFETCHT0(Mem{Base: fetch, Disp: ahead + at})
		}
		for k := range unroll {
			for c, step := 0, columns(l, m); c < l.perLine; c += step {
				for i, col := range l.weights(s, w.p, k*l.line, []int{0, 1}, c, c+step) {
					rank1(acc, col, x, (k*l.perLine+c+i)*m)
				}
			}
		}
		ADDQ(U32(unroll*l.perLine*4*m), x)
	})
	at, ldc = Load(Param("c"), GP64()), Load(Param("ldc"), GP64())
	SHLQ(U8(2), ldc)
	storeRows(at, ldc, acc)
	VZEROUPPER()
	RET()
}

// columns is how many columns of a line are made at once: with many rows there are no registers for more than one.
func columns(l layout, m int) int {
	if m > 4 {
		return 1
	}
	return l.perLine
}

// rank1 adds a column of weights times the activations from x[at] on to the outputs of all rows.
func rank1(acc [][]reg.VecVirtual, w []reg.VecVirtual, x reg.Register, at int) {
	for j, row := range acc {
		v := YMM()
		VBROADCASTSS(Mem{Base: x, Disp: 4 * (at + j)}, v)
		for i, r := range w {
			VFMADD231PS(r, v, row[i])
		}
	}
}

// loadRows reads vecs*8 outputs of m rows, ld bytes apart. It moves at.
func loadRows(at, ld reg.Register, m, vecs int) [][]reg.VecVirtual {
	acc := make([][]reg.VecVirtual, m)
	for j := range acc {
		acc[j] = ymms(vecs)
		for i, a := range acc[j] {
			VMOVUPS(Mem{Base: at, Disp: 32 * i}, a)
		}
		if j < m-1 {
			ADDQ(ld, at)
		}
	}
	return acc
}

// storeRows writes what loadRows read.
func storeRows(at, ld reg.Register, acc [][]reg.VecVirtual) {
	for j := range acc {
		for i, a := range acc[j] {
			VMOVUPS(a, Mem{Base: at, Disp: 32 * i})
		}
		if j < len(acc)-1 {
			ADDQ(ld, at)
		}
	}
}

// unpack writes sub-blocks as float32, [column][32].
func unpack(l layout) {
	name := "unpack" + l.name
	TEXT(name, 4 /* NOSPLIT */, "func(header *byte, sub *byte, subs int, dst *float32)")
	Doc(fmt.Sprintf("%s writes sub-blocks of layout %s as float32, [column][32].", name, l.name))
	h, b, n, dst := Load(Param("header"), GP64()), Load(Param("sub"), GP64()), Load(Param("subs"), GP64()), Load(Param("dst"), GP64())
	frame := l.frame(4, place{mask: true})
	count, p := GP64(), GP64()
	Label(name + "_sub")
	s := l.load(h, b, frame)
	LEAQ(Mem{Base: b, Disp: l.data}, p)
	MOVQ(U32(l.lines()/unroll), count)
	Label(name + "_lines")
	for at := 0; at < unroll*l.line; at += 64 {
		PREFETCHT0(Mem{Base: p, Disp: ahead + at})
	}
	for k := range unroll {
		for i := 0; i < 4; i += 2 {
			for c, col := range l.weights(s, p, k*l.line, []int{i, i + 1}, 0, l.perLine) {
				VMOVUPS(col[0], Mem{Base: dst, Disp: 128*(k*l.perLine+c) + 32*i})
				VMOVUPS(col[1], Mem{Base: dst, Disp: 128*(k*l.perLine+c) + 32*i + 32})
			}
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

// tile adds to outputs of m rows, 16 or 32 in all: c[j][i] = fma(w[k][i], x[k][j], c[j][i]). It keeps vecs*8 of them in registers at
// a time, and passes over w as often as that takes.
func tile(m, outputs, vecs int) {
	name := fmt.Sprintf("tile%dx%d", outputs, m)
	TEXT(name, 4 /* NOSPLIT */, "func(w *float32, ldw int, x *float32, k int, c *float32, ldc int, next uintptr)")
	Doc(fmt.Sprintf("%s adds k products to %d outputs of %d rows, and fetches what lies at next.", name, outputs, m))
	ldw, next, pass := Load(Param("ldw"), GP64()), Load(Param("next"), GP64()), GP64()
	SHLQ(U8(2), ldw)
	again := outputs > 8*vecs
	if again {
		XORQ(pass, pass)
		Label(name + "_pass")
	}
	w, x, k := Load(Param("w"), GP64()), Load(Param("x"), GP64()), Load(Param("k"), GP64())
	at, ldc := Load(Param("c"), GP64()), Load(Param("ldc"), GP64())
	SHLQ(U8(2), ldc)
	if again {
		ADDQ(pass, w)
		ADDQ(pass, at)
	}
	c := GP64()
	MOVQ(at, c)
	acc := loadRows(at, ldc, m, vecs)
	const u = 4
	CMPQ(k, U8(u))
	JL(LabelRef(name + "_rest"))
	Label(name + "_loop")
	PREFETCHT0(Mem{Base: next})
	ADDQ(U8(64), next)
	for i := range u {
		tileStep(acc, w, x, i)
		ADDQ(ldw, w)
	}
	ADDQ(U32(4*u*m), x)
	SUBQ(U8(u), k)
	CMPQ(k, U8(u))
	JGE(LabelRef(name + "_loop"))
	Label(name + "_rest")
	TESTQ(k, k)
	JZ(LabelRef(name + "_store"))
	Label(name + "_one")
	tileStep(acc, w, x, 0)
	ADDQ(ldw, w)
	ADDQ(U32(4*m), x)
	SUBQ(U8(1), k)
	JNZ(LabelRef(name + "_one"))
	Label(name + "_store")
	storeRows(c, ldc, acc)
	if again {
		ADDQ(U32(32*vecs), pass)
		CMPQ(pass, U32(4*outputs))
		JL(LabelRef(name + "_pass"))
	}
	VZEROUPPER()
	RET()
}

// tileStep adds one column, the activations being u columns behind x. Registers hold the smaller of rows and weights.
func tileStep(acc [][]reg.VecVirtual, w, x reg.Register, u int) {
	m, vecs := len(acc), len(acc[0])
	if m >= vecs {
		ws := ymms(vecs)
		for i, r := range ws {
			VMOVUPS(Mem{Base: w, Disp: 32 * i}, r)
		}
		rank1(acc, ws, x, u*m)
		return
	}
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
}
