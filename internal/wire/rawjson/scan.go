package rawjson

import "unicode/utf8"

// scanner checks values of data. strict adds the checks for UTF-8 and surrogates that a client's document must pass and
// an engine's event may fail.
type scanner struct {
	data   []byte
	strict bool
}

func fail(at int, err error) error { return &SyntaxError{Offset: at, Err: err} }

func skipSpace(d []byte, i int) int {
	for i < len(d) && (d[i] == ' ' || d[i] == '\n' || d[i] == '\t' || d[i] == '\r') {
		i++
	}
	return i
}

// value checks the value that starts at i and returns the index behind it.
func (s *scanner) value(i, depth int) (int, error) {
	if i >= len(s.data) {
		return i, fail(i, ErrSyntax)
	}
	switch KindOf(s.data[i:]) {
	case String:
		return s.string(i)
	case Number:
		return s.number(i)
	case ObjectKind, ArrayKind:
		if depth >= MaxDepth {
			return i, fail(i, ErrDepth)
		}
		return s.nested(i, depth+1)
	case Null:
		return s.literal(i, "null")
	case Boolean:
		if s.data[i] == 't' {
			return s.literal(i, "true")
		}
		return s.literal(i, "false")
	default:
		return i, fail(i, ErrSyntax)
	}
}

// nested checks the object or array that starts at i.
func (s *scanner) nested(i, depth int) (int, error) {
	w := walker{s: *s, pos: i + 1, depth: depth, first: true}
	isObject := s.data[i] == '{'
	for w.step(isObject) {
	}
	return w.pos, w.err
}

func (s *scanner) literal(i int, word string) (int, error) {
	end := i + len(word)
	if end > len(s.data) || string(s.data[i:end]) != word {
		return i, fail(i, ErrSyntax)
	}
	return end, nil
}

// number checks a number against the grammar of RFC 8259, section 6.
func (s *scanner) number(i int) (int, error) {
	d, start := s.data, i
	if d[i] == '-' {
		i++
	}
	n := digits(d, i)
	if n == i || (d[i] == '0' && n > i+1) {
		return start, fail(start, ErrSyntax)
	}
	i = n
	if i < len(d) && d[i] == '.' {
		if n = digits(d, i+1); n == i+1 {
			return start, fail(start, ErrSyntax)
		}
		i = n
	}
	if i < len(d) && (d[i] == 'e' || d[i] == 'E') {
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		if n = digits(d, i); n == i {
			return start, fail(start, ErrSyntax)
		}
		i = n
	}
	return i, nil
}

func digits(d []byte, i int) int {
	for i < len(d) && d[i] >= '0' && d[i] <= '9' {
		i++
	}
	return i
}

// plain marks the bytes that need no look in a string: ASCII but control characters, the quote and the backslash.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// string checks the string that starts at i. Nearly all bytes of a request are inside strings, so runs of plain ones are
// passed over in a loop of their own.
func (s *scanner) string(i int) (int, error) {
	d := s.data
	for i++; ; {
		for i < len(d) && plain[d[i]] {
			i++
		}
		if i >= len(d) {
			return i, fail(i, ErrSyntax)
		}
		n, err := 1, error(nil)
		switch c := d[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			n, err = s.escape(i)
			n -= i
		case c < ' ':
			err = fail(i, ErrSyntax)
		case s.strict:
			if _, n = utf8.DecodeRune(d[i:]); n == 1 {
				err = fail(i, ErrUTF8)
			}
		}
		if err != nil {
			return i, err
		}
		i += n
	}
}

// escape checks the escape whose backslash is at i.
func (s *scanner) escape(i int) (int, error) {
	if i+1 >= len(s.data) {
		return i, fail(i, ErrSyntax)
	}
	switch s.data[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		r, ok := hex4(s.data[i+2:])
		if !ok {
			return i, fail(i, ErrSyntax)
		}
		if s.strict && isSurrogate(r) {
			return s.pair(i, r)
		}
		return i + 6, nil
	default:
		return i, fail(i, ErrSyntax)
	}
}

// pair checks that the surrogate r, escaped at i, is the first half of a pair.
func (s *scanner) pair(i int, r rune) (int, error) {
	rest := s.data[i+6:]
	if r < 0xdc00 && len(rest) >= 2 && rest[0] == '\\' && rest[1] == 'u' {
		if low, ok := hex4(rest[2:]); ok && low >= 0xdc00 && low < 0xe000 {
			return i + 12, nil
		}
	}
	return i, fail(i, ErrSurrogate)
}

func isSurrogate(r rune) bool { return r >= 0xd800 && r < 0xe000 }

// hex4 reads the four hexadecimal digits of a \u escape.
func hex4(d []byte) (rune, bool) {
	if len(d) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range d[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
