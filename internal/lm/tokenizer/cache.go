package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	cacheSlots = 1 << 15
	// maxCachedWord keeps long words out: they hardly ever come again, and one of them would push out many others in memory.
	maxCachedWord = 48
)

// wordCache remembers the tokens of words. A word has one slot, and pushes out the one that was there: the cache is bounded at a few
// megabytes, and readers and writers need no lock, because an entry never changes.
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

func (c *wordCache) slot(word string) *atomic.Pointer[cachedWord] {
	return &c.slots[maphash.String(c.seed, word)%cacheSlots]
}

// find returns the tokens of word, if they are there. The caller must not change them.
func (c *wordCache) find(word string) ([]int32, bool) {
	if e := c.slot(word).Load(); e != nil && e.word == word {
		return e.ids, true
	}
	return nil, false
}

// store remembers copies of word and ids.
func (c *wordCache) store(word string, ids []int32) {
	c.slot(word).Store(&cachedWord{strings.Clone(word), slices.Clone(ids)})
}
