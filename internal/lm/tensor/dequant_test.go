package tensor

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// fmaCase is numbers for FMA32.
type fmaCase struct{ a, b, c float32 }

// anywhere is numbers of a like size.
func anywhere(rng *rand.Rand) fmaCase {
	next := func() float32 { return math.Float32frombits(rng.Uint32()&0x807fffff | uint32(60+rng.IntN(130))<<23) }
	return fmaCase{next(), next(), next()}
}

// halfway is a product of few bits, and an addend that makes its sum lie half way between two float32.
func halfway(rng *rand.Rand) fmaCase {
	return fmaCase{
		float32(rng.IntN(1<<12) | 1), float32(rng.IntN(1<<12) | 1),
		math.Float32frombits(rng.Uint32()&0x80000001 | uint32(127+24+rng.IntN(26))<<23),
	}
}

// nearlyHalfway is a product that lies so near to half a unit of the addend's last place that float64 rounds the sum to half way: rounding
// that to float32 goes wrong in half of the cases. least is the exponent of the addend's last place.
func nearlyHalfway(rng *rand.Rand, least, bits int) fmaCase {
	for {
		a := uint64(1<<23 | rng.IntN(1<<23))
		b := (uint64(1)<<47 + uint64(rng.IntN(2))*(a-1)) / a // a x b is 2^47 and at most a more or less
		if off := int64(a*b) - 1<<47; off == 0 || off > 1<<17 || off < -1<<17 || b >= 1<<24 {
			continue
		}
		sign := float64(1 - 2*rng.IntN(2))
		addend := float64(1<<(bits-1)|rng.IntN(1<<(bits-1))) * float64(1-2*rng.IntN(2))
		return fmaCase{
			float32(sign * math.Ldexp(float64(a), least/2-24)), float32(math.Ldexp(float64(b), least-least/2-24)),
			float32(math.Ldexp(addend, least)),
		}
	}
}

// TestFMA32 compares with arbitrary precision.
func TestFMA32(t *testing.T) {
	tests := []struct {
		name string
		make func(*rand.Rand) fmaCase
		// hard is whether half of the results are wrong if they are rounded to float64 first.
		hard bool
	}{
		{"anywhere", anywhere, false},
		{"half way", halfway, false},
		{"nearly half way", func(r *rand.Rand) fmaCase { return nearlyHalfway(r, r.IntN(200)-125, 24) }, true},
		{"nearly half way between subnormals", func(r *rand.Rand) fmaCase { return nearlyHalfway(r, -149, 23) }, true},
		{"nearly half way, with fewer bits", func(r *rand.Rand) fmaCase { return nearlyHalfway(r, -120+r.IntN(100), 2+r.IntN(20)) }, false},
		{"near the largest", func(r *rand.Rand) fmaCase { return nearlyHalfway(r, 104, 24) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			const cases = 50000
			naive := 0
			for range cases {
				c := tt.make(rng)
				want := exactly(c)
				if got := FMA32(c.a, c.b, c.c); !same(got, want) {
					t.Fatalf("FMA32(%x, %x, %x) = %x, want %x", c.a, c.b, c.c, got, want)
				}
				if !same(float32(float64(c.a)*float64(c.b)+float64(c.c)), want) {
					naive++
				}
			}
			if tt.hard && naive < cases/5 {
				t.Errorf("only %d of %d cases are hard", naive, cases)
			}
		})
	}
}

// exactly is a*b+c, rounded once.
func exactly(c fmaCase) float32 {
	x := new(big.Float).SetPrec(700).Mul(big.NewFloat(float64(c.a)), big.NewFloat(float64(c.b)))
	f, _ := x.Add(x, big.NewFloat(float64(c.c))).Float32()
	return f
}

func TestFMA32OfInfinities(t *testing.T) {
	inf := float32(math.Inf(1))
	if got := FMA32(inf, 1, 1); got != inf {
		t.Errorf("infinity times 1 plus 1 = %v", got)
	}
	if got := FMA32(inf, 0, 1); got == got {
		t.Errorf("infinity times 0 = %v, want NaN", got)
	}
}

