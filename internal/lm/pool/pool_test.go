package pool

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestEachItemOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		p := New(threads)
		for _, n := range []int{0, 1, 2, 7, 1000} {
			for _, chunk := range []int{1, 3, 64} {
				done := make([]atomic.Int32, n)
				p.Each(n, chunk, func(w, lo, hi int) {
					if w < 0 || w >= threads {
						t.Errorf("worker %d of %d", w, threads)
					}
					for i := lo; i < hi; i++ {
						done[i].Add(1)
					}
				})
				for i := range done {
					if got := done[i].Load(); got != 1 {
						t.Fatalf("%d threads, %d items by %d: item %d was done %d times", threads, n, chunk, i, got)
					}
				}
			}
		}
		p.Close()
	}
}

func TestManyRegions(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 2 { // once with one processor, once with more
		p := New(3)
		var sum atomic.Int64
		for range 2000 {
			p.Each(8, 1, func(_, lo, hi int) { sum.Add(int64(hi - lo)) })
		}
		p.Close()
		if got := sum.Load(); got != 16000 {
			t.Errorf("%d items, want 16000", got)
		}
		runtime.GOMAXPROCS(4)
	}
}

// TestSleepersWake waits until the workers sleep before it gives them work.
func TestSleepersWake(t *testing.T) {
	p := New(3)
	defer p.Close()
	asleep := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.sleeping == 2
	}
	for range 3 {
		for limit := time.Now().Add(time.Minute); !asleep(); {
			if time.Now().After(limit) {
				t.Fatal("the workers do not go to sleep")
			}
			runtime.Gosched()
		}
		var met atomic.Int32
		p.Each(3, 1, func(_, _, _ int) { // each waits for the other two, so three threads are needed
			met.Add(1)
			for limit := time.Now().Add(time.Minute); met.Load() < 3; {
				if time.Now().After(limit) {
					t.Error("not all threads came")
					return
				}
				runtime.Gosched()
			}
		})
	}
}

func TestPanicComesOut(t *testing.T) {
	p := New(4)
	defer p.Close()
	for _, bad := range []int{0, 7, 99} {
		func() {
			defer func() {
				if v := recover(); v != "item" {
					t.Errorf("recovered %v", v)
				}
			}()
			p.Each(100, 1, func(_, lo, _ int) {
				if lo == bad {
					panic("item")
				}
			})
			t.Error("no panic")
		}()
	}
	n := 0
	p.Each(1, 1, func(_, _, _ int) { n++ })
	if n != 1 {
		t.Error("the pool is unusable after a panic")
	}
}

func BenchmarkRegion(b *testing.B) {
	p := New(runtime.NumCPU())
	defer p.Close()
	for b.Loop() {
		p.Each(p.Threads()*2, 1, func(_, _, _ int) {})
	}
}
