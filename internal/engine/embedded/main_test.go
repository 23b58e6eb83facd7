package embedded

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/enginetest"
	"github.com/stoker-llm/stoker/internal/engine/fake"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm"
	"github.com/stoker-llm/stoker/internal/lm/lmserve"
	"github.com/stoker-llm/stoker/internal/supervise"
	"github.com/stoker-llm/stoker/internal/wire/native"
	"github.com/stoker-llm/stoker/test/kit"
)

// TestMain lets the test binary play the shim, the real child and the scripted one.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	switch {
	case supervise.IsShim(args):
		os.Exit(supervise.ShimMain(args))
	case lmserve.Is(args):
		os.Exit(lmserve.Main(args, os.Stderr))
	case len(args) > 1 && args[0] == "engine" && args[1] == "fake":
		os.Exit(fake.Main(args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func self(t testing.TB) string {
	t.Helper()
	p, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// realDriver starts the real engine.
func realDriver(t testing.TB) *Driver {
	t.Helper()
	return New(Options{
		Self: []string{self(t)}, Shim: []string{self(t), "shim"}, Env: os.Environ(), Kernels: lm.Kernels,
		Measure: func(path, mode string) (engine.Demand, error) {
			n, err := lm.Measure(path, mode)
			return engine.Demand{Architecture: n.Architecture, Mode: n.Mode}, err
		},
	})
}

// scriptedDriver starts the scripted engine in its place.
func scriptedDriver(t testing.TB, script string) *Driver {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return New(Options{
		Self: []string{self(t), "engine", "fake", "--as", "lm", "--script", file, "--"}, Shim: []string{self(t), "shim"}, Env: os.Environ(),
		Kernels: func() ([]string, map[string]string) { return []string{"generic"}, nil },
	})
}

func env(t testing.TB, name string) string {
	t.Helper()
	p := os.Getenv(name)
	if p == "" {
		t.Fatalf("%s is not set: run `make test`, or set it to what `go run ./test/assets path` prints", name)
	}
	return p
}

func spec(t testing.TB, path string) engine.StartSpec {
	t.Helper()
	dir, err := os.MkdirTemp("", "l") // short: a socket's path has at most 104 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return engine.StartSpec{
		Model: engine.Model{Name: "real", Path: path, Format: "gguf"}, Window: 1024, Parallel: 2, LoadStall: time.Minute, RunDir: dir,
	}
}

// scriptedSpec says to start a model that only the scripted engine can serve.
func scriptedSpec(t testing.TB) engine.StartSpec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := kit.WriteModel(path, true); err != nil {
		t.Fatal(err)
	}
	s := spec(t, path)
	s.Model.Name, s.Window, s.Parallel = "tiny", enginetest.FaultWindow, 1
	return s
}

func begin(t testing.TB, d *Driver, s engine.StartSpec) *instance {
	t.Helper()
	in, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := in.Stop(ctx); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return in.(*instance)
}

func chat(text string, tokens int) *infer.Request {
	zero := 0.0
	return &infer.Request{
		Kind: infer.Chat, MaxTokens: tokens, Sampling: infer.Sampling{Temperature: &zero},
		Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: text}}}},
	}
}

func childState(t enginetest.T, in engine.Instance) native.State {
	var st native.State
	if err := in.(*instance).conn.fetch(t.Context(), native.StatePath, nil, &st); err != nil {
		t.Fatalf("state: %v", err)
	}
	return st
}

// until waits for f.
func until(t enginetest.T, what string, f func() bool) {
	for limit := time.Now().Add(enginetest.Bound); !f(); {
		if time.Now().After(limit) {
			t.Fatalf("%s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// left are the files in dir, and the processes whose command line names it.
func left(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return append(out, children(t, dir)...)
}

func children(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), dir) {
			out = append(out, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return out
}
