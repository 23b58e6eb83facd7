package lm

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/mem"
)

// groupRows is the rows that a packed matrix interleaves: the unit of parallel packing.
const groupRows = kernel.GroupRows

// piece is some groups of one matrix.
type piece struct {
	m      *block.Matrix
	lo, hi int // groups
}

// load packs all matrices into one block of memory, in parallel.
func (e *Engine) load(ctx context.Context) error {
	const align = 64
	var total int64
	offsets := make([]int64, len(e.program.Matrices))
	for i, m := range e.program.Matrices {
		offsets[i] = total
		total += (kernel.PackedBytes(m.Layout, m.Rows, m.Cols) + align - 1) &^ (align - 1)
	}
	var err error
	if e.loaded, err = mem.Alloc(total, "weights", e.memory); err != nil {
		return noMemory("the weights", err)
	}
	all := e.loaded.Bytes()
	for i, m := range e.program.Matrices {
		size := kernel.PackedBytes(m.Layout, m.Rows, m.Cols)
		if m.W, err = kernel.NewMatrix(m.Layout, m.Rows, m.Cols, all[offsets[i]:offsets[i]+size]); err != nil {
			return fmt.Errorf("matrix %s: %w", m.Name, err)
		}
	}
	return e.pack(ctx, total)
}

// pack fills the matrices.
func (e *Engine) pack(ctx context.Context, total int64) error {
	const chunk = 16 // groups
	var pieces []piece
	for _, m := range e.program.Matrices {
		for lo := 0; lo < m.W.Groups(); lo += chunk {
			pieces = append(pieces, piece{m, lo, min(lo+chunk, m.W.Groups())})
		}
	}
	var done atomic.Int64
	var failed atomic.Pointer[error]
	e.pool.Each(len(pieces), 1, func(worker, lo, hi int) {
		for _, p := range pieces[lo:hi] {
			if ctx.Err() != nil || failed.Load() != nil {
				return
			}
			if err := p.pack(); err != nil {
				failed.Store(&err)
				return
			}
			n := done.Add(kernel.PackedBytes(p.m.Layout, (p.hi-p.lo)*groupRows, p.m.Cols))
			if worker == 0 && e.o.Progress != nil {
				e.o.Progress(min(n, total), total)
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return &infer.Error{Kind: infer.ErrInvalid, Param: "model", Message: "the weights cannot be loaded", Err: *err}
	}
	if e.o.Progress != nil {
		e.o.Progress(total, total)
	}
	return nil
}

// pack packs the rows of the piece's groups from the parts that they lie in.
func (p piece) pack() error {
	first := 0
	for _, part := range p.m.Parts {
		n := part.Tensor.Rows
		lo, hi := max(p.lo*groupRows, first), min(p.hi*groupRows, first+n)
		if lo < hi {
			at := lo - first
			row := func(i int) []byte {
				if part.Row != nil {
					return part.Tensor.RowBytes(part.Row(at + i))
				}
				return part.Tensor.RowBytes(at + i)
			}
			if err := p.m.W.Pack(lo, hi-lo, kernel.Source{Type: part.Tensor.Type, Row: row}); err != nil {
				return fmt.Errorf("tensor %s: %w", part.Tensor.Name, err)
			}
		}
		first += n
	}
	return nil
}
