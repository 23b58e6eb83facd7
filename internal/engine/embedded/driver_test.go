package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/supervise"
)

func tableDriver(o Options) *Driver {
	o.Self = []string{"/opt/stoker"}
	o.Kernels = func() ([]string, map[string]string) {
		return []string{"avx2", "generic"}, map[string]string{"avx512": "the processor has none"}
	}
	o.Measure = func(_, mode string) (engine.Demand, error) { return engine.Demand{Mode: mode}, nil }
	return New(o)
}

func TestOptions(t *testing.T) {
	d := tableDriver(Options{Mode: "exact", Threads: 3, Kernel: "auto"})
	s := engine.StartSpec{Model: engine.Model{Path: "m"}, Window: 5, Parallel: 2}
	for _, tt := range []struct {
		name string
		opts []engine.Option
		want string
	}{
		{"none", nil, "lm --model m --socket s --parallel 2 --window 5 --mode exact --threads 3"},
		{
			"all, the last of two counts",
			[]engine.Option{{Key: "mode", Value: "fast"}, {Key: "kernel", Value: "generic"}, {Key: "threads", Value: "1"}, {Key: "mode", Value: "exact"}, {Key: "pack-cache", Value: "on"}},
			"lm --model m --socket s --parallel 2 --window 5 --mode exact --kernel generic --threads 1 --pack-dir /packs",
		},
	} {
		got := d.With(tt.opts)
		if got.wrong != nil {
			t.Errorf("%s: %v", tt.name, got.wrong)
		}
		if words := strings.Join(got.set.command(s, "s", "/packs").Args(), " "); words != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, words, tt.want)
		}
	}
}

// TestWrongOptions are found before a start, so that another engine can be chosen, and at a start.
func TestWrongOptions(t *testing.T) {
	m := engine.Model{Name: "m", Format: "gguf"}
	for _, tt := range []struct{ key, value, want string }{
		{"mode", "quick", "exact or fast"},
		{"kernel", "avx512", "the processor has none; this machine runs avx2, generic"},
		{"kernel", "sse", `"sse" is no set of kernels`},
		{"threads", "0", "from 1 to 1024"},
		{"threads", "1025", "from 1 to 1024"},
		{"threads", "2x", `"2x" is no number`},
		{"thread", "2", "did you mean threads?"},
		{"n-gpu-layers", "2", "it has kernel, mode, pack-cache, threads"},
		{"pack-cache", "yes", "neither on nor off"},
	} {
		opts := []engine.Option{{Key: tt.key, Value: tt.value}}
		_, demand := tableDriver(Options{}).With(opts).Demand(t.Context(), m)
		_, start := tableDriver(Options{}).Start(t.Context(), engine.StartSpec{Model: m, Options: opts})
		for _, err := range []error{demand, start} {
			e, ok := errors.AsType[*infer.Error](err)
			if !ok || e.Kind != infer.ErrInvalid || e.Param != tt.key || !strings.Contains(e.Message, tt.want) {
				t.Errorf("%s=%s: %v, want %q", tt.key, tt.value, err, tt.want)
			}
		}
	}
	if _, err := tableDriver(Options{Kernel: "avx512"}).Demand(t.Context(), m); infer.KindOf(err) != infer.ErrInvalid {
		t.Errorf("a setting that cannot work: %v", err)
	}
	if _, err := tableDriver(Options{Kernel: "avx512"}).With([]engine.Option{{Key: "kernel", Value: "generic"}}).Demand(t.Context(), m); err != nil {
		t.Errorf("an option does not count over the setting: %v", err)
	}
}

func TestDemand(t *testing.T) {
	d := tableDriver(Options{Mode: "exact"}).With([]engine.Option{{Key: "mode", Value: "fast"}})
	for _, format := range []string{"gguf", "safetensors"} {
		if got, err := d.Demand(t.Context(), engine.Model{Format: format}); err != nil || got.Mode != "fast" {
			t.Errorf("%s: %+v, %v", format, got, err)
		}
	}
	if _, err := d.Demand(t.Context(), engine.Model{Name: "m", Format: "onnx"}); infer.KindOf(err) != infer.ErrUnsupported {
		t.Errorf("a foreign format: %v", err)
	}
}

func TestFingerprint(t *testing.T) {
	f := tableDriver(Options{Threads: 1}).Fingerprint(t.Context())
	if !f.Found || f.Engine != Name || f.Path != "/opt/stoker" || f.Build != "avx2 kernels, 1 thread" || f.Version == "" {
		t.Errorf("%+v", f)
	}
	if got := strings.Join(f.Notes, "|"); !strings.Contains(got, "avx2, generic") || !strings.Contains(got, "avx512, because the processor has none") {
		t.Errorf("the notes are %q", got)
	}
	if got := tableDriver(Options{Kernel: "generic", Threads: 2}).Fingerprint(t.Context()).Build; got != "generic kernels, 2 threads" {
		t.Errorf("the build is %q", got)
	}
}

