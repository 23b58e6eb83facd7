package tensor

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// TestFMA32 compares with arbitrary precision, on random numbers and on those that lie half way between two results.
func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() float32 {
		return math.Float32frombits(rng.Uint32()&0x807fffff | uint32(60+rng.IntN(130))<<23)
	}
	for i := range 300000 {
		a, b, c := random(), random(), random()
		if i%3 == 0 { // a product of few bits, and an addend that makes its sum a half
			a, b = float32(rng.IntN(1<<12)|1), float32(rng.IntN(1<<12)|1)
			c = math.Float32frombits(rng.Uint32()&0x80000001 | uint32(127+24+rng.IntN(26))<<23)
		}
		x := new(big.Float).SetPrec(500).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		want, _ := x.Add(x, big.NewFloat(float64(c))).Float32()
		if got := FMA32(a, b, c); got != want {
			t.Fatalf("FMA32(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
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
