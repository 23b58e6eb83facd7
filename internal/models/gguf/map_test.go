package gguf

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoker-llm/stoker/internal/models/filemap"
)

// mappable writes a file with two tensors and opens it.
func mappable(t *testing.T) (*File, string) {
	t.Helper()
	w := NewWriter()
	for i, name := range []string{"a", "b"} {
		err := w.Add(TensorSpec{Name: name, Type: F32, Dims: []int64{8}, Write: func(w io.Writer) error {
			_, err := w.Write(bytes.Repeat([]byte{byte(i + 1)}, 32))
			return err
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f, path
}

func TestMap(t *testing.T) {
	f, _ := mappable(t)
	tensor, _ := f.Tensor("b")
	if _, err := f.Bytes(tensor); err == nil {
		t.Error("bytes of a file that is not mapped")
	}
	for range 2 {
		if err := f.Map(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.Bytes(tensor)
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{2}, 32)) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := f.Bytes(Tensor{Name: "x", Offset: f.Size(), Size: 1}); !errors.Is(err, ErrTruncated) {
		t.Errorf("a tensor outside the file: %v", err)
	}
	for _, a := range []filemap.Advice{filemap.Sequential, filemap.WillNeed, filemap.DontNeed, filemap.Normal} {
		if err := errors.Join(f.Advise(tensor, a), f.AdviseAll(a)); err != nil {
			t.Errorf("advice %d: %v", a, err)
		}
	}
	if !bytes.Equal(got, bytes.Repeat([]byte{2}, 32)) {
		t.Errorf("%v after advice", got)
	}
	if err := f.Advise(Tensor{Name: "x", Offset: f.Size(), Size: 1}, filemap.WillNeed); !errors.Is(err, ErrTruncated) {
		t.Errorf("advice for a tensor outside the file: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Bytes(tensor); err == nil {
		t.Error("bytes of a closed file")
	}
	if err := f.AdviseAll(filemap.WillNeed); err == nil {
		t.Error("advice for a closed file")
	}
}

func TestMapOfACutFileIsRefused(t *testing.T) {
	f, path := mappable(t)
	defer f.Close()
	if err := os.Truncate(path, f.Size()-1); err != nil {
		t.Fatal(err)
	}
	if err := f.Map(); !errors.Is(err, ErrTruncated) {
		t.Errorf("got %v, want %v", err, ErrTruncated)
	}
}
