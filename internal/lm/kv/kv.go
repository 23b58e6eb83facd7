// Package kv keeps the keys and values of the embedded engine: in pages of [PageLen] positions, shared between requests that begin
// alike.
//
//	cache, err := kv.New(kv.Shape{Layers: 30, Heads: 3, HeadDim: 64}, pages)
//	seq, cached := cache.Open(prompt)        // the first cached positions need no computing
//	err = seq.Grow(n)                        // room for n positions in all
//	k, v := cache.Page(seq.Pages()[0], layer, head)
//	seq.Commit(tokens...)                    // what was computed may be shared now
//	seq.Close()
//
// Pages that no sequence uses any more stay, as long as nobody needs their room: the next request with the same beginning finds
// them. Whole pages are shared as they are. A page of which only the first positions fit is copied, and the copy goes on from
// there. What a page holds is known by its tokens and those of all pages before it, compared one by one: there is no hash that
// could be mistaken. Sharing does not change results, because a position's keys and values depend on its tokens only, bit for bit
// (see package kernel on canonical arithmetic).
//
// A Cache and its sequences belong to one goroutine. The floats of a page may be read by others while that one waits for them.
package kv

import (
	"fmt"

	"github.com/stoker-llm/stoker/internal/lm/mem"
)

// PageLen is the positions of a page.
const PageLen = 32

// Shape is what one position takes.
type Shape struct {
	Layers, Heads, HeadDim int
}

// PageFloats is the floats of one page: keys and values of PageLen positions for all layers and heads.
func (s Shape) PageFloats() int { return 2 * s.Layers * s.Heads * s.HeadDim * PageLen }

// Cache owns all pages.
type Cache struct {
	shape Shape
	block *mem.Block
	data  []float32
	free  []int32
	root  *node
	// clock counts uses: the page with the oldest stamp goes first.
	clock uint64
	stats Stats
}

// Stats counts what a cache did.
type Stats struct {
	// Pages are all pages, InUse those that open sequences hold, and Kept those that only wait to be found again.
	Pages, InUse, Kept int
	// Shared and Copied count pages that a new sequence found, whole and in part; Evicted those given up for others.
	Shared, Copied, Evicted uint64
}

// node is a page whose content is known: its tokens follow those of its parent. A node is in the tree as long as its page exists.
type node struct {
	parent   *node
	children map[int32][]*node // by first token
	page     int32
	tokens   []int32 // at most PageLen
	users    int     // open sequences that hold the page
	stamp    uint64
}

// New makes a cache of n pages. Their memory is taken from the system when they are first written.
func New(s Shape, n int, memory *mem.Counter) (*Cache, error) {
	if n < 1 {
		return nil, fmt.Errorf("a KV cache of %d pages", n)
	}
	b, err := mem.Alloc(int64(n)*int64(s.PageFloats())*4, "kv", memory)
	if err != nil {
		return nil, err
	}
	c := &Cache{shape: s, block: b, data: b.Floats(), root: &node{page: -1}}
	for p := n - 1; p >= 0; p-- {
		c.free = append(c.free, int32(p))
	}
	c.stats.Pages = n
	return c, nil
}

// Free gives the memory back. No sequence may be used afterwards.
func (c *Cache) Free() { c.block.Free(); c.data = nil }

// Page returns the keys and values of one page for one layer and head: K as [HeadDim][PageLen], V as [PageLen][HeadDim].
func (c *Cache) Page(p int32, layer, head int) (k, v []float32) {
	n := c.shape.HeadDim * PageLen
	at := int(p)*c.shape.PageFloats() + 2*n*(layer*c.shape.Heads+head)
	return c.data[at : at+n : at+n], c.data[at+n : at+2*n : at+2*n]
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	s := c.stats
	s.Kept = s.Pages - len(c.free) - s.InUse
	return s
}

// Seq is the positions of one sequence.
type Seq struct {
	c     *Cache
	pages []int32
	// nodes are those of the pages whose content the tree knows; the rest of pages belongs to this sequence alone.
	nodes  []*node
	tokens []int32
}

// Open starts a sequence whose tokens will begin with prompt, and returns how many of its positions are there already. At least
// one of prompt's positions is left to compute, since its logits are wanted. It fails only if no page is free for a copy, and
// then starts at the last shared page.
func (c *Cache) Open(prompt []int32) (s *Seq, cached int) {
	s = &Seq{c: c}
	at := c.root
	usable := len(prompt) - 1
	for len(s.tokens)+PageLen <= usable {
		n := at.child(prompt[len(s.tokens) : len(s.tokens)+PageLen])
		if n == nil {
			break
		}
		s.hold(n)
		s.tokens = append(s.tokens, n.tokens...)
		at = n
		c.stats.Shared++
	}
	if n, same := at.longest(prompt[len(s.tokens):max(usable, len(s.tokens))]); same > 0 {
		c.copyPart(s, n, same)
	}
	return s, len(s.tokens)
}

// Private starts a sequence that shares nothing, neither now nor when it is closed.
func (c *Cache) Private() *Seq { return &Seq{c: c} }

// child returns the child with exactly these tokens.
func (n *node) child(tokens []int32) *node {
	for _, k := range n.children[tokens[0]] {
		if len(k.tokens) == len(tokens) && common(k.tokens, tokens) == len(tokens) {
			return k
		}
	}
	return nil
}

