// Package filemap maps weight files into memory, read-only, so that weights are read from disk when they are first touched and are
// shared with every other process that maps the same file.
//
//	m, err := filemap.Of(f, size)
//	defer m.Close()
//	use(m.Bytes())
//
// Where the system maps no files, the file is read into memory instead; everything else is the same.
//
// The hazard of every mapping: if somebody cuts the file off while it is mapped, touching a page that is gone kills the process
// (SIGBUS), and if somebody writes into it, the bytes change under the reader. [Of] therefore refuses a file whose size is not the
// expected one at that moment; after it, nobody writes over a model that is in use (replace it by a rename instead).
//
// A [Map] is immutable and may be used concurrently until Close. Writing to its bytes kills the process.
package filemap

import (
	"fmt"
	"os"
)

// Advice is what is about to happen to a part of a file.
type Advice int

// What can be said about a part. They are hints: the bytes stay the same whatever is said.
const (
	// Normal takes back Sequential.
	Normal Advice = iota
	// Sequential: it is read once from front to back, so read ahead far, and let go of what was read.
	Sequential
	// WillNeed: it is needed soon, so begin to read it from disk.
	WillNeed
	// DontNeed: it is not needed for now, so take it out of this process's resident memory. It is read again when it is touched.
	DontNeed
)

// Map is a file in memory.
type Map struct {
	bytes  []byte
	mapped bool
}

// SizeError is a file that no longer has the size it had when its header was read.
type SizeError struct{ Want, Have int64 }

// Error says both sizes.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the file has %d bytes now, %d when it was opened", e.Have, e.Want)
}

// Of maps a regular file of size bytes, which the caller may close afterwards. It returns a *SizeError for a file of another size.
func Of(f *os.File, size int64) (*Map, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() != size {
		return nil, &SizeError{Want: size, Have: st.Size()}
	}
	if int64(int(size)) != size {
		return nil, fmt.Errorf("%d bytes do not fit the address space", size)
	}
	if size == 0 {
		return &Map{}, nil // systems refuse to map nothing
	}
	m, err := mapFile(f, int(size))
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return m, nil
}

// Bytes is the whole file, valid until Close.
func (m *Map) Bytes() []byte { return m.bytes }

// Advise tells the system what is about to happen to n bytes from byte off on. A part outside the file is an error. DontNeed covers the
// whole pages of the part, the others also those that it shares with its neighbours.
func (m *Map) Advise(off, n int64, a Advice) error {
	size := int64(len(m.bytes))
	if off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("advice for %d bytes from byte %d on, in a file of %d", n, off, size)
	}
	page := int64(os.Getpagesize())
	begin, end := off/page*page, off+n
	if a == DontNeed {
		begin = (off + page - 1) / page * page
		if end < size {
			end = end / page * page
		}
	}
	if !m.mapped || begin >= end {
		return nil
	}
	return advise(m.bytes[begin:end], a)
}

// Close ends the mapping. Closing twice does nothing.
func (m *Map) Close() error {
	b, mapped := m.bytes, m.mapped
	m.bytes, m.mapped = nil, false
	if !mapped {
		return nil
	}
	return unmap(b)
}
