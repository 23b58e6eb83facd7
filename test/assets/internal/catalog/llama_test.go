package catalog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/test/assets/internal/fakes"
)

// fakeSource stands for llama.cpp's source.
func fakeSource() asset {
	return asset{name: "llama-src", build: func(_ context.Context, j *job) error {
		return os.WriteFile(filepath.Join(j.Out, "CMakeLists.txt"), nil, 0o644)
	}}
}

// The stand-ins do what the real tools do to the build folder. cmake refuses a
// build folder with a file called "foreign". ninja fails at its second step as
// long as there is a file called "fail" beside it.
const (
	fakeCMake = `
[ "$1" = --version ] && exit 0
while [ $# -gt 0 ]; do [ "$1" = -B ] && dir=$2; shift; done
if [ -e "$dir/foreign" ]; then echo "CMake Error: the source does not match"; exit 1; fi
mkdir -p "$dir"; echo "-- Configuring done"`

	fakeNinja = `
[ "$1" = --version ] && exit 0
dir=$2
if [ -e "$dir/first.o" ]; then echo "first.o was there" >> "$here/resumed"; fi
echo "[1/3] Building first.o"; touch "$dir/first.o"
if [ -e "$here/fail" ]; then
	echo "FAILED: second.o"
	echo "second.cpp:1:1: error: out of luck"
	echo "ninja: build stopped: subcommand failed."
	exit 1
fi
echo "[3/3] Linking"
mkdir -p "$dir/bin"
shift 4
for p in "$@"; do printf '#!/bin/sh\necho "version: 1 $0"\n' > "$dir/bin/$p"; chmod +x "$dir/bin/$p"; done`
)

func toolchain(t *testing.T) *fakes.Programs {
	t.Helper()
	f := fakes.New(t)
	f.Add("cmake", fakeCMake)
	f.Add("ninja", fakeNinja)
	f.Add("c++", `echo "fake compiler 12"; echo "no warranty"`)
	return f
}

func TestLlamaServerIsBuiltAndInstalled(t *testing.T) {
	f := toolchain(t)
	opt, output := options(t)
	opt.Jobs = 3
	c := catalogOf(opt, fakeSource(), llamaServer(opt))

	into := filepath.Join(t.TempDir(), "engines", "llamacpp")
	if err := os.MkdirAll(into, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(into, "llama-server"), []byte("older"), 0o755); err != nil {
		t.Fatal(err)
	}
	engine, err := c.InstallEngine(t.Context(), into)
	if err != nil {
		t.Fatal(err)
	}
	if engine != filepath.Join(into, "llama-server") {
		t.Errorf("installed as %s", engine)
	}
	entries, err := os.ReadDir(into)
	if err != nil || len(entries) != len(llamaPrograms) {
		t.Errorf("%d files installed, %v; want %q and nothing else", len(entries), err, llamaPrograms)
	}
	if b, err := os.ReadFile(engine); err != nil || !strings.Contains(string(b), "version: 1") {
		t.Errorf("the older engine is still there: %q, %v", b, err)
	}
	if calls := f.Calls("ninja", "-j 3 llama-server llama-bench llama-quantize"); len(calls) != 1 {
		t.Errorf("ninja ran with %q", f.Calls("ninja", ""))
	}
	if calls := f.Calls("cmake", "-DGGML_NATIVE=ON"); len(calls) != 1 || !strings.Contains(calls[0], "-DBUILD_SHARED_LIBS=OFF") {
		t.Errorf("cmake ran with %q", f.Calls("cmake", ""))
	}
	if !strings.Contains(output.String(), "10 to 25 minutes") {
		t.Errorf("the report does not say how long it takes:\n%s", output)
	}

	a, _ := c.find("llama-server")
	k, _, err := c.key(a)
	if err != nil {
		t.Fatal(err)
	}
	m, err := opt.Store.ReadManifest(k)
	if err != nil || m.Details["version"] != "b11434" || m.Details["compiler"] != "fake compiler 12" || m.Seconds <= 0 {
		t.Errorf("manifest %+v, %v", m, err)
	}
}

