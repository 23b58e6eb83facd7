// Package rawjson reads and writes JSON for the wire dialects, with every byte under control.
//
// It exists because encoding/json gets three things wrong for a relay: it replaces invalid UTF-8 (engines cut characters
// between two events, and the halves must survive), it matches field names without regard to case, and it merges repeated
// fields. It also costs allocations for each token that is relayed.
//
// [Check] validates a whole document with a bound on its depth. [Object] and [Array] walk the members of one level;
// values are slices of the input and can be walked in turn. [Unquote], [Int], [Float] and [Bool] read scalars.
// [AppendString] and [AppendFloat] write. Nothing is kept, nothing is shared: all functions may be called concurrently,
// and a walker belongs to one goroutine.
package rawjson

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// MaxDepth is the deepest nesting that is accepted. Real tool schemas stay below 30; engines compile schemas recursively,
// and one with thousands of levels costs them seconds or their stack.
const MaxDepth = 128

// Errors that a [SyntaxError] wraps, for callers that want to tell them apart.
var (
	ErrSyntax = errors.New("invalid JSON")
	ErrDepth  = fmt.Errorf("nested deeper than %d levels", MaxDepth)
	ErrUTF8   = errors.New("invalid UTF-8")
	// ErrSurrogate is half of a \uD800-\uDFFF pair. No text contains it, and engines fail on it late and badly.
	ErrSurrogate = errors.New("lone surrogate escape")
)

// SyntaxError says what is wrong with a document, and where.
type SyntaxError struct {
	// Offset is the byte at which reading stopped.
	Offset int
	Err    error
}

// Error returns the fault and its place.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%v at byte %d", e.Err, e.Offset) }

// Unwrap returns one of the package's errors.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Check reports whether data is one JSON value with nothing behind it, no deeper than [MaxDepth], all in UTF-8 and
// without lone surrogates. The error is a *SyntaxError.
func Check(data []byte) error {
	s := scanner{data: data, strict: true}
	i := skipSpace(data, 0)
	i, err := s.value(i, 0)
	if err != nil {
		return err
	}
	if i = skipSpace(data, i); i != len(data) {
		return fail(i, ErrSyntax)
	}
	return nil
}

// Kind says what a value is.
type Kind byte

// The kinds of values. Invalid is what is none of the others.
const (
	Invalid Kind = iota
	Null
	Boolean
	Number
	String
	ArrayKind
	ObjectKind
)

// KindOf tells what v is by its first byte.
func KindOf(v []byte) Kind {
	if len(v) == 0 {
		return Invalid
	}
	switch c := v[0]; c {
	case 'n':
		return Null
	case 't', 'f':
		return Boolean
	case '"':
		return String
	case '[':
		return ArrayKind
	case '{':
		return ObjectKind
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return Number
		}
		return Invalid
	}
}

// String names k with its article, for error texts.
func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case Boolean:
		return "a boolean"
	case Number:
		return "a number"
	case String:
		return "a string"
	case ArrayKind:
		return "an array"
	case ObjectKind:
		return "an object"
	default:
		return "nothing"
	}
}

// Bool reads a boolean. ok is false if v is none.
func Bool(v []byte) (b, ok bool) {
	switch string(v) {
	case "true":
		return true, true
	case "false":
		return false, true
	default:
		return false, false
	}
}

// Float reads a number. ok is false if v is none, or too large for a float64.
func Float(v []byte) (f float64, ok bool) {
	if KindOf(v) != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	return f, err == nil
}

// Int reads a whole number. Clients in languages without integers write 16.0 or 1e3, so those count too, up to 2^53,
// where a float64 stops being exact. ok is false for everything else.
func Int(v []byte) (n int64, ok bool) {
	if KindOf(v) != Number {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n, true
	}
	f, ok := Float(v)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}
