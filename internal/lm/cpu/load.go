package cpu

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/mem"
	"github.com/stoker-llm/stoker/internal/lm/pool"
)

// groupRows is the rows that a packed matrix interleaves: the unit of parallel packing.
const groupRows = kernel.GroupRows

// piece is some groups of one matrix.
type piece struct {
	m      *block.Matrix
	lo, hi int // groups
}

// Load packs all matrices of a program into one block of memory, in parallel, and calls progress, if not nil, with the bytes done. The
// block stays in use until the program is. If ctx ends, so does the load.
func Load(ctx context.Context, prog *block.Program, threads *pool.Pool, memory *mem.Counter, progress func(done, total int64)) (*mem.Block, error) {
	const align = 64
	var total int64
	offsets := make([]int64, len(prog.Matrices))
	for i, m := range prog.Matrices {
		offsets[i] = total
		total += (kernel.PackedBytes(m.Layout, m.Rows, m.Cols) + align - 1) &^ (align - 1)
	}
	loaded, err := mem.Alloc(total, "weights", memory)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, prog, offsets, loaded.Bytes(), threads, progress); err != nil {
		loaded.Free()
		return nil, err
	}
	return loaded, nil
}

// fill makes the matrices over their parts of all and packs them.
func fill(ctx context.Context, prog *block.Program, offsets []int64, all []byte, threads *pool.Pool, progress func(done, total int64)) error {
	var err error
	for i, m := range prog.Matrices {
		size := kernel.PackedBytes(m.Layout, m.Rows, m.Cols)
		if m.W, err = kernel.NewMatrix(m.Layout, m.Rows, m.Cols, all[offsets[i]:offsets[i]+size]); err != nil {
			return fmt.Errorf("matrix %s: %w", m.Name, err)
		}
	}
	return pack(ctx, prog, int64(len(all)), threads, progress)
}

// pack fills the matrices.
func pack(ctx context.Context, prog *block.Program, total int64, threads *pool.Pool, progress func(done, total int64)) error {
	const chunk = 16 // groups
	var pieces []piece
	for _, m := range prog.Matrices {
		for lo := 0; lo < m.W.Groups(); lo += chunk {
			pieces = append(pieces, piece{m, lo, min(lo+chunk, m.W.Groups())})
		}
	}
	var done atomic.Int64
	var failed atomic.Pointer[error]
	threads.Each(len(pieces), 1, func(worker, lo, hi int) {
		for _, p := range pieces[lo:hi] {
			if ctx.Err() != nil || failed.Load() != nil {
				return
			}
			if err := p.pack(); err != nil {
				failed.Store(&err)
				return
			}
			n := done.Add(kernel.PackedBytes(p.m.Layout, (p.hi-p.lo)*groupRows, p.m.Cols))
			if worker == 0 && progress != nil {
				progress(min(n, total), total)
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	if progress != nil {
		progress(total, total)
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
