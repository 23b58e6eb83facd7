package cpu

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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

// LoadOptions say how matrices are loaded.
type LoadOptions struct {
	Pool   *pool.Pool
	Memory *mem.Counter
	// CacheDir, if not empty, is a folder where the packed matrices are kept, to be mapped by the next start, which then takes
	// milliseconds. A file there is as large as the packed model. Whoever can write into the folder decides what the model says.
	CacheDir string
	// Progress, if not nil, is called with the bytes done. It must not block.
	Progress func(done, total int64)
}

// Load packs all matrices of a program into memory, in parallel, or maps them from the cache. They stay in use until the program is no
// more. If ctx ends, so does the load.
func Load(ctx context.Context, prog *block.Program, o LoadOptions) (*Packed, error) {
	const align = 64
	var total int64
	offsets := make([]int64, len(prog.Matrices))
	for i, m := range prog.Matrices {
		offsets[i] = total
		total += (kernel.PackedBytes(m.Layout, m.Rows, m.Cols) + align - 1) &^ (align - 1)
	}
	tell := func(done, total int64) {
		if o.Progress != nil {
			o.Progress(done, total)
		}
	}
	path, key := "", ""
	if o.CacheDir != "" {
		key = packKey(prog)
		path = filepath.Join(o.CacheDir, key[:32]+".packed")
		if m, err := openPacked(path, key, total); err == nil {
			tell(total, total)
			return &Packed{FromCache: true, free: func() { m.Close() }}, place(prog, offsets, m.Bytes()[packAlign:])
		}
	}
	loaded, err := mem.Alloc(total, "weights", o.Memory)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(place(prog, offsets, loaded.Bytes()), pack(ctx, prog, total, o.Pool, tell)); err != nil {
		loaded.Free()
		return nil, err
	}
	out := &Packed{free: loaded.Free}
	if path != "" {
		out.CacheErr = writePacked(path, key, loaded.Bytes())
	}
	return out, nil
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
			if worker == 0 {
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
	progress(total, total)
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
