package main

import (
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

func (l layout) subs() int    { return l.superCols / l.cols }
func (l layout) super() int   { return l.header + l.subs()*l.sub }
func (l layout) lines() int   { return l.cols / l.perLine }
func (l layout) minima() bool { return l.kind == "affine" || l.kind == "k" }

// perSub reports whether sub-blocks have scales of their own.
func (l layout) perSub() bool { return l.kind == "k" || l.kind == "k6" }

// scales are the scales and minima of some octets of rows during a sub-block, in registers or, where those are needed for other
// things, on the stack. high is the scale of weights that come as 16 times their value: a sixteenth of d, which is exact. mask is
// the lower half of a byte in each dword.
type scales struct {
	d, high, m []Op
	mask       Op
}

// place says what of the scales lies on the stack, and whether the mask lies in memory.
type place struct{ scales, minima, mask bool }

// frame takes room on the stack for the scales of that many octets, where place wants it. The rest will be in registers.
func (l layout) frame(octets int, at place) scales {
	scaled := l.kind == "scaled" || l.perSub() || l.minima()
	s := scales{d: make([]Op, octets), high: make([]Op, octets), m: make([]Op, octets)}
	var slots []*Op
	list := func(o *[]Op, exists, stack bool) {
		if !exists {
			*o = nil
			return
		}
		for i := range *o {
			if stack {
				slots = append(slots, &(*o)[i])
			}
		}
	}
	list(&s.d, scaled, at.scales)
	list(&s.high, l.perLine == 2, at.scales)
	list(&s.m, l.minima(), at.minima)
	if l.perLine == 2 {
		s.mask = dwords("lowNibble", 0x0f)
		if !at.mask {
			r := YMM()
			VMOVUPS(s.mask, r)
			s.mask = r
		}
	}
	if len(slots) == 0 {
		return s
	}
	// The stack is aligned to 8 bytes only, and every other vector would lie in two lines of the cache.
	base := GP64()
	LEAQ(AllocLocal(32*len(slots)+32).Offset(31), base)
	ANDQ(I8(-32), base)
	for i, p := range slots {
		*p = Mem{Base: base, Disp: 32 * i}
	}
	return s
}

// load reads the scales of a sub-block. h points to the header, b to the sub-block. Slots of the frame that are nil are registers.
func (l layout) load(h, b reg.Register, frame scales) scales {
	s := scales{make([]Op, len(frame.d)), make([]Op, len(frame.high)), make([]Op, len(frame.m)), frame.mask}
	put := func(r reg.VecVirtual, slot Op) Op {
		if slot == nil {
			return r
		}
		VMOVUPS(r, slot)
		return slot
	}
	for i := range s.d {
		r := l.scale(h, 16*i, b, 8*i)
		if len(s.high) > 0 {
			high := YMM()
			VMULPS(float("sixteenth", 1.0/16), r, high)
			s.high[i] = put(high, frame.high[i])
		}
		s.d[i] = put(r, frame.d[i])
	}
	for i := range s.m {
		s.m[i] = put(l.scale(h, 64+16*i, b, 32+8*i), frame.m[i])
	}
	return s
}

// scale reads an octet of scales or minima: half precision, times a byte in layouts whose sub-blocks have some.
func (l layout) scale(h reg.Register, hd int, b reg.Register, bd int) reg.VecVirtual {
	r := YMM()
	VCVTPH2PS(Mem{Base: h, Disp: hd}, r)
	if !l.perSub() {
		return r
	}
	t := YMM()
	if l.kind == "k6" {
		VPMOVSXBD(Mem{Base: b, Disp: bd}, t)
	} else {
		VPMOVZXBD(Mem{Base: b, Disp: bd}, t)
	}
	VCVTDQ2PS(t, t)
	VMULPS(t, r, r)
	return r
}

// weights makes the weights of some octets of the line at p + disp, for columns from to to of the line: [column][octet]. The steps
// of different octets alternate, because they do not wait for each other.
func (l layout) weights(s scales, p reg.Register, disp int, octets []int, from, to int) [][]reg.VecVirtual {
	raw := ymms(len(octets))
	for i, o := range octets {
		at := Mem{Base: p, Disp: disp + o*l.line/4}
		switch l.kind {
		case "f32":
			VMOVUPS(at, raw[i])
		case "f16":
			VCVTPH2PS(at, raw[i])
		case "bf16":
			VPMOVZXWD(at, raw[i])
		case "scaled", "k6":
			VPMOVSXBD(at, raw[i])
		default:
			VPMOVZXBD(at, raw[i])
		}
	}
	if l.kind == "bf16" {
		for _, r := range raw {
			VPSLLD(U8(16), r, r)
		}
	}
	if l.perLine == 2 {
		return l.nibbles(s, raw, octets, from, to)
	}
	if len(s.d) > 0 {
		finish(raw)
		l.affine(s.d, s.m, raw, octets)
	}
	return [][]reg.VecVirtual{raw}
}

// nibbles makes weights from the halves of bytes. If both are wanted, the upper one is taken where it is, as 16 times the value.
func (l layout) nibbles(s scales, raw []reg.VecVirtual, octets []int, from, to int) [][]reg.VecVirtual {
	var out [][]reg.VecVirtual
	switch {
	case from == 0 && to == 2:
		low := ymms(len(octets))
		for i, r := range raw {
			VPAND(s.mask, r, low[i])
		}
		for i, r := range raw {
			VPSUBD(low[i], r, r)
		}
		out = [][]reg.VecVirtual{low, raw}
	case from == 0:
		for _, r := range raw {
			VPAND(s.mask, r, r)
		}
		out = [][]reg.VecVirtual{raw}
	default:
		for _, r := range raw {
			VPSRLD(U8(4), r, r)
		}
		out = [][]reg.VecVirtual{raw}
	}
	for _, o := range out {
		finish(o)
	}
	for i, o := range out {
		d := s.d
		if i == 1 {
			d = s.high
		}
		l.affine(d, s.m, o, octets)
	}
	return out
}

// finish turns integers into floats.
func finish(r []reg.VecVirtual) {
	for _, x := range r {
		VCVTDQ2PS(x, x)
	}
}

// affine turns q into d*q, d*q + m or d*q - m.
func (l layout) affine(d, m []Op, q []reg.VecVirtual, octets []int) {
	for i, o := range octets {
		if len(m) == 0 {
			VMULPS(d[o], q[i], q[i])
			continue
		}
		dm, dStack := d[o].(Mem)
		_, mStack := m[o].(Mem)
		switch {
		case dStack && mStack: // one of them must be in a register
			r := YMM()
			VMOVUPS(dm, r)
			l.fma213(m[o], r, q[i])
		case dStack && l.kind == "k":
			VFMSUB132PS(dm, m[o], q[i])
		case dStack:
			VFMADD132PS(dm, m[o], q[i])
		default:
			l.fma213(m[o], d[o], q[i])
		}
	}
}

// fma213 is q = q*d + m, or - m in layouts that subtract minima.
func (l layout) fma213(m, d, q Op) {
	if l.kind == "k" {
		VFMSUB213PS(m, d, q)
		return
	}
	VFMADD213PS(m, d, q)
}
