package cpu

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/kv"
	"github.com/stoker-llm/stoker/internal/lm/mem"
	"github.com/stoker-llm/stoker/internal/lm/pool"
	"github.com/stoker-llm/stoker/internal/lm/weights"
)

// model is a loaded model with room for some sequences.
type model struct {
	p     *block.Program
	m     *Machine
	cache *kv.Cache
}

// env returns the path that a variable holds.
func env(t testing.TB, name, asset string) string {
	t.Helper()
	p := os.Getenv(name)
	if p == "" {
		t.Fatalf("%s is not set: run `make test`, or set it to what `go run ./test/assets path %s` prints", name, asset)
	}
	return p
}

func tinyModels(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(env(t, "STOKER_TEST_TINY", "tiny"), "*.gguf"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d tiny models (%v), want at least 4", len(files), err)
	}
	return files
}

func load(t testing.TB, path string, mode kernel.Mode, set *kernel.Set, threads int) *model {
	t.Helper()
	f, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Program(mode)
	if err != nil {
		t.Fatal(err)
	}
	workers, memory := pool.New(threads), mem.NewCounter()
	loaded, err := Load(t.Context(), p, LoadOptions{Pool: workers, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	c, err := kv.New(kv.Shape{Layers: p.Config.Layers, Heads: p.Config.KVHeads, HeadDim: p.Config.HeadDim}, 32, memory)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(p, Options{Set: set, Pool: workers, KV: c, MaxRows: 128, MaxLogits: 128, MaxContext: 256, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Free()
		c.Free()
		workers.Close()
		loaded.Free()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if left := memory.Bytes(); len(left) > 0 {
			t.Errorf("memory that was not freed: %v", left)
		}
	})
	return &model{p, m, c}
}

// prompt makes n tokens of the vocabulary.
func (m *model) prompt(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32((i*7919 + 13) % m.p.Config.Vocab)
	}
	return s
}

// logits computes tokens in pieces of the given sizes, over and over, beside other sequences, and returns the last row's logits: they
// depend on all that was computed before.
func (m *model) logits(t testing.TB, tokens []int32, splits []int, others int) []float32 {
	t.Helper()
	seq := m.cache.Private()
	defer seq.Close()
	var b Batch
	for i := range others {
		s := m.cache.Private()
		defer s.Close()
		if err := s.Grow(40); err != nil {
			t.Fatal(err)
		}
		b.Spans = append(b.Spans, Span{Tokens: []int32{int32(i + 3)}, Start: 0, Pages: s.Pages(), Logits: i % 2})
	}
	for at, i := 0, 0; at < len(tokens); i++ {
		n := min(splits[i%len(splits)], len(tokens)-at)
		if err := seq.Grow(at + n); err != nil {
			t.Fatal(err)
		}
		run := Batch{Spans: append(b.Spans[:others:others], Span{Tokens: tokens[at : at+n], Start: at, Pages: seq.Pages()})}
		at += n
		if at == len(tokens) {
			run.Spans[others].Logits = 1
		}
		if all := m.m.Run(&run, nil); at == len(tokens) {
			return slices.Clone(all[len(all)-m.p.Config.Vocab:])
		}
	}
	panic("no tokens")
}

// TestBitEqual computes the same tokens in different pieces, beside other sequences, on different numbers of threads and with all
// sets of kernels, in both modes, and wants the same bits.
func TestBitEqual(t *testing.T) {
	for _, path := range tinyModels(t) {
		for _, mode := range []kernel.Mode{kernel.Exact, kernel.Fast} {
			t.Run(filepath.Base(path)+"/"+mode.String(), func(t *testing.T) { bitEqual(t, path, mode) })
		}
	}
	for name, why := range kernel.Missing() {
		t.Logf("not run: kernels %s: %s", name, why)
	}
}

func bitEqual(t *testing.T, path string, mode kernel.Mode) {
	sets := kernel.Sets()
	truth := load(t, path, mode, sets[len(sets)-1], 1) // generic
	tokens := truth.prompt(75)
	want := truth.logits(t, tokens[:8], []int{1}, 0) // it is slow: some positions are enough
	for _, set := range sets {
		t.Logf("ran: kernels %s", set.Name())
		for _, threads := range []int{1, 3} {
			m := load(t, path, mode, set, threads)
			same(t, fmt.Sprintf("%s, %d threads", set.Name(), threads), m.logits(t, tokens[:8], []int{8}, 0), want)
			if set.Name() == "generic" {
				continue
			}
			whole := m.logits(t, tokens, []int{75}, 0)
			for _, splits := range [][]int{{1}, {7, 32, 1}, {33, 5}, {64}} {
				for _, others := range []int{0, 1, 5} {
					same(t, fmt.Sprintf("%s, pieces %v beside %d", set.Name(), splits, others), m.logits(t, tokens, splits, others), whole)
				}
			}
		}
	}
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d logits, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: logit %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestBitEqualReal does the same for the real models, whose formats the tiny ones lack, with the best set.
func TestBitEqualReal(t *testing.T) {
	for _, path := range []string{env(t, "STOKER_TEST_MODEL_CHAT", "smollm2"), env(t, "STOKER_TEST_MODEL_BASE", "gemma3")} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			m := load(t, path, kernel.Exact, kernel.Sets()[0], 2)
			tokens := m.prompt(70)
			whole := m.logits(t, tokens, []int{70}, 0)
			for _, splits := range [][]int{{1}, {7, 32, 1}} {
				same(t, fmt.Sprintf("pieces %v", splits), m.logits(t, tokens, splits, 2), whole)
			}
		})
	}
}

