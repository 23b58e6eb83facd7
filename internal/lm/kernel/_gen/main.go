// Command gen writes the AVX2 kernels of package kernel: avx2_amd64.s and its declarations. Run it, and the stamp that notes its
// sources, with
//
//	go generate ./internal/lm/kernel
//
// The module is its own, so that avo never becomes a dependency of stoker.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	for _, l := range layouts() {
		gemv(l)
		for m := 2; m <= 6; m++ {
			product(l, m)
		}
		unpack(l)
	}
	for m := 1; m <= 6; m++ {
		tile(m, 16, 2)
		tile(m, 32, wide(m))
	}
	for m := 2; m <= 6; m++ {
		interleave(m)
	}
	sumSquares()
	normalize()
	rope()
	add()
	scale()
	gate("silu")
	gate("gelu")
	softmax()
	quantize()
	fast8()
	fast4()
	read()
	cpuid()
	Generate()
}

// wide is how many vectors of outputs tiles of m rows keep in registers, for 32 outputs: with few rows more, for more chains of fma.
func wide(m int) int {
	if m <= 3 {
		return 4
	}
	return 2
}

func ymms(n int) []reg.VecVirtual {
	r := make([]reg.VecVirtual, n)
	for i := range r {
		r[i] = YMM()
	}
	return r
}

func zero(r []reg.VecVirtual) {
	for _, x := range r {
		VXORPS(x, x, x)
	}
}

// constant returns a read-only vector of eight equal dwords.
func constant(name string, bits uint32) Mem {
	m := GLOBL(name, 16 /* NOPTR */ |8 /* RODATA */)
	for i := range 8 {
		DATA(4*i, U32(bits))
	}
	return m
}

var constants = map[string]Mem{}

// dwords is constant, made once.
func dwords(name string, bits uint32) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := constant(name, bits)
	constants[name] = m
	return m
}
