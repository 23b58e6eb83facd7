package kv

import (
	"math/rand/v2"
	"testing"

	"github.com/stoker-llm/stoker/internal/lm/mem"
)

var small = Shape{Layers: 2, Heads: 1, HeadDim: 16}

func newCache(t *testing.T, pages int) *Cache {
	t.Helper()
	c, err := New(small, pages, mem.NewCounter())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Free)
	return c
}

// write computes the positions from s.Len on: it stores each position's token where keys are, so that a test can see whose page it
// is.
func write(t *testing.T, c *Cache, s *Seq, tokens []int32) {
	t.Helper()
	for _, id := range tokens {
		if err := s.Grow(s.Len() + 1); err != nil {
			t.Fatal(err)
		}
		k, v := c.Page(s.Pages()[s.Len()/PageLen], 1, 0)
		k[s.Len()%PageLen], v[(s.Len()%PageLen)*16] = float32(id), float32(-id)
		s.Commit(id)
	}
}

// check reads all positions of s.
func check(t *testing.T, c *Cache, s *Seq, want []int32) {
	t.Helper()
	if s.Len() != len(want) {
		t.Fatalf("%d positions, want %d", s.Len(), len(want))
	}
	for i, id := range want {
		k, v := c.Page(s.Pages()[i/PageLen], 1, 0)
		if k[i%PageLen] != float32(id) || v[(i%PageLen)*16] != float32(-id) {
			t.Fatalf("position %d holds %v and %v, want token %d", i, k[i%PageLen], v[(i%PageLen)*16], id)
		}
	}
}

func count(n int, from int32) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = from + int32(i)
	}
	return s
}

func TestSharing(t *testing.T) {
	first := count(80, 1)
	tests := []struct {
		name   string
		prompt []int32
		cached int
		shared uint64
		copied uint64
	}{
		{"the same again leaves one to compute", first, 79, 2, 1},
		{"longer", append(count(80, 1), 7, 7, 7), 80, 2, 1},
		{"whole pages only", append(count(64, 1), 500), 64, 2, 0},
		{"ends on a page", count(64, 1), 63, 1, 1},
		{"within the second page", append(count(40, 1), 500), 40, 1, 1},
		{"within the first page", append(count(5, 1), 500), 5, 0, 1},
		{"nothing", count(80, 900), 0, 0, 0},
		{"one token", count(1, 1), 0, 0, 0},
		{"two tokens", count(2, 1), 1, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCache(t, 16)
			a, cached := c.Open(first)
			if cached != 0 {
				t.Fatalf("an empty cache has %d tokens", cached)
			}
			write(t, c, a, first)
			a.Close()
			before := c.Stats()
			b, cached := c.Open(tt.prompt)
			if cached != tt.cached {
				t.Errorf("%d tokens are there, want %d", cached, tt.cached)
			}
			check(t, c, b, tt.prompt[:cached])
			after := c.Stats()
			if s, n := after.Shared-before.Shared, after.Copied-before.Copied; s != tt.shared || n != tt.copied {
				t.Errorf("%d pages shared and %d copied, want %d and %d", s, n, tt.shared, tt.copied)
			}
			write(t, c, b, tt.prompt[cached:])
			check(t, c, b, tt.prompt)
			again, n := c.Open(first)
			check(t, c, again, first[:n])
			if n != 79 {
				t.Errorf("the first sequence's tokens are known to %d after another went on", n)
			}
		})
	}
}

func TestAPageInUseIsNeverGivenUp(t *testing.T) {
	c := newCache(t, 4)
	a, _ := c.Open(count(64, 1))
	write(t, c, a, count(64, 1))
	b, cached := c.Open(count(65, 1))
	if cached != 64 {
		t.Fatalf("%d cached", cached)
	}
	a.Close()
	if err := b.Grow(4 * PageLen); err != nil {
		t.Fatal(err)
	}
	if err := b.Grow(5 * PageLen); err == nil {
		t.Error("a fifth of four pages")
	}
	check(t, c, b, count(64, 1))
	b.Close()
	if s := c.Stats(); s.InUse != 0 || s.Kept != 2 || s.Evicted != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTheOldestGoesFirst(t *testing.T) {
	c := newCache(t, 3)
	for _, from := range []int32{100, 200, 300} {
		s, _ := c.Open(count(PageLen, from))
		write(t, c, s, count(PageLen, from))
		s.Close()
	}
	again, n := c.Open(count(PageLen+1, 100)) // used again: now the second is the oldest
	if n != PageLen {
		t.Fatalf("%d cached", n)
	}
	again.Close()
	s, _ := c.Open(count(PageLen, 400))
	write(t, c, s, count(PageLen, 400))
	s.Close()
	for from, want := range map[int32]int{100: PageLen, 200: 0, 300: PageLen, 400: PageLen} {
		s, n := c.Open(count(PageLen+1, from))
		if n != want {
			t.Errorf("tokens from %d on: %d cached, want %d", from, n, want)
		}
		s.Close()
	}
}

// TestManySequences opens, writes and closes sequences at random and looks into each after every step.
func TestManySequences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := newCache(t, 24)
	type open struct {
		s    *Seq
		want []int32
	}
	var all []open
	for range 4000 {
		switch {
		case len(all) < 4 && rng.IntN(3) == 0:
			prompt := count(1+rng.IntN(100), 0)
			for i := range prompt { // few different tokens, so that beginnings are shared
				prompt[i] = int32(i/40*10 + rng.IntN(100)/98)
			}
			s, n := c.Open(prompt)
			check(t, c, s, prompt[:n])
			write(t, c, s, prompt[n:])
			all = append(all, open{s, prompt})
		case len(all) > 0:
			i := rng.IntN(len(all))
			if o := &all[i]; rng.IntN(4) > 0 && len(o.want) < 150 {
				id := int32(rng.IntN(3))
				write(t, c, o.s, []int32{id})
				o.want = append(o.want, id)
				break
			}
			all[i].s.Close()
			all = append(all[:i], all[i+1:]...)
		}
		used := map[int32]bool{}
		for _, o := range all {
			check(t, c, o.s, o.want)
			for _, p := range o.s.Pages() {
				used[p] = true
			}
		}
		if got := c.Stats().InUse; got != len(used) {
			t.Fatalf("%d pages in use are counted, %d are", got, len(used))
		}
	}
	if s := c.Stats(); s.Shared == 0 || s.Copied == 0 || s.Evicted == 0 {
		t.Errorf("the test showed too little: %+v", s)
	}
}
