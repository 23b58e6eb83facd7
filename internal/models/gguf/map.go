package gguf

import (
	"errors"
	"fmt"
	"os"

	"github.com/stoker-llm/stoker/internal/models/filemap"
)

// Map maps the file into memory, read-only, so that Bytes needs no copy. Only a file that Open opened can be mapped. If somebody
// cuts the file off later, reading what is gone kills the process (see [filemap]): nobody writes over a model in use. Mapping twice
// does nothing. Map and Close must not run concurrently with other methods.
func (f *File) Map() error {
	if f.mapped != nil {
		return nil
	}
	r, ok := f.closer.(*os.File)
	if !ok {
		return errors.New("gguf: only a file on disk can be mapped")
	}
	m, err := filemap.Of(r, f.size)
	if e, ok := errors.AsType[*filemap.SizeError](err); ok {
		return &Error{Offset: min(e.Have, e.Want), Where: "end of file", Message: e.Error(), Kind: ErrTruncated}
	}
	if err != nil {
		return fmt.Errorf("gguf: map %s: %w", r.Name(), err)
	}
	f.mapped = m
	return nil
}

// Bytes returns t's bytes as they are stored, valid until Close. t is one of Tensors, and Map was called. They begin at a multiple of
// Alignment in memory too, as far as that is no larger than a page. Writing to them kills the process.
func (f *File) Bytes(t Tensor) ([]byte, error) {
	at, err := f.span(t)
	if err != nil {
		return nil, err
	}
	return f.mapped.Bytes()[at : at+t.Size : at+t.Size], nil
}

// Advise tells the system what is about to happen to t's bytes: [filemap.WillNeed] before they are read, [filemap.DontNeed] once they
// were copied into a layout of one's own.
func (f *File) Advise(t Tensor, a filemap.Advice) error {
	at, err := f.span(t)
	if err != nil {
		return err
	}
	return f.advise(at, t.Size, a)
}

// AdviseAll tells the system what is about to happen to the bytes of all tensors, such as [filemap.Sequential].
func (f *File) AdviseAll(a filemap.Advice) error {
	if f.mapped == nil {
		return errNotMapped
	}
	return f.advise(min(f.data, f.size), max(f.size-f.data, 0), a)
}

func (f *File) advise(off, n int64, a filemap.Advice) error {
	if err := f.mapped.Advise(off, n, a); err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	return nil
}

var errNotMapped = errors.New("gguf: the file is not mapped")

// span returns where t begins in the mapped file, and that it lies in it.
func (f *File) span(t Tensor) (int64, error) {
	if f.mapped == nil {
		return 0, errNotMapped
	}
	at := f.data + t.Offset
	if at < 0 || t.Size < 0 || at > f.size-t.Size {
		return 0, &Error{Offset: at, Where: quoted("tensor", t.Name), Message: "lies outside the file", Kind: ErrTruncated}
	}
	return at, nil
}

// unmap undoes Map.
func (f *File) unmap() error {
	if f.mapped == nil {
		return nil
	}
	m := f.mapped
	f.mapped = nil
	return m.Close()
}
