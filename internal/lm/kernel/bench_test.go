package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/lm/mem"
	"github.com/stoker-llm/stoker/internal/lm/pool"
	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// BenchmarkMul multiplies a matrix that no cache holds with 1 to 240 rows, on all processors, and prints weights per second; with one
// row also the bytes read as a share of what plain reading reaches in the same run.
func BenchmarkMul(b *testing.B) {
	p := pool.New(runtime.NumCPU())
	defer p.Close()
	for _, s := range Sets() {
		if s.name == "generic" {
			continue
		}
		for _, mode := range []Mode{Exact, Fast} {
			for _, typ := range []gguf.Type{gguf.Q4_1, gguf.Q8_0, gguf.Q4_K, gguf.Q6_K, gguf.F16} {
				l, err := LayoutOf(typ, mode)
				if err != nil || mode == Fast && !l.rounded() {
					continue
				}
				for _, m := range []int{1, 2, 3, 4, 6, 8, 12, 240} {
					b.Run(fmt.Sprintf("%s/%s/%s/%d", s.name, mode, typ, m), func(b *testing.B) { benchMul(b, s, p, mode, l, typ, m) })
				}
			}
		}
	}
}

func benchMul(b *testing.B, s *Set, p *pool.Pool, mode Mode, l Layout, typ gguf.Type, m int) {
	const cols = 2048
	n := 65536
	if m > 20 {
		n = 8192
	}
	block, err := mem.Alloc(PackedBytes(l, n, cols), "bench", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer block.Free()
	w, err := NewMatrix(l, n, cols, block.Bytes())
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	row := rows(rng, typ, 1, cols)[0]
	if err := w.Pack(0, n, Source{typ, func(int) []byte { return row }}); err != nil {
		b.Fatal(err)
	}
	a, out, x := NewActs(mode, m, cols), make([]float32, m*n), floats(rng, m*cols)
	scratch := make([]*Scratch, p.Threads())
	for i := range scratch {
		scratch[i] = NewScratch(m)
	}
	for b.Loop() {
		s.Load(a, l, x, cols, m, 0, a.Tiles(m))
		p.Each(w.Groups(), max(1, w.Groups()/64), func(worker, lo, hi int) { s.Mul(w, a, m, lo, hi, out, n, scratch[worker]) })
	}
	sec := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)*cols/sec/1e9, "Gweights/s")
	if m > 1 {
		b.ReportMetric(2*float64(m)*float64(n)*cols/sec/1e9, "GFLOPS")
		return
	}
	rate := float64(len(block.Bytes())) / sec
	b.ReportMetric(rate/1e9, "GB/s")
	b.ReportMetric(rate/Bandwidth(s, p, block.Bytes()), "of-reading")
}

// Bandwidth reads memory with all threads and returns bytes per second, the best of five.
func Bandwidth(s *Set, p *pool.Pool, memory []byte) float64 {
	const chunk = 1 << 20
	n := len(memory) / chunk
	best := 0.0
	for range 5 {
		start := time.Now()
		p.Each(n, 1, func(_, lo, hi int) { s.Read(memory[lo*chunk : hi*chunk]) })
		best = max(best, float64(n*chunk)/time.Since(start).Seconds())
	}
	return best
}
