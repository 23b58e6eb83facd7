// Package pool spreads the embedded engine's work over threads. A token of a small model needs some hundred of these regions, each
// of some microseconds, so waiting is done by spinning, and only who had nothing to do for a while goes to sleep.
//
//	p := pool.New(2)
//	p.Each(n, chunk, func(worker, lo, hi int) { ... })
//
// The caller of Each is worker 0. Work is claimed in chunks, not dealt out in shares: on a machine that others use as well, a share
// would wait for the thread that was held up. One Each runs at a time.
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

	// Each field that threads write has a cache line of its own.
	_    [64]byte
	next atomic.Int64 // first item not claimed
	_    [56]byte
	turn atomic.Uint32 // counts regions: a change means there is work
	_    [60]byte
	busy atomic.Int32 // workers that have not finished the region
	_    [60]byte

	n, chunk int
	f        func(worker, lo, hi int)
	quit     bool
	failed   atomic.Pointer[failure]

	mu       sync.Mutex // guards sleeping
	wake     *sync.Cond
	sleeping int
	gone     sync.WaitGroup
}

// failure is a panic of a worker.
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
	p.f, p.quit = nil, true
	p.turn.Add(1)
	p.rouse()
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
	p.n, p.chunk, p.f = n, chunk, f
	p.next.Store(0)
	p.busy.Store(int32(p.threads - 1))
	p.turn.Add(1)
	p.rouse()
	p.claim(0)
	for i := 0; p.busy.Load() != 0; i++ {
		p.pause(i)
	}
	p.f = nil
	if e := p.failed.Swap(nil); e != nil {
		panic(e.value)
	}
}

// claim works until nothing is left.
func (p *Pool) claim(worker int) {
	defer func() {
		if v := recover(); v != nil {
			p.failed.CompareAndSwap(nil, &failure{v})
			p.next.Store(int64(p.n)) // nobody needs to go on
		}
	}()
	for {
		lo := int(p.next.Add(int64(p.chunk))) - p.chunk
		if lo >= p.n {
			return
		}
		p.f(worker, lo, min(lo+p.chunk, p.n))
	}
}

func (p *Pool) work(worker int) {
	runtime.LockOSThread()
	seen := uint32(0)
	for {
		p.await(seen)
		seen++
		if p.quit {
			return
		}
		p.claim(worker)
		p.busy.Add(-1)
	}
}

// await returns when turn is no longer seen.
func (p *Pool) await(seen uint32) {
	var since time.Time
	for i := 0; p.turn.Load() == seen; i++ {
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

func (p *Pool) sleep(seen uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sleeping++
	for p.turn.Load() == seen {
		p.wake.Wait()
	}
	p.sleeping--
}

// rouse wakes who sleeps.
func (p *Pool) rouse() {
	p.mu.Lock()
	if p.sleeping > 0 {
		p.wake.Broadcast()
	}
	p.mu.Unlock()
}

// pause lets other goroutines run now and then. On a locked thread that is dear, so it is done often only if there are fewer
// processors than threads, when somebody who is waited for may need this one.
func (p *Pool) pause(i int) {
	if i&p.yield == p.yield {
		runtime.Gosched()
	}
}
