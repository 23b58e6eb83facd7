package gguf

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fill returns a Write function that writes n bytes counting up from first.
func fill(first byte, n int) func(io.Writer) error {
	return func(w io.Writer) error {
		b := make([]byte, n)
		for i := range b {
			b[i] = first + byte(i)
		}
		_, err := w.Write(b)
		return err
	}
}

// setting is a metadata key and its value.
type setting struct {
	key   string
	value any
}

// build writes a file with the writer.
func build(tb testing.TB, settings []setting, tensors ...TensorSpec) []byte {
	tb.Helper()
	w := NewWriter()
	for _, s := range settings {
		if err := w.Set(s.key, s.value); err != nil {
			tb.Fatal(err)
		}
	}
	for _, t := range tensors {
		if err := w.Add(t); err != nil {
			tb.Fatal(err)
		}
	}
	var out bytes.Buffer
	n, err := w.WriteTo(&out)
	if err != nil {
		tb.Fatal(err)
	}
	if n != int64(out.Len()) {
		tb.Fatalf("WriteTo returned %d, wrote %d bytes", n, out.Len())
	}
	return out.Bytes()
}

func small(tb testing.TB) []byte {
	return build(tb, []setting{{"general.architecture", "llama"}, {"llama.block_count", uint32(1)}, {"names", []string{"a", "", "ccc"}}},
		TensorSpec{"one", Q4_0, []int64{64, 2}, fill(0, 72)},
		TensorSpec{"two", F32, []int64{3}, fill(100, 12)})
}

func read(b []byte) (*File, error) { return Read(bytes.NewReader(b), int64(len(b))) }

func mustRead(tb testing.TB, b []byte) *File {
	tb.Helper()
	f, err := read(b)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// The layout, written out by hand: neither the reader nor the writer is the judge of the other here.
func TestLayout(t *testing.T) {
	want := "GGUF" + "\x03\x00\x00\x00" +
		"\x01\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" + // one tensor, two keys
		"\x01\x00\x00\x00\x00\x00\x00\x00k" + "\x08\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00hi" + // k = "hi"
		"\x01\x00\x00\x00\x00\x00\x00\x00n" + "\x09\x00\x00\x00" + "\x05\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00\x00\x00\xff\xff\xff\xff" + // n = [1, -1]
		"\x01\x00\x00\x00\x00\x00\x00\x00t" + "\x02\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" // t: [2, 1] F16 at 0
	want += strings.Repeat("\x00", 128-len(want)) + "abcd" + strings.Repeat("\x00", 28)
	got := build(t, []setting{{"k", "hi"}, {"n", []int32{1, -1}}},
		TensorSpec{"t", F16, []int64{2, 1}, func(w io.Writer) error { _, err := io.WriteString(w, "abcd"); return err }})
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Fatalf("written (-want +got):\n%s", diff)
	}
	f := mustRead(t, []byte(want))
	if s, err := f.String("k"); s != "hi" || err != nil {
		t.Errorf("k = %q, %v", s, err)
	}
	if n, err := f.Ints("n"); err != nil || !cmp.Equal(n, []int64{1, -1}) {
		t.Errorf("n = %v, %v", n, err)
	}
	if d := f.DataOffset(); d != 128 {
		t.Errorf("data offset %d, want 128", d)
	}
	if diff := cmp.Diff([]Tensor{{"t", F16, []int64{2, 1}, 0, 4}}, f.Tensors()); diff != "" {
		t.Errorf("tensors (-want +got):\n%s", diff)
	}
}

