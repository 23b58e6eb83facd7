//go:build unix

package filemap

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) (*Map, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Map{bytes: b, mapped: true}, nil
}

func unmap(b []byte) error { return unix.Munmap(b) }

func advise(b []byte, a Advice) error {
	switch a {
	case Normal:
		return unix.Madvise(b, unix.MADV_NORMAL)
	case Sequential:
		return unix.Madvise(b, unix.MADV_SEQUENTIAL)
	case WillNeed:
		return unix.Madvise(b, unix.MADV_WILLNEED)
	case DontNeed:
		return unix.Madvise(b, unix.MADV_DONTNEED)
	}
	return fmt.Errorf("advice %d is not known", a)
}
