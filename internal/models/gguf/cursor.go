package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// windowBytes is how much of the file is held while walking over it. It bounds the values that [cursor.bytes] can return;
// keys and tensor names, the longest of them, have at most 65,535 bytes. Larger values are skipped, never held.
const windowBytes = 64 << 10

// cursor walks over a file through a window of fixed size. Every step is checked against the end of the file first.
type cursor struct {
	r    io.ReaderAt
	size int64
	off  int64
	// where names what is being read, for errors.
	where string

	window []byte // bytes [base, base+len(window)) of the file
	base   int64
}

// left is the bytes between the cursor and the end of the file.
func (c *cursor) left() int64 { return c.size - c.off }

// fail returns an Error at offset off.
func (c *cursor) fail(off int64, kind error, format string, args ...any) error {
	return &Error{Offset: off, Where: c.where, Message: fmt.Sprintf(format, args...), Kind: kind}
}

// bytes returns the next n bytes, valid until the next call. n is at most windowBytes.
func (c *cursor) bytes(n int64) ([]byte, error) {
	if n > c.left() {
		return nil, c.fail(c.off, ErrTruncated, "the file ends at byte %d, inside a value of %d bytes", c.size, n)
	}
	if c.off < c.base || c.off+n > c.base+int64(len(c.window)) {
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	b := c.window[c.off-c.base:][:n]
	c.off += n
	return b, nil
}

// fill moves the window to the cursor.
func (c *cursor) fill() error {
	if c.window == nil {
		c.window = make([]byte, 0, min(windowBytes, c.size))
	}
	want := min(int64(cap(c.window)), c.left())
	c.window = c.window[:want]
	c.base = c.off
	n, err := c.r.ReadAt(c.window, c.off)
	if int64(n) == want {
		return nil
	}
	c.window = c.window[:0]
	if errors.Is(err, io.EOF) {
		return c.fail(c.off, ErrTruncated, "the file ended at byte %d although it had %d bytes before", c.off+int64(n), c.size)
	}
	return fmt.Errorf("gguf: %s at byte %d: read: %w", c.where, c.off, err)
}

// skip moves over n bytes without reading them.
func (c *cursor) skip(n int64) error {
	if n > c.left() {
		return c.fail(c.off, ErrTruncated, "needs %d bytes but only %d are left of the file", n, c.left())
	}
	c.off += n
	return nil
}

func (c *cursor) u32() (uint32, error) {
	b, err := c.bytes(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64() (uint64, error) {
	b, err := c.bytes(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// count reads a 64-bit number of things that take at least each bytes in the file, and refuses more than can be left.
func (c *cursor) count(what string, each int64) (int64, error) {
	at := c.off
	n, err := c.u64()
	if err != nil {
		return 0, err
	}
	if n > uint64(c.left()/each) {
		return 0, c.fail(at, ErrTruncated, "claims %d %s, but the %d bytes left of the file cannot hold them", n, what, c.left())
	}
	return int64(n), nil
}

// str reads a string of at most limit bytes.
func (c *cursor) str(limit int64) (string, error) {
	at := c.off
	n, err := c.count("bytes of text", 1)
	if err != nil {
		return "", err
	}
	if n > limit {
		return "", c.fail(at, ErrInvalid, "a name of %d bytes; the format allows %d", n, limit)
	}
	b, err := c.bytes(n)
	return string(b), err
}

// skipStr moves over a string of any length.
func (c *cursor) skipStr() error {
	n, err := c.count("bytes of text", 1)
	if err != nil {
		return err
	}
	return c.skip(n)
}
