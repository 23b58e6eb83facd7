package sse

import (
	"bytes"
	"errors"
	"io"
)

// Next returns the next item. The error is io.EOF at the end of a stream that was not cut, one of the package's errors, or
// what the underlying reader returned. After an error, Next returns it again.
func (r *Reader) Next() (Item, error) {
	if !r.open {
		r.reset()
	}
	for {
		line, err := r.line()
		if err != nil {
			return Item{}, err
		}
		if len(line) == 0 {
			if r.hasData {
				r.open, r.hasData = false, false
				return Item{Name: r.name, Data: r.data}, nil
			}
			r.reset()
			continue
		}
		if line[0] == ':' {
			return Item{Kind: Comment, Data: trimSpace(line[1:])}, nil
		}
		if err := r.field(line); err != nil {
			return Item{}, r.fail(err)
		}
	}
}

func (r *Reader) reset() {
	r.name, r.data = r.name[:0], r.data[:0]
	r.open, r.hasData = false, false
}

// field takes one "name: value" line into the open event. Unknown fields, and id and retry, which only matter to clients
// that reconnect, are skipped as the standard asks.
func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = trimSpace(value)
	r.open = true
	switch string(name) {
	case "event":
		r.name = append(r.name[:0], value...)
	case "data":
		if r.hasData {
			r.data = append(r.data, '\n')
		}
		r.data = append(r.data, value...)
		r.hasData = true
		if len(r.data) > r.limit.Event {
			return ErrEventTooLong
		}
	}
	return nil
}

// trimSpace removes the one space that may follow a colon.
func trimSpace(v []byte) []byte {
	if len(v) > 0 && v[0] == ' ' {
		return v[1:]
	}
	return v
}

// line returns the next line without its end. It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	for {
		if line, ok := r.buffered(); ok {
			if len(line) > r.limit.Line {
				return nil, r.fail(ErrLineTooLong)
			}
			return line, nil
		}
		if r.end-r.pos > r.limit.Line+len(mark) {
			return nil, r.fail(ErrLineTooLong)
		}
		if r.err != nil {
			return nil, r.fail(r.err)
		}
		r.fill()
	}
}

// fail settles the final error. A clean end of input is only clean between events.
func (r *Reader) fail(err error) error {
	if errors.Is(err, io.EOF) && (r.open || r.end > r.pos) {
		err = ErrTruncated
	}
	r.err = err
	r.pos, r.seen, r.skipLF = r.end, r.end, false
	r.open = false
	return err
}

// mark is the UTF-8 byte order mark, which may stand before the first line.
const mark = "\xef\xbb\xbf"

// buffered returns the next line if the whole of it is in the buffer. A CR ends a line at once, without waiting for the LF
// that may follow: the sender may have nothing to say after it for a long time.
func (r *Reader) buffered() ([]byte, bool) {
	if r.skipLF && r.pos < r.end {
		if r.buf[r.pos] == '\n' {
			r.pos++
			r.seen = max(r.seen, r.pos)
		}
		r.skipLF = false
	}
	n := lineEnd(r.buf[r.seen:r.end])
	if n < 0 {
		r.seen = r.end
		return nil, false
	}
	r.skipLF = r.buf[r.seen+n] == '\r'
	line := r.buf[r.pos : r.seen+n]
	r.pos = r.seen + n + 1
	r.seen = r.pos
	if !r.started {
		r.started = true
		line = bytes.TrimPrefix(line, []byte(mark))
	}
	return line, true
}

// scanWindow bounds how far lineEnd looks for one kind of line end before it looks for the other, so that a large buffer
// full of lines of the other kind is not searched to its end for each of them.
const scanWindow = 1 << 10

// lineEnd returns the index of the first CR or LF in d, or -1. Two vectorised searches beat one loop over bytes.
func lineEnd(d []byte) int {
	for from := 0; from < len(d); from += scanWindow {
		w := d[from:min(len(d), from+scanWindow)]
		n := bytes.IndexByte(w, '\n')
		if n >= 0 {
			w = w[:n]
		}
		if cr := bytes.IndexByte(w, '\r'); cr >= 0 {
			n = cr
		}
		if n >= 0 {
			return from + n
		}
	}
	return -1
}

// maxEmptyReads is how often a reader may return nothing and no error before it counts as broken, as in package bufio.
const maxEmptyReads = 100

// fill reads more input, or sets err. It makes room first, by moving what is left to the front or by a larger buffer.
func (r *Reader) fill() {
	if r.pos > 0 {
		copy(r.buf, r.buf[r.pos:r.end])
		r.end -= r.pos
		r.seen -= r.pos
		r.pos = 0
	}
	if r.end == len(r.buf) {
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if err != nil {
			r.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	r.err = io.ErrNoProgress
}