func TestDequantizeRefuses(t *testing.T) {
	tests := []struct {
		name     string
		typ      gguf.Type
		src, dst int
	}{
		{"unknown format", gguf.IQ2_S, 82, 256},
		{"half a block", gguf.Q8_0, 17, 16},
		{"too few bytes", gguf.Q4_K, 143, 256},
		{"too many bytes", gguf.F32, 5, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := Dequantize(tt.typ, make([]byte, tt.src), make([]float32, tt.dst)); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestQuantizeRefuses(t *testing.T) {
	tests := []struct {
		name     string
		typ      gguf.Type
		src, dst int
		word     string
	}{
		{"unknown format", gguf.IQ2_S, 256, 82, "IQ2_S"},
		{"a format that is only read", gguf.Q4_K, 256, 144, "Q4_K"},
		{"another one", gguf.Q5_K, 256, 176, "Q5_K"},
		{"and another one", gguf.Q6_K, 256, 210, "llama-quantize"},
		{"half a block", gguf.Q8_0, 16, 17, "whole blocks of Q8_0"},
		{"too little room", gguf.Q4_0, 32, 17, "17 bytes, want 18"},
		{"too much room", gguf.F16, 1, 3, "3 bytes, want 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Quantize(tt.typ, make([]float32, tt.src), make([]byte, tt.dst))
			if err == nil || !strings.Contains(err.Error(), tt.word) {
				t.Errorf("error %v, want one that says %q", err, tt.word)
			}
		})
	}
}

func TestSupported(t *testing.T) {
	if len(Types()) != 11 {
		t.Errorf("%d formats: %v", len(Types()), Types())
	}
	for _, typ := range Types() {
		if !Supported(typ) || !typ.Known() {
			t.Errorf("%s is in Types, but not supported", typ)
		}
	}
	for _, typ := range []gguf.Type{gguf.Q2_K, gguf.Q3_K, gguf.IQ4_NL, gguf.MXFP4, 4, 999} {
		if Supported(typ) {
			t.Errorf("%s is supported, but not in Types", typ)
		}
	}
}

// FuzzDequantize decodes any bytes in every format: exactly those that are whole blocks are accepted, and numbers that were decoded are
// encoded and decoded again without a panic.
func FuzzDequantize(f *testing.F) {
	for _, typ := range Types() {
		f.Add(make([]byte, typ.BlockBytes()))
		f.Add(bytes.Repeat([]byte{0xff}, 2*int(typ.BlockBytes())))
	}
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, typ := range Types() {
			n, size := len(b)/int(typ.BlockBytes())*int(typ.BlockSize()), int(typ.BlockBytes())
			x := make([]float32, n)
			if err := Dequantize(typ, b, x); (err == nil) != (len(b)%size == 0) {
				t.Errorf("%s, %d bytes in blocks of %d: %v", typ, len(b), size, err)
			}
			if Dequantize(typ, b, make([]float32, n+1)) == nil {
				t.Errorf("%s: %d elements of %d bytes", typ, n+1, len(b))
			}
			out := make([]byte, len(b)/size*size)
			if encoder(typ) == nil {
				continue
			}
			if err := Quantize(typ, x, out); err != nil {
				t.Errorf("%s: %v", typ, err)
			}
			if err := Dequantize(typ, out, x); err != nil {
				t.Errorf("%s: %v", typ, err)
			}
		}
	})
}

func BenchmarkDequantize(b *testing.B) {
	for _, typ := range Types() {
		b.Run(typ.String(), func(b *testing.B) {
			src, dst := make([]byte, 1024*typ.BlockBytes()), make([]float32, 1024*typ.BlockSize())
			b.SetBytes(int64(4 * len(dst)))
			for b.Loop() {
				if err := Dequantize(typ, src, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestPlainFormats reads and writes several numbers at once.
func TestPlainFormats(t *testing.T) {
	x := []float32{1, -2, 0.5, float32(math.Copysign(0, -1)), 65504}
	for typ, want := range map[gguf.Type][]byte{
		gguf.F32:  {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0x3f, 0, 0, 0, 0x80, 0, 0xe0, 0x7f, 0x47},
		gguf.F16:  {0, 0x3c, 0, 0xc0, 0, 0x38, 0, 0x80, 0xff, 0x7b},
		gguf.BF16: {0x80, 0x3f, 0, 0xc0, 0, 0x3f, 0, 0x80, 0x80, 0x47},
	} {
		b, back := make([]byte, len(want)), make([]float32, len(x))
		if err := Quantize(typ, x, b); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%s: %x, %v; want %x", typ, b, err, want)
		}
		if err := Dequantize(typ, b, back); err != nil {
			t.Error(err)
		}
		for i := range x {
			if last := i == len(x)-1 && typ == gguf.BF16; !same(back[i], x[i]) && !(last && back[i] == 65536) {
				t.Errorf("%s: element %d is %v, was %v", typ, i, back[i], x[i])
			}
		}
	}
}
