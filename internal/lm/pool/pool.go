// Package pool spreads the embedded engine's work over threads. A token of a small model needs some hundred of these regions, each
// of some microseconds, so waiting is done by spinning, and only who had nothing to do for a while goes to sleep.
//
//	p := pool.New(2)
//	p.Each(n, chunk, func(worker, lo, hi int) { ... })
//
// The caller of Each is worker 0. Work is claimed in chunks, not dealt out in shares, and nobody waits for a thread that claimed
// nothing: on a machine that others use as well, a thread that the system holds up costs no more than the chunk it has in hand. One
// Each runs at a time.
package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// spin is how long a worker looks for work before it sleeps. Shorter than the pause between two tokens it would cost a wake-up of
// tens of microseconds each, longer it would heat an idle machine.
const spin = 2 * time.Millisecond

// Pool is a set of threads.
type Pool struct {
	threads int
	yield   int // a mask: rounds of spinning before others may run

	_   [64]byte
	now atomic.Pointer[region] // the latest region; a change means there is work
	_   [56]byte

	mu       sync.Mutex // guards sleeping
	wake     *sync.Cond
	sleeping int
	gone     sync.WaitGroup
}

// region is one call of Each. A thread that comes late finds nothing left in it.
type region struct {
	n, chunk int
	f        func(worker, lo, hi int) // nil: the threads end
	failed   atomic.Pointer[failure]

	// What several threads write has a cache line of its own.
	_    [64]byte
	next atomic.Int64 // first item not claimed
	_    [56]byte
	done atomic.Int64 // items done
	_    [56]byte
}

// failure is a panic in f.
type failure struct{ value any }

// New starts a pool of that many threads, the caller of Each included.
func New(threads int) *Pool {
	p := &Pool{threads: max(1, threads), yield: 1<<16 - 1}
	if runtime.GOMAXPROCS(0) < p.threads {
		p.yield = 1<<5 - 1
	}
	p.wake = sync.NewCond(&p.mu)
	for w := 1; w < p.threads; w++ {
		p.gone.Go(func() { p.work(w) })
	}
	return p
}

// Threads is the number of threads.
func (p *Pool) Threads() int { return p.threads }

// Close ends the threads. Each may not be called afterwards.
func (p *Pool) Close() {
	p.begin(&region{})
	p.gone.Wait()
}

// Each calls f for items [lo, hi) of 0 to n, at most chunk at a time, on all threads, and returns when all are done. A panic in f
// comes out of Each.
func (p *Pool) Each(n, chunk int, f func(worker, lo, hi int)) {
	if p.threads == 1 || n <= chunk {
		if n > 0 {
			f(0, 0, n)
		}
		return
	}
	r := &region{n: n, chunk: chunk, f: f}
	p.begin(r)
	r.claim(0)
	for i := 0; r.done.Load() != int64(n); i++ {
		p.pause(i)
	}
	if e := r.failed.Load(); e != nil {
		panic(e.value)
	}
}

// begin shows a region to the threads and wakes who sleeps.
func (p *Pool) begin(r *region) {
	p.now.Store(r)
	p.mu.Lock()
	if p.sleeping > 0 {
		p.wake.Broadcast()
	}
	p.mu.Unlock()
}

// claim works until nothing is left.
func (r *region) claim(worker int) {
	for {
		lo := int(r.next.Add(int64(r.chunk))) - r.chunk
		if lo >= r.n {
			return
		}
		r.run(worker, lo, min(lo+r.chunk, r.n))
	}
}

// run does one chunk. After a panic the rest is counted as done without being done.
func (r *region) run(worker, lo, hi int) {
	defer r.done.Add(int64(hi - lo))
	if r.failed.Load() != nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.failed.CompareAndSwap(nil, &failure{v})
		}
	}()
	r.f(worker, lo, hi)
}

func (p *Pool) work(worker int) {
	runtime.LockOSThread()
	var seen *region
	for {
		seen = p.await(seen)
		if seen.f == nil {
			return
		}
		seen.claim(worker)
	}
}

// await returns the latest region when it is no longer seen.
func (p *Pool) await(seen *region) *region {
	var since time.Time
	for i := 0; ; i++ {
		if r := p.now.Load(); r != seen {
			return r
		}
		p.pause(i)
		if i%1024 != 1023 {
			continue
		}
		if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) > spin {
			p.sleep(seen)
		}
	}
}

func (p *Pool) sleep(seen *region) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sleeping++
	for p.now.Load() == seen {
		p.wake.Wait()
	}
	p.sleeping--
}

// pause lets other goroutines run now and then. On a locked thread that is dear, so it is done often only if there are fewer
// processors than threads, when somebody who is waited for may need this one.
func (p *Pool) pause(i int) {
	if i&p.yield == p.yield {
		runtime.Gosched()
	}
}
