// Package batch decides what the next step of the embedded engine computes. Its functions are pure: states and measured times go
// in, rows come out.
//
// All sequences that write get a row in each step. Beside them one prompt is read at a time, the oldest first, in pieces small
// enough that nobody waits long: for the next token of those that write, for the notice that a client left, for the turn of a
// request that came later.
package batch

import "time"

// Part is the rows of one sequence in a step.
type Part struct {
	// Seq is the index of the sequence.
	Seq int
	// Rows are the prompt tokens to read, or 1 to write the next token.
	Rows int
}

// Plan shares out a step of at most maxRows rows. left holds for each sequence, oldest first, the prompt tokens it has still to
// read; 0 means that it writes. chunk is the most rows for reading.
func Plan(left []int, maxRows, chunk int) []Part {
	var parts []Part
	rows := 0
	for i, n := range left {
		if n == 0 && rows < maxRows {
			parts = append(parts, Part{i, 1})
			rows++
		}
	}
	for i, n := range left {
		if n > 0 {
			if take := min(n, chunk, maxRows-rows); take > 0 {
				parts = append(parts, Part{i, take})
			}
			break
		}
	}
	return parts
}

// The time that a step should take at most, and the least piece of a prompt. Smaller pieces waste the matrix kernels (facts: flat
// from some 24 rows on), larger ones keep others waiting.
const (
	stepAim  = 200 * time.Millisecond
	minChunk = 16
)

// Pace learns from the steps done how many rows fit in one.
type Pace struct {
	// perRow is the smoothed time of a row in a large step.
	perRow time.Duration
}

// Done notes that a step of rows took d.
func (p *Pace) Done(rows int, d time.Duration) {
	if rows < minChunk {
		return // dominated by reading the weights: says nothing about large steps
	}
	now := d / time.Duration(rows)
	if p.perRow == 0 {
		p.perRow = now
		return
	}
	p.perRow += (now - p.perRow) / 4
}

// Chunk is the rows to read in the next step, at most limit. Before anything was measured it is small.
func (p *Pace) Chunk(limit int) int {
	if p.perRow == 0 {
		return min(limit, 2*minChunk)
	}
	return max(minChunk, min(limit, int(stepAim/p.perRow)))
}
