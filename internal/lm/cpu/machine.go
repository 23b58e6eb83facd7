// Package cpu runs a model's steps (package block) on the processor, with the kernels of package kernel.
//
//	m, err := cpu.New(program, cpu.Options{...})
//	logits := m.Run(&cpu.Batch{...}, nil)
//
// A run takes the rows of several sequences at once: single tokens of those that are writing, a piece of prompt of one that is
// being read. Rows do not influence each other except through the KV cache of their own sequence, and each result is the same bits
// whatever the batch looked like, however many threads worked on it and whichever set of kernels did (TestBitEqual).
//
// A Machine belongs to one goroutine. Its worker threads are those of the pool it was given.
package cpu

import (
	"fmt"

	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/kv"
	"github.com/stoker-llm/stoker/internal/lm/mem"
	"github.com/stoker-llm/stoker/internal/lm/pool"
	"github.com/stoker-llm/stoker/internal/lm/tensor"
)

const pageLen = kv.PageLen

// Options say what a Machine works with.
type Options struct {
	Set  *kernel.Set
	Pool *pool.Pool
	KV   *kv.Cache
	// MaxRows is the most rows of a batch, and MaxLogits the most rows of one that want logits.
	MaxRows, MaxLogits int
	// MaxContext is the most positions of a sequence.
	MaxContext int
	Memory     *mem.Counter
}

// Machine runs one model.
type Machine struct {
	p    *block.Program
	o    Options
	mem  *mem.Block
	bufs [block.Buffers][]float32
	// acts are the places for a matrix's input, one for each width that occurs.
	acts map[int]*kernel.Acts
	work []*worker

	// inv and local are the angles of one position, for each rotation.
	inv, local []float32

	// The rest describes the batch that runs now.
	rows   int
	pos    []int
	tokens []int32
	angles []float32 // cos and sin of each row, for both rotations
	batch  *Batch
	tiles  []tile
}

// worker is what one thread needs for itself.
type worker struct {
	scratch  *kernel.Scratch
	att      kernel.Attention
	q, out   [kernel.TileQ][]float32
	from, to [kernel.TileQ]int
	k, v     [][]float32
}

// New makes a machine for a program whose weights are loaded.
func New(p *block.Program, o Options) (*Machine, error) {
	m := &Machine{
		p: p, o: o, acts: map[int]*kernel.Acts{}, inv: p.Config.Rope.InvFreq(), local: p.Config.Local.InvFreq(),
		pos: make([]int, o.MaxRows), tokens: make([]int32, o.MaxRows), angles: make([]float32, o.MaxRows*2*p.Config.HeadDim),
	}
	if err := m.allocate(); err != nil {
		return nil, err
	}
	for _, s := range p.Steps {
		l, ok := s.(block.Linear)
		if !ok {
			continue
		}
		if l.W.W == nil {
			return nil, fmt.Errorf("the weights of %s are not loaded", l.W.Name)
		}
		if m.acts[l.W.Cols] == nil {
			m.acts[l.W.Cols] = kernel.NewActs(p.Mode, o.MaxRows, l.W.Cols)
		}
	}
	pages := (o.MaxContext + pageLen - 1) / pageLen
	for range o.Pool.Threads() {
		m.work = append(m.work, &worker{
			scratch: kernel.NewScratch(o.MaxRows), k: make([][]float32, pages), v: make([][]float32, pages),
			att: kernel.Attention{HeadDim: p.Config.HeadDim, Scratch: make([]float32, kernel.AttendFloats(p.Config.HeadDim, pages*pageLen))},
		})
	}
	return m, nil
}

