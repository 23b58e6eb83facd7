package filemap

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// contents is some pages and a bit.
func contents() []byte {
	b := make([]byte, 3*os.Getpagesize()+123)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func mapped(t *testing.T, b []byte) *Map {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{int64(len(b)) + 1, int64(len(b)) - 1} {
		if _, err := Of(f, size); err == nil {
			t.Fatalf("a file of %d bytes was mapped as %d", len(b), size)
		} else if e, ok := errors.AsType[*SizeError](err); !ok || e.Have != int64(len(b)) || e.Want != size {
			t.Errorf("%d bytes instead of %d: %v, want a SizeError", size, len(b), err)
		}
	}
	m, err := Of(f, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestMapIsTheFile(t *testing.T) {
	for name, b := range map[string][]byte{"pages": contents(), "a byte": {7}, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			m := mapped(t, b)
			if !bytes.Equal(m.Bytes(), b) {
				t.Errorf("%d mapped bytes are not the %d of the file", len(m.Bytes()), len(b))
			}
			for range 2 {
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if len(m.Bytes()) != 0 {
				t.Error("bytes after Close")
			}
		})
	}
}

// TestAdviceChangesNothing gives each advice for parts that begin and end anywhere.
func TestAdviceChangesNothing(t *testing.T) {
	want := contents()
	m, page, size := mapped(t, want), int64(os.Getpagesize()), int64(len(want))
	parts := [][2]int64{{0, size}, {0, 0}, {size, 0}, {1, 1}, {page - 1, 2}, {page, page}, {1, size - 1}, {size - 1, 1}}
	for _, a := range []Advice{Sequential, WillNeed, DontNeed, Normal} {
		for _, p := range parts {
			if err := m.Advise(p[0], p[1], a); err != nil {
				t.Errorf("advice %d for %v: %v", a, p, err)
			}
			if !bytes.Equal(m.Bytes(), want) {
				t.Fatalf("advice %d for %v changed the bytes", a, p)
			}
		}
	}
}

func TestAdviseRefuses(t *testing.T) {
	m := mapped(t, contents())
	size := int64(len(m.Bytes()))
	for _, p := range [][2]int64{{-1, 1}, {0, -1}, {0, size + 1}, {size + 1, 0}, {1 << 62, 1 << 62}} {
		if err := m.Advise(p[0], p[1], WillNeed); err == nil {
			t.Errorf("advice for %v of a file of %d bytes", p, size)
		}
	}
	if err := m.Advise(0, size, 99); err == nil {
		t.Error("advice that does not exist")
	}
}
