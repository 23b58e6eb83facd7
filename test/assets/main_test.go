package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/test/assets/internal/catalog"
)

// call runs the program with an empty cache in the folder that it returns.
func call(t *testing.T, args ...string) (stdout string, root string, err error) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "it's here")
	t.Setenv("STOKER_ASSETS", root)
	var out, errs bytes.Buffer
	err = run(t.Context(), args, &out, &errs)
	return out.String(), root, err
}

func TestListTellsWhatIsMissing(t *testing.T) {
	out, root, err := call(t, "list")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"smollm2", "gemma3", "llama-src", "llama-server", "tiny", "random-1b", "mlx-lm", "agents"} {
		if !strings.Contains(out, "\n"+name+" ") && !strings.HasPrefix(out, name+" ") {
			t.Errorf("the list lacks %s:\n%s", name, out)
		}
	}
	if n := strings.Count(out, "not in the cache"); n != 8 {
		t.Errorf("%d of 8 are called missing", n)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Error("looking at the list made the cache")
	}
}

func TestPathAndEnvOfWhatIsMissing(t *testing.T) {
	for _, args := range [][]string{{"path", "smollm2"}, {"env", "tiny", "smollm2"}} {
		out, _, err := call(t, args...)
		if !errors.Is(err, catalog.ErrAbsent) || !strings.Contains(err.Error(), "test/assets get") {
			t.Errorf("%q: got %v, want ErrAbsent and the way out", args, err)
		}
		if out != "" {
			t.Errorf("%q: printed %q all the same", args, out)
		}
	}
}

func TestEnvPrintsWhatAShellReads(t *testing.T) {
	root := filepath.Join(t.TempDir(), "it's here")
	t.Setenv("STOKER_ASSETS", root)
	// The folder's name follows from the recipe: ask for it, then put the asset there.
	cat, err := openCatalog(t.Context(), 1, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := cat.Status("tiny")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(st.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(st.Path, "asset.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"env", "tiny"}, &out, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	want := "STOKER_TEST_TINY='" + strings.ReplaceAll(st.Path, "'", `'\''`) + "'\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestMistakes(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown asset", []string{"get", "gemma4"}, "the assets are smollm2, gemma3"},
		{"unknown engine", []string{"install", "vllm"}, "llama-server"},
		{"no jobs", []string{"--jobs=0", "list"}, "--jobs"},
		{"no asset", []string{"get"}, "name"},
		{"unknown flag", []string{"list", "--al"}, "--al"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := call(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestShellQuote(t *testing.T) {
	tests := []struct{ in, want string }{
		{"/a/b-c_1.2", "/a/b-c_1.2"},
		{"/a b", "'/a b'"},
		{"/it's", `'/it'\''s'`},
		{"/$HOME", "'/$HOME'"},
	}
	for _, tt := range tests {
		if got := shellQuote(tt.in); got != tt.want {
			t.Errorf("shellQuote(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}
