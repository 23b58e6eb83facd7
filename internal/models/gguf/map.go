package gguf

import (
	"errors"
	"fmt"
	"os"
)

// Map maps the file into memory, read-only, so that Bytes needs no copy. Only a file that Open opened can be mapped. If somebody
// cuts the file off later, reading what is gone kills the process: nobody writes over a model in use. Mapping twice does nothing.
func (f *File) Map() error {
	if f.mapped != nil {
		return nil
	}
	r, ok := f.closer.(*os.File)
	if !ok {
		return errors.New("gguf: only a file on disk can be mapped")
	}
	st, err := r.Stat()
	if err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	if st.Size() != f.size {
		return &Error{Offset: min(st.Size(), f.size), Where: "end of file", Message: fmt.Sprintf("the file has %d bytes now, %d when it was opened", st.Size(), f.size), Kind: ErrTruncated}
	}
	b, err := mapFile(r, f.size)
	if err != nil {
		return fmt.Errorf("gguf: map %s: %w", r.Name(), err)
	}
	f.mapped = b
	return nil
}

// Bytes returns t's bytes as they are stored, valid until Close. t is one of Tensors, and Map was called. Writing to them kills the
// process.
func (f *File) Bytes(t Tensor) ([]byte, error) {
	if f.mapped == nil {
		return nil, errors.New("gguf: the file is not mapped")
	}
	at := f.data + t.Offset
	if at < 0 || t.Size < 0 || at > f.size-t.Size {
		return nil, &Error{Offset: at, Where: "tensor " + t.Name, Message: "lies outside the file", Kind: ErrTruncated}
	}
	return f.mapped[at : at+t.Size : at+t.Size], nil
}

// unmap undoes Map.
func (f *File) unmap() error {
	if f.mapped == nil {
		return nil
	}
	b := f.mapped
	f.mapped = nil
	return unmapFile(b)
}
