package tokenizer

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// mergeList makes the table of an explicit list of merges, the first of which has the first rank. where names the list in errors. No
// merge makes a special token: text never becomes one by merging.
func mergeList(where string, v *vocab, n int, at func(i int) (left, right string, ok bool)) (*pairs, error) {
	p := newPairs(n)
	var joined []byte
	for i := range n {
		left, right, ok := at(i)
		if !ok {
			return nil, invalid(where, "merge %d is not two tokens", i)
		}
		l, okLeft := v.index[left]
		r, okRight := v.index[right]
		if !okLeft || !okRight {
			return nil, invalid(where, "merge %d is of %q and %q, which are not both tokens", i, left, right)
		}
		joined = append(append(joined[:0], left...), right...)
		id, ok := v.index[string(joined)]
		if !ok {
			return nil, invalid(where, "merge %d makes %q, which is no token", i, joined)
		}
		if v.mergeable(id) {
			p.add(l, r, merge{uint32(i), id})
		}
	}
	return p, nil
}

// cutMerge cuts a merge that is written as two tokens with a space between them. The first token may begin with a space.
func cutMerge(text string) (left, right string, ok bool) {
	if text == "" {
		return "", "", false
	}
	i := strings.IndexByte(text[1:], ' ')
	if i < 0 {
		return "", "", false
	}
	return text[:i+1], text[i+2:], true
}

// scoreMerges makes the table of a vocabulary with scores instead of merges: two neighbours merge if together they are a token, the one
// with the highest score first. Each way of cutting a token in two is a pair, if the parts are tokens or single characters; characters
// that are no tokens are returned, and stand in the table with the numbers from the size of the vocabulary.
func scoreMerges(v *vocab, scores []float32) (p *pairs, pseudo []string) {
	ranks := scoreRanks(v, scores)
	chars := map[string]int32{}
	part := func(s string) (int32, bool) {
		if id, ok := v.index[s]; ok && v.mergeable(id) {
			return id, true
		}
		if _, n := utf8.DecodeRuneInString(s); n < len(s) {
			return 0, false
		}
		id, ok := chars[s]
		if !ok {
			id = int32(len(v.pieces) + len(chars))
			chars[s] = id
			pseudo = append(pseudo, s)
		}
		return id, true
	}
	type entry struct {
		left, right int32
		m           merge
	}
	all := make([]entry, 0, 2*len(v.pieces))
	for i, piece := range v.pieces {
		if !v.mergeable(int32(i)) {
			continue
		}
		for b := 1; b < len(piece); b++ {
			if !utf8.RuneStart(piece[b]) {
				continue
			}
			l, ok := part(piece[:b])
			if !ok {
				continue
			}
			if r, ok := part(piece[b:]); ok {
				all = append(all, entry{l, r, merge{ranks[i], int32(i)}})
			}
		}
	}
	p = newPairs(len(all))
	for _, e := range all {
		p.add(e.left, e.right, e.m)
	}
	return p, pseudo
}

// scoreRanks numbers the scores of tokens from the highest on; equal scores have equal ranks.
func scoreRanks(v *vocab, scores []float32) []uint32 {
	order := make([]int32, 0, len(v.pieces))
	for i := range v.pieces {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	ranks := make([]uint32, len(order))
	rank := uint32(0)
	for i, id := range order {
		if i > 0 && scores[id] != scores[order[i-1]] {
			rank++
		}
		ranks[id] = rank
	}
	return ranks
}
