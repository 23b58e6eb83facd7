package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A stage is one step of cutting text into words: it returns the length in bytes, at least 1, of the first piece of s, which is not
// empty. A piece is a match of the stage's pattern, or the whole text up to the next match. What follows s, or came before it, is
// unknown to a stage: each one sees the pieces of the stage before it as texts of their own.
type stage func(s string) int

// maxStages is the most stages that a family has.
const maxStages = 8

// words cuts a text by several stages, without allocating. Use one for each text.
type words struct {
	stages []stage
	depth  int
	rest   [maxStages + 1]string
}

// reset begins text. There is at least one stage.
func (w *words) reset(stages []stage, text string) {
	w.stages, w.depth = stages, 0
	w.rest[0] = text
}

// next returns the next word; ok is false at the end.
func (w *words) next() (word string, ok bool) {
	for w.rest[w.depth] == "" {
		if w.depth == 0 {
			return "", false
		}
		w.depth--
	}
	for {
		s := w.rest[w.depth]
		n := w.stages[w.depth](s)
		w.rest[w.depth] = s[n:]
		if w.depth == len(w.stages)-1 {
			return s[:n], true
		}
		w.depth++
		w.rest[w.depth] = s[:n]
	}
}

// A match returns the length of a pattern's match at the beginning of s, 0 for none. s is not empty. It must return in a bounded
// number of steps when there is no match: isolate asks at each rune.
type match func(s string) int

// isolate makes a stage of a pattern that does not match everywhere: matches and the texts between them become pieces.
func isolate(m match) stage {
	return func(s string) int {
		if n := m(s); n > 0 {
			return n
		}
		for i := width(s, 0); i < len(s); i += width(s, i) {
			if m(s[i:]) > 0 {
				return i
			}
		}
		return len(s)
	}
}

// width is the bytes of the rune at s[i].
func width(s string, i int) int {
	if s[i] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return n
}

// classRun matches `[set]+`.
func classRun(set class) match {
	t := classes()
	return func(s string) int { return t.run(s, 0, set) }
}

// spacedRun matches `\s?[set]+`.
func spacedRun(set class) match {
	t := classes()
	return func(s string) int {
		i := 0
		if c, n := t.at(s, 0); c&space != 0 {
			i = n
		}
		if end := t.run(s, i, set); end > i {
			return end
		}
		return 0
	}
}

// digits matches `\p{N}{1,most}`.
func digits(most int) match {
	t := classes()
	return func(s string) int { return t.few(s, number, most) }
}

// few returns the length of the run at the beginning of s of at most so many runes with a class in set.
func (t *classTable) few(s string, set class, most int) int {
	i := 0
	for range most {
		if i == len(s) {
			break
		}
		c, n := t.at(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	return i
}

// threeDigits matches `[0-9][0-9][0-9]`.
func threeDigits(s string) int {
	if len(s) < 3 {
		return 0
	}
	for i := range 3 {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
	}
	return 3
}

// newline matches `[\r\n]`.
func newline(s string) int {
	if s[0] == '\r' || s[0] == '\n' {
		return 1
	}
	return 0
}

// trailingSpace cuts by `\s+$`: the spaces at the end of the text are one piece.
func trailingSpace() stage {
	t := classes()
	return func(s string) int {
		start := len(s)
		for start > 0 {
			r, n := utf8.DecodeLastRuneInString(s[:start])
			if t.of(r)&space == 0 {
				break
			}
			start -= n
		}
		if start == 0 || start == len(s) {
			return len(s)
		}
		return start
	}
}

// asciiPunct reports whether b is one of the 32 printable ASCII characters that are neither letter, digit nor space.
func asciiPunct(b byte) bool {
	return b > ' ' && b < 0x7f && (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z')
}

// punctuation matches runs of \p{P} and of ASCII punctuation, which includes $+<=>^`|~, the backtick only if it is asked for.
func punctuation(backtick bool) match {
	t := classes()
	return func(s string) int {
		i := 0
		for i < len(s) {
			c, n := t.at(s, i)
			if c&punct == 0 && (!asciiPunct(s[i]) || s[i] == '`' && !backtick) {
				break
			}
			i += n
		}
		return i
	}
}

// literalSplit cuts at each place where sep stands, which is not empty: after it (MergedWithPrevious), before it (MergedWithNext) or
// on both sides (Isolated).
func literalSplit(sep string, before, after bool) stage {
	return func(s string) int {
		from := 0
		for {
			i := strings.Index(s[from:], sep)
			if i < 0 {
				return len(s)
			}
			i += from
			switch {
			case i > 0 && before:
				return i
			case after:
				return i + len(sep)
			}
			from = i + len(sep)
		}
	}
}