func TestRoundTripValues(t *testing.T) {
	long := strings.Repeat("long ", 40_000) // beyond the window of the cursor
	settings := []setting{
		{"bool", true},
		{"no", false},
		{"text", "grüße\x00"},
		{"long", long},
		{"empty", ""},
		{"u8", uint8(255)},
		{"i8", int8(-128)},
		{"u16", uint16(65535)},
		{"i16", int16(-32768)},
		{"u32", uint32(math.MaxUint32)},
		{"i32", int32(math.MinInt32)},
		{"u64", uint64(math.MaxInt64)},
		{"i64", int64(math.MinInt64)},
		{"f32", float32(0.1)},
		{"f64", 0.1},
		{"texts", []string{"", "x", long}},
		{"bools", []bool{true, false}},
		{"floats", []float32{0, -1.5}},
		{"doubles", []float64{1e300}},
		{"u8s", []uint8{0, 255}},
		{"i8s", []int8{-1}},
		{"u16s", []uint16{65535}},
		{"i16s", []int16{-1}},
		{"u32s", []uint32{math.MaxUint32}},
		{"i32s", []int32{-1}},
		{"u64s", []uint64{1}},
		{"i64s", []int64{-1}},
		{"none", []string{}},
	}
	f := mustRead(t, build(t, settings))
	var keys []string
	got := map[string]any{}
	for _, s := range settings {
		keys = append(keys, s.key)
		got[s.key] = value(t, f, s.key)
	}
	if diff := cmp.Diff(keys, f.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"bool": true, "no": false, "text": "grüße\x00", "long": long, "empty": "",
		"u8": int64(255), "i8": int64(-128), "u16": int64(65535), "i16": int64(-32768),
		"u32": int64(math.MaxUint32), "i32": int64(math.MinInt32), "u64": int64(math.MaxInt64), "i64": int64(math.MinInt64),
		"f32": float64(float32(0.1)), "f64": 0.1,
		"texts": []string{"", "x", long}, "bools": []int64{1, 0}, "floats": []float64{0, -1.5}, "doubles": []float64{1e300},
		"u8s": []int64{0, 255}, "i8s": []int64{-1}, "u16s": []int64{65535}, "i16s": []int64{-1}, "u32s": []int64{math.MaxUint32},
		"i32s": []int64{-1}, "u64s": []int64{1}, "i64s": []int64{-1}, "none": []string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// value reads a key with the getter that suits its kind.
func value(t *testing.T, f *File, key string) any {
	t.Helper()
	kind, ok := f.Kind(key)
	if !ok {
		t.Fatalf("no key %q", key)
	}
	var v any
	var err error
	switch kind {
	case Bool:
		v, err = f.Bool(key)
	case String:
		v, err = f.String(key)
	case Float32, Float64:
		v, err = f.Float(key)
	case Array:
		v, err = elements(f, key)
	default:
		v, err = f.Int(key)
	}
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return v
}

func elements(f *File, key string) (any, error) {
	_, elem, err := f.Len(key)
	if err != nil {
		return nil, err
	}
	switch elem {
	case String:
		return f.Strings(key)
	case Float32, Float64:
		return f.Floats(key)
	default:
		return f.Ints(key)
	}
}

func TestRoundTripTensors(t *testing.T) {
	for _, align := range []uint32{8, 32, 4096} {
		f := mustRead(t, build(t, []setting{{"general.alignment", align}},
			TensorSpec{"a", Q8_0, []int64{32, 3}, fill(0, 102)},
			TensorSpec{"nothing", F32, []int64{0, 5}, nil},
			TensorSpec{"scalar", F64, nil, fill(7, 8)},
			TensorSpec{"four", I8, []int64{1, 2, 3, 4}, fill(9, 24)}))
		if f.Alignment() != int64(align) || f.DataOffset()%int64(align) != 0 || f.Version() != 3 {
			t.Errorf("alignment %d, data at %d, version %d; want alignment %d", f.Alignment(), f.DataOffset(), f.Version(), align)
		}
		for name, want := range map[string]struct {
			first byte
			size  int
		}{"a": {0, 102}, "nothing": {0, 0}, "scalar": {7, 8}, "four": {9, 24}} {
			tensor, ok := f.Tensor(name)
			if !ok {
				t.Fatalf("no tensor %q", name)
			}
			var wrote bytes.Buffer
			if err := fill(want.first, want.size)(&wrote); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f.Data(tensor))
			if err != nil || !bytes.Equal(got, wrote.Bytes()) {
				t.Errorf("alignment %d, tensor %s: read %v, %v; wrote %v", align, name, got, err, wrote.Bytes())
			}
		}
		if _, ok := f.Tensor("b"); ok {
			t.Error("a tensor that was never added is there")
		}
	}
}

func TestGettersRefuseOtherKinds(t *testing.T) {
	f := mustRead(t, build(t, []setting{
		{"text", "x"},
		{"int", int32(1)},
		{"float", float32(1)},
		{"bool", true},
		{"ints", []int32{1}},
		{"big", uint64(math.MaxUint64)},
		{"bigs", []uint64{1, math.MaxUint64}},
	}))
	getters := []struct {
		name string
		get  func(string) error
		fits []string
	}{
		{"String", func(k string) error { _, err := f.String(k); return err }, []string{"text"}},
		{"Int", func(k string) error { _, err := f.Int(k); return err }, []string{"int"}},
		{"Float", func(k string) error { _, err := f.Float(k); return err }, []string{"float"}},
		{"Bool", func(k string) error { _, err := f.Bool(k); return err }, []string{"bool"}},
		{"Strings", func(k string) error { _, err := f.Strings(k); return err }, nil},
		{"Ints", func(k string) error { _, err := f.Ints(k); return err }, []string{"ints"}},
		{"Floats", func(k string) error { _, err := f.Floats(k); return err }, nil},
		{"Len", func(k string) error { _, _, err := f.Len(k); return err }, []string{"ints", "bigs"}},
	}
	for _, g := range getters {
		if err := g.get("absent"); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), `"absent"`) {
			t.Errorf("%s(absent): %v, want ErrNoKey that names the key", g.name, err)
		}
		for _, key := range f.Keys() {
			err := g.get(key)
			if fits := cmp.Equal(g.fits, []string{key}) || g.name == "Len" && (key == "ints" || key == "bigs"); fits {
				if err != nil {
					t.Errorf("%s(%s): %v", g.name, key, err)
				}
				continue
			}
			if !errors.Is(err, ErrKind) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s(%s): %v, want ErrKind that names the key", g.name, key, err)
			}
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	set := func(key string, v any) func(*Writer) error { return func(w *Writer) error { return w.Set(key, v) } }
	add := func(s TensorSpec) func(*Writer) error { return func(w *Writer) error { return w.Add(s) } }
	twice := func(f func(*Writer) error) func(*Writer) error {
		return func(w *Writer) error { return errors.Join(f(w), f(w)) }
	}
	one := TensorSpec{"a", F32, []int64{1}, fill(0, 4)}
	tests := []struct {
		name string
		do   func(*Writer) error
		text string
	}{
		{"empty key", set("", "x"), "key of 0 bytes"},
		{"a Go int has no size", set("k", 1), "Go type int"},
		{"nil", set("k", nil), "Go type <nil>"},
		{"key twice", twice(set("k", "x")), `"k" is set twice`},
		{"alignment of another kind", set("general.alignment", int32(32)), "general.alignment"},
		{"alignment no power of two", set("general.alignment", uint32(48)), "general.alignment"},
		{"no name", add(TensorSpec{"", F32, nil, fill(0, 4)}), "name of 0 bytes"},
		{"long name", add(TensorSpec{strings.Repeat("n", 64), F32, nil, fill(0, 4)}), "name of 64 bytes"},
		{"tensor twice", twice(add(one)), `"a" is added twice`},
		{"half a block", add(TensorSpec{"a", Q4_0, []int64{33}, fill(0, 18)}), "[33] does not suit Q4_0"},
		{"unknown type", add(TensorSpec{"a", Type(99), []int64{1}, fill(0, 1)}), "does not suit type 99"},
		{"negative", add(TensorSpec{"a", F32, []int64{4, -1}, fill(0, 1)}), "does not suit F32"},
		{"too large", add(TensorSpec{"a", F32, []int64{1 << 40, 1 << 40}, fill(0, 1)}), "does not suit F32"},
		{"five dimensions", add(TensorSpec{"a", F32, []int64{1, 1, 1, 1, 1}, fill(0, 4)}), "5 dimensions"},
		{"no data", add(TensorSpec{"a", F32, []int64{1}, nil}), "no Write function"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(NewWriter()); err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want one with %q", err, tt.text)
			}
		})
	}
}