// longest returns the child that has the most tokens in common with tokens from its beginning.
func (n *node) longest(tokens []int32) (best *node, same int) {
	if len(tokens) == 0 {
		return nil, 0
	}
	for _, k := range n.children[tokens[0]] {
		if m := common(k.tokens, tokens); m > same {
			best, same = k, m
		}
	}
	return best, same
}

func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// hold adds a known page to s.
func (s *Seq) hold(n *node) {
	if n.users == 0 {
		s.c.stats.InUse++
	}
	n.users++
	s.c.touch(n)
	s.pages = append(s.pages, n.page)
	s.nodes = append(s.nodes, n)
}

func (c *Cache) touch(n *node) { c.clock++; n.stamp = c.clock }

// copyPart gives s a page of its own that begins like n's.
func (c *Cache) copyPart(s *Seq, n *node, same int) {
	n.users++ // not to be evicted for its own copy
	p, ok := c.take()
	n.users--
	if !ok {
		return
	}
	size := c.shape.PageFloats()
	copy(c.data[int(p)*size:][:size], c.data[int(n.page)*size:][:size])
	c.touch(n)
	s.pages = append(s.pages, p)
	s.tokens = append(s.tokens, n.tokens[:same]...)
	c.stats.Copied++
}

// take returns a page that nobody uses, for one user.
func (c *Cache) take() (int32, bool) {
	if len(c.free) == 0 {
		c.evict()
	}
	if len(c.free) == 0 {
		return 0, false
	}
	p := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.stats.InUse++
	return p, true
}

// evict gives up the unused leaf that was not needed for the longest time.
func (c *Cache) evict() {
	var oldest *node
	var walk func(n *node)
	walk = func(n *node) {
		for _, list := range n.children {
			for _, k := range list {
				if len(k.children) > 0 {
					walk(k)
				} else if k.users == 0 && (oldest == nil || k.stamp < oldest.stamp) {
					oldest = k
				}
			}
		}
	}
	walk(c.root)
	if oldest != nil {
		c.remove(oldest)
		c.stats.Evicted++
	}
}

// remove takes a leaf out of the tree and frees its page.
func (c *Cache) remove(n *node) {
	list := n.parent.children[n.tokens[0]]
	for i, k := range list {
		if k == n {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(n.parent.children, n.tokens[0])
	} else {
		n.parent.children[n.tokens[0]] = list
	}
	c.free = append(c.free, n.page)
}

// Pages are the pages of s in the order of positions.
func (s *Seq) Pages() []int32 { return s.pages }

// Len is the positions that are computed.
func (s *Seq) Len() int { return len(s.tokens) }

// Tokens are the tokens at the computed positions. The caller must not change them.
func (s *Seq) Tokens() []int32 { return s.tokens }

// Grow gives s room for n positions in all. It fails if other sequences hold too many pages; s then keeps what it has.
func (s *Seq) Grow(n int) error {
	for len(s.pages)*PageLen < n {
		p, ok := s.c.take()
		if !ok {
			return fmt.Errorf("the KV cache's %d pages are all in use", s.c.stats.Pages)
		}
		s.pages = append(s.pages, p)
	}
	return nil
}

// Commit says that the next positions are computed, for these tokens. Pages that are full by now become known to others.
func (s *Seq) Commit(tokens ...int32) {
	s.tokens = append(s.tokens, tokens...)
	for (len(s.nodes)+1)*PageLen <= len(s.tokens) {
		s.publish(PageLen)
	}
}

// publish makes the first unknown page known, with its first n tokens. If the tree has the same content already, s goes on with
// that page and frees its own.
func (s *Seq) publish(n int) {
	i := len(s.nodes)
	parent := s.c.root
	if i > 0 {
		parent = s.nodes[i-1]
	}
	tokens := s.tokens[i*PageLen : i*PageLen+n]
	if same := parent.child(tokens); same != nil {
		s.c.free = append(s.c.free, s.pages[i])
		s.c.stats.InUse--
		rest := s.pages[i+1:]
		s.pages = s.pages[:i]
		s.hold(same)
		s.pages = append(s.pages, rest...)
		return
	}
	k := &node{parent: parent, page: s.pages[i], tokens: append([]int32(nil), tokens...), users: 1}
	s.c.touch(k)
	if parent.children == nil {
		parent.children = map[int32][]*node{}
	}
	parent.children[tokens[0]] = append(parent.children[tokens[0]], k)
	s.nodes = append(s.nodes, k)
}

// Close gives the pages up. Those whose content is known stay to be found, the last, part-filled one too.
func (s *Seq) Close() {
	if s.c == nil {
		return
	}
	if tail := len(s.tokens) - len(s.nodes)*PageLen; tail > 0 && !s.tailKnown(tail) {
		s.publish(tail)
	}
	for _, p := range s.pages[len(s.nodes):] {
		s.c.free = append(s.c.free, p)
		s.c.stats.InUse--
	}
	for _, n := range s.nodes {
		if n.users--; n.users == 0 {
			s.c.stats.InUse--
		}
	}
	s.c, s.pages, s.nodes = nil, nil, nil
}

// tailKnown reports whether another page already begins with s's last n tokens, so that keeping a part would add nothing.
func (s *Seq) tailKnown(n int) bool {
	parent := s.c.root
	if len(s.nodes) > 0 {
		parent = s.nodes[len(s.nodes)-1]
	}
	_, same := parent.longest(s.tokens[len(s.tokens)-n:])
	return same == n
}
