package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/models/filemap"
)

// folder writes files, by name, into a new folder.
func folder(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// weights makes a safetensors file of a header and its data.
func weights(header, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

const (
	config = `{"model_type":"llama","num_hidden_layers":1,"rope_theta":7}`
	partA  = `{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"ids":{"dtype":"I64","shape":[1],"data_offsets":[4,12]}}`
	partB  = `{"b":{"dtype":"BF16","shape":[1,2],"data_offsets":[1,5]},"c":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}}`
	index  = `{"weight_map":{"a":"x1.safetensors","ids":"x1.safetensors","b":"x2.safetensors","c":"x2.safetensors"}}`
)

// sharded is a good model of two files.
func sharded() map[string][]byte {
	return map[string][]byte{
		"config.json": []byte(config), IndexName: []byte(index),
		"x1.safetensors": weights(partA, "aaaaiiiiiiii"), "x2.safetensors": weights(partB, "-bbbbcccc"),
	}
}

func open(t *testing.T, files map[string][]byte) *Folder {
	t.Helper()
	f, err := OpenFolder(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestOpenFolder(t *testing.T) {
	f := open(t, sharded())
	if diff := cmp.Diff([]string{"a", "b", "c", "ids"}, f.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if f.Config.Layers != 1 || f.Config.Rope.Theta != 7 || string(f.Text) != config {
		t.Errorf("config %+v of %s", f.Config, f.Text)
	}
	if want := int64(16 + len(partA) + len(partB) + 21); f.Size() != want {
		t.Errorf("size %d, want %d", f.Size(), want)
	}
	for name, want := range map[string]struct{ dtype, data string }{"a": {"F16", "aaaa"}, "b": {"BF16", "bbbb"}, "c": {"F32", "cccc"}} {
		tensor, b, err := f.Tensor(name)
		if err != nil || tensor.Name != name || tensor.DType != want.dtype || string(b) != want.data || cap(b) != len(b) {
			t.Errorf("%s: %+v, %q, %v; want %+v", name, tensor, b, err, want)
		}
	}
}

func TestOpenFolderOfOneFile(t *testing.T) {
	files := sharded()
	files["model.safetensors"] = weights(partB, "-BBBBCCCC")
	f := open(t, files) // the index is that of another copy, and of no interest
	if _, b, err := f.Tensor("b"); err != nil || string(b) != "BBBB" {
		t.Errorf("b: %q, %v", b, err)
	}
	if _, _, err := f.Tensor("a"); !errors.Is(err, ErrNoTensor) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a: %v, want ErrNoTensor", err)
	}
}

func TestTensorOfAnotherDType(t *testing.T) {
	f := open(t, sharded())
	if diff := cmp.Diff([]Tensor{{"ids", "I64", []int64{1}, 4, 8}}, f.Unsupported()); diff != "" {
		t.Errorf("unsupported (-want +got):\n%s", diff)
	}
	tensor, b, err := f.Tensor("ids")
	if !errors.Is(err, ErrDType) || b != nil || tensor.DType != "I64" {
		t.Fatalf("%+v, %q, %v", tensor, b, err)
	}
	for _, word := range []string{"x1.safetensors", "I64", `"ids"`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %s", err, word)
		}
	}
}

func TestOpenFolderRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(files map[string][]byte)
		kind  error
		words []string
	}{
		{"no config", func(m map[string][]byte) { delete(m, "config.json") }, fs.ErrNotExist, []string{"config.json"}},
		{"a config without sense", func(m map[string][]byte) { m["config.json"] = []byte(`{"rms_norm_eps":-1}`) }, ErrInvalid, []string{"config.json", "rms_norm_eps"}},
		{"no index", func(m map[string][]byte) { delete(m, IndexName) }, fs.ErrNotExist, []string{IndexName, "model.safetensors"}},
		{"an index that is none", func(m map[string][]byte) { m[IndexName] = []byte(`{}`) }, ErrInvalid, []string{IndexName}},
		{"a file is missing", func(m map[string][]byte) { delete(m, "x2.safetensors") }, fs.ErrNotExist, []string{"x2.safetensors", "missing"}},
		{"a file is cut off", func(m map[string][]byte) {
			m["x2.safetensors"] = m["x2.safetensors"][:len(m["x2.safetensors"])-1]
		}, ErrTruncated, []string{"x2.safetensors", `"c"`, "8 bytes of data"}},
		{"a file is empty", func(m map[string][]byte) { m["x1.safetensors"] = nil }, ErrTruncated, []string{"x1.safetensors"}},
		{"a size that lies", func(m map[string][]byte) {
			m["x1.safetensors"] = weights(strings.Replace(partA, "[2]", "[3]", 1), "aaaaiiiiiiii")
		}, ErrInvalid, []string{"x1.safetensors", `"a"`, "48 bits"}},
		{"a tensor in two files", func(m map[string][]byte) {
			m["x2.safetensors"] = weights(strings.Replace(partB, `"c"`, `"a"`, 1), "-bbbbaaaa")
		}, ErrInvalid, []string{"x2.safetensors", `"a"`, "x1.safetensors", "byte 123"}},
		{"a tensor that is nowhere", func(m map[string][]byte) {
			m[IndexName] = []byte(strings.Replace(index, `"c"`, `"d"`, 1))
		}, ErrInvalid, []string{IndexName, `"d"`, "x2.safetensors"}},
		{"a tensor in another file", func(m map[string][]byte) {
			m[IndexName] = []byte(strings.Replace(index, `"a":"x1`, `"a":"x2`, 1))
		}, ErrInvalid, []string{IndexName, `"a"`, "x1.safetensors", "x2.safetensors"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := sharded()
			tt.spoil(files)
			f, err := OpenFolder(folder(t, files))
			if f != nil || !errors.Is(err, tt.kind) {
				t.Fatalf("%v, %v; want %v", f, err, tt.kind)
			}
			for _, word := range tt.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("error %q does not say %q", err, word)
				}
			}
		})
	}
}