func TestWriterChecksTensorData(t *testing.T) {
	broken := errors.New("disk on fire")
	tests := []struct {
		name  string
		write func(io.Writer) error
		text  string
	}{
		{"too little", fill(0, 3), `tensor "a": 3 bytes were written, it takes 4`},
		{"too much", fill(0, 5), `tensor "a": more bytes`},
		{"failure", func(io.Writer) error { return broken }, `tensor "a": disk on fire`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWriter()
			if err := w.Add(TensorSpec{"a", F32, []int64{1}, tt.write}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.WriteTo(io.Discard); err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want one with %q", err, tt.text)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(path, small(t), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if arch, err := f.String("general.architecture"); arch != "llama" || err != nil {
		t.Errorf("architecture %q, %v", arch, err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := f.String("general.architecture"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v, want os.ErrClosed", err)
	}
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNotGGUF) {
		t.Errorf("a folder: %v, want ErrNotGGUF", err)
	}
}

func TestTypeTable(t *testing.T) {
	known := 0
	for id := range Type(64) {
		_, removed := removedType(id)
		if id.Known() && removed {
			t.Errorf("type %d is both known and removed", id)
		}
		if !id.Known() {
			continue
		}
		known++
		if id.BlockSize() < 1 || id.BlockBytes() < 1 || id.Quantized() != (id.BlockSize() > 1) || strings.HasPrefix(id.String(), "type") {
			t.Errorf("%s: block of %d elements in %d bytes", id, id.BlockSize(), id.BlockBytes())
		}
		if n, ok := id.RowBytes(id.BlockSize() * 10); !ok || n != id.BlockBytes()*10 {
			t.Errorf("%s: ten blocks take %d bytes", id, n)
		}
	}
	if known != 35 {
		t.Errorf("%d types are known, the format has 35", known)
	}
	if n, ok := Q4_K.RowBytes(255); ok {
		t.Errorf("a broken Q4_K row takes %d bytes", n)
	}
	if Kind(13).String() != "kind 13" || Float64.String() != "float64" {
		t.Error("names of value kinds are wrong")
	}
}
