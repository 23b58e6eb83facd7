package tokenizer

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// found merges are collected before they go to the table, so that several processors can look.
type pairMerge struct {
	left, right int32
	m           merge
}

// inParts calls do for parts of the range [0, n) at once, and returns what they return, in order. Looking up half a million strings is
// waiting for memory, and takes a large part of the time until a model answers.
func inParts[T any](n int, do func(lo, hi int) T) []T {
	parts := max(1, min(runtime.GOMAXPROCS(0), 8, n/4096))
	out := make([]T, parts)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { out[i] = do(n*i/parts, n*(i+1)/parts) })
	}
	wg.Wait()
	return out
}

// tableOf makes the table of merges that were found in parts.
func tableOf(parts [][]pairMerge) *pairs {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	p := newPairs(n)
	for _, part := range parts {
		for _, e := range part {
			p.add(e.left, e.right, e.m)
		}
	}
	return p
}

// mergeList makes the table of an explicit list of merges, the first of which has the first rank. where names the list in errors. No
// merge makes a special token: text never becomes one by merging.
func mergeList(where string, v *vocab, n int, at func(i int) (left, right string, ok bool)) (*pairs, error) {
	type result struct {
		found []pairMerge
		err   error
	}
	results := inParts(n, func(lo, hi int) (r result) {
		r.found = make([]pairMerge, 0, hi-lo)
		var joined []byte
		for i := lo; i < hi && r.err == nil; i++ {
			left, right, ok := at(i)
			if !ok {
				r.err = invalid(where, "merge %d is not two tokens", i)
				break
			}
			joined = append(append(joined[:0], left...), right...)
			var m pairMerge
			if m, r.err = v.mergeOf(where, i, left, right, joined); r.err == nil && v.mergeable(m.m.id) {
				r.found = append(r.found, m)
			}
		}
		return r
	})
	parts := make([][]pairMerge, len(results))
	for i, r := range results {
		if r.err != nil {
			return nil, r.err
		}
		parts[i] = r.found
	}
	return tableOf(parts), nil
}

// mergeOf looks up the i-th merge of a list.
func (v *vocab) mergeOf(where string, i int, left, right string, joined []byte) (pairMerge, error) {
	l, okLeft := v.index.find(left)
	r, okRight := v.index.find(right)
	if !okLeft || !okRight {
		return pairMerge{}, invalid(where, "merge %d is of %q and %q, which are not both tokens", i, left, right)
	}
	id, ok := v.index.findBytes(joined)
	if !ok {
		return pairMerge{}, invalid(where, "merge %d makes %q, which is no token", i, joined)
	}
	return pairMerge{l, r, merge{uint32(i), id}}, nil
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
	ranks := scoreRanks(scores)
	pseudo = v.pseudo()
	chars := map[string]int32{}
	for i, c := range pseudo {
		chars[c] = int32(len(v.pieces) + i)
	}
	part := func(s string) (int32, bool) {
		if id, ok := v.index.find(s); ok && v.mergeable(id) {
			return id, true
		}
		id, ok := chars[s]
		return id, ok
	}
	return tableOf(inParts(len(v.pieces), func(lo, hi int) []pairMerge {
		out := make([]pairMerge, 0, 2*(hi-lo))
		for i := lo; i < hi; i++ {
			if !v.mergeable(int32(i)) {
				continue
			}
			m := merge{ranks[i], int32(i)}
			piece := v.pieces[i]
			for b := 1; b < len(piece); b++ {
				if !utf8.RuneStart(piece[b]) {
					continue
				}
				l, ok := part(piece[:b])
				if !ok {
					continue
				}
				if r, ok := part(piece[b:]); ok {
					out = append(out, pairMerge{l, r, m})
				}
			}
		}
		return out
	})), pseudo
}

// pseudo returns the characters in tokens that are no tokens.
func (v *vocab) pseudo() []string {
	var out []string
	var seen [unicode.MaxRune/64 + 1]uint64
	for i, piece := range v.pieces {
		if !v.mergeable(int32(i)) {
			continue
		}
		for _, r := range piece {
			if seen[r/64]>>(r%64)&1 != 0 {
				continue
			}
			seen[r/64] |= 1 << (r % 64)
			if id, ok := v.index.find(string(r)); !ok || !v.mergeable(id) {
				out = append(out, string(r))
			}
		}
	}
	return out
}

// scoreRanks numbers the scores of tokens from the highest on; equal scores have equal ranks.
func scoreRanks(scores []float32) []uint32 {
	order := make([]int32, len(scores))
	for i := range order {
		order[i] = int32(i)
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
