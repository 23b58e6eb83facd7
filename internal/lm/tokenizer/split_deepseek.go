package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// deepseekWords cuts by the last pattern of DeepSeek V3 and R1:
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+
//	[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//	 ?[\p{P}\p{S}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
//
// Control and unassigned characters match none of them.
func deepseekWords() stage {
	t := classes()
	return isolate(func(s string) int {
		if asciiPunct(s[0]) {
			if end := asciiLetters(s, 1); end > 1 {
				return end
			}
		}
		c, n := t.at(s, 0)
		i := 0
		if c&(letter|punct|symbol) == 0 && s[0] != '\r' && s[0] != '\n' {
			i = n
		}
		if end := t.run(s, i, letter|mark); end > i {
			return end
		}
		if c&mark != 0 {
			return n
		}
		i = 0
		if s[0] == ' ' {
			i = 1
		}
		if end := t.run(s, i, punct|symbol); end > i {
			for end < len(s) && (s[end] == '\r' || s[end] == '\n') {
				end++
			}
			return end
		}
		return t.blanks(s)
	})
}

func asciiLetters(s string, i int) int {
	for i < len(s) && s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z' {
		i++
	}
	return i
}

// runeSet is a set of runes, a bit for each.
type runeSet []uint64

// parseSet reads the inside of a regular expression's brackets: characters and ranges, without escapes or classes.
func parseSet(text string) runeSet {
	var set runeSet
	for text != "" {
		lo, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		hi := lo
		if rest, ok := strings.CutPrefix(text, "-"); ok && rest != "" {
			hi, n = utf8.DecodeRuneInString(rest)
			text = rest[n:]
		}
		if missing := int(hi/64) + 1 - len(set); missing > 0 {
			set = append(set, make(runeSet, missing)...)
		}
		for r := lo; r <= hi; r++ {
			set[r/64] |= 1 << (r % 64)
		}
	}
	return set
}

// has reports whether r is in the set.
func (set runeSet) has(r rune) bool {
	return int(r/64) < len(set) && set[r/64]>>(r%64)&1 != 0
}

// run returns the end of the longest run from s[i] of runes in the set.
func (set runeSet) run(s string, i int) int {
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !set.has(r) {
			break
		}
		i += n
	}
	return i
}

// setRun matches `[set]+`, or `\s?[set]+` if spaced.
func setRun(set runeSet, spaced bool) match {
	t := classes()
	return func(s string) int {
		i := 0
		if c, n := t.at(s, 0); spaced && c&space != 0 {
			i = n
		}
		if end := set.run(s, i); end > i {
			return end
		}
		// A space may be in the set itself.
		return set.run(s, 0)
	}
}
