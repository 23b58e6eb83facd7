package gguf

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

const magic = "GGUF"

// readCounts reads the fixed part of the header.
func (f *File) readCounts(c *cursor) (tensors, keys int64, err error) {
	if c.size < int64(len(magic)) {
		return 0, 0, c.fail(0, ErrNotGGUF, "%d bytes are too few for a GGUF file", c.size)
	}
	b, err := c.bytes(4)
	if err != nil {
		return 0, 0, err
	}
	if string(b) != magic {
		return 0, 0, c.fail(0, ErrNotGGUF, "the file begins with %q, not with %q", b, magic)
	}
	if err := f.readVersion(c); err != nil {
		return 0, 0, err
	}
	at := c.off
	if tensors, err = c.count("tensors", minTensorBytes); err != nil {
		return 0, 0, err
	}
	if tensors > maxTensors {
		return 0, 0, c.fail(at, ErrUnsupported, "%d tensors; %d is the most we read", tensors, maxTensors)
	}
	at = c.off
	if keys, err = c.count("metadata keys", minKeyBytes); err != nil {
		return 0, 0, err
	}
	if keys > maxKeys {
		return 0, 0, c.fail(at, ErrUnsupported, "%d metadata keys; %d is the most we read", keys, maxKeys)
	}
	return tensors, keys, nil
}

func (f *File) readVersion(c *cursor) error {
	at := c.off
	v, err := c.u32()
	if err != nil {
		return err
	}
	f.version = v
	switch {
	case v == 2 || v == 3:
		return nil
	case v == 1:
		return c.fail(at, ErrUnsupported, "GGUF version 1 (before October 2023) is not supported: convert the model anew")
	case v != 0 && v&0xffff == 0:
		return c.fail(at, ErrUnsupported, "a big-endian GGUF file: convert the model for a little-endian machine")
	default:
		return c.fail(at, ErrUnsupported, "GGUF version %d is not supported: 2 and 3 are", v)
	}
}

// readEntry reads metadata entry number i and moves over its value.
func (f *File) readEntry(c *cursor, i int64) error {
	c.where = ordinal("metadata key", i)
	at := c.off
	key, err := c.str(maxKey)
	if err != nil {
		return err
	}
	if key == "" {
		return c.fail(at, ErrInvalid, "the key is empty")
	}
	c.where = quoted("key", key)
	if _, dup := f.byKey[key]; dup {
		return c.fail(at, ErrInvalid, "the key appears twice")
	}
	kindAt := c.off
	kind, err := c.u32()
	if err != nil {
		return err
	}
	e := entry{key: key, kind: Kind(kind)}
	if e.kind == Array {
		err = f.skipArray(c, &e)
	} else {
		e.at = c.off
		err = skipValue(c, e.kind, kindAt)
	}
	if err != nil {
		return err
	}
	f.byKey[key] = len(f.keys)
	f.keys = append(f.keys, e)
	return nil
}

// skipValue moves over one value that is not an array. kindAt is where its kind stands.
func skipValue(c *cursor, k Kind, kindAt int64) error {
	if k == String {
		return c.skipStr()
	}
	n := k.size()
	if n == 0 {
		return c.fail(kindAt, ErrInvalid, "unknown value %s", k)
	}
	return c.skip(n)
}

