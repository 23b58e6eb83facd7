package mem

import "golang.org/x/sys/unix"

func reserve(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	// A wish: without huge pages everything works, up to 15 % slower (measured on a model of 1.3 GB).
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	return b, nil
}
