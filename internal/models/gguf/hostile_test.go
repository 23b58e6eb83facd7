package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// raw assembles a file by hand.
type raw struct{ b []byte }

func header(version uint32, tensors, keys uint64) *raw {
	r := &raw{[]byte(magic)}
	return r.u32(version).u64(tensors).u64(keys)
}

func (r *raw) u32(v uint32) *raw { r.b = binary.LittleEndian.AppendUint32(r.b, v); return r }
func (r *raw) u64(v uint64) *raw { r.b = binary.LittleEndian.AppendUint64(r.b, v); return r }
func (r *raw) str(s string) *raw { r.b = appendString(r.b, s); return r }
func (r *raw) zeros(n int) *raw  { r.b = append(r.b, make([]byte, n)...); return r }

// tensor appends a row of the tensor table.
func (r *raw) tensor(name string, typ Type, offset uint64, dims ...uint64) *raw {
	r.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		r.u64(d)
	}
	return r.u32(uint32(typ)).u64(offset)
}

const huge = 1 << 60

// hostile are files that must be refused, with the kind of the refusal and words that its text must hold.
func hostile() []struct {
	name string
	file []byte
	kind error
	text []string
} {
	type row = struct {
		name string
		file []byte
		kind error
		text []string
	}
	text := func(w ...string) []string { return w }
	return []row{
		{"empty", nil, ErrNotGGUF, text("0 bytes")},
		{"another format", []byte("PK\x03\x04 a zip file of some length"), ErrNotGGUF, text("PK", "byte 0")},
		{"cut in the counts", header(3, 0, 0).b[:20], ErrTruncated, text("byte 16")},
		{"version 1", header(1, 0, 0).b, ErrUnsupported, text("version 1", "byte 4")},
		{"version 4", header(4, 0, 0).b, ErrUnsupported, text("version 4")},
		{"version 0", header(0, 0, 0).b, ErrUnsupported, text("version 0")},
		{"big-endian", header(3<<24, 0, 0).b, ErrUnsupported, text("big-endian")},
		{"2^60 tensors", header(3, huge, 0).zeros(1000).b, ErrTruncated, text("1152921504606846976 tensors", "byte 8")},
		{"2^60 keys", header(3, 0, huge).zeros(1000).b, ErrTruncated, text("metadata keys", "byte 16")},
		{"2^64-1 tensors", header(3, 1<<64-1, 0).zeros(1000).b, ErrTruncated, text("tensors")},
		{"key of 2^60 bytes", header(3, 0, 1).u64(huge).zeros(100).b, ErrTruncated, text("key number 1", "byte 24")},
		{"key of 64 KiB", header(3, 0, 1).str(strings.Repeat("k", 1<<16)).u32(4).u32(0).b, ErrInvalid, text("key number 1")},
		{"empty key", header(3, 0, 1).str("").u32(4).u32(0).zeros(9).b, ErrInvalid, text("empty")},
		{"key twice", header(3, 0, 2).str("k").u32(4).u32(0).str("k").u32(4).u32(0).zeros(9).b, ErrInvalid, text(`key "k"`, "twice")},
		{"unknown kind", header(3, 0, 1).str("k").u32(13).zeros(9).b, ErrInvalid, text(`key "k"`, "kind 13")},
		{"value cut off", header(3, 0, 1).str("key").u32(uint32(Uint64)).zeros(7).b, ErrTruncated, text(`key "key"`, "7 are left")},
		{"text of 2^60 bytes", header(3, 0, 1).str("k").u32(8).u64(huge).zeros(100).b, ErrTruncated, text(`key "k"`)},
		{"array of 2^60 integers", header(3, 0, 1).str("k").u32(9).u32(4).u64(huge).zeros(100).b, ErrTruncated, text(`key "k"`, "elements")},
		{"array of a few too many", header(3, 0, 1).str("k").u32(9).u32(4).u64(26).zeros(100).b, ErrTruncated, text("claims 26 elements", "100 bytes left")},
		{"array of 2^60 strings", header(3, 0, 1).str("k").u32(9).u32(8).u64(huge).zeros(100).b, ErrTruncated, text(`key "k"`)},
		{"string in an array cut off", header(3, 0, 1).str("k").u32(9).u32(8).u64(2).str("a").u64(90).zeros(20).b, ErrTruncated, text(`key "k"`)},
		{"array of arrays", header(3, 0, 1).str("k").u32(9).u32(9).u64(1).zeros(100).b, ErrInvalid, text("array of array")},
		{"array of unknown kind", header(3, 0, 1).str("k").u32(9).u32(77).u64(1).zeros(100).b, ErrInvalid, text("kind 77")},
		{"alignment 0", header(3, 0, 1).str("general.alignment").u32(4).u32(0).b, ErrInvalid, text("alignment", "power of two")},
		{"alignment 48", header(3, 0, 1).str("general.alignment").u32(4).u32(48).b, ErrInvalid, text("48")},
		{"alignment of another kind", header(3, 0, 1).str("general.alignment").u32(10).u64(32).b, ErrInvalid, text("uint64")},
		{"tensor without a name", header(3, 1, 0).tensor("", F32, 0, 1).zeros(99).b, ErrInvalid, text("no name")},
		{"tensor with a long name", header(3, 1, 0).tensor(strings.Repeat("n", 65), F32, 0, 1).zeros(99).b, ErrInvalid, text("tensor number 1")},
		{"tensor twice", header(3, 2, 0).tensor("t", F32, 0, 1).tensor("t", F32, 32, 1).zeros(99).b, ErrInvalid, text(`tensor "t"`, "twice")},
		{"five dimensions", header(3, 1, 0).tensor("t", F32, 0, 1, 1, 1, 1, 1).zeros(99).b, ErrInvalid, text("5 dimensions")},
		{"negative dimension", header(3, 1, 0).tensor("t", F32, 0, 1<<63).zeros(99).b, ErrInvalid, text("dimension 0")},
		{"size that overflows", header(3, 1, 0).tensor("t", F32, 0, 1<<31, 1<<31, 1<<31).zeros(99).b, ErrInvalid, text(`tensor "t"`)},
		{"overflow behind a zero", header(3, 1, 0).tensor("t", F32, 0, 0, 1<<40, 1<<40).zeros(99).b, ErrInvalid, text(`tensor "t"`)},
		{"half a block", header(3, 1, 0).tensor("t", Q4_K, 0, 128).zeros(999).b, ErrInvalid, text("Q4_K", "256")},
		{"unknown type", header(3, 1, 0).tensor("t", 1234, 0, 32).zeros(99).b, ErrUnsupported, text("type 1234")},
		{"removed type", header(3, 1, 0).tensor("t", 31, 0, 32).zeros(99).b, ErrUnsupported, text("Q4_0_4_4")},
		{"offset off the alignment", header(3, 1, 0).tensor("t", F32, 8, 1).zeros(99).b, ErrInvalid, text("offset 8", "32")},
		{"offset of 2^63", header(3, 1, 0).tensor("t", F32, 1<<63, 1).zeros(99).b, ErrTruncated, text(`tensor "t"`)},
		{"overlap", header(3, 2, 0).tensor("a", F32, 0, 9).tensor("b", F32, 32, 1).zeros(199).b, ErrInvalid, text(`tensor "b"`, `"a"`)},
		{"the same place", header(3, 2, 0).tensor("a", F32, 0, 1).tensor("b", F32, 0, 1).zeros(199).b, ErrInvalid, text("overlaps")},
		{"tensor of 2^60 bytes", header(3, 1, 0).tensor("t", F32, 0, 1<<58).zeros(99).b, ErrTruncated, text(`tensor "t"`, "cut off")},
	}
}

