package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a set of the character classes that split patterns name. A rune has the bits of its general category, and space if it has
// the property White_Space, which is what \s means in the patterns' own engine.
type class uint8

const (
	letter class = 1 << iota // \p{L}
	number                   // \p{N}
	space                    // \s
	punct                    // \p{P}
	symbol                   // \p{S}
	mark                     // \p{M}
	upper                    // \p{Lu} and \p{Lt}, beside letter
	lower                    // \p{Ll}, beside letter
)

// classTable looks up the class of a rune in two steps, as 256-rune pages of which equal ones are stored once. It is immutable.
type classTable struct {
	ascii [utf8.RuneSelf]class
	page  [(unicode.MaxRune + 1) / pageSize]uint16
	pages [][pageSize]class
}

const pageSize = 256

// classes returns the one table of the program. It depends on nothing but the Unicode version of Go's own tables.
//
//nolint:gochecknoglobals // a constant that takes a few milliseconds to compute
var classes = sync.OnceValue(newClassTable)

func newClassTable() *classTable {
	flat := make([]class, unicode.MaxRune+1)
	for _, c := range []struct {
		bit   class
		table *unicode.RangeTable
	}{
		{letter, unicode.L},
		{number, unicode.N},
		{space, unicode.White_Space},
		{punct, unicode.P},
		{symbol, unicode.S},
		{mark, unicode.M},
		{upper, unicode.Lu},
		{upper, unicode.Lt},
		{lower, unicode.Ll},
	} {
		setRanges(flat, c.table, c.bit)
	}
	t := &classTable{}
	copy(t.ascii[:], flat)
	seen := map[[pageSize]class]uint16{}
	for i := range t.page {
		p := [pageSize]class(flat[i*pageSize:])
		n, ok := seen[p]
		if !ok {
			n = uint16(len(t.pages))
			seen[p] = n
			t.pages = append(t.pages, p)
		}
		t.page[i] = n
	}
	return t
}

func setRanges(flat []class, table *unicode.RangeTable, bit class) {
	for _, r := range table.R16 {
		for c := uint32(r.Lo); c <= uint32(r.Hi); c += uint32(r.Stride) {
			flat[c] |= bit
		}
	}
	for _, r := range table.R32 {
		for c := r.Lo; c <= r.Hi; c += r.Stride {
			flat[c] |= bit
		}
	}
}

// of returns the class of r, which is a valid code point.
func (t *classTable) of(r rune) class {
	return t.pages[t.page[uint32(r)/pageSize]][uint32(r)%pageSize]
}

// at returns the class of the rune at s[i] and its width in bytes. A byte that is no UTF-8 counts as U+FFFD and is one byte wide.
func (t *classTable) at(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return t.ascii[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return t.of(r), n
}

// run returns the end of the longest run from s[i] of runes of which each has a class in set.
func (t *classTable) run(s string, i int, set class) int {
	for i < len(s) {
		c, n := t.at(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	return i
}

// runNot returns the end of the longest run from s[i] of runes of which none has a class in set.
func (t *classTable) runNot(s string, i int, set class) int {
	for i < len(s) {
		c, n := t.at(s, i)
		if c&set != 0 {
			break
		}
		i += n
	}
	return i
}
