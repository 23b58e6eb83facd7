package cpu

import "fmt"

// Span is the rows of one sequence in a batch: consecutive positions, the last of which may want logits.
type Span struct {
	// Tokens are the row's tokens, and Start is the position of the first.
	Tokens []int32
	Start  int
	// Pages are the KV pages of the whole sequence, from position 0 on, with room for all of Tokens.
	Pages []int32
	// Logits is how many rows at the end want logits: 0 in the middle of a prompt, 1 to go on, more to be looked at.
	Logits int
}

// Batch is what one run computes: the rows of several sequences, one behind the other.
type Batch struct{ Spans []Span }

// Rows is the number of rows.
func (b *Batch) Rows() int {
	n := 0
	for i := range b.Spans {
		n += len(b.Spans[i].Tokens)
	}
	return n
}

// wanted is the number of rows with logits.
func (b *Batch) wanted() int {
	n := 0
	for i := range b.Spans {
		n += b.Spans[i].Logits
	}
	return n
}

// check panics on a batch that only a mistake of the caller can make.
func (m *Machine) check(b *Batch) {
	if n := b.Rows(); n < 1 || n > m.o.MaxRows {
		panic(fmt.Sprintf("cpu: a batch of %d rows, want 1 to %d", n, m.o.MaxRows))
	}
	if n := b.wanted(); n > m.o.MaxLogits {
		panic(fmt.Sprintf("cpu: logits of %d rows, want at most %d", n, m.o.MaxLogits))
	}
	for _, s := range b.Spans {
		if s.Start < 0 || s.Start+len(s.Tokens) > len(s.Pages)*pageLen || s.Logits > len(s.Tokens) || len(s.Tokens) == 0 {
			panic(fmt.Sprintf("cpu: %d rows from position %d in %d pages, %d with logits", len(s.Tokens), s.Start, len(s.Pages), s.Logits))
		}
		for _, t := range s.Tokens {
			if t < 0 || int(t) >= m.p.Config.Vocab {
				panic(fmt.Sprintf("cpu: token %d of %d", t, m.p.Config.Vocab))
			}
		}
	}
}