func TestInterruptedBuildGoesOn(t *testing.T) {
	f := toolchain(t)
	f.Write("fail", nil, 0o644)
	opt, _ := options(t)
	c := catalogOf(opt, fakeSource(), llamaServer(opt))

	_, err := c.Get(t.Context(), "llama-server")
	var e *Error
	if !errors.As(err, &e) || e.Name != "llama-server" || !strings.Contains(err.Error(), "second.cpp:1:1: error: out of luck") {
		t.Fatalf("got %v, want the compiler's own error under the asset's name", err)
	}
	if err := os.Remove(filepath.Join(f.Dir, "fail")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "llama-server"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(f.Dir, "resumed")); err != nil {
		t.Error("the second build began from nothing")
	}
}

func TestUnusableBuildFolderIsDropped(t *testing.T) {
	f := toolchain(t)
	f.Write("fail", nil, 0o644)
	opt, _ := options(t)
	c := catalogOf(opt, fakeSource(), llamaServer(opt))
	if _, err := c.Get(t.Context(), "llama-server"); err == nil {
		t.Fatal("the first build did not fail")
	}
	work, err := filepath.Glob(filepath.Join(opt.Store.Root(), "work", "llama-server-*", "build"))
	if err != nil || len(work) != 1 {
		t.Fatalf("build folders %q, %v", work, err)
	}
	if err := os.WriteFile(filepath.Join(work[0], "foreign"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.Dir, "fail")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "llama-server"); err != nil {
		t.Fatal(err)
	}
}

func TestMissingToolsAreNamed(t *testing.T) {
	tests := []struct {
		name    string
		missing string
		want    string
	}{
		{"compiler", "c++", "apt-get install g++"},
		{"cmake and python", "cmake", "cmake and ninja are not both installed, and to get them: no python3 with pip"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := toolchain(t)
			if err := os.Remove(filepath.Join(f.Dir, tt.missing)); err != nil {
				t.Fatal(err)
			}
			opt, _ := options(t)
			_, err := catalogOf(opt, fakeSource(), llamaServer(opt)).Get(t.Context(), "llama-server")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestCompilerOfTheUserCounts(t *testing.T) {
	f := toolchain(t)
	f.Add("mycc", `echo "mycc 3"`)
	if got, err := findCompiler(t.Context(), "mycc"); err != nil || got != "mycc 3" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := findCompiler(t.Context(), "nocc"); err == nil || !strings.Contains(err.Error(), "nocc") {
		t.Errorf("got %v, want an error that names nocc", err)
	}
}

func TestToolsComeFromPythonIfPathHasNone(t *testing.T) {
	f := fakes.New(t)
	f.Add("c++", "echo cc")
	f.Write("cmake.in", []byte("#!/bin/sh\nhere='"+f.Dir+"'\nPATH=/usr/bin:/bin\n"+fakeCMake), 0o755)
	f.Write("ninja.in", []byte("#!/bin/sh\nhere='"+f.Dir+"'\nPATH=/usr/bin:/bin\n"+fakeNinja), 0o755)
	// This Python makes environments that hold itself, and installs the two tools.
	f.Add("python3", `
case "$*" in
*"pip --version") exit 0;;
*"-m venv"*) for d; do :; done; mkdir -p "$d/bin"; cp "$0" "$d/bin/python";;
*"pip install"*cmake==*ninja==*) d=$(dirname "$0"); cp "$here/cmake.in" "$d/cmake"; cp "$here/ninja.in" "$d/ninja";;
*) exit 1;;
esac`)
	opt, _ := options(t)
	if _, err := catalogOf(opt, fakeSource(), llamaServer(opt)).Get(t.Context(), "llama-server"); err != nil {
		t.Fatal(err)
	}
}
