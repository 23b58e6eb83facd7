package tokenizer

import (
	"hash/maphash"
	"math/bits"
)

// index finds tokens by spelling. It is an open-addressing table of hashes, because building a tokenizer asks millions of times, mostly for
// strings that are no tokens: a slot is 8 bytes, and the strings themselves are looked at only where the hash is right. After it was
// filled it is immutable.
type index struct {
	seed  maphash.Seed
	strs  []string
	slots []indexSlot
	shift uint
}

type indexSlot struct {
	hash uint32
	id   uint32 // the token's number + 1, 0 for an empty slot
}

// newIndex indexes pieces; empty ones are not found. If two are equal it returns their numbers.
func newIndex(pieces []string) (x *index, first, second int32, unique bool) {
	size := uint(bits.Len(uint(len(pieces)+len(pieces)/2) + 8)) // a load of at most two thirds
	x = &index{maphash.MakeSeed(), pieces, make([]indexSlot, 1<<size), 64 - size}
	for i, p := range pieces {
		if p == "" {
			continue
		}
		at, hash := x.slot(p)
		if s := x.slots[at]; s.id != 0 {
			return nil, int32(s.id - 1), int32(i), false
		}
		x.slots[at] = indexSlot{hash, uint32(i + 1)}
	}
	return x, 0, 0, true
}

// slot returns the place of s, or the empty place where it belongs, and its hash.
func (x *index) slot(s string) (at uint64, hash uint32) {
	h := maphash.String(x.seed, s)
	at, hash = h>>x.shift, uint32(h)
	mask := uint64(len(x.slots) - 1)
	for {
		e := x.slots[at]
		if e.id == 0 || e.hash == hash && x.strs[e.id-1] == s {
			return at, hash
		}
		at = (at + 1) & mask
	}
}

// find returns the number of the token that is spelled s.
func (x *index) find(s string) (int32, bool) {
	if s == "" {
		return 0, false
	}
	at, _ := x.slot(s)
	id := x.slots[at].id
	return int32(id) - 1, id != 0
}

// findBytes is find without making a string.
func (x *index) findBytes(b []byte) (int32, bool) {
	h := maphash.Bytes(x.seed, b)
	at, hash := h>>x.shift, uint32(h)
	mask := uint64(len(x.slots) - 1)
	for {
		e := x.slots[at]
		if e.id == 0 {
			return 0, false
		}
		if e.hash == hash && x.strs[e.id-1] == string(b) {
			return int32(e.id) - 1, true
		}
		at = (at + 1) & mask
	}
}
