//go:build !unix

package filemap

import (
	"io"
	"os"
)

func mapFile(f *os.File, size int) (*Map, error) {
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return &Map{bytes: b}, nil
}

func unmap([]byte) error { return nil }

func advise([]byte, Advice) error { return nil }