// TestScrub: nothing of the environment reaches the engine but the time zone.
func TestScrub(t *testing.T) {
	got := scrub([]string{"PATH=/bin", "OPENAI_API_KEY=x", "TZ=Europe/Berlin", "HF_TOKEN=z", "GOMAXPROCS=1", "TZX=1", "=x"})
	if want := []string{"TZ=Europe/Berlin"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestExits(t *testing.T) {
	goCrash := []string{"panic: index out of range [3]", "", "goroutine 7 [running]:", "main.x()", "\t/a/b.go:3 +0x1"}
	for name, tt := range map[string]struct {
		exit   supervise.Exit
		tail   []string
		reason engine.ExitReason
		detail string
	}{
		"asked":            {supervise.Exit{Asked: true}, nil, engine.ExitStopped, "exit status 0"},
		"a panic":          {supervise.Exit{Code: 2}, goCrash, engine.ExitCrashed, "exit status 2: panic: index out of range [3]"},
		"a signal":         {supervise.Exit{Code: -1, Signal: "SIGSEGV"}, nil, engine.ExitCrashed, "killed by SIGSEGV"},
		"the system's oom": {supervise.Exit{Code: -1, Signal: "SIGKILL", OutOfMemory: true}, nil, engine.ExitOutOfMemory, "killed by SIGKILL (out of memory)"},
		"no memory": {
			supervise.Exit{Code: 2},
			[]string{"fatal error: runtime: out of memory", "", "goroutine 1:"},
			engine.ExitOutOfMemory,
			"exit status 2: fatal error: runtime: out of memory",
		},
		"the shim's end": {supervise.Exit{Code: -1, ShimLost: true}, nil, engine.ExitLost, "lost with its shim"},
		"its own reason": {
			supervise.Exit{Code: 1},
			[]string{`{"kind":"internal","message":"the socket failed"}`},
			engine.ExitCrashed,
			"exit status 1: the socket failed",
		},
	} {
		saw := &witness{}
		if got := exitOf(&tt.exit, saw.words(tt.tail)); got.Reason != tt.reason || got.Detail != tt.detail {
			t.Errorf("%s: %s, %q; want %s, %q", name, got.Reason, got.Detail, tt.reason, tt.detail)
		}
	}
}

// TestWitness: the beginning of a crash is known, however long its stacks are.
func TestWitness(t *testing.T) {
	saw := &witness{}
	for _, line := range []string{"hello", "fatal error: concurrent map writes", "panic: the second"} {
		saw.see(supervise.Stderr, line)
	}
	if got := saw.words([]string{"goroutine 900:", "\tx.go:1"}); got != "fatal error: concurrent map writes" {
		t.Errorf("the words are %q", got)
	}
}

// TestStartTellsWhy: what the real child cannot load comes back as what it said.
func TestStartTellsWhy(t *testing.T) {
	d := realDriver(t)
	for name, tt := range map[string]struct {
		path string
		kind infer.ErrorKind
		want string
	}{
		"no file":                 {filepath.Join(t.TempDir(), "none.gguf"), infer.ErrInvalid, "no such file"},
		"a cut file":              {cutModel(t), infer.ErrInvalid, "it is cut off"},
		"an unknown architecture": {filepath.Join(env(t, "STOKER_TEST_LLAMA_SRC"), "models", "ggml-vocab-falcon.gguf"), infer.ErrUnsupported, "llama, qwen2, qwen3, gemma3"},
		"no weights":              {filepath.Join(env(t, "STOKER_TEST_LLAMA_SRC"), "models", "ggml-vocab-llama-bpe.gguf"), infer.ErrUnsupported, "size of the vocabulary"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, tt.path)
			_, err := d.Start(t.Context(), s)
			if infer.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v (%s), want %q in one of kind %s", err, infer.KindOf(err), tt.want, tt.kind)
			}
			if l := left(t, s.RunDir); len(l) > 0 {
				t.Errorf("left: %q", l)
			}
		})
	}
}

// TestProgress wants the bytes of a real load, in order, and the phases.
func TestProgress(t *testing.T) {
	var phases []string
	var done int64
	s := spec(t, env(t, "STOKER_TEST_MODEL_BASE"))
	s.OnLoad = func(p engine.LoadProgress) {
		phases = append(phases, p.Phase)
		if p.Done < done || p.Done > p.Total {
			t.Errorf("%s: %d of %d bytes after %d", p.Phase, p.Done, p.Total, done)
		}
		done = p.Done
	}
	in := begin(t, realDriver(t), s)
	if got := fmt.Sprint(dedup(phases)); !strings.HasPrefix(got, "[starting") || !strings.HasSuffix(got, "warmup ready]") || done == 0 {
		t.Errorf("the phases are %s, and %d bytes in the end", got, done)
	}
	f := in.Facts()
	if f.Engine != Name || f.Mode != "exact" || !strings.Contains(f.Build, "kernels") || f.Caps.Chat || f.Caps.Tools || !f.Caps.CountTokens {
		t.Errorf("the facts are %+v", f)
	}
	if _, err := os.Stat(in.socket); err != nil {
		t.Errorf("the socket: %v", err)
	}
}
