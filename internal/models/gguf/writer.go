package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Writer collects metadata and tensors and writes them as a GGUF file of version 3. Use it from one goroutine. Nothing is
// written before WriteTo, so a mistake in the order of calls is not possible; the order of Set and Add is the order in the
// file.
type Writer struct {
	align   int64
	keys    []byte // the encoded metadata
	seen    map[string]bool
	nkeys   uint64
	tensors []TensorSpec
	sizes   []int64
}

// TensorSpec is a tensor to be written.
type TensorSpec struct {
	Name string
	Type Type
	// Dims are the elements along each axis, the contiguous one first.
	Dims []int64
	// Write writes the tensor's bytes, exactly as many as type and dims take. It is called once per WriteTo.
	Write func(w io.Writer) error
}

// NewWriter returns an empty Writer.
func NewWriter() *Writer {
	return &Writer{align: defaultAlignment, seen: map[string]bool{}}
}

// Set adds a metadata key. v is a bool, string, sized integer or float, or a slice of one of these. Setting
// "general.alignment" (a uint32) sets the alignment of the tensors.
func (w *Writer) Set(key string, v any) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("gguf: a key of %d bytes; 1 to %d are allowed", len(key), maxKey)
	}
	if w.seen["k"+key] {
		return fmt.Errorf("gguf: %s is set twice", quoted("key", key))
	}
	if key == "general.alignment" {
		a, ok := v.(uint32)
		if !ok || a == 0 || a&(a-1) != 0 {
			return fmt.Errorf("gguf: general.alignment must be a uint32 and a power of two, not %v (%T)", v, v)
		}
		w.align = int64(a)
	}
	b, err := appendValue(appendString(w.keys, key), v)
	if err != nil {
		return fmt.Errorf("gguf: %s: %w", quoted("key", key), err)
	}
	w.keys = b
	w.seen["k"+key] = true
	w.nkeys++
	return nil
}

// Add adds a tensor.
func (w *Writer) Add(t TensorSpec) error {
	size, ok := tensorBytes(t.Type, t.Dims)
	switch {
	case t.Name == "" || len(t.Name) > maxTensorName-1: // engines keep a zero byte behind the name
		return fmt.Errorf("gguf: a tensor name of %d bytes; 1 to %d are allowed", len(t.Name), maxTensorName-1)
	case w.seen["t"+t.Name]:
		return fmt.Errorf("gguf: tensor %q is added twice", t.Name)
	case len(t.Dims) > maxDims:
		return fmt.Errorf("gguf: tensor %q: %d dimensions; the format allows %d", t.Name, len(t.Dims), maxDims)
	case !ok || hasNegative(t.Dims):
		return fmt.Errorf("gguf: tensor %q: a shape of %v does not suit %s", t.Name, t.Dims, t.Type)
	case t.Write == nil && size > 0:
		return fmt.Errorf("gguf: tensor %q: no Write function", t.Name)
	}
	w.seen["t"+t.Name] = true
	w.tensors = append(w.tensors, t)
	w.sizes = append(w.sizes, size)
	return nil
}

func hasNegative(dims []int64) bool {
	for _, d := range dims {
		if d < 0 {
			return true
		}
	}
	return false
}

// WriteTo writes the file and returns the bytes written. It fails if a tensor's Write writes more or fewer bytes than
// the tensor takes.
func (w *Writer) WriteTo(dst io.Writer) (int64, error) {
	buf := bufio.NewWriterSize(dst, 1<<16)
	out := &counter{w: buf}
	if _, err := out.Write(w.header()); err != nil {
		return out.n, err
	}
	if len(w.tensors) > 0 {
		if err := out.pad(w.align); err != nil {
			return out.n, err
		}
	}
	for i, t := range w.tensors {
		if err := w.writeTensor(out, t, w.sizes[i]); err != nil {
			return out.n, err
		}
	}
	return out.n, buf.Flush()
}

// header encodes everything before the data section.
func (w *Writer) header() []byte {
	le := binary.LittleEndian
	b := append([]byte(magic), 3, 0, 0, 0)
	b = le.AppendUint64(b, uint64(len(w.tensors)))
	b = le.AppendUint64(b, w.nkeys)
	b = append(b, w.keys...)
	var off int64
	for i, t := range w.tensors {
		b = appendString(b, t.Name)
		b = le.AppendUint32(b, uint32(len(t.Dims)))
		for _, d := range t.Dims {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint32(b, uint32(t.Type))
		b = le.AppendUint64(b, uint64(off))
		off += (w.sizes[i] + w.align - 1) / w.align * w.align
	}
	return b
}

// writeTensor writes one tensor and the padding behind it. The last one is padded too: engines expect it.
func (w *Writer) writeTensor(out *counter, t TensorSpec, size int64) error {
	begin := out.n
	out.limit = begin + size
	if t.Write != nil {
		if err := t.Write(out); err != nil {
			return fmt.Errorf("gguf: tensor %q: %w", t.Name, err)
		}
	}
	out.limit = 0
	if out.n-begin != size {
		return fmt.Errorf("gguf: tensor %q: %d bytes were written, it takes %d", t.Name, out.n-begin, size)
	}
	return out.pad(w.align)
}

var errTooMuch = errors.New("more bytes were written than the tensor takes")

// counter counts what goes through it and, if limit is not 0, refuses to go beyond it.
type counter struct {
	w        io.Writer
	n, limit int64
}

func (c *counter) Write(b []byte) (int, error) {
	if c.limit > 0 && c.n+int64(len(b)) > c.limit {
		return 0, errTooMuch
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

func (c *counter) pad(align int64) error {
	_, err := c.Write(make([]byte, (align-c.n%align)%align))
	return err
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
