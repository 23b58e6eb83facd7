package tokenizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// jsonReader reads the two large lists of tokenizer.json, which have up to a million strings, without an allocation for each. The text
// was checked to be JSON before.
type jsonReader struct {
	s string
	i int
}

// peek returns the next byte that is no white space, 0 at the end.
func (r *jsonReader) peek() byte {
	for r.i < len(r.s) {
		switch r.s[r.i] {
		case ' ', '\t', '\r', '\n':
			r.i++
		default:
			return r.s[r.i]
		}
	}
	return 0
}

// expect reads one byte.
func (r *jsonReader) expect(b byte) error {
	if got := r.peek(); got != b {
		return fmt.Errorf("byte %d: %q where %q is expected", r.i, got, b)
	}
	r.i++
	return nil
}

// list reads elements with commas between them.
func (r *jsonReader) list(begin, end byte, element func() error) error {
	if err := r.expect(begin); err != nil {
		return err
	}
	if r.peek() == end {
		r.i++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if r.peek() == end {
			r.i++
			return nil
		}
		if err := r.expect(','); err != nil {
			return err
		}
	}
}

// text reads a string.
func (r *jsonReader) text() (string, error) {
	if err := r.expect('"'); err != nil {
		return "", err
	}
	start := r.i
	for {
		n := strings.IndexAny(r.s[r.i:], `"\`)
		if n < 0 {
			return "", fmt.Errorf("byte %d: a string without end", start)
		}
		r.i += n
		if r.s[r.i] == '"' {
			break
		}
		r.i = min(r.i+2, len(r.s))
	}
	raw := r.s[start:r.i]
	r.i++
	if strings.IndexByte(raw, '\\') < 0 {
		return raw, nil
	}
	var s string
	if err := json.Unmarshal([]byte(r.s[start-1:r.i]), &s); err != nil {
		return "", fmt.Errorf("byte %d: %w", start, err)
	}
	return s, nil
}

// integer reads a whole number.
func (r *jsonReader) integer() (int64, error) {
	r.peek()
	start := r.i
	for r.i < len(r.s) && (r.s[r.i] == '-' || r.s[r.i] >= '0' && r.s[r.i] <= '9') {
		r.i++
	}
	n, err := strconv.ParseInt(r.s[start:r.i], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("byte %d: a whole number is expected", start)
	}
	return n, nil
}
