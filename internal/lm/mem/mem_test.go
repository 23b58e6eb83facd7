package mem

import (
	"testing"
	"unsafe"
)

func TestAlloc(t *testing.T) {
	c := NewCounter()
	a, err := Alloc(1000, "weights", c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Alloc(24, "kv", c)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Bytes()) != 1000 || len(b.Floats()) != 6 {
		t.Errorf("%d bytes and %d floats, want 1000 and 6", len(a.Bytes()), len(b.Floats()))
	}
	if p := uintptr(unsafe.Pointer(&a.Bytes()[0])); p%hugePage != 0 {
		t.Errorf("the memory at %#x is not aligned", p)
	}
	for i, x := range a.Bytes() {
		if x != 0 {
			t.Fatalf("byte %d is %d", i, x)
		}
		a.Bytes()[i] = 1
	}
	if got := c.Bytes(); got["weights"] != 1000 || got["kv"] != 24 {
		t.Errorf("counted %v", got)
	}
	a.Free()
	a.Free()
	if got := c.Bytes(); len(got) != 1 || got["kv"] != 24 {
		t.Errorf("after a free: %v", got)
	}
	b.Free()
	if _, err := Alloc(-1, "x", c); err == nil {
		t.Error("less than nothing was given")
	}
	if _, err := Alloc(1<<50, "x", c); err == nil {
		t.Error("a petabyte was given")
	}
}