func TestHostile(t *testing.T) {
	for _, tt := range hostile() {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, err := read(tt.file)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatalf("accepted: keys %v, tensors %v", f.Keys(), f.Tensors())
			}
			if !errors.Is(err, tt.kind) {
				t.Errorf("error %v is not %v", err, tt.kind)
			}
			for _, w := range tt.text {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
				t.Errorf("refusing a file of %d bytes took %d bytes of memory", len(tt.file), used)
			}
		})
	}
}

// A download that stopped anywhere is never taken for a whole model, except within the padding at the very end.
func TestTruncatedAnywhere(t *testing.T) {
	whole := small(t)
	f := mustRead(t, whole)
	last := f.Tensors()[len(f.Tensors())-1]
	end := f.DataOffset() + last.Offset + last.Size
	for n := range int64(len(whole)) {
		_, err := Read(bytes.NewReader(whole[:n]), n)
		if n < end && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrNotGGUF) {
			t.Errorf("cut to %d of %d bytes: %v, want ErrTruncated", n, len(whole), err)
		}
		if n >= end && err != nil {
			t.Errorf("cut to %d bytes, in the padding: %v", n, err)
		}
	}
}

// lying is a reader that has less than it says, as a file that shrinks while it is read.
type lying struct{ have []byte }

