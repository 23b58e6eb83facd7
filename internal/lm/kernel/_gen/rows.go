package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// interleave writes m rows side by side. Element l of vector j of eight columns comes from row (8j+l)%m, column (8j+l)/m. Those columns
// lie within four, which each row offers in both halves of a register; a permutation, the same for all rows, puts them into their
// lanes, and blends take each lane from its row.
func interleave(m int) {
	name := fmt.Sprintf("interleave%d", m)
	TEXT(name, 4, "func(dst *float32, src *float32, ld int, n int)")
	Doc(fmt.Sprintf("%s is dst[k*%d+i] = src[i*ld+k] for k < n, n a multiple of 8.", name, m))
	dst, ld, n := Load(Param("dst"), GP64()), Load(Param("ld"), GP64()), Load(Param("n"), GP64())
	row := Load(Param("src"), GP64())
	SHLQ(U8(2), ld)
	src := []reg.Register{row}
	for len(src) < m {
		r := GP64()
		LEAQ(Mem{Base: src[len(src)-1], Index: ld, Scale: 1}, r)
		src = append(src, r)
	}
	Label(name)
	for j := range m {
		first := min(8*j/m, 4) // so that no row is read behind its eight columns
		lanes := YMM()
		VMOVUPS(lanesOf(m, j, first), lanes)
		var out reg.VecVirtual
		for r, p := range src {
			v := YMM()
			VBROADCASTF128(Mem{Base: p, Disp: 4 * first}, v)
			VPERMILPS(lanes, v, v)
			mask := 0
			for l := range 8 {
				if (8*j+l)%m == r {
					mask |= 1 << l
				}
			}
			if r == 0 {
				out = v
				continue
			}
			VBLENDPS(U8(mask), v, out, out)
		}
		VMOVUPS(out, Mem{Base: dst, Disp: 32 * j})
	}
	for _, p := range src {
		ADDQ(U8(32), p)
	}
	ADDQ(U32(32*m), dst)
	SUBQ(U8(8), n)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// lanesOf is the permutation for vector j of m rows whose registers begin with column first.
func lanesOf(m, j, first int) Mem {
	mem := GLOBL(fmt.Sprintf("lanes%d_%d", m, j), 16|8)
	for l := range 8 {
		DATA(4*l, U32((8*j+l)/m-first))
	}
	return mem
}
