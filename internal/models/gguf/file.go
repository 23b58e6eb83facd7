package gguf

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stoker-llm/stoker/internal/models/filemap"
)

// The bounds that the format sets, and two that we set: no real file comes near the last two, and they keep what an
// absurd file can make us remember to a few hundred megabytes.
const (
	maxKey        = 1<<16 - 1
	maxTensorName = 64
	maxDims       = 4
	maxKeys       = 1 << 16
	maxTensors    = 1 << 20
)

// The least bytes that a key with its value, and a tensor's row of the table, take in the file.
const (
	minKeyBytes    = 8 + 1 + 4 + 1
	minTensorBytes = 8 + 1 + 4 + 4 + 8
)

const defaultAlignment = 32

// File is the header, metadata and tensor table of one GGUF file.
type File struct {
	r       io.ReaderAt
	closer  io.Closer
	version uint32
	size    int64
	mapped  *filemap.Map // nil until Map
	align   int64
	data    int64

	keys    []entry
	byKey   map[string]int
	tensors []Tensor
	byName  map[string]int
}

// entry says where a metadata value lies.
type entry struct {
	key  string
	kind Kind
	// elem and count describe an array.
	elem  Kind
	count int64
	// at is the offset of the value's first byte: of a string's length, of an array's first element.
	at int64
}

// Tensor is one row of the tensor table.
type Tensor struct {
	Name string
	Type Type
	// Dims are the elements along each axis, the contiguous one first. A scalar has none.
	Dims []int64
	// Offset is the tensor's first byte, counted from [File.DataOffset], and Size its bytes.
	Offset, Size int64
}

// Elements is the number of elements of t.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Open reads the header of the file at path. The file stays open for the getters until Close.
func Open(path string) (*File, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f, err := openFile(r)
	if err != nil {
		_ = r.Close() // opened for reading: nothing can be lost
		return nil, err
	}
	return f, nil
}

func openFile(r *os.File) (*File, error) {
	st, err := r.Stat()
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("gguf: %s is not a regular file: %w", r.Name(), ErrNotGGUF)
	}
	f, err := Read(r, st.Size())
	if err != nil {
		return nil, err
	}
	f.closer = r
	return f, nil
}

// Read reads the header of a file of size bytes. The getters of the File go on using r.
func Read(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size, align: defaultAlignment, byKey: map[string]int{}, byName: map[string]int{}}
	c := &cursor{r: r, size: size, where: "header"}
	tensors, keys, err := f.readCounts(c)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		if err := f.readEntry(c, i); err != nil {
			return nil, err
		}
	}
	if err := f.readAlignment(c); err != nil {
		return nil, err
	}
	for i := range tensors {
		if err := f.readTensor(c, i); err != nil {
			return nil, err
		}
	}
	return f, f.place(c)
}

// Close closes the file that Open opened, and ends what Bytes returned. After Read it does nothing.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return errors.Join(f.unmap(), f.closer.Close())
}

// Version is the format version, 2 or 3.
func (f *File) Version() int { return int(f.version) }

// Size is the bytes of the whole file.
func (f *File) Size() int64 { return f.size }

// Alignment is the bytes of which each tensor's offset is a multiple.
func (f *File) Alignment() int64 { return f.align }

// DataOffset is the byte in the file from which tensor offsets count.
func (f *File) DataOffset() int64 { return f.data }

// Tensors is the tensor table in file order. The caller must not change it.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor returns the tensor called name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Data returns a reader of t's bytes as they are stored. t is one of Tensors.
func (f *File) Data(t Tensor) *io.SectionReader {
	return io.NewSectionReader(f.r, f.data+t.Offset, t.Size)
}
