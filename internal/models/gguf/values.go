package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// maxText is the longest text a getter returns. The longest in real files are embedded tokenizer descriptions of some 30
// MiB; without a bound, a file could make us read all of itself into memory.
const maxText = 64 << 20

// Keys returns the metadata keys in file order.
func (f *File) Keys() []string {
	keys := make([]string, len(f.keys))
	for i, e := range f.keys {
		keys[i] = e.key
	}
	return keys
}

// Kind returns the kind of key's value; ok reports whether there is such a key.
func (f *File) Kind(key string) (k Kind, ok bool) {
	i, ok := f.byKey[key]
	if !ok {
		return 0, false
	}
	return f.keys[i].kind, true
}

// Len returns the number and kind of the elements of an array, without reading them.
func (f *File) Len(key string) (n int64, elem Kind, err error) {
	e, err := f.entry(key)
	if err != nil {
		return 0, 0, err
	}
	if e.kind != Array {
		return 0, 0, e.kindError("an array")
	}
	return e.count, e.elem, nil
}

// String returns key's text. Like all getters it returns ErrNoKey if there is no such key, and ErrKind if its value is of
// another kind.
func (f *File) String(key string) (string, error) {
	e, err := f.entry(key)
	if err != nil {
		return "", err
	}
	if e.kind != String {
		return "", e.kindError("a string")
	}
	c := f.cursorAt(e)
	return readText(c)
}

// Bool returns key's truth value.
func (f *File) Bool(key string) (bool, error) {
	e, err := f.entry(key)
	if err != nil {
		return false, err
	}
	if e.kind != Bool {
		return false, e.kindError("a bool")
	}
	var b [1]byte
	err = f.readAt(e, b[:])
	return b[0] != 0, err
}

// Int returns key's value, which may be of any integer kind.
func (f *File) Int(key string) (int64, error) {
	e, err := f.entry(key)
	if err != nil {
		return 0, err
	}
	if !e.kind.integer() {
		return 0, e.kindError("an integer")
	}
	b := make([]byte, e.kind.size())
	if err := f.readAt(e, b); err != nil {
		return 0, err
	}
	v, ok := decodeInt(e.kind, b)
	if !ok {
		return 0, &Error{e.at, quoted("key", key), "the number is larger than an int64 holds", ErrKind}
	}
	return v, nil
}

// Float returns key's value, which may be a float32 or float64.
func (f *File) Float(key string) (float64, error) {
	e, err := f.entry(key)
	if err != nil {
		return 0, err
	}
	if e.kind != Float32 && e.kind != Float64 {
		return 0, e.kindError("a float")
	}
	b := make([]byte, e.kind.size())
	if err := f.readAt(e, b); err != nil {
		return 0, err
	}
	return decodeFloat(e.kind, b), nil
}

// Strings decodes an array of strings. A vocabulary takes some tens of megabytes.
func (f *File) Strings(key string) ([]string, error) {
	e, err := f.array(key, "strings", func(k Kind) bool { return k == String })
	if err != nil {
		return nil, err
	}
	c := f.cursorAt(e)
	out := make([]string, e.count) // count was checked against the file by Read
	for i := range out {
		if out[i], err = readText(c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Ints decodes an array of integers or bools.
func (f *File) Ints(key string) ([]int64, error) {
	e, err := f.array(key, "integers", func(k Kind) bool { return k.integer() || k == Bool })
	if err != nil {
		return nil, err
	}
	c, size := f.cursorAt(e), e.elem.size()
	out := make([]int64, e.count)
	for i := range out {
		at := c.off
		b, err := c.bytes(size)
		if err != nil {
			return nil, err
		}
		v, ok := decodeInt(e.elem, b)
		if !ok {
			return nil, c.fail(at, ErrKind, "element %d is larger than an int64 holds", i)
		}
		out[i] = v
	}
	return out, nil
}

// Floats decodes an array of float32 or float64.
func (f *File) Floats(key string) ([]float64, error) {
	e, err := f.array(key, "floats", func(k Kind) bool { return k == Float32 || k == Float64 })
	if err != nil {
		return nil, err
	}
	c, size := f.cursorAt(e), e.elem.size()
	out := make([]float64, e.count)
	for i := range out {
		b, err := c.bytes(size)
		if err != nil {
			return nil, err
		}
		out[i] = decodeFloat(e.elem, b)
	}
	return out, nil
}

func (f *File) entry(key string) (entry, error) {
	i, ok := f.byKey[key]
	if !ok {
		return entry{}, fmt.Errorf("gguf: %w: %q", ErrNoKey, key)
	}
	return f.keys[i], nil
}

// array returns the entry of an array whose element kind ok accepts.
func (f *File) array(key, what string, ok func(Kind) bool) (entry, error) {
	e, err := f.entry(key)
	if err != nil {
		return entry{}, err
	}
	if e.kind != Array || !ok(e.elem) {
		return entry{}, e.kindError("an array of " + what)
	}
	return e, nil
}

func (e entry) kindError(want string) error {
	have := e.kind.String()
	if e.kind == Array {
		have = "an array of " + e.elem.String()
	}
	return &Error{e.at, quoted("key", e.key), "is " + have + ", not " + want, ErrKind}
}

func (f *File) cursorAt(e entry) *cursor {
	return &cursor{r: f.r, size: f.size, off: e.at, where: quoted("key", e.key)}
}

// readAt fills b from the beginning of e's value.
func (f *File) readAt(e entry, b []byte) error {
	if _, err := f.r.ReadAt(b, e.at); err != nil && err != io.EOF {
		return fmt.Errorf("gguf: %s at byte %d: read: %w", quoted("key", e.key), e.at, err)
	} else if err == io.EOF && e.at+int64(len(b)) > f.size {
		return &Error{e.at, quoted("key", e.key), "the file ends here", ErrTruncated}
	}
	return nil
}

// readText reads a string value, which unlike a name may be larger than the cursor's window.
func readText(c *cursor) (string, error) {
	at := c.off
	n, err := c.count("bytes of text", 1)
	if err != nil {
		return "", err
	}
	if n <= windowBytes {
		b, err := c.bytes(n)
		return string(b), err
	}
	if n > maxText {
		return "", c.fail(at, ErrUnsupported, "a text of %d bytes; %d is the most we read", n, int64(maxText))
	}
	b := make([]byte, n)
	if _, err := c.r.ReadAt(b, c.off); err != nil && err != io.EOF {
		return "", fmt.Errorf("gguf: %s at byte %d: read: %w", c.where, at, err)
	}
	return string(b), c.skip(n)
}

func (k Kind) integer() bool {
	switch k {
	case Uint8, Int8, Uint16, Int16, Uint32, Int32, Uint64, Int64:
		return true
	default:
		return false
	}
}

// decodeInt decodes an integer or bool. ok is false if the value does not fit.
func decodeInt(k Kind, b []byte) (v int64, ok bool) {
	le := binary.LittleEndian
	switch k {
	case Bool:
		return int64(min(b[0], 1)), true
	case Uint8:
		return int64(b[0]), true
	case Int8:
		return int64(int8(b[0])), true
	case Uint16:
		return int64(le.Uint16(b)), true
	case Int16:
		return int64(int16(le.Uint16(b))), true
	case Uint32:
		return int64(le.Uint32(b)), true
	case Int32:
		return int64(int32(le.Uint32(b))), true
	default:
		u := le.Uint64(b)
		return int64(u), k == Int64 || u <= math.MaxInt64
	}
}

func decodeFloat(k Kind, b []byte) float64 {
	if k == Float32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}
