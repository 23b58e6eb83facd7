package cpu

import (
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
)

// kvWrite stores one row's keys and values.
func (m *Machine) kvWrite(s block.KVWrite, r int) {
	sp, pos := m.span(r), m.pos[r]
	page, slot := sp.Pages[pos/pageLen], pos%pageLen
	x, d := m.row(s.Buf, r), m.p.Config.HeadDim
	for h := range m.p.Config.KVHeads {
		k, v := m.o.KV.Page(page, s.Layer, h)
		m.o.Set.StoreKV(k, v, slot, x[s.KOff+h*d:][:d], x[s.VOff+h*d:][:d])
	}
}

// span finds the sequence of a row.
func (m *Machine) span(r int) *Span {
	for i := range m.batch.Spans {
		sp := &m.batch.Spans[i]
		if r < len(sp.Tokens) {
			return sp
		}
		r -= len(sp.Tokens)
	}
	panic("cpu: no such row")
}

// tile is queries that look at the same keys: up to TileQ of the pairs (row, head) of one sequence and KV head. Pair i is head
// i % group of row i / group.
type tile struct {
	span      *Span
	row       int // the span's first row in the batch
	head      int // KV head
	from, end int // pairs
}

// attend runs attention for all rows, tile by tile. Tiles of a long prompt's end take longest, so they come first.
func (m *Machine) attend(s block.Attend) {
	m.cut()
	m.o.Pool.Each(len(m.tiles), 1, func(w, lo, hi int) {
		for i := lo; i < hi; i++ {
			m.attendTile(s, m.work[w], &m.tiles[len(m.tiles)-1-i])
		}
	})
}

// cut divides the batch's queries into tiles, smaller ones if there are too few to keep all threads busy.
func (m *Machine) cut() {
	size := kernel.TileQ
	for {
		m.tiles = m.tiles[:0]
		row := 0
		for i := range m.batch.Spans {
			sp := &m.batch.Spans[i]
			pairs := len(sp.Tokens) * m.group()
			for from := 0; from < pairs; from += size {
				for h := range m.p.Config.KVHeads {
					m.tiles = append(m.tiles, tile{sp, row, h, from, min(from+size, pairs)})
				}
			}
			row += len(sp.Tokens)
		}
		if size == 1 || len(m.tiles) >= 4*m.o.Pool.Threads() || m.o.Pool.Threads() == 1 {
			return
		}
		size = (size + 1) / 2
	}
}

// group is the query heads that share a KV head.
func (m *Machine) group() int { return m.p.Config.Heads / m.p.Config.KVHeads }

func (m *Machine) attendTile(s block.Attend, w *worker, t *tile) {
	d, group, n := m.p.Config.HeadDim, m.group(), t.end-t.from
	first, last := 0, 0
	for i := range n {
		row, head := t.row+(t.from+i)/group, t.head*group+(t.from+i)%group
		w.q[i] = m.row(s.In, row)[head*d:][:d]
		w.out[i] = m.row(s.Out, row)[head*d:][:d]
		w.from[i], w.to[i] = 0, m.pos[row]+1
		if s.Window > 0 {
			w.from[i] = max(0, w.to[i]-s.Window)
		}
		if i == 0 {
			first = w.from[0] / pageLen
		}
		last = (w.to[i] + pageLen - 1) / pageLen
	}
	for p := first; p < last; p++ {
		w.k[p-first], w.v[p-first] = m.o.KV.Page(t.span.Pages[p], s.Layer, t.head)
	}
	a := &w.att
	a.Scale, a.First, a.K, a.V = s.Scale, first*pageLen, w.k[:last-first], w.v[:last-first]
	a.Q, a.Out, a.From, a.To = w.q[:n], w.out[:n], w.from[:n], w.to[:n]
	m.o.Set.Attend(a)
}
