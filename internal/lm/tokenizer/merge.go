package tokenizer

import "math/bits"

// pairs maps two neighbouring tokens to the token that they make, and to the rank of that merge: the lowest is done first. It is an
// open-addressing hash table, because it holds half a million entries and is asked several times for each character. After it was
// filled it is immutable.
type pairs struct {
	keys   []uint64 // left+1 in the high half, so that 0 is an empty slot, and right in the low half
	merges []merge
	shift  uint
	n      int
}

// merge is what a pair becomes.
type merge struct {
	rank uint32
	id   int32
}

// noRank is the rank of a pair that does not merge.
const noRank = ^uint32(0)

// newPairs returns a table with room for n pairs.
func newPairs(n int) *pairs {
	size := uint(bits.Len(uint(n) + uint(n)/2 + 8)) // a load of at most two thirds
	return &pairs{keys: make([]uint64, 1<<size), merges: make([]merge, 1<<size), shift: 64 - size}
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left)+1)<<32 | uint64(uint32(right)) }

// slot returns the index of key, or of the empty slot where it belongs.
func (p *pairs) slot(key uint64) uint64 {
	mask := uint64(len(p.keys) - 1)
	// Fibonacci hashing; the halves are mixed first because ids differ in their low bits.
	i := (key ^ key>>29) * 0x9e3779b97f4a7c15 >> p.shift
	for p.keys[i] != key && p.keys[i] != 0 {
		i = (i + 1) & mask
	}
	return i
}

// add sets what a pair becomes, unless it is set already: the first of two equal merges counts.
func (p *pairs) add(left, right int32, m merge) {
	key := pairKey(left, right)
	i := p.slot(key)
	if p.keys[i] != 0 {
		return
	}
	p.keys[i], p.merges[i] = key, m
	p.n++
}

// find returns what a pair becomes; the rank is noRank if it does not merge.
func (p *pairs) find(left, right int32) merge {
	if left < 0 || right < 0 {
		return merge{rank: noRank}
	}
	i := p.slot(pairKey(left, right))
	if p.keys[i] == 0 {
		return merge{rank: noRank}
	}
	return p.merges[i]
}

// maxShort is the most symbols that are merged by looking at all of them for each merge. Up to here that is faster than a heap.
const maxShort = 48

// merge merges the symbols ids, in place, until no pair of neighbours merges: the lowest rank first, the leftmost of equal ranks first.
// It returns what is left of ids. It takes time in O(n log n).
func (e *encoder) merge(ids []int32) []int32 {
	switch n := len(ids); {
	case n < 2:
		return ids
	case n <= maxShort:
		return e.t.pairs.mergeShort(ids)
	default:
		return e.heap.merge(e.t.pairs, ids)
	}
}

// mergeShort is merge for 1 to maxShort symbols.
func (p *pairs) mergeShort(ids []int32) []int32 {
	var found [maxShort]merge
	n := len(ids)
	for i := range n - 1 {
		found[i] = p.find(ids[i], ids[i+1])
	}
	for {
		at, rank := -1, noRank
		for i, m := range found[:n-1] {
			if m.rank < rank {
				at, rank = i, m.rank
			}
		}
		if at < 0 {
			return ids[:n]
		}
		ids[at] = found[at].id
		n--
		copy(ids[at+1:n], ids[at+2:])
		copy(found[at:max(at, n-1)], found[at+1:])
		if at > 0 {
			found[at-1] = p.find(ids[at-1], ids[at])
		}
		if at < n-1 {
			found[at] = p.find(ids[at], ids[at+1])
		}
	}
}

// mergeHeap merges long words. Its memory is kept for the next word.
type mergeHeap struct {
	next, prev []int32
	queue      []candidate
}

// candidate is a merge that was possible when it was queued. It still is if the same two symbols stand at its place.
type candidate struct {
	key         uint64 // the rank in the high half, the place in the low half
	left, right int32
	id          int32
}

// gone marks a symbol that was merged into the one before it. No symbol has this number: unknown ones are -1.
const gone = -2

// merge is encoder.merge for any number of symbols.
func (h *mergeHeap) merge(p *pairs, ids []int32) []int32 {
	n := int32(len(ids))
	h.next, h.prev, h.queue = h.next[:0], h.prev[:0], h.queue[:0]
	for i := range n {
		h.next, h.prev = append(h.next, i+1), append(h.prev, i-1)
	}
	for i := range n - 1 {
		h.push(p, ids, i)
	}
	for len(h.queue) > 0 {
		c := h.pop()
		at := int32(uint32(c.key))
		right := h.next[at]
		if ids[at] != c.left || right == n || ids[right] != c.right {
			continue
		}
		ids[at], ids[right] = c.id, gone
		h.next[at] = h.next[right]
		if h.next[at] < n {
			h.prev[h.next[at]] = at
		}
		if h.prev[at] >= 0 {
			h.push(p, ids, h.prev[at])
		}
		h.push(p, ids, at)
	}
	left := ids[:0]
	for _, id := range ids {
		if id != gone {
			left = append(left, id)
		}
	}
	return left
}

// push queues the merge of the symbol at the place with the next one, if there is one.
func (h *mergeHeap) push(p *pairs, ids []int32, at int32) {
	right := h.next[at]
	if int(right) == len(ids) {
		return
	}
	m := p.find(ids[at], ids[right])
	if m.rank == noRank {
		return
	}
	h.add(candidate{uint64(m.rank)<<32 | uint64(uint32(at)), ids[at], ids[right], m.id})
}

// add queues a candidate.
func (h *mergeHeap) add(c candidate) {
	i := len(h.queue)
	h.queue = append(h.queue, c)
	for i > 0 {
		up := (i - 1) / 2
		if h.queue[up].key <= c.key {
			break
		}
		h.queue[i] = h.queue[up]
		i = up
	}
	h.queue[i] = c
}

// pop removes the candidate with the lowest key.
func (h *mergeHeap) pop() candidate {
	first := h.queue[0]
	n := len(h.queue) - 1
	c := h.queue[n]
	h.queue = h.queue[:n]
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && h.queue[down+1].key < h.queue[down].key {
			down++
		}
		if c.key <= h.queue[down].key {
			break
		}
		h.queue[i] = h.queue[down]
		i = down
	}
	if n > 0 {
		h.queue[i] = c
	}
	return first
}

// size is the bytes that the heap holds.
func (h *mergeHeap) size() int { return 4*cap(h.next) + 4*cap(h.prev) + 24*cap(h.queue) }