func TestOpenFolderRefusesAFolderAsFile(t *testing.T) {
	dir := folder(t, map[string][]byte{"config.json": []byte(config)})
	if err := os.Mkdir(filepath.Join(dir, "model.safetensors"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(dir); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v, want ErrInvalid", err)
	}
}

func TestFolderAdvice(t *testing.T) {
	f := open(t, sharded())
	for _, a := range []filemap.Advice{filemap.Sequential, filemap.WillNeed, filemap.DontNeed} {
		if err := errors.Join(f.AdviseAll(a), f.Advise("a", a)); err != nil {
			t.Errorf("advice %d: %v", a, err)
		}
	}
	if err := f.Advise("x", filemap.WillNeed); !errors.Is(err, ErrNoTensor) {
		t.Errorf("advice for no tensor: %v", err)
	}
	if _, b, err := f.Tensor("a"); err != nil || string(b) != "aaaa" {
		t.Errorf("a: %q, %v", b, err)
	}
}

func TestFolderAfterClose(t *testing.T) {
	f := open(t, sharded())
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, b, err := f.Tensor("a"); !errors.Is(err, ErrNoTensor) {
		t.Errorf("%q, %v after Close", b, err)
	}
}

// FuzzOpenFolder opens folders of any files, and touches every byte of every tensor.
func FuzzOpenFolder(f *testing.F) {
	good := sharded()
	f.Add([]byte(config), []byte(index), good["x1.safetensors"], good["x2.safetensors"])
	f.Add([]byte(`{}`), []byte(`{"weight_map":{"a":"x1.safetensors"}}`), good["x1.safetensors"], []byte{})
	for _, h := range hostile() {
		f.Add([]byte(config), []byte(index), h.file, good["x2.safetensors"])
	}
	f.Fuzz(func(t *testing.T, config, index, a, b []byte) {
		dir := folder(t, map[string][]byte{"config.json": config, IndexName: index, "x1.safetensors": a, "x2.safetensors": b})
		model, err := OpenFolder(dir)
		if err != nil {
			return
		}
		defer model.Close()
		for _, name := range model.Names() {
			tensor, got, err := model.Tensor(name)
			if errors.Is(err, ErrDType) {
				continue
			}
			if err != nil || int64(len(got)) != tensor.Size || (!bytes.Contains(a, got) && !bytes.Contains(b, got)) {
				t.Errorf("%+v: %d bytes, %v", tensor, len(got), err)
			}
		}
	})
}
