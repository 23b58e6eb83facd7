package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/test/assets/internal/fakes"
)

func TestFindPython(t *testing.T) {
	f := fakes.New(t)
	f.Add("python3", "echo 3.11")
	f.Add("python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127") // a stand-in that refuses
	home := t.TempDir()
	if _, err := findPython(t.Context(), "3.12", home); err == nil || !strings.Contains(err.Error(), "apt-get install python3.12") {
		t.Errorf("got %v, want an error that says what to install", err)
	}
	bin := filepath.Join(home, ".pyenv", "versions", "3.12.1", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(bin, "python3.12")
	if err := os.WriteFile(want, []byte("#!/bin/sh\necho 3.12\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := findPython(t.Context(), "3.12", home); err != nil || got != want {
		t.Errorf("got %q, %v, want pyenv's", got, err)
	}
	f.Add("python3", "echo 3.12")
	if got, err := findPython(t.Context(), "3.12", home); err != nil || got != filepath.Join(f.Dir, "python3") {
		t.Errorf("got %q, %v, want the one on PATH", got, err)
	}
}

func TestRehome(t *testing.T) {
	bin := t.TempDir()
	files := map[string]string{
		"script": "#!/old/place/venv/bin/python\nprint()\n",
		"binary": "\x7fELF\x00/old/place/venv",
		"other":  "#!/bin/sh\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := rehome(bin, "/old/place", "/new"); err != nil {
		t.Fatal(err)
	}
	files["script"] = "#!/new/venv/bin/python\nprint()\n"
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(bin, name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(bin, "script")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the script's mode changed: %v, %v", info.Mode(), err)
	}
}