func (l lying) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(l.have).ReadAt(b, off)
}

// broken fails in the middle.
type broken struct{ have []byte }

var errDisk = errors.New("disk on fire")

func (r broken) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > int64(len(r.have)) {
		return 0, errDisk
	}
	return copy(b, r.have[off:]), nil
}

func TestReaderFails(t *testing.T) {
	whole := small(t)
	for _, n := range []int{2, 30, 90} {
		if _, err := Read(lying{whole[:n]}, int64(len(whole))); !errors.Is(err, ErrTruncated) {
			t.Errorf("file shrunk to %d bytes: %v, want ErrTruncated", n, err)
		}
		if _, err := Read(broken{whole[:n]}, int64(len(whole))); !errors.Is(err, errDisk) {
			t.Errorf("disk fails after %d bytes: %v, want its error", n, err)
		}
	}
}

// counting counts the bytes that were asked for.
type counting struct {
	r io.ReaderAt
	n int64
}

func (c *counting) ReadAt(b []byte, off int64) (int, error) {
	c.n += int64(len(b))
	return c.r.ReadAt(b, off)
}

// Weights and long arrays of numbers are passed over without being read.
func TestReadsNoWeights(t *testing.T) {
	file := build(t, []setting{{"scores", make([]float32, 1<<20)}, {"after", "x"}}, TensorSpec{"w", F32, []int64{1 << 20}, fill(0, 4<<20)})
	c := &counting{r: bytes.NewReader(file)}
	f, err := Read(c, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if c.n > 4*windowBytes {
		t.Errorf("read %d of %d bytes for a header of two keys", c.n, len(file))
	}
	if n, elem, err := f.Len("scores"); n != 1<<20 || elem != Float32 || err != nil {
		t.Errorf("scores: %d of %s, %v", n, elem, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(small(f))
	f.Add(build(f, []setting{{"general.alignment", uint32(64)}, {"a", []float32{1}}, {"b", []bool{true}}, {"c", uint64(1)}}))
	f.Add(header(2, 1, 0).tensor("t", Q6_K, 0, 256).zeros(300).b)
	for _, h := range hostile() {
		if len(h.file) < 2000 {
			f.Add(h.file)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := read(b)
		if err != nil {
			return
		}
		checkFile(t, file, int64(len(b)))
		checkMapped(t, b)
	})
}

// checkMapped checks that a file which was accepted can be mapped, and that the mapped bytes are the file's: each one is touched.
func checkMapped(t *testing.T, b []byte) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatalf("accepted from memory, but not from disk: %v", err)
	}
	defer f.Close()
	if err := f.Map(); err != nil {
		t.Fatal(err)
	}
	for _, tensor := range f.Tensors() {
		got, err := f.Bytes(tensor)
		if at := f.DataOffset() + tensor.Offset; err != nil || !bytes.Equal(got, b[at:at+tensor.Size]) {
			t.Errorf("tensor %+v: %d mapped bytes, %v", tensor, len(got), err)
		}
	}
}

// checkFile checks what holds for every file that was accepted.
func checkFile(t *testing.T, f *File, size int64) {
	for _, tensor := range f.Tensors() {
		end := f.DataOffset() + tensor.Offset + tensor.Size
		if tensor.Offset < 0 || tensor.Size < 0 || end > size || tensor.Elements() < 0 {
			t.Errorf("tensor %+v does not lie in a file of %d bytes", tensor, size)
		}
		if n, err := io.Copy(io.Discard, f.Data(tensor)); n != tensor.Size || err != nil {
			t.Errorf("tensor %+v: read %d bytes, %v", tensor, n, err)
		}
	}
	for _, key := range f.Keys() {
		kind, _ := f.Kind(key)
		if kind != Array {
			continue
		}
		n, elem, err := f.Len(key)
		if err != nil {
			t.Errorf("array %q: %v", key, err)
		}
		if elem != String {
			continue
		}
		if s, err := f.Strings(key); err != nil || int64(len(s)) != n {
			t.Errorf("array %q: %d of %d strings, %v", key, len(s), n, err)
		}
	}
}
