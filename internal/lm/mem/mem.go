// Package mem gives out large memory outside the Go heap: weights, the KV cache and buffers live there, so that the garbage
// collector neither scans them nor grows with them.
//
// A [Block] is anonymous memory from the system, in huge pages where the system has them. It is zero, and takes room only where it
// was written. A [Counter] counts bytes by purpose. Both are safe for concurrent use, except that nobody may use a block's memory
// once it was freed. Built with the tag "invariants", the addresses of freed blocks stay taken, and using them ends the program.
package mem

import (
	"fmt"
	"maps"
	"sync"
	"unsafe"
)

// Counter counts the bytes in use by purpose.
type Counter struct {
	mu    sync.Mutex // guards bytes
	bytes map[string]int64
}

// NewCounter returns a counter at zero.
func NewCounter() *Counter { return &Counter{bytes: map[string]int64{}} }

// Bytes returns the bytes in use by purpose.
func (c *Counter) Bytes() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.bytes)
}

func (c *Counter) add(purpose string, n int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes[purpose] += n; c.bytes[purpose] == 0 {
		delete(c.bytes, purpose)
	}
}

// Block is memory outside the Go heap.
type Block struct {
	mapped  []byte
	bytes   []byte
	purpose string
	counter *Counter
}

// hugePage is the size and alignment of huge pages on the machines we know.
const hugePage = 2 << 20

// Alloc takes n zero bytes from the system, aligned to a huge page, and counts them in c, which may be nil.
func Alloc(n int64, purpose string, c *Counter) (*Block, error) {
	if n < 0 || n > 1<<46 {
		return nil, fmt.Errorf("%d bytes for %s", n, purpose)
	}
	mapped, err := reserve(int(n) + hugePage)
	if err != nil {
		return nil, fmt.Errorf("%d bytes for %s: %w", n, purpose, err)
	}
	off := int(-uintptr(unsafe.Pointer(&mapped[0])) & (hugePage - 1))
	c.add(purpose, n)
	return &Block{mapped: mapped, bytes: mapped[off : off+int(n) : off+int(n)], purpose: purpose, counter: c}, nil
}

// Bytes is the memory.
func (b *Block) Bytes() []byte { return b.bytes }

// Floats is the memory as float32, without a rest of less than four bytes.
func (b *Block) Floats() []float32 {
	if len(b.bytes) < 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b.bytes[0])), len(b.bytes)/4)
}

// Free gives the memory back to the system. Freeing twice does nothing.
func (b *Block) Free() {
	if b.mapped == nil {
		return
	}
	if err := retire(b.mapped); err != nil {
		panic(fmt.Sprintf("mem: %s: %v", b.purpose, err)) // only a wrong address can fail
	}
	b.counter.add(b.purpose, -int64(len(b.bytes)))
	b.mapped, b.bytes = nil, nil
}
