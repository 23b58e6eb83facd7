package chattmpl

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// kind says what a piece of a template is.
type kind byte

const (
	text      kind = iota // literal text, with the white space that stays
	output                // {{ expression }}
	statement             // {% statement %}
)

// piece is a part of a template between two borders of tags. A tag's text is what stands between its marks.
type piece struct {
	kind kind
	text string
	line int
}

// The marks of tags. White space is what Python's re takes for \s. With trim_blocks, which is how chat templates are rendered, a
// statement and a comment take the newline that follows.
const white = `[\s\v\x1c-\x1f\x{85}\pZ]*`

var (
	rawBegin     = regexp.MustCompile(`^\{%[-+]?` + white + `raw` + white + `(?:-%\}` + white + `|%\})`)
	rawEnd       = regexp.MustCompile(`\{%([-+]?)` + white + `endraw` + white + `(?:\+%\}|-%\}` + white + `|%\}\n?)`)
	commentEnd   = regexp.MustCompile(`\+#\}|-#\}` + white + `|#\}\n?`)
	outputEnd    = regexp.MustCompile(`^(?:-\}\}` + white + `|\}\})`)
	statementEnd = regexp.MustCompile(`^(?:\+%\}|-%\}` + white + `|%\}\n?)`)
)

// scan cuts a template into pieces and applies the rules of white space: those of jinja2's lexer (lexer.py, Lexer.tokeniter) with
// trim_blocks and lstrip_blocks. The library has rules of its own, which trim across tags, so it never gets to see white space that it
// may touch.
func scan(source string) ([]piece, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	s := &scanner{src: strings.TrimSuffix(source, "\n"), line: 1, fresh: true}
	for s.at < len(s.src) {
		if err := s.next(); err != nil {
			return nil, err
		}
	}
	return s.out, nil
}

// scanner is the state of scan. Fresh reports whether at is the beginning of a line as jinja2 sees it: the last tag ended with a newline.
type scanner struct {
	src   string
	at    int
	line  int
	fresh bool
	out   []piece
}

// next reads text up to a tag, and the tag.
func (s *scanner) next() error {
	rest := s.src[s.at:]
	open := opener(rest)
	if open < 0 {
		s.add(text, rest)
		s.move(len(rest))
		return nil
	}
	sign := byte(0)
	if open+2 < len(rest) && (rest[open+2] == '-' || rest[open+2] == '+') {
		sign = rest[open+2]
	}
	s.add(text, s.before(rest[:open], sign, rest[open+1] != '{'))
	s.move(open)
	rest = rest[open:]
	if m := rawBegin.FindString(rest); m != "" {
		s.move(len(m))
		return s.raw()
	}
	begin := 2
	if sign != 0 {
		begin = 3
	}
	switch rest[1] {
	case '#':
		m := commentEnd.FindStringIndex(rest[begin:])
		if m == nil {
			return fmt.Errorf("line %d: a comment does not end", s.line)
		}
		s.move(begin + m[1])
		return nil
	case '{':
		return s.tag(output, begin, outputEnd)
	}
	return s.tag(statement, begin, statementEnd)
}

// opener returns where the next tag begins, or -1.
func opener(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

// before strips text that stands before a tag: all white space for a minus, the tag's indentation for a statement or comment.
func (s *scanner) before(t string, sign byte, strip bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(t, space)
	}
	if sign == '+' || !strip {
		return t
	}
	line := strings.LastIndexByte(t, '\n') + 1
	if (line > 0 || s.fresh) && strings.TrimFunc(t[line:], space) == "" {
		return t[:line]
	}
	return t
}

// space reports whether Python's str.strip takes r away.
func space(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// raw reads what stands between raw and endraw.
func (s *scanner) raw() error {
	rest := s.src[s.at:]
	m := rawEnd.FindStringSubmatchIndex(rest)
	if m == nil {
		return fmt.Errorf("line %d: a raw block does not end", s.line)
	}
	sign := byte(0)
	if m[3] > m[2] {
		sign = rest[m[2]]
	}
	s.add(text, s.before(rest[:m[0]], sign, true))
	s.move(m[1])
	return nil
}

// tag reads a tag whose content begins at begin. What looks like its end does not count inside strings and brackets.
func (s *scanner) tag(k kind, begin int, end *regexp.Regexp) error {
	rest := s.src[s.at:]
	depth := 0
	for i := begin; i < len(rest); i++ {
		switch c := rest[i]; c {
		case '-', '+', '%', '}':
			if m := end.FindString(rest[i:]); m != "" && depth == 0 {
				s.add(k, rest[begin:i])
				s.move(i + len(m))
				return nil
			}
			if c == '}' {
				depth--
			}
		case '\'', '"':
			n := quoted(rest[i:])
			if n == 0 {
				return fmt.Errorf("line %d: a string does not end", s.line)
			}
			i += n - 1
		case '(', '[', '{':
			depth++
		case ')', ']':
			depth--
		}
	}
	return fmt.Errorf("line %d: a tag does not end", s.line)
}

// quoted returns the length of the string literal at the beginning of s, 0 if it does not end.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

func (s *scanner) add(k kind, t string) {
	if k != text || t != "" {
		s.out = append(s.out, piece{k, t, s.line})
	}
}

// move steps over n bytes.
func (s *scanner) move(n int) {
	if n > 0 {
		s.fresh = s.src[s.at+n-1] == '\n'
	}
	s.line += strings.Count(s.src[s.at:s.at+n], "\n")
	s.at += n
}
