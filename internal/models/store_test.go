package models

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// R7: the default name is the last element of the path or repository id; an empty one is an error.
func TestReviewR7ServedName(t *testing.T) {
	tests := []struct{ path, want string }{
		{"a/b", "b"},
		{"a/b/", "b"},
		{"a/b//", "b"},
		{"./x", "x"},
		{"/abs/path/x", "x"},
		{"x", "x"},
		{"dir/m.gguf", "m"},
		{"m.Q4_K_M.gguf", "m.Q4_K_M"},
		{"m-00001-of-00003.gguf", "m"},
		{"m-00001-of-00003", "m-00001-of-00003"},
		{"m-1-of-3.gguf", "m-1-of-3"},
		{"dir/model.safetensors", "model"},
		{"org/Name-v1.5", "Name-v1.5"},
		{"hub/models--org--name", "name"},
		{"hub/models--org--name/", "name"},
		{"hub/models--name", "name"},
		{"hub/models--org--name/snapshots/0123abc", "name"},
		{"hub/models--org--name/snapshots/0123abc/m.gguf", "m"},
		{"", ""},
		{"/", ""},
		{".", ""},
		{"..", ""},
		{"a/..", ""},
		{".gguf", ""},
		{"-00001-of-00002.gguf", ""},
	}
	for _, tt := range tests {
		got, err := ServedName(tt.path)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("ServedName(%q) = %q, %v; want %q", tt.path, got, err, tt.want)
		}
		if err != nil && !errors.Is(err, ErrNoName) {
			t.Errorf("ServedName(%q): error %v is not ErrNoName", tt.path, err)
		}
	}
}

// shelf fills a folder with models of every kind and returns it.
func shelf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"SmolLM2-135M-Instruct.gguf", "mmproj-F16.gguf", "notes.txt", ".hidden.gguf",
		"big-00001-of-00002.gguf", "big-00002-of-00002.gguf",
		"mlx/model.safetensors", "mlx/config.json",
		"single/weights.Q4_K_M.gguf", "single/mmproj-model.gguf", "single/README.md",
		"many/a.gguf", "many/b.gguf",
		"org/repo/model-00001-of-00002.safetensors", "org/other.gguf",
		"models--hub--thing/refs/main", "models--hub--thing/snapshots/old/config.json",
		"models--hub--thing/snapshots/abc/model.safetensors", "models--hub--quant/snapshots/1/q.gguf",
		"models--hub--unfinished/blobs/x.incomplete",
	} {
		put(t, filepath.Join(dir, name), []byte("abc\n"))
	}
	return dir
}

func TestStoreList(t *testing.T) {
	dir := shelf(t)
	s := &Store{Dirs: []string{dir, filepath.Join(dir, "absent"), dir}}
	all, err := s.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p := func(rel string) string { return filepath.Join(dir, rel) }
	want := []Artifact{
		{"SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct", p("SmolLM2-135M-Instruct.gguf"), FormatGGUF},
		{"a", "many/a", p("many/a.gguf"), FormatGGUF},
		{"b", "many/b", p("many/b.gguf"), FormatGGUF},
		{"big", "big", p("big-00001-of-00002.gguf"), FormatGGUF},
		{"mlx", "mlx", p("mlx"), FormatSafetensors},
		{"other", "org/other", p("org/other.gguf"), FormatGGUF},
		{"q", "hub/quant", p("models--hub--quant/snapshots/1/q.gguf"), FormatGGUF},
		{"repo", "org/repo", p("org/repo"), FormatSafetensors},
		{"thing", "hub/thing", p("models--hub--thing/snapshots/abc"), FormatSafetensors},
		{"weights.Q4_K_M", "single/weights.Q4_K_M", p("single/weights.Q4_K_M.gguf"), FormatGGUF},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestStoreResolve(t *testing.T) {
	dir := shelf(t)
	s := &Store{Dirs: []string{filepath.Join(dir, "absent"), dir}}
	tests := []struct{ name, arg, served, path, format string }{
		{"by name", "SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct.gguf", FormatGGUF},
		{"by file name", "SmolLM2-135M-Instruct.gguf", "SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct.gguf", FormatGGUF},
		{"folder by name", "mlx", "mlx", "mlx", FormatSafetensors},
		{"folder with one file, by folder", "single", "weights.Q4_K_M", "single/weights.Q4_K_M.gguf", FormatGGUF},
		{"the same, by file", "weights.Q4_K_M", "weights.Q4_K_M", "single/weights.Q4_K_M.gguf", FormatGGUF},
		{"one of many", "many/b", "b", "many/b.gguf", FormatGGUF},
		{"split, by its name", "big", "big", "big-00001-of-00002.gguf", FormatGGUF},
		{"organisation and name", "org/repo", "repo", "org/repo", FormatSafetensors},
		{"with a slash behind", "org/repo/", "repo", "org/repo", FormatSafetensors},
		{"name alone", "repo", "repo", "org/repo", FormatSafetensors},
		{"repository in a Hub cache", "hub/thing", "thing", "models--hub--thing/snapshots/abc", FormatSafetensors},
		{"its name alone", "thing", "thing", "models--hub--thing/snapshots/abc", FormatSafetensors},
		{"GGUF in a Hub cache", "hub/quant", "q", "models--hub--quant/snapshots/1/q.gguf", FormatGGUF},
		{"path of a file", filepath.Join(dir, "many/a.gguf"), "a", "many/a.gguf", FormatGGUF},
		{"path of a folder", filepath.Join(dir, "mlx") + "/", "mlx", "mlx/", FormatSafetensors},
		{"path in a Hub cache", filepath.Join(dir, "models--hub--thing"), "thing", "models--hub--thing/snapshots/abc", FormatSafetensors},
		{"path of a snapshot", filepath.Join(dir, "models--hub--thing/snapshots/abc"), "thing", "models--hub--thing/snapshots/abc", FormatSafetensors},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := s.Resolve(tt.arg)
			if err != nil {
				t.Fatal(err)
			}
			if a.Name != tt.served || a.Path != dir+"/"+tt.path || a.Format != tt.format {
				t.Errorf("Resolve(%q) = %+v, want name %q, path %q, format %q", tt.arg, a, tt.served, tt.path, tt.format)
			}
		})
	}
}

