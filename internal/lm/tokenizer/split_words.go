package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// wordPattern is the family of patterns that began with cl100k and Llama 3:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)      if contractions
//	[^\r\n\p{L}\p{N}]?\p{L}+          with marks: [\p{L}\p{M}]+
//	\p{N}{1,digits}                   digits 0: \p{N}+
//	 ?[^\s\p{L}\p{N}]+[tail]*         with marks: [^\s\p{L}\p{M}\p{N}]+
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
//
// One of them matches at each place.
type wordPattern struct {
	contractions bool
	marks        bool
	digits       int
	tail         string
}

// stage compiles p.
func (p wordPattern) stage() stage {
	t := classes()
	word := letter
	if p.marks {
		word |= mark
	}
	return func(s string) int {
		if p.contractions && s[0] == '\'' {
			if n := contraction(s); n > 0 {
				return n
			}
		}
		c, n := t.at(s, 0)
		i := 0
		if c&(letter|number) == 0 && c&word == 0 && s[0] != '\r' && s[0] != '\n' {
			i = n
		}
		if end := t.run(s, i, word); end > i {
			return end
		}
		if c&number != 0 {
			return t.numbers(s, p.digits)
		}
		if end := t.others(s, word|space|number, p.tail); end > 0 {
			return end
		}
		return t.blanks(s)
	}
}

// numbers returns the length of `\p{N}{1,most}` at the beginning of s; most 0 is any number.
func (t *classTable) numbers(s string, most int) int {
	if most == 0 {
		return t.run(s, 0, number)
	}
	return t.few(s, number, most)
}

// others returns the length of ` ?[^not]+[tail]*` at the beginning of s, 0 for none.
func (t *classTable) others(s string, not class, tail string) int {
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	end := t.runNot(s, i, not)
	if end == i {
		return 0
	}
	for end < len(s) && strings.IndexByte(tail, s[end]) >= 0 {
		end++
	}
	return end
}

// blanks returns the length of the first match of `\s*[\r\n]+|\s+(?!\S)|\s+` in s, 0 if s does not begin with a space.
func (t *classTable) blanks(s string) int {
	end := t.run(s, 0, space)
	if i := strings.LastIndexAny(s[:end], "\r\n"); i >= 0 {
		return i + 1
	}
	return lastApart(s, end)
}

// lastApart returns the length of `\s+(?!\S)|\s+` where s[:end] is the run of spaces: before a word, the last of several spaces is left
// for it.
func lastApart(s string, end int) int {
	if end == len(s) || end == 0 {
		return end
	}
	_, last := utf8.DecodeLastRuneInString(s[:end])
	if end > last {
		return end - last
	}
	return end
}

// contraction returns the length of `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at the beginning of s, which begins with an apostrophe. The long s,
// U+017F, is an s in another case.
func contraction(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if strings.HasPrefix(s[1:], "\u017f") {
		return 1 + len("\u017f")
	}
	if len(s) < 3 {
		return 0
	}
	switch [2]byte{s[1] | 0x20, s[2] | 0x20} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return 3
	}
	return 0
}

// gpt2 cuts by the pattern of GPT-2:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// One of them matches at each place.
func gpt2() stage {
	t := classes()
	return func(s string) int {
		if s[0] == '\'' {
			if n := lowerContraction(s); n > 0 {
				return n
			}
		}
		i := 0
		if s[0] == ' ' {
			i = 1
		}
		if i < len(s) {
			c, _ := t.at(s, i)
			switch {
			case c&letter != 0:
				return t.run(s, i, letter)
			case c&number != 0:
				return t.run(s, i, number)
			case c&space == 0:
				return t.runNot(s, i, letter|number|space)
			}
		}
		return lastApart(s, t.run(s, 0, space))
	}
}

// lowerContraction is contraction without the other cases.
func lowerContraction(s string) int {
	for _, c := range [...]string{"s", "t", "re", "ve", "m", "ll", "d"} {
		if strings.HasPrefix(s[1:], c) {
			return 1 + len(c)
		}
	}
	return 0
}

// casePattern is the pattern of o200k (GPT-4o, gpt-oss, Llama 4) and Tekken (Mistral), which begins a new word where a capital
// follows a small letter:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,digits}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
type casePattern struct {
	contractions bool
	digits       int
}

// stage compiles p.
func (p casePattern) stage() stage {
	t := classes()
	return func(s string) int {
		if n := t.cased(s); n > 0 {
			if p.contractions && n < len(s) && s[n] == '\'' {
				n += contraction(s[n:])
			}
			return n
		}
		if c, _ := t.at(s, 0); c&number != 0 {
			return t.numbers(s, p.digits)
		}
		if end := t.others(s, space|letter|number, "\r\n/"); end > 0 {
			return end
		}
		return t.blanks(s)
	}
}

// cased returns the length of the first two alternatives of a casePattern at the beginning of s, without the contraction.
func (t *classTable) cased(s string) int {
	c, n := t.at(s, 0)
	prefix := 0
	if c&(letter|number) == 0 && s[0] != '\r' && s[0] != '\n' {
		prefix = n
	}
	if end := t.endsSmall(s, prefix); end > 0 {
		return end
	}
	if prefix > 0 {
		// The optional character in front may be a mark, and so the word itself.
		if end := t.endsSmall(s, 0); end > 0 {
			return end
		}
	}
	if end := t.runBut(s, prefix, lower); end > prefix {
		return end
	}
	return 0
}

// endsSmall returns the end of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` at s[i], 0 for none. The first part is
// greedy, and gives back no more than it must: to the last character that the second can take.
func (t *classTable) endsSmall(s string, i int) int {
	end := t.runBut(s, i, lower)
	if small := t.runBut(s, end, upper); small > end {
		return small
	}
	for end > i {
		r, n := utf8.DecodeLastRuneInString(s[:end])
		if t.of(r)&upper == 0 {
			return end
		}
		end -= n
	}
	return 0
}

// runBut returns the end of the longest run from s[i] of letters and marks that are not of the case.
func (t *classTable) runBut(s string, i int, not class) int {
	for i < len(s) {
		c, n := t.at(s, i)
		if c&(letter|mark) == 0 || c&not != 0 {
			break
		}
		i += n
	}
	return i
}
