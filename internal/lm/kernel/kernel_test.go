package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/stoker-llm/stoker/internal/lm/tensor"
	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// forSets runs f on each set of this machine, and says which there are and which cannot run here.
func forSets(t *testing.T, f func(t *testing.T, s *Set)) {
	t.Helper()
	for _, s := range Sets() {
		t.Run(s.Name(), func(t *testing.T) { f(t, s) })
		t.Logf("ran: %s", s.Name())
	}
	for name, why := range Missing() {
		t.Logf("not run: %s: %s", name, why)
	}
}

// rows makes random rows of a format whose scales are ordinary numbers.
func rows(rng *rand.Rand, typ gguf.Type, n, cols int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		size, _ := typ.RowBytes(int64(cols))
		b := make([]byte, size)
		for j := range b {
			b[j] = byte(rng.Uint32())
		}
		step := int(typ.BlockBytes())
		for at := 0; at < len(b); at += step {
			for _, off := range scalesOf(typ) {
				binary.LittleEndian.PutUint16(b[at+off:], ordinary(rng, typ))
			}
			if typ == gguf.F32 {
				binary.LittleEndian.PutUint32(b[at:], math.Float32bits(float32(rng.NormFloat64())))
			}
		}
		out[i] = b
	}
	return out
}

// scalesOf are the places of half precision numbers in a block.
func scalesOf(t gguf.Type) []int {
	switch t {
	case gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q5_0:
		return []int{0}
	case gguf.Q4_1, gguf.Q5_1, gguf.Q4_K, gguf.Q5_K:
		return []int{0, 2}
	case gguf.Q6_K:
		return []int{208}
	}
	return nil
}

func ordinary(rng *rand.Rand, typ gguf.Type) uint16 {
	if typ == gguf.BF16 {
		return uint16(math.Float32bits(float32(rng.NormFloat64())) >> 16)
	}
	if rng.IntN(50) == 0 {
		return uint16(rng.IntN(0x400)) | uint16(rng.IntN(2))<<15 // zero and subnormal
	}
	return uint16(rng.IntN(2))<<15 | uint16(5+rng.IntN(12))<<10 | uint16(rng.IntN(1024))
}

// packed makes a matrix of the rows.
func packed(t testing.TB, typ gguf.Type, mode Mode, rows [][]byte, cols int) *Matrix {
	t.Helper()
	l, err := LayoutOf(typ, mode)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMatrix(l, len(rows), cols, aligned(int(PackedBytes(l, len(rows), cols))))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Pack(0, len(rows), Source{typ, func(i int) []byte { return rows[i] }}); err != nil {
		t.Fatal(err)
	}
	return m
}

func floats(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: number %d is %x (%v), want %x (%v)", what, i, got[i], got[i], want[i], want[i])
		}
	}
}

// multiply computes m rows of x.
func multiply(s *Set, w *Matrix, mode Mode, x []float32, m int) []float32 {
	a, sc := NewActs(mode, m, w.Cols()), NewScratch(m)
	out := make([]float32, m*w.Rows())
	s.Load(a, w.Layout(), x, w.Cols(), m, 0, a.Tiles(m))
	s.Mul(w, a, m, 0, w.Groups(), out, w.Rows(), sc)
	return out
}

// TestExactIsTheDefinition compares with dequantised weights and one chain of fma for each output: whatever the format, the number of
// rows, and where the matrix ends.
func TestExactIsTheDefinition(t *testing.T) {
	forSets(t, func(t *testing.T, s *Set) {
		for _, typ := range tensor.Types() {
			for _, shape := range [][2]int{{32, 256}, {45, 512}, {3, 256}, {64, 768}, {33, 608}} {
				if shape[1]%int(typ.BlockSize()) != 0 {
					continue // the K formats have super-blocks of 256 columns
				}
				t.Run(fmt.Sprintf("%s/%dx%d", typ, shape[0], shape[1]), func(t *testing.T) {
					exactly(t, s, typ, shape[0], shape[1])
				})
			}
		}
	})
}

func exactly(t *testing.T, s *Set, typ gguf.Type, n, cols int) {
	rng := rand.New(rand.NewPCG(uint64(typ), uint64(n)))
	src := rows(rng, typ, n, cols)
	w := packed(t, typ, Exact, src, cols)
	const most = 13
	x := floats(rng, most*cols)
	want := make([]float32, most*n)
	weights := make([]float32, cols)
	for r, b := range src {
		if err := tensor.Dequantize(typ, b, weights); err != nil {
			t.Fatal(err)
		}
		for i := range most {
			var y float32
			for k, v := range weights {
				y = tensor.FMA32(v, x[i*cols+k], y)
			}
			want[i*n+r] = y
		}
	}
	for _, m := range []int{1, 2, 3, 4, 5, 6, 7, 8, 13} {
		sameBits(t, fmt.Sprintf("%d rows", m), multiply(s, w, Exact, x, m), want[:m*n])
	}
}