func TestStoreResolveRefuses(t *testing.T) {
	dir := shelf(t)
	s := &Store{Dirs: []string{dir}}
	t.Run("near", func(t *testing.T) {
		_, err := s.Resolve("smolm2-135m-instruct")
		e, ok := errors.AsType[*NotFoundError](err)
		if !ok || !cmp.Equal(e.Nearest, []string{"SmolLM2-135M-Instruct"}) || !strings.Contains(err.Error(), "did you mean SmolLM2-135M-Instruct?") {
			t.Errorf("error %v, want a NotFoundError with the nearest name", err)
		}
	})
	t.Run("out of the folder", func(t *testing.T) {
		put(t, filepath.Join(filepath.Dir(dir), "outside.gguf"), nil)
		if a, err := s.Resolve("../outside"); !errors.As(err, new(*NotFoundError)) {
			t.Errorf("Resolve(../outside) = %+v, %v; want a NotFoundError", a, err)
		}
	})
	t.Run("a folder of several", func(t *testing.T) {
		_, err := s.Resolve("many")
		e, ok := errors.AsType[*ChoiceError](err)
		if !ok || len(e.Files) != 2 || !strings.Contains(err.Error(), "b.gguf") {
			t.Errorf("error %v, want a ChoiceError of two files", err)
		}
	})
	t.Run("several snapshots and no revision", func(t *testing.T) {
		must(t, os.Remove(filepath.Join(dir, "models--hub--thing/refs/main")))
		_, err := s.Resolve(filepath.Join(dir, "models--hub--thing"))
		if e, ok := errors.AsType[*ChoiceError](err); !ok || len(e.Files) != 2 {
			t.Errorf("error %v, want a ChoiceError of two snapshots", err)
		}
	})
	t.Run("an unfinished download", func(t *testing.T) {
		_, err := s.Resolve(filepath.Join(dir, "models--hub--unfinished"))
		if !errors.Is(err, ErrNotAModel) || !strings.Contains(err.Error(), "did not finish") {
			t.Errorf("error %v, want ErrNotAModel that says why", err)
		}
	})
	t.Run("a path that is no model", func(t *testing.T) {
		if _, err := s.Resolve(filepath.Join(dir, "notes.txt")); !errors.Is(err, ErrNotAModel) {
			t.Errorf("error %v, want ErrNotAModel", err)
		}
	})
	t.Run("a path below a file", func(t *testing.T) {
		if _, err := s.Resolve(filepath.Join(dir, "notes.txt", "x")); !errors.As(err, new(*NotFoundError)) {
			t.Errorf("error %v, want a NotFoundError", err)
		}
	})
	t.Run("empty", func(t *testing.T) {
		if _, err := s.Resolve(" "); !errors.Is(err, ErrNoName) {
			t.Errorf("error %v, want ErrNoName", err)
		}
	})
	t.Run("no folders", func(t *testing.T) {
		if _, err := (&Store{}).Resolve("x"); !errors.As(err, new(*NotFoundError)) || !strings.Contains(err.Error(), "no model folder") {
			t.Errorf("error %v, want a NotFoundError", err)
		}
	})
}

// A folder that happens to have a model's name does not hide the model in the store, and "." has a name.
func TestStoreResolveBesideFolders(t *testing.T) {
	s := &Store{Dirs: []string{shelf(t)}}
	t.Chdir(t.TempDir())
	must(t, os.Mkdir("mlx", 0o700))
	must(t, os.Mkdir("absent", 0o700))
	if a, err := s.Resolve("mlx"); err != nil || a.Path != filepath.Join(s.Dirs[0], "mlx") {
		t.Errorf("Resolve(mlx) = %+v, %v; want the one in the store", a, err)
	}
	if a, err := s.Resolve("absent"); !errors.Is(err, ErrNotAModel) {
		t.Errorf("Resolve(absent) = %+v, %v; want ErrNotAModel: the folder is there", a, err)
	}
	t.Chdir(filepath.Join(s.Dirs[0], "mlx"))
	if a, err := s.Resolve("."); err != nil || a.Name != "mlx" || a.Path != "." {
		t.Errorf("Resolve(.) = %+v, %v; want the folder's own name", a, err)
	}
}
