package tokenizer

import (
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is looked for in the text before anything else is done with it.
type addedToken struct {
	text string
	id   int32
	// special tokens are found only where the caller says that the text may hold them.
	special bool
	// lstrip and rstrip take the white space before and behind the token with it; word asks that no letter touches it.
	lstrip, rstrip, word bool
}

// maxAdded bounds the length of an added token in bytes, because finding them takes time in proportion.
const maxAdded = 1 << 10

// finder finds added tokens: at each place the longest that is allowed. It is immutable.
type finder struct {
	tokens []addedToken
	first  [256]bool
	// nodes is a trie of bytes. A node's edges are sorted by byte and lie together in edges.
	nodes []trieNode
	edges []trieEdge
}

type trieNode struct {
	edges, count uint32
	token        int32 // the index of the token that ends here, -1 for none
}

type trieEdge struct {
	b  byte
	to uint32
}

// newFinder makes a finder. Of two tokens with the same text the first counts.
func newFinder(tokens []addedToken) (*finder, error) {
	tokens = slices.DeleteFunc(slices.Clone(tokens), func(a addedToken) bool { return a.text == "" })
	for _, a := range tokens {
		if len(a.text) > maxAdded {
			return nil, fmt.Errorf("token %d: a token to be found in text has %d bytes; at most %d are read", a.id, len(a.text), maxAdded)
		}
	}
	slices.SortStableFunc(tokens, func(a, b addedToken) int { return compareBytes(a.text, b.text) })
	tokens = slices.CompactFunc(tokens, func(a, b addedToken) bool { return a.text == b.text })
	f := &finder{tokens: tokens}
	for _, a := range tokens {
		f.first[a.text[0]] = true
	}
	f.grow(0, len(tokens), 0)
	return f, nil
}

func compareBytes(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// grow makes the node of the tokens [lo, hi), which have their first depth bytes in common, and those below it. It returns its index.
func (f *finder) grow(lo, hi, depth int) uint32 {
	at := len(f.nodes)
	f.nodes = append(f.nodes, trieNode{token: -1})
	if lo < hi && len(f.tokens[lo].text) == depth {
		f.nodes[at].token = int32(lo)
		lo++
	}
	var starts []int
	for i := lo; i < hi; i++ {
		if i == lo || f.tokens[i].text[depth] != f.tokens[i-1].text[depth] {
			starts = append(starts, i)
		}
	}
	edges := len(f.edges)
	f.nodes[at].edges, f.nodes[at].count = uint32(edges), uint32(len(starts))
	f.edges = append(f.edges, make([]trieEdge, len(starts))...)
	for i, start := range starts {
		end := hi
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		f.edges[edges+i] = trieEdge{f.tokens[start].text[depth], f.grow(start, end, depth+1)}
	}
	return uint32(at)
}

// step follows an edge.
func (f *finder) step(node uint32, b byte) (uint32, bool) {
	n := f.nodes[node]
	edges := f.edges[n.edges : n.edges+n.count]
	for len(edges) > 8 {
		half := len(edges) / 2
		if b < edges[half].b {
			edges = edges[:half]
		} else {
			edges = edges[half:]
		}
	}
	for _, e := range edges {
		if e.b == b {
			return e.to, true
		}
	}
	return 0, false
}

// found is a token in a text, with the white space that it takes.
type found struct {
	id          int32
	start, stop int
}

// next finds the first token in s that begins at from or later. special says whether special tokens count.
func (f *finder) next(s string, from int, special bool) (found, bool) {
	if len(f.tokens) == 0 {
		return found{}, false
	}
	for i := from; i < len(s); i++ {
		if !f.first[s[i]] {
			continue
		}
		a := f.longest(s[i:], special)
		if a == nil {
			continue
		}
		if !a.word || apart(s, i, i+len(a.text)) {
			return a.at(s, from, i), true
		}
		i += len(a.text) - 1
	}
	return found{}, false
}

// longest returns the longest token that s begins with, or nil.
func (f *finder) longest(s string, special bool) *addedToken {
	var best *addedToken
	node := uint32(0)
	for i := range len(s) {
		next, ok := f.step(node, s[i])
		if !ok {
			break
		}
		node = next
		if n := f.nodes[node].token; n >= 0 && (special || !f.tokens[n].special) {
			best = &f.tokens[n]
		}
	}
	return best
}

// at returns the place of a, which stands at s[i]. It takes no space before from.
func (a *addedToken) at(s string, from, i int) found {
	m := found{a.id, i, i + len(a.text)}
	for a.lstrip && m.start > from {
		r, n := utf8.DecodeLastRuneInString(s[from:m.start])
		if !unicode.Is(unicode.White_Space, r) {
			break
		}
		m.start -= n
	}
	for a.rstrip && m.stop < len(s) {
		r, n := utf8.DecodeRuneInString(s[m.stop:])
		if !unicode.Is(unicode.White_Space, r) {
			break
		}
		m.stop += n
	}
	return m
}

// apart reports whether s[start:stop] touches no word character on either side.
func apart(s string, start, stop int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:start])
	after, _ := utf8.DecodeRuneInString(s[stop:])
	return (start == 0 || !wordRune(before)) && (stop == len(s) || !wordRune(after))
}

// wordRune is \w of Unicode Technical Standard 18.
func wordRune(r rune) bool {
	const joiner, nonJoiner = '\u200d', '\u200c'
	return r == joiner || r == nonJoiner ||
		unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
}
