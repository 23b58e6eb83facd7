package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	cacheSlots = 1 << 16
	// maxCachedWord keeps long words out: they hardly ever come again, and one of them takes the memory of many others.
	maxCachedWord = 48
)

// wordCache remembers the tokens of words. A word has two places; a new word takes the first and moves what was there to the second.
// So the cache is bounded, at 10 megabytes or so, and keeps the words that come often. Readers and writers need no lock, because an
// entry never changes.
type wordCache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cachedWord]
}

type cachedWord struct {
	word string
	ids  []int32
}

func newWordCache() *wordCache {
	return &wordCache{maphash.MakeSeed(), make([]atomic.Pointer[cachedWord], cacheSlots)}
}

// find returns the tokens of word, if they are there. The caller must not change them.
func (c *wordCache) find(word string) ([]int32, bool) {
	at := maphash.String(c.seed, word) % cacheSlots
	if e := c.slots[at].Load(); e != nil && e.word == word {
		return e.ids, true
	}
	if e := c.slots[at^1].Load(); e != nil && e.word == word {
		return e.ids, true
	}
	return nil, false
}

// store remembers copies of word and ids.
func (c *wordCache) store(word string, ids []int32) {
	at := maphash.String(c.seed, word) % cacheSlots
	old := c.slots[at].Swap(&cachedWord{strings.Clone(word), slices.Clone(ids)})
	if old != nil {
		c.slots[at^1].Store(old)
	}
}
