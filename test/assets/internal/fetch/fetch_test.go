package fetch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/test/assets/internal/fakes"
)

func findPip(t *testing.T) Pip {
	t.Helper()
	pip, err := FindPip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pip
}

func TestDownloadOnce(t *testing.T) {
	f := fakes.New(t)
	f.AddPip()
	wheel, sum := fakes.Zip(t, map[string]string{"a": "text"})
	f.Serve("thing==1.0", wheel)
	p := Package{Name: "thing", Version: "1.0", SHA256: sum}
	dir := t.TempDir()
	for range 2 {
		path, err := findPip(t).Download(t.Context(), p, dir, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, wheel) {
			t.Fatalf("the file is not what was served: %v", err)
		}
	}
	calls := f.Calls("python3", "download")
	if len(calls) != 1 {
		t.Fatalf("pip ran %d times, want once: %q", len(calls), calls)
	}
	if !strings.Contains(calls[0], "--no-deps") || strings.Contains(calls[0], "--no-binary") {
		t.Errorf("a wheel was asked for with %q", calls[0])
	}
}

func TestDownloadOfSource(t *testing.T) {
	f := fakes.New(t)
	f.AddPip()
	f.Serve("thing==1.0", []byte("archive"))
	p := Package{Name: "thing", Version: "1.0", Source: true, SHA256: fakes.Sum([]byte("archive"))}
	if _, err := findPip(t).Download(t.Context(), p, t.TempDir(), io.Discard); err != nil {
		t.Fatal(err)
	}
	if calls := f.Calls("python3", "--no-binary thing"); len(calls) != 1 {
		t.Errorf("source was not asked for: %q", f.Calls("python3", ""))
	}
}

func TestWrongContentIsNotKept(t *testing.T) {
	f := fakes.New(t)
	f.AddPip()
	want := fakes.Sum([]byte("right"))
	p := Package{Name: "thing", Version: "1.0", SHA256: want}
	f.Serve("thing==1.0", []byte("wrong"))
	dir := t.TempDir()
	_, err := findPip(t).Download(t.Context(), p, dir, io.Discard)
	var m *MismatchError
	if !errors.As(err, &m) {
		t.Fatalf("got %v, want a *MismatchError", err)
	}
	if m.Got != fakes.Sum([]byte("wrong")) || m.Want != want {
		t.Errorf("got %+v", m)
	}
	f.Serve("thing==1.0", []byte("right"))
	if _, err := findPip(t).Download(t.Context(), p, dir, io.Discard); err != nil {
		t.Errorf("the second try: %v", err)
	}
}

func TestDownloadSaysWhatPipSays(t *testing.T) {
	f := fakes.New(t)
	f.AddPip()
	_, err := findPip(t).Download(t.Context(), Package{Name: "none", Version: "9"}, t.TempDir(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "No matching distribution found for none==9") {
		t.Errorf("got %v", err)
	}
}

func TestNoPython(t *testing.T) {
	f := fakes.New(t)
	if _, err := FindPip(t.Context()); !errors.Is(err, ErrNoPython) {
		t.Errorf("with no python: got %v", err)
	}
	f.Add("python3", "exit 1") // one without pip
	if _, err := FindPip(t.Context()); !errors.Is(err, ErrNoPython) {
		t.Errorf("with no pip: got %v", err)
	}
	f.Add("python", "exit 0")
	if pip, err := FindPip(t.Context()); err != nil || filepath.Base(pip.Python) != "python" {
		t.Errorf("got %v, %v; want the second candidate", pip, err)
	}
}

func TestAppendZipFile(t *testing.T) {
	wheel, _ := fakes.Zip(t, map[string]string{"pkg/data/a": "one", "pkg/b": "two"})
	path := filepath.Join(t.TempDir(), "w.whl")
	if err := os.WriteFile(path, wheel, 0o644); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, name := range []string{"pkg/data/a", "pkg/b"} {
		if err := AppendZipFile(&b, path, name); err != nil {
			t.Fatal(err)
		}
	}
	if b.String() != "onetwo" {
		t.Errorf("got %q", b.String())
	}
	if err := AppendZipFile(&b, path, "pkg/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: got %v", err)
	}
}

// archive writes a gzipped tar archive with the given names; each file holds its name.
func archive(t *testing.T, names ...string) string {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(name))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUntarTakesThePartBelowThePrefix(t *testing.T) {
	dir := t.TempDir()
	if err := Untar(archive(t, "pkg/setup.py", "pkg/src/a", "pkg/src/deep/er/b"), "pkg/src/", dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "pkg/src/a", "deep/er/b": "pkg/src/deep/er/b"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v; want the archive's", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "setup.py")); !os.IsNotExist(err) {
		t.Errorf("a file beside the prefix was unpacked: %v", err)
	}
}

func TestUntarRefuses(t *testing.T) {
	cut := archive(t, "pkg/src/a")
	if err := os.Truncate(cut, 20); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"a name that leaves the folder": archive(t, "pkg/src/../../../evil"),
		"nothing below the prefix":      archive(t, "other/a"),
		"a cut archive":                 cut,
	}
	for name, path := range tests {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			inner := filepath.Join(outer, "x", "y")
			if err := os.MkdirAll(inner, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := Untar(path, "pkg/src/", inner); err == nil {
				t.Error("no error")
			}
			if _, err := os.Stat(filepath.Join(outer, "evil")); !os.IsNotExist(err) {
				t.Error("a file was written outside of the folder")
			}
		})
	}
}
