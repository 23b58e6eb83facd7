// Package nearest finds the known names closest to a mistyped one, for error messages that show the way out ("unknown
// model "smolm2": did you mean "smollm2"?"). It imports nothing of ours, keeps no state and may be called concurrently.
package nearest

import (
	"slices"
	"strings"
)

// most is how many names are offered: more than three is a list to search, not a hint.
const most = 3

// maxLen bounds the work per comparison (it grows with the product of the lengths). Longer names are never near.
const maxLen = 256

// Of returns up to three of candidates that are close to name, the closest first; names at the same distance keep the
// order of candidates. Close means few edits (insert, delete, replace, swap neighbours) for the length of name, without
// regard to letter case, or that one of the two is the beginning of the other. A candidate equal to name comes first.
func Of(name string, candidates []string) []string {
	type hit struct {
		name string
		dist int
	}
	want := []rune(strings.ToLower(name))
	if len(want) == 0 || len(want) > maxLen {
		return nil
	}
	var hits []hit
	for _, c := range candidates {
		have := []rune(strings.ToLower(c))
		if len(have) == 0 || len(have) > maxLen {
			continue
		}
		if d, ok := closeness(want, have); ok && !slices.ContainsFunc(hits, func(h hit) bool { return h.name == c }) {
			hits = append(hits, hit{c, d})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return a.dist - b.dist })
	var out []string
	for _, h := range hits[:min(most, len(hits))] {
		out = append(out, h.name)
	}
	return out
}

// closeness returns the distance of two names and reports whether that is close. A shared beginning counts as close from
// three characters on: "smollm2" is what "smollm2-135m-instruct" is called in conversation.
func closeness(want, have []rune) (int, bool) {
	d := distance(want, have)
	if d <= max(1, min(len(want), len(have))/3) && d < len(want) {
		return d, true
	}
	short, long := want, have
	if len(short) > len(long) {
		short, long = long, short
	}
	return d, len(short) >= 3 && slices.Equal(short, long[:len(short)])
}

// distance is the number of edits between a and b, a swap of neighbours counted as one (optimal string alignment).
func distance(a, b []rune) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
