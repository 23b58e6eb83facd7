package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeProgram writes a program that says what a llama-server does when it is asked, and notes each question in asked.
func writeProgram(t *testing.T, path, version string) (asked string) {
	t.Helper()
	asked = path + ".asked"
	help, err := filepath.Abs("testdata/help.txt")
	if err != nil {
		t.Fatal(err)
	}
	writeScript(t, path, fmt.Sprintf(`echo "$1" >> '%s'
case "$1" in
--help) cat '%s';;
--version) echo 'version: %s' >&2;;
--list-devices) echo 'Available devices:'; echo '  CUDA0: NVIDIA X (100 MiB, 90 MiB free)';;
esac`, asked, help, version))
	return asked
}

func writeScript(t *testing.T, path, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// lookIn is a LookPath whose PATH is dir.
func lookIn(dir string) func(string) (string, error) {
	return func(name string) (string, error) {
		if !strings.Contains(name, "/") {
			name = filepath.Join(dir, name)
		}
		return exec.LookPath(name)
	}
}

func TestFingerprintOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config", "engines/llama.cpp-1/bin", "engines/llama.cpp-2/bin", "path"} {
		writeProgram(t, filepath.Join(dir, name, binaryName), "1 (abc)")
	}
	writeScript(t, filepath.Join(dir, "broken", binaryName), "exit 1")
	at := func(name string) string { return filepath.Join(dir, name, binaryName) }
	tests := []struct {
		name, config, engines, path string
		want, origin                string
	}{
		{"config first", "config", "engines", "path", at("config"), "config"},
		{"newest in the engine folder, before PATH", "", "engines", "path", at("engines/llama.cpp-2/bin"), "engine folder"},
		{"PATH", "", "none", "path", at("path"), "PATH"},
		{"a broken one in the engine folder is passed over", "", "broken", "path", at("path"), "PATH"},
		{"a broken one in the config is not", "broken", "engines", "path", "", ""},
		{"nothing", "", "none", "none", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{EngineDirs: []string{filepath.Join(dir, tt.engines)}, LookPath: lookIn(filepath.Join(dir, tt.path)), CacheDir: t.TempDir()}
			if tt.config != "" {
				o.Path = at(tt.config)
			}
			fp := New(o).Fingerprint(t.Context())
			if fp.Found != (tt.want != "") || fp.Path != tt.want || fp.Origin != tt.origin {
				t.Errorf("found %v, %s (%s), want %s (%s)", fp.Found, fp.Path, fp.Origin, tt.want, tt.origin)
			}
			if !fp.Found && (fp.Missing == "" || fp.Remedy == "") {
				t.Errorf("missing %q, remedy %q: both must say something", fp.Missing, fp.Remedy)
			}
			if fp.Found && (fp.Build != "b1-abc" || len(fp.Devices) != 1 || len(fp.Digest) != 64) {
				t.Errorf("fingerprint = %+v", fp)
			}
		})
	}
}

func TestProbeIsCachedByContent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, binaryName)
	asked := writeProgram(t, path, "1 (abc)")
	questions := func() int {
		b, err := os.ReadFile(asked)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "--help")
	}
	cache := filepath.Join(dir, "cache")
	for range 3 {
		d := New(Options{Path: path, CacheDir: cache})
		for range 2 {
			if fp := d.Fingerprint(t.Context()); fp.Version != "1" {
				t.Fatalf("version = %q (%s)", fp.Version, fp.Missing)
			}
		}
	}
	if n := questions(); n != 1 {
		t.Errorf("the binary was asked for help %d times, want once", n)
	}
	// An upgrade in place is seen by a driver that already knows the old one.
	d := New(Options{Path: path, CacheDir: cache})
	d.Fingerprint(t.Context())
	writeProgram(t, path, "22 (def)")
	if fp := d.Fingerprint(t.Context()); fp.Version != "22" {
		t.Errorf("version after an upgrade = %q, want 22", fp.Version)
	}
	// A cache that holds nonsense costs a question and no more.
	files, err := filepath.Glob(filepath.Join(cache, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("cache files: %v, %v", files, err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if fp := New(Options{Path: path, CacheDir: cache}).Fingerprint(t.Context()); fp.Version != "22" {
		t.Errorf("version with a broken cache = %q (%s)", fp.Version, fp.Missing)
	}
}

func TestProbeSaysWhatIsWrong(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"missing library", "echo 'error while loading shared libraries: libggml.so: cannot open' >&2; exit 127", "libggml.so"},
		{"another program", "echo '-m,    --model FNAME    the model'; echo '--host HOST   x'", "no --port"},
		{"says nothing", "exit 0", "no --model"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), binaryName)
			writeScript(t, path, tt.body)
			fp := New(Options{Path: path}).Fingerprint(t.Context())
			if fp.Found || !strings.Contains(fp.Missing, tt.want) || !strings.Contains(fp.Missing, path) {
				t.Errorf("found %v, missing %q, want %q and the path in it", fp.Found, fp.Missing, tt.want)
			}
		})
	}
}

// TestReviewR11LightStart: asking what is there runs no program when there is none.
func TestReviewR11LightStart(t *testing.T) {
	fp := New(Options{LookPath: func(name string) (string, error) { return "", errors.New(name + ": not found") }}).Fingerprint(t.Context())
	if fp.Found || fp.Missing == "" {
		t.Errorf("fingerprint = %+v", fp)
	}
}

func TestFingerprintWaitsNoLongerThanItsContext(t *testing.T) {
	dir := t.TempDir()
	path, started := filepath.Join(dir, binaryName), filepath.Join(dir, "started")
	writeScript(t, path, "echo > '"+started+"'; exec sleep 3600")
	d := New(Options{Path: path})
	first, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Fingerprint(first)
	}()
	for deadline := time.After(10 * time.Second); ; {
		if _, err := os.Stat(started); err == nil {
			break
		}
		select {
		case <-deadline:
			t.Fatal("the binary was not asked")
		case <-time.After(time.Millisecond):
		}
	}
	second, cancel := context.WithCancel(t.Context())
	cancel()
	if fp := d.Fingerprint(second); fp.Found || !strings.Contains(fp.Missing, "canceled") {
		t.Errorf("behind a search that hangs: %+v", fp)
	}
	stop()
	<-ended
}
