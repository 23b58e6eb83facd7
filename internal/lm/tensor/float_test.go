package tensor

import (
	"math"
	"testing"
)

// TestF16ToF32 compares every number with its definition: sign x mantissa x 2^exponent (IEEE 754-2019, table 3.5).
func TestF16ToF32(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		got := F16ToF32(h)
		exp, man := int(h>>10&31), float64(h&0x3ff)
		want := math.Ldexp(man+1024, exp-25)
		switch {
		case exp == 31 && man != 0:
			want = math.NaN()
		case exp == 31:
			want = math.Inf(1)
		case exp == 0:
			want = math.Ldexp(man, -24)
		}
		if h&0x8000 != 0 {
			want = -want
		}
		if !same(got, float32(want)) {
			t.Fatalf("%04x is %v, want %v", h, got, want)
		}
	}
}

// same reports whether two numbers have the same bits, or are both NaN.
func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
}

// TestF32ToF16 rounds every half precision number, what lies half way to the next one, and the neighbours of both.
func TestF32ToF16(t *testing.T) {
	for i := range uint16(0x7c00) {
		here, next := float64(F16ToF32(i)), float64(F16ToF32(i+1))
		if i == 0x7bff {
			next = 65536 // where infinity begins to be nearer
		}
		middle := float32((here + next) / 2)
		even := i + i&1
		tests := []struct {
			f    float32
			want uint16
		}{
			{float32(here), i},
			{math.Nextafter32(float32(here), float32(math.Inf(1))), i},
			{math.Nextafter32(middle, 0), i},
			{middle, even},
			{math.Nextafter32(middle, float32(math.Inf(1))), i + 1},
		}
		for _, tt := range tests {
			if got := F32ToF16(tt.f); got != tt.want {
				t.Fatalf("%v is %04x, want %04x", tt.f, got, tt.want)
			}
			if got := F32ToF16(-tt.f); got != tt.want|0x8000 {
				t.Fatalf("%v is %04x, want %04x", -tt.f, got, tt.want|0x8000)
			}
		}
	}
}

func TestF32ToF16OfWhatHasNoNeighbours(t *testing.T) {
	tests := []struct {
		name string
		bits uint32
		want uint16
	}{
		{"infinity", 0x7f800000, 0x7c00},
		{"minus infinity", 0xff800000, 0xfc00},
		{"the largest number", 0x7f7fffff, 0x7c00},
		{"65536", 0x47800000, 0x7c00},
		{"the smallest number", 1, 0},
		{"minus the smallest number", 0x80000001, 0x8000},
		{"just below the smallest normal number", 0x007fffff, 0},
		{"a quiet NaN", 0x7fc00000, 0x7e00},
		{"a NaN that signals, with a payload", 0xff802000, 0xfe01},
		{"a NaN whose payload is cut off", 0x7f800001, 0x7e00},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := F32ToF16(math.Float32frombits(tt.bits)); got != tt.want {
				t.Errorf("got %04x, want %04x", got, tt.want)
			}
		})
	}
}

// TestBF16 does the same for bfloat16, whose numbers are the upper halves of float32.
func TestBF16(t *testing.T) {
	for i := range uint16(0x7f80) {
		bits := uint32(i) << 16
		if got := math.Float32bits(BF16ToF32(i)); got != bits {
			t.Fatalf("%04x is %08x, want %08x", i, got, bits)
		}
		tests := []struct {
			bits uint32
			want uint16
		}{{bits, i}, {bits + 1, i}, {bits + 0x7fff, i}, {bits + 0x8000, i + i&1}, {bits + 0x8001, i + 1}, {bits + 0xffff, i + 1}}
		for _, tt := range tests {
			for _, sign := range []uint32{0, 1 << 31} {
				if got := F32ToBF16(math.Float32frombits(tt.bits | sign)); got != tt.want|uint16(sign>>16) {
					t.Fatalf("%08x is %04x, want %04x", tt.bits|sign, got, tt.want|uint16(sign>>16))
				}
			}
		}
	}
	for _, tt := range []struct {
		bits uint32
		want uint16
	}{{0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0}, {0xffffffff, 0xffff}, {0x7f7fffff, 0x7f80}} {
		if got := F32ToBF16(math.Float32frombits(tt.bits)); got != tt.want {
			t.Errorf("%08x is %04x, want %04x", tt.bits, got, tt.want)
		}
	}
}
