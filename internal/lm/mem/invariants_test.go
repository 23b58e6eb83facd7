//go:build invariants

package mem

import (
	"runtime/debug"
	"testing"
)

// TestUseAfterFree reads a freed block, while its addresses would long have been given to others.
func TestUseAfterFree(t *testing.T) {
	a, err := Alloc(1<<20, "gone", nil)
	if err != nil {
		t.Fatal(err)
	}
	stale := a.Bytes()
	stale[5] = 1
	a.Free()
	for range 4 {
		b, err := Alloc(1<<20, "next", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Free()
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("memory can be read after it was freed")
		}
	}()
	if stale[5] == 1 {
		t.Error("memory keeps its content after it was freed")
	}
}