// TestTaps sees every step's result by its name, in order.
func TestTaps(t *testing.T) {
	m := load(t, tinyModels(t)[0], kernel.Exact, kernel.Sets()[0], 2)
	seq := m.cache.Private()
	defer seq.Close()
	if err := seq.Grow(3); err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	b := Batch{Spans: []Span{{Tokens: []int32{5, 6, 7}, Pages: seq.Pages(), Logits: 1}}}
	m.m.Run(&b, func(label string, n, width int, x []float32) {
		rows[label] += n
		if len(x) != n*width {
			t.Errorf("%s: %d floats, want %d x %d", label, len(x), n, width)
		}
	})
	for label, want := range map[string]int{"embed": 3, "blk.0.out": 3, "blk.1.attend": 3, "output_norm": 1, "logits": 1} {
		if rows[label] != want {
			t.Errorf("%s: %d rows, want %d", label, rows[label], want)
		}
	}
}

// TestPackCache loads twice with a cache: the second time from the file, with the same results. A file that is damaged or of another
// model is not used.
func TestPackCache(t *testing.T) {
	dir := t.TempDir()
	path := tinyModels(t)[0]
	once := func(path string) (*Packed, []float32) {
		t.Helper()
		f, err := weights.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p, err := f.Program(kernel.Exact)
		if err != nil {
			t.Fatal(err)
		}
		workers := pool.New(2)
		defer workers.Close()
		w, err := Load(t.Context(), p, LoadOptions{Pool: workers, CacheDir: dir})
		if err != nil || w.CacheErr != nil {
			t.Fatal(err, w.CacheErr)
		}
		defer w.Free()
		c, err := kv.New(kv.Shape{Layers: p.Config.Layers, Heads: p.Config.KVHeads, HeadDim: p.Config.HeadDim}, 4, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Free()
		m, err := New(p, Options{Set: kernel.Sets()[0], Pool: workers, KV: c, MaxRows: 8, MaxLogits: 1, MaxContext: 32})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		return w, (&model{p, m, c}).logits(t, []int32{5, 6, 7}, []int{3}, 0)
	}
	first, want := once(path)
	second, got := once(path)
	if first.FromCache || !second.FromCache {
		t.Errorf("from the cache: first %t, then %t", first.FromCache, second.FromCache)
	}
	same(t, "from the cache", got, want)
	if other, _ := once(tinyModels(t)[1]); other.FromCache {
		t.Error("another model's matrices were taken")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.packed"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if err := os.Truncate(f, 100000); err != nil {
			t.Fatal(err)
		}
	}
	again, got := once(path)
	if again.FromCache {
		t.Error("a file that was cut off was taken")
	}
	same(t, "after a damage", got, want)
}