// skipArray reads an array's description into e and moves over its elements.
func (f *File) skipArray(c *cursor, e *entry) error {
	kindAt := c.off
	kind, err := c.u32()
	if err != nil {
		return err
	}
	e.elem = Kind(kind)
	each := e.elem.size()
	if e.elem == String {
		each = 8 // the length before the text
	}
	if each == 0 {
		return c.fail(kindAt, ErrInvalid, "an array of %s is not allowed", e.elem)
	}
	if e.count, err = c.count("elements", each); err != nil {
		return err
	}
	e.at = c.off
	if e.elem != String {
		return c.skip(e.count * each) // cannot overflow: count was bounded by the bytes left
	}
	for range e.count {
		if err := c.skipStr(); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) readAlignment(c *cursor) error {
	const key = "general.alignment"
	i, ok := f.byKey[key]
	if !ok {
		return nil
	}
	e := f.keys[i]
	c.where = quoted("key", key)
	if e.kind != Uint32 {
		return c.fail(e.at, ErrInvalid, "must be a uint32, is %s", e.kind)
	}
	var b [4]byte
	if err := f.readAt(e, b[:]); err != nil {
		return err
	}
	a := int64(binary.LittleEndian.Uint32(b[:]))
	if a == 0 || a&(a-1) != 0 {
		return c.fail(e.at, ErrInvalid, "an alignment of %d is not a power of two", a)
	}
	f.align = a
	return nil
}

// readTensor reads row i of the tensor table.
func (f *File) readTensor(c *cursor, i int64) error {
	c.where = ordinal("tensor", i)
	at := c.off
	name, err := c.str(maxTensorName)
	if err != nil {
		return err
	}
	if name == "" {
		return c.fail(at, ErrInvalid, "the tensor has no name")
	}
	c.where = quoted("tensor", name)
	if _, dup := f.byName[name]; dup {
		return c.fail(at, ErrInvalid, "the tensor appears twice")
	}
	t := Tensor{Name: name}
	if t.Dims, err = readDims(c); err != nil {
		return err
	}
	if err := readLayout(c, &t); err != nil {
		return err
	}
	if t.Offset, err = f.readOffset(c); err != nil {
		return err
	}
	f.byName[name] = len(f.tensors)
	f.tensors = append(f.tensors, t)
	return nil
}

func readDims(c *cursor) ([]int64, error) {
	at := c.off
	n, err := c.u32()
	if err != nil {
		return nil, err
	}
	if n > maxDims {
		return nil, c.fail(at, ErrInvalid, "%d dimensions; the format allows %d", n, maxDims)
	}
	dims := make([]int64, n)
	for i := range dims {
		at := c.off
		d, err := c.u64()
		if err != nil {
			return nil, err
		}
		if d > 1<<62 {
			return nil, c.fail(at, ErrInvalid, "dimension %d has %d elements", i, d)
		}
		dims[i] = int64(d)
	}
	return dims, nil
}

// readLayout reads t's type and computes its size from its dimensions.
func readLayout(c *cursor, t *Tensor) error {
	at := c.off
	id, err := c.u32()
	if err != nil {
		return err
	}
	t.Type = Type(id)
	if name, removed := removedType(t.Type); removed {
		return c.fail(at, ErrUnsupported, "tensor type %s (%d) was removed from the format: convert the model anew", name, id)
	}
	if !t.Type.Known() {
		return c.fail(at, ErrUnsupported, "unknown tensor type %d: the file is newer than this reader", id)
	}
	size, ok := tensorBytes(t.Type, t.Dims)
	if !ok {
		return c.fail(at, ErrInvalid, "a shape of %v does not suit %s, which stores %d elements of a row together",
			t.Dims, t.Type, t.Type.BlockSize())
	}
	t.Size = size
	return nil
}

// tensorBytes is the size of a tensor. ok is false if a row is not whole blocks or the size (or the number of elements,
// even behind a dimension of zero) does not fit an int64.
func tensorBytes(t Type, dims []int64) (size int64, ok bool) {
	row, elements := int64(1), int64(1)
	if len(dims) > 0 {
		row = dims[0]
	}
	if size, ok = t.RowBytes(row); !ok {
		return 0, false
	}
	for i, d := range dims {
		if elements, ok = mul(elements, max(d, 1)); !ok {
			return 0, false
		}
		if i == 0 {
			continue
		}
		if size, ok = mul(size, d); !ok {
			return 0, false
		}
	}
	return size, true
}

func (f *File) readOffset(c *cursor) (int64, error) {
	at := c.off
	off, err := c.u64()
	if err != nil {
		return 0, err
	}
	if off > uint64(f.size) {
		return 0, c.fail(at, ErrTruncated, "its data is to begin %d bytes into the data section, behind the end of the file at byte %d",
			off, f.size)
	}
	if off%uint64(f.align) != 0 {
		return 0, c.fail(at, ErrInvalid, "data offset %d is not a multiple of the alignment %d", off, f.align)
	}
	return int64(off), nil
}

// place finds the data section and checks that the tensors lie in it, apart from each other.
func (f *File) place(c *cursor) error {
	f.data = c.off
	if len(f.tensors) == 0 {
		return nil
	}
	f.data = (c.off + f.align - 1) / f.align * f.align
	order := slices.Clone(f.tensors)
	slices.SortStableFunc(order, func(a, b Tensor) int {
		if a.Offset != b.Offset {
			return int(min(max(a.Offset-b.Offset, -1), 1))
		}
		return int(min(max(a.Size-b.Size, -1), 1)) // an empty tensor may share the place of the next one
	})
	var before Tensor
	for _, t := range order {
		c.where = quoted("tensor", t.Name)
		begin := f.data + t.Offset
		if t.Size > f.size-begin {
			return c.fail(begin, ErrTruncated, "its %d bytes end at byte %d, but the file has only %d: it is cut off, get it again",
				t.Size, uint64(begin)+uint64(t.Size), f.size)
		}
		if t.Offset < before.Offset+before.Size {
			return c.fail(begin, ErrInvalid, "its data overlaps that of tensor %q", before.Name)
		}
		before = t
	}
	return nil
}

// quoted names a key or tensor for an error, without letting a hostile name fill the terminal.
func quoted(what, name string) string {
	if len(name) > 100 {
		name = name[:100] + "..."
	}
	return what + " " + strconv.Quote(name)
}

func ordinal(what string, i int64) string { return fmt.Sprintf("%s number %d", what, i+1) }