// TestFastIsCanonical compares every set with the generic one, and different numbers of rows with one at a time.
func TestFastIsCanonical(t *testing.T) {
	forSets(t, func(t *testing.T, s *Set) {
		for _, typ := range tensor.Types() {
			rng := rand.New(rand.NewPCG(uint64(typ), 7))
			const n, cols, most = 45, 512, 13
			w := packed(t, typ, Fast, rows(rng, typ, n, cols), cols)
			x := floats(rng, most*cols)
			x[5], x[7] = 0, 1e6
			clear(x[2*cols : 2*cols+64])
			var want []float32
			for i := range most {
				want = append(want, multiply(generic(), w, Fast, x[i*cols:(i+1)*cols], 1)...)
			}
			for _, m := range []int{1, 2, 3, 4, 5, 6, 7, 8, 13} {
				sameBits(t, fmt.Sprintf("%s, %d rows", typ, m), multiply(s, w, Fast, x, m), want[:m*n])
			}
		}
	})
}

// TestFastIsClose holds the rounded product to the exact one: an error of a few per cent of what the rounding allows at most.
func TestFastIsClose(t *testing.T) {
	for _, typ := range tensor.Types() {
		rng := rand.New(rand.NewPCG(uint64(typ), 8))
		const n, cols = 64, 1024
		src := rows(rng, typ, n, cols)
		x := floats(rng, cols)
		exact := multiply(generic(), packed(t, typ, Exact, src, cols), Exact, x, 1)
		fast := multiply(generic(), packed(t, typ, Fast, src, cols), Fast, x, 1)
		var diff, size float64
		for i := range exact {
			diff += math.Pow(float64(exact[i]-fast[i]), 2)
			size += math.Pow(float64(exact[i]), 2)
		}
		if rms := math.Sqrt(diff / size); rms > 0.03 {
			t.Errorf("%s: relative RMS error %g", typ, rms)
		}
	}
}

func TestPackRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	src := rows(rng, gguf.Q8_0, 4, 64)
	w := packed(t, gguf.Q8_0, Exact, src, 64)
	row := func(i int) []byte { return src[i] }
	large := make([]byte, 36)
	binary.LittleEndian.PutUint16(large, 0x7800) // 32768, times 8 overflows half precision
	four := packed(t, gguf.Q4_0, Exact, rows(rng, gguf.Q4_0, 4, 64), 64)
	tests := []struct {
		name string
		err  error
	}{
		{"another format", w.Pack(0, 1, Source{gguf.Q4_1, row})},
		{"too many rows", w.Pack(1, 4, Source{gguf.Q8_0, row})},
		{"a short row", w.Pack(0, 1, Source{gguf.Q8_0, func(int) []byte { return src[0][:34] }})},
		{"a scale too large", four.Pack(0, 1, Source{gguf.Q4_0, func(int) []byte { return large }})},
	}
	for _, tt := range tests {
		if tt.err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
	if _, err := NewMatrix(layK4, 32, 128, nil); err == nil {
		t.Error("half a super-block of columns: no error")
	}
}

func TestTimesMinus8(t *testing.T) {
	for d := range 1 << 16 {
		if d>>10&31 == 31 {
			continue
		}
		m, ok := timesMinus8(uint16(d))
		want := -8 * tensor.F16ToF32(uint16(d))
		if fits := math.Abs(float64(want)) <= 65504; ok != fits || ok && tensor.F16ToF32(m) != want {
			t.Fatalf("%#04x: %#04x, %t, want %g", d, m, ok, want)
		}
	}
}

func TestExp(t *testing.T) {
	worst := 0.0
	for x := float32(-87.3); x < 88; x += 0.000917 {
		got, want := float64(Exp(x)), math.Exp(float64(x))
		ulp := math.Ldexp(1, int(math.Floor(math.Log2(want)))-23)
		worst = max(worst, math.Abs(got-want)/ulp)
	}
	t.Logf("worst error: %.2f units in the last place", worst)
	if worst > 2 {
		t.Errorf("an error of %.2f units in the last place, want at most 2", worst)
	}
	if Exp(-88) != 0 || Exp(0) != 1 || Exp(1000) != Exp(88) {
		t.Errorf("Exp(-88) = %v, Exp(0) = %v, Exp(1000) = %v", Exp(-88), Exp(0), Exp(1000))
	}
}

