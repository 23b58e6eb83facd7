package tokenizer

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// An edit is one step that changes a fragment of text before it is cut into words: a normalisation, or the marks that stand for
// spaces. first reports whether the fragment is the beginning of the whole text. Bytes that are no UTF-8 stay as they are.
type edit func(s string, first bool) string

// apply runs the edits in order.
func apply(edits []edit, s string, first bool) string {
	for _, e := range edits {
		s = e(s, first)
	}
	return s
}

// spaceMark stands for a space in SentencePiece vocabularies: U+2581.
const spaceMark = "\u2581"

func replace(from, to string) edit {
	return func(s string, _ bool) string { return strings.ReplaceAll(s, from, to) }
}

// prepend puts a prefix before every fragment that is not empty.
func prepend(prefix string) edit {
	return func(s string, _ bool) string {
		if s == "" {
			return s
		}
		return prefix + s
	}
}

// prependOnce is prepend, but not before a fragment that begins with prefix already, and with onlyFirst not before fragments that are
// not the beginning of the text.
func prependOnce(prefix string, onlyFirst bool) edit {
	return func(s string, first bool) string {
		if s == "" || onlyFirst && !first || strings.HasPrefix(s, prefix) {
			return s
		}
		return prefix + s
	}
}

// normal brings text into a Unicode normalisation form.
func normal(form norm.Form) edit {
	return func(s string, _ bool) string { return normalize(form, s) }
}

// normalize is form.String, but without its one liberty: golang.org/x/text puts a U+034F between combining characters of which more than
// 30 follow each other (Unicode's "stream-safe text"), and no tokenizer expects that. U+034F takes no part in composition, so a changed
// number of them says that one was put in.
func normalize(form norm.Form, s string) string {
	if form.IsNormalString(s) {
		return s
	}
	out := form.String(s)
	const joiner = "\u034f"
	if len(out) >= len(joiner) && strings.Count(out, joiner) != strings.Count(s, joiner) {
		return normalizeLong(form, s)
	}
	return out
}

// ranked is a rune and its canonical combining class.
type ranked struct {
	r   rune
	ccc uint8
}

// normalizeLong normalises by the letter of Unicode Standard Annex 15: decompose each rune, sort each run of combining characters by
// their class, and compose. It is for texts that normalize cannot give to the library.
func normalizeLong(form norm.Form, s string) string {
	decompose, compose := norm.NFD, form == norm.NFC || form == norm.NFKC
	if form == norm.NFKC || form == norm.NFKD {
		decompose = norm.NFKD
	}
	var out strings.Builder
	for s != "" {
		n := validPrefix(s)
		if n == 0 {
			out.WriteByte(s[0])
			s = s[1:]
			continue
		}
		runes := decomposed(decompose, s[:n])
		if compose {
			runes = composed(runes)
		}
		for _, r := range runes {
			out.WriteRune(r.r)
		}
		s = s[n:]
	}
	return out.String()
}

// validPrefix returns the length of the longest beginning of s that is UTF-8.
func validPrefix(s string) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(s)
}

// decomposed returns the runes of s, which is UTF-8, decomposed and in canonical order.
func decomposed(form norm.Form, s string) []ranked {
	var out []ranked
	start := 0
	for _, r := range s {
		for _, d := range form.String(string(r)) {
			c := ranked{d, norm.NFD.PropertiesString(string(d)).CCC()}
			if c.ccc == 0 {
				sortMarks(out[start:])
				start = len(out) + 1
			}
			out = append(out, c)
		}
	}
	sortMarks(out[min(start, len(out)):])
	return out
}

func sortMarks(marks []ranked) {
	slices.SortStableFunc(marks, func(a, b ranked) int { return cmp.Compare(a.ccc, b.ccc) })
}

// composed joins runes in canonical order, in place: each with the last starter, if the two have a composition and nothing between
// them blocks it.
func composed(runes []ranked) []ranked {
	out := runes[:0]
	starter := -1
	for _, c := range runes {
		if starter >= 0 {
			last := out[len(out)-1].ccc
			adjacent := starter == len(out)-1
			if adjacent || last != 0 && last < c.ccc {
				if r, ok := composition(out[starter].r, c.r); ok {
					out[starter].r = r
					continue
				}
			}
		}
		if c.ccc == 0 {
			starter = len(out)
		}
		out = append(out, c)
	}
	return out
}

// composition returns the character that a and b are canonically composed to.
func composition(a, b rune) (rune, bool) {
	out := norm.NFC.String(string(a) + string(b))
	r, n := utf8.DecodeRuneInString(out)
	return r, n == len(out)
}
