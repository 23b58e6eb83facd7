package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/enginetest"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm"
	"github.com/stoker-llm/stoker/internal/lm/lmserve"
	"github.com/stoker-llm/stoker/internal/supervise"
)

// TestMain lets the test binary play the program's child roles.
func TestMain(m *testing.M) {
	if supervise.IsShim(os.Args[1:]) {
		os.Exit(supervise.ShimMain(os.Args[1:]))
	}
	if lmserve.Is(os.Args[1:]) {
		os.Exit(lmserve.Main(os.Args[1:], os.Stderr))
	}
	os.Exit(m.Run())
}

func driver(t testing.TB) *Driver {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{
		Self: []string{self}, Shim: []string{self, "shim"}, Env: os.Environ(), Kernels: lm.Kernels,
		Measure: func(path, mode string) (engine.Demand, error) {
			n, err := lm.Measure(path, mode)
			return engine.Demand{Architecture: n.Architecture}, err
		},
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
		Model: engine.Model{Name: "real", Path: path, Format: "gguf"}, Window: 2048, Parallel: 2, LoadStall: time.Minute, RunDir: dir,
	}
}

func childState(t enginetest.T, in engine.Instance) state {
	var st state
	if err := in.(*instance).conn.get(t.Context(), "/state", &st); err != nil {
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

func conform(t *testing.T, model string, options ...engine.Option) {
	enginetest.Run(t, enginetest.Config{
		Start: func(et enginetest.T) engine.Instance {
			s := spec(t, model)
			s.Options = options
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			in, err := driver(t).Start(ctx, s)
			if err != nil {
				et.Fatalf("Start: %v", err)
			}
			return in
		},
		Idle: func(et enginetest.T, in engine.Instance) {
			until(et, "the engine does not become idle", func() bool { s := childState(et, in).Stats; return s.Active == 0 && s.Waiting == 0 })
		},
		Busy: func(et enginetest.T, in engine.Instance) {
			until(et, "the engine does not begin", func() bool { return childState(et, in).Stats.Active > 0 })
		},
		Count: func(et enginetest.T, in engine.Instance) enginetest.Count {
			s := childState(et, in).Stats
			return enginetest.Count{Requests: int(s.Requests), Tokens: int(s.Tokens)}
		},
		Kill: func(et enginetest.T, in engine.Instance) {
			if err := syscall.Kill(in.State().PID, syscall.SIGKILL); err != nil {
				et.Fatalf("kill: %v", err)
			}
		},
		FailStart: func(enginetest.T) ([]string, error) { return failStart(t) },
		// Long enough to be left in the middle, also by a machine that reads 5,000 tokens a second.
		SlowPrompt: 1800,
	})
}

// failStart starts a model whose file is cut off in its weights' table, and returns what is left of the attempt.
func failStart(t *testing.T) (left []string, err error) {
	b, err := os.ReadFile(filepath.Join(env(t, "STOKER_TEST_TINY"), "tiny-llama.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cut.gguf")
	if err := os.WriteFile(path, b[:len(b)-1000], 0o600); err != nil {
		t.Fatal(err)
	}
	s := spec(t, path)
	_, err = driver(t).Start(t.Context(), s)
	files, rerr := os.ReadDir(s.RunDir)
	if rerr != nil {
		t.Fatal(rerr)
	}
	for _, f := range files {
		left = append(left, f.Name())
	}
	return append(left, children(t, s.RunDir)...), err
}

// children are the processes whose command line names dir.
func children(t *testing.T, dir string) []string {
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

func TestConformanceChatModel(t *testing.T) { conform(t, env(t, "STOKER_TEST_MODEL_CHAT")) }
func TestConformanceBaseModel(t *testing.T) { conform(t, env(t, "STOKER_TEST_MODEL_BASE")) }

// TestConformanceFast runs the suite in the other mode.
func TestConformanceFast(t *testing.T) {
	conform(t, env(t, "STOKER_TEST_MODEL_CHAT"), engine.Option{Key: "mode", Value: "fast"})
}

func TestOptions(t *testing.T) {
	d := New(Options{Mode: "exact", Threads: 3, Kernels: func() ([]string, map[string]string) {
		return []string{"generic"}, map[string]string{"avx2": "the processor has none"}
	}})
	s, err := d.settings([]engine.Option{{Key: "mode", Value: "fast"}, {Key: "mode", Value: "exact"}, {Key: "kernel", Value: "generic"}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(s.args(engine.StartSpec{Model: engine.Model{Path: "m"}, Window: 5, Parallel: 2}, "s"), " ")
	if want := "lm --model m --socket s --window 5 --parallel 2 --mode exact --kernel generic --threads 3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, tt := range []struct{ key, value, want string }{
		{"mode", "quick", "exact or fast"},
		{"kernel", "avx2", "the processor has none"},
		{"kernel", "sse", "this machine runs generic"},
		{"threads", "0", "1 to 1024"},
		{"threads", "2x", "1 to 1024"},
		{"thread", "2", "did you mean threads?"},
		{"cache", "2", "it has kernel, mode, threads"},
	} {
		_, err := d.settings([]engine.Option{{Key: tt.key, Value: tt.value}})
		e, ok := errors.AsType[*infer.Error](err)
		if !ok || e.Kind != infer.ErrInvalid || e.Param != tt.key || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s=%s: %v, want %q", tt.key, tt.value, err, tt.want)
		}
	}
}

func TestStartTellsWhy(t *testing.T) {
	d := driver(t)
	for name, tt := range map[string]struct {
		path string
		kind infer.ErrorKind
		want string
	}{
		"no file":                 {filepath.Join(t.TempDir(), "none.gguf"), infer.ErrInvalid, "no such file"},
		"an unknown architecture": {filepath.Join(env(t, "STOKER_TEST_LLAMA_SRC"), "models", "ggml-vocab-falcon.gguf"), infer.ErrUnsupported, "it knows llama, qwen2, qwen3, gemma3"},
		"no weights":              {filepath.Join(env(t, "STOKER_TEST_LLAMA_SRC"), "models", "ggml-vocab-llama-bpe.gguf"), infer.ErrUnsupported, "the size of the vocabulary is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.Start(t.Context(), spec(t, tt.path))
			if infer.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v (%s), want %q in one of kind %s", err, infer.KindOf(err), tt.want, tt.kind)
			}
		})
	}
}

// TestProgress wants the bytes of a load, in order, and the phases.
func TestProgress(t *testing.T) {
	var phases []string
	var done int64
	s := spec(t, env(t, "STOKER_TEST_MODEL_BASE"))
	s.OnLoad = func(p engine.LoadProgress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
		if p.Phase == "weights" && (p.Done < done || p.Done > p.Total) {
			t.Errorf("%d of %d bytes after %d", p.Done, p.Total, done)
		}
		done = p.Done
	}
	in, err := driver(t).Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(phases); !strings.HasPrefix(got, "[starting") || !strings.HasSuffix(got, "warmup ready]") {
		t.Errorf("the phases are %s", got)
	}
}

// TestScrub keeps credentials from the engine.
func TestScrub(t *testing.T) {
	got := scrub([]string{"PATH=/bin", "OPENAI_API_KEY=x", "stoker_keys=y", "HF_TOKEN=z", "HOME=/h"})
	if want := "PATH=/bin HOME=/h"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