// allocate takes the buffers from outside the Go heap.
func (m *Machine) allocate() error {
	total := 0
	size := func(b int) int {
		rows := m.o.MaxRows
		if block.Buf(b) == block.Logits {
			rows = m.o.MaxLogits
		}
		return (rows*m.p.Widths[b] + 15) &^ 15
	}
	for b := range m.bufs {
		total += size(b)
	}
	var err error
	if m.mem, err = mem.Alloc(int64(total)*4, "buffers", m.o.Memory); err != nil {
		return err
	}
	all := m.mem.Floats()
	for b := range m.bufs {
		m.bufs[b], all = all[:size(b):size(b)], all[size(b):]
	}
	return nil
}

// Free gives the memory back.
func (m *Machine) Free() { m.mem.Free() }

// Tap looks at a step's result: rows x width floats, valid during the call. Rows are those of the batch in order, or behind the
// pick those with logits.
type Tap func(label string, rows, width int, x []float32)

// Run computes b and returns the logits of the rows that want them, in order, [wanted][Vocab]. They are valid until the next run
// and may be changed. tap may be nil.
func (m *Machine) Run(b *Batch, tap Tap) []float32 {
	m.check(b)
	m.begin(b)
	for _, s := range m.p.Steps {
		m.step(s)
		if m.rows == 0 {
			return nil
		}
		if tap != nil && s.Label() != "" {
			out := written(s)
			tap(s.Label(), m.rows, m.p.Widths[out], m.bufs[out][:m.rows*m.p.Widths[out]])
		}
	}
	return m.bufs[block.Logits][:m.rows*m.p.Config.Vocab]
}

// begin notes each row's token, position and angles.
func (m *Machine) begin(b *Batch) {
	m.batch, m.rows = b, 0
	for i := range b.Spans {
		s := &b.Spans[i]
		for j, t := range s.Tokens {
			m.tokens[m.rows], m.pos[m.rows] = t, s.Start+j
			m.rows++
		}
	}
	h := m.p.Config.HeadDim / 2
	m.each(m.rows, func(_, r int) {
		a := m.angles[r*4*h : (r+1)*4*h]
		block.Angles(m.inv, m.pos[r], a[:h], a[h:2*h])
		if m.p.Config.Window > 0 {
			block.Angles(m.local, m.pos[r], a[2*h:3*h], a[3*h:])
		}
	})
}

// written is the buffer that holds a step's result.
func written(s block.Step) block.Buf {
	switch s := s.(type) {
	case block.Embed:
		return s.Out
	case block.Norm:
		return s.Out
	case block.Linear:
		return s.Out
	case block.HeadNorm:
		return s.Buf
	case block.Rotate:
		return s.Buf
	case block.KVWrite:
		return s.Buf
	case block.Attend:
		return s.Out
	case block.GLU:
		return s.Out
	case block.Add:
		return s.Dst
	case block.Pick:
		return s.Buf
	}
	panic(fmt.Sprintf("cpu: unknown step %T", s))
}

func (m *Machine) step(s block.Step) {
	switch s := s.(type) {
	case block.Embed:
		m.each(m.rows, func(w, r int) { m.embed(s, w, r) })
	case block.Norm:
		m.each(m.rows, func(_, r int) { m.o.Set.RMSNorm(m.row(s.Out, r), m.row(s.In, r), s.W.Data, s.Eps) })
	case block.Linear:
		m.linear(s)
	case block.HeadNorm:
		m.each(m.rows, func(_, r int) {
			for h := range s.Heads {
				x := m.row(s.Buf, r)[s.Off+h*s.Dim:][:s.Dim]
				m.o.Set.RMSNorm(x, x, s.W.Data, s.Eps)
			}
		})
	case block.Rotate:
		m.each(m.rows, func(_, r int) { m.rotate(s, r) })
	case block.KVWrite:
		m.each(m.rows, func(_, r int) { m.kvWrite(s, r) })
	case block.Attend:
		m.attend(s)
	case block.GLU:
		m.each(m.rows, func(_, r int) { m.glu(s, r) })
	case block.Add:
		m.each(m.rows, func(_, r int) { m.o.Set.Add(m.row(s.Dst, r), m.row(s.Src, r)) })
	case block.Pick:
		m.pick(s)
	default:
		panic(fmt.Sprintf("cpu: unknown step %T", s))
	}
}

