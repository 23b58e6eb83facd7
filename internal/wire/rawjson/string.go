package rawjson

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// bytestring is text in either of its two forms.
type bytestring interface{ ~string | ~[]byte }

// plainLen returns how many leading bytes of a string's inside stand for themselves.
func plainLen(inner []byte) int {
	if n := bytes.IndexByte(inner, '\\'); n >= 0 {
		return n
	}
	return len(inner)
}

// Unquote appends the text of the JSON string lit, which is in its quotes and was checked by a walker, to dst. Bytes that
// are not UTF-8 are kept as they are. A lone surrogate escape becomes U+FFFD.
func Unquote(dst, lit []byte) []byte {
	in := lit[1 : len(lit)-1]
	for {
		n := plainLen(in)
		dst = append(dst, in[:n]...)
		if n == len(in) {
			return dst
		}
		dst, in = unescape(dst, in[n:])
	}
}

// Text returns the text of the JSON string lit; see [Unquote].
func Text(lit []byte) string {
	inner := lit[1 : len(lit)-1]
	if plainLen(inner) == len(inner) {
		return string(inner)
	}
	// The text is never longer than its escaped form.
	return string(Unquote(make([]byte, 0, len(inner)), lit))
}

// unescape appends what the escape at the start of in stands for, and returns the rest of in.
func unescape(dst, in []byte) ([]byte, []byte) {
	c := in[1]
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return unescapeRune(dst, in)
	}
	return append(dst, c), in[2:]
}

func unescapeRune(dst, in []byte) ([]byte, []byte) {
	r, _ := hex4(in[2:])
	in = in[6:]
	if r >= 0xd800 && r < 0xdc00 && len(in) >= 6 && in[0] == '\\' && in[1] == 'u' {
		if low, ok := hex4(in[2:]); ok && low >= 0xdc00 && low < 0xe000 {
			r, in = 0x10000+(r-0xd800)<<10+(low-0xdc00), in[6:]
		}
	}
	return utf8.AppendRune(dst, r), in
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Each byte that is not UTF-8 becomes U+FFFD.
//
// Besides what JSON asks for, the line separators U+0085, U+2028 and U+2029 are escaped: clients that split an event
// stream with a general "lines of text" routine (Python's splitlines does) would cut an event in two at them.
func AppendString[S bytestring](dst []byte, s S) []byte {
	return append(AppendInner(append(dst, '"'), s), '"')
}

// AppendInner appends s as the inside of a JSON string, without the quotes.
func AppendInner[S bytestring](dst []byte, s S) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = appendEscape(append(dst, s[start:i]...), c)
			i++
			start = i
			continue
		}
		// The short conversion does not allocate.
		r, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		if r == utf8.RuneError && n == 1 || r == 0x85 || r == 0x2028 || r == 0x2029 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
			start = i + n
		}
		i += n
	}
	return append(dst, s[start:]...)
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}

// AppendFloat appends f in the shortest form that reads back as f. JSON has no infinities and no NaN: they become null.
func AppendFloat(dst []byte, f float64) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return append(dst, "null"...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}