// TestGlue compares every set with the generic one.
func TestGlue(t *testing.T) {
	g := generic()
	forSets(t, func(t *testing.T, s *Set) {
		for _, n := range []int{16, 32, 64, 80, 576, 1536} {
			rng := rand.New(rand.NewPCG(uint64(n), 3))
			x, y, w := floats(rng, n), floats(rng, n), floats(rng, n)
			for i := range x {
				x[i] *= 10
			}
			x[0], x[1], x[2], x[3] = 0, 200, -200, 90
			for name, f := range map[string]func(s *Set, dst []float32){
				"norm":  func(s *Set, dst []float32) { s.RMSNorm(dst, x, w, 1e-6) },
				"silu":  func(s *Set, dst []float32) { s.SiLUMul(dst, x, y) },
				"gelu":  func(s *Set, dst []float32) { s.GELUMul(dst, x, y) },
				"rope":  func(s *Set, dst []float32) { copy(dst, x); s.Rope(dst, y[:n/2], w[:n/2]) },
				"add":   func(s *Set, dst []float32) { copy(dst, x); s.Add(dst, y) },
				"scale": func(s *Set, dst []float32) { copy(dst, x); s.Scale(dst, 1.7) },
			} {
				got, want := make([]float32, n), make([]float32, n)
				f(s, got)
				f(g, want)
				sameBits(t, fmt.Sprintf("%s of %d", name, n), got, want)
			}
		}
	})
}

// TestOddLengths compares the functions that take any length with plain loops, where no vector fits in evenly.
func TestOddLengths(t *testing.T) {
	forSets(t, func(t *testing.T, s *Set) {
		for n := 1; n < 40; n++ {
			rng := rand.New(rand.NewPCG(uint64(n), 4))
			x, y, z := floats(rng, 2*n), floats(rng, n), floats(rng, n)
			sum, scaled, turned := floats(rng, n), slices.Clone(y), slices.Clone(x)
			before := slices.Clone(sum)
			s.Add(sum, y)
			s.Scale(scaled, 1.7)
			s.Rope(turned, y, z)
			for i := range n {
				p, q := x[i], x[i+n]
				want := []float32{before[i] + y[i], y[i] * 1.7, float32(p*y[i]) - float32(q*z[i]), float32(q*y[i]) + float32(p*z[i])}
				sameBits(t, fmt.Sprintf("element %d of %d", i, n), []float32{sum[i], scaled[i], turned[i], turned[i+n]}, want)
			}
		}
	})
}

// TestInterleave writes rows side by side that end where the memory ends: a kernel that reads on would be killed by the system.
func TestInterleave(t *testing.T) {
	const page = 4096
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	}()
	if err := unix.Mprotect(b[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	all := unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), page/4)
	copy(all, floats(rand.New(rand.NewPCG(1, 5)), len(all)))
	forSets(t, func(t *testing.T, s *Set) {
		for m := 1; m <= TileQ; m++ {
			for _, n := range []int{8, 16, 32, 96} {
				ld := n + 3
				src := all[len(all)-(m-1)*ld-n:]
				got, want := make([]float32, m*n), make([]float32, m*n)
				s.side(m, got, src, ld, n)
				for i := range want {
					want[i] = src[i%m*ld+i/m]
				}
				sameBits(t, fmt.Sprintf("%d rows of %d", m, n), got, want)
			}
		}
	})
}

// TestGateValues checks the gates against their formulas in float64.
func TestGateValues(t *testing.T) {
	for g := -20.0; g < 20; g += 0.37 {
		x, one, got := []float32{float32(g)}, []float32{1}, []float32{0}
		v := float64(x[0])
		siluMul(&got[0], &x[0], &one[0], 1)
		if want := v / (1 + math.Exp(-v)); math.Abs(float64(got[0])-want) > 1e-6*max(1, math.Abs(want)) {
			t.Errorf("silu(%g) = %g, want %g", v, got[0], want)
		}
		geluMul(&got[0], &x[0], &one[0], 1)
		want := 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
		if math.Abs(float64(got[0])-want) > 1e-6*max(1, math.Abs(want)) {
			t.Errorf("gelu(%g) = %g, want %g", v, got[0], want)
		}
	}
}