// row is row r of a buffer.
func (m *Machine) row(b block.Buf, r int) []float32 {
	w := m.p.Widths[b]
	return m.bufs[b][r*w : (r+1)*w : (r+1)*w]
}

// alone is the number of rows that are done at once by the caller alone: waking the workers would take longer.
const alone = 2

// each calls f for rows 0 to n-1, in parallel if that is worth it.
func (m *Machine) each(n int, f func(worker, r int)) {
	if n <= alone {
		for r := range n {
			f(0, r)
		}
		return
	}
	m.o.Pool.Each(n, 1, func(w, lo, hi int) {
		for r := lo; r < hi; r++ {
			f(w, r)
		}
	})
}

func (m *Machine) embed(s block.Embed, _, r int) {
	x := m.row(s.Out, r)
	t := s.Table.Tensor
	if err := tensor.Dequantize(t.Type, t.RowBytes(int(m.tokens[r])), x); err != nil {
		panic(fmt.Sprintf("cpu: embedding: %v", err)) // the builder checked the shape
	}
	if s.Scale != 0 {
		m.o.Set.Scale(x, s.Scale)
	}
}

func (m *Machine) rotate(s block.Rotate, r int) {
	h := s.Dim / 2
	a := m.angles[r*4*h : (r+1)*4*h]
	if s.Local {
		a = a[2*h:]
	}
	x := m.row(s.Buf, r)[s.Off:]
	for i := range s.Heads {
		m.o.Set.Rope(x[i*s.Dim:][:s.Dim], a[:h], a[h:2*h])
	}
}

func (m *Machine) glu(s block.GLU, r int) {
	in, out := m.row(s.In, r), m.row(s.Out, r)
	gate, up := in[:len(out)], in[len(out):]
	if s.Act == block.GELUTanh {
		m.o.Set.GELUMul(out, gate, up)
		return
	}
	m.o.Set.SiLUMul(out, gate, up)
}

// pick moves the rows that want logits to the front and forgets the others.
func (m *Machine) pick(s block.Pick) {
	kept, r := 0, 0
	for i := range m.batch.Spans {
		sp := &m.batch.Spans[i]
		r += len(sp.Tokens)
		for j := r - sp.Logits; j < r; j++ {
			copy(m.row(s.Buf, kept), m.row(s.Buf, j))
			kept++
		}
	}
	m.rows = kept
}

// linear multiplies all rows with a matrix: first the rows are laid out for the kernel, then groups of 32 outputs are claimed.
func (m *Machine) linear(s block.Linear) {
	set, w, acts, n := m.o.Set, s.W.W, m.acts[s.W.Cols], m.rows
	in, ldi := m.bufs[s.In], m.p.Widths[s.In]
	out, ldo := m.bufs[s.Out][s.Off:], m.p.Widths[s.Out]
	if tiles := acts.Tiles(n); tiles <= 1 {
		set.Load(acts, w.Layout(), in, ldi, n, 0, tiles)
	} else {
		m.o.Pool.Each(tiles, 1, func(_, lo, hi int) { set.Load(acts, w.Layout(), in, ldi, n, lo, hi) })
	}
	m.o.Pool.Each(w.Groups(), m.chunk(w.Groups()), func(worker, lo, hi int) {
		set.Mul(w, acts, n, lo, hi, out, ldo, m.work[worker].scratch)
	})
	if s.Bias != nil {
		m.each(n, func(_, r int) { set.Add(out[r*ldo:][:s.W.Rows], s.Bias.Data) })
	}
}

// chunk is how many groups a thread claims at a time: small enough that none waits long for the last one.
func (m *Machine) chunk(groups int) int { return max(1, groups/(16*m.o.Pool.Threads())) }
