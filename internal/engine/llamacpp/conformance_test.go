package llamacpp

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/enginetest"
	"github.com/stoker-llm/stoker/test/kit"
)

func TestConformanceScripted(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Start: func(et enginetest.T) engine.Instance {
			s := scriptedSpec(t)
			s.Parallel = 2
			return begin(et, scriptedDriver(t, "chunk-delay: 1ms\ntoken-delay: 1ms\ntokens: 4000"), s)
		},
		Kill: kill,
		Idle: func(t enginetest.T, in engine.Instance) {
			limit := time.Now().Add(enginetest.Bound)
			for {
				var st fakeState
				err := in.(*instance).conn.fetch(t.Context(), "/fake/state", nil, &st)
				if err == nil && st.Active == 0 {
					return
				}
				if time.Now().After(limit) {
					t.Fatalf("the engine's state is %+v, %v", st, err)
				}
				<-time.After(time.Millisecond)
			}
		},
	})
}

func TestConformanceRealChatModel(t *testing.T) {
	real := kit.NeedReal(t)
	conform(t, real, real.Chat, 2048)
}

func TestConformanceRealBaseModel(t *testing.T) {
	real := kit.NeedReal(t)
	conform(t, real, real.Base, 2048)
}

// TestConformanceTinyModels runs each architecture that the tests have random weights for.
func TestConformanceTinyModels(t *testing.T) {
	real := kit.NeedReal(t)
	dir := os.Getenv("STOKER_TEST_TINY")
	if dir == "" {
		t.Fatal("STOKER_TEST_TINY is not set: run `make test`, or set it to what `go run ./test/assets path tiny` prints")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d tiny models in %s (%v), want at least 4", len(files), dir, err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".gguf"), func(t *testing.T) {
			in := begin(stdT{t}, realDriver(t, real), realSpec(t, f, 512))
			stopAfter(t, in)
			st, err := in.Generate(t.Context(), completion("One two three", 4))
			if err != nil {
				t.Fatal(err)
			}
			_, done, err := answer(t.Context(), st)
			if err != nil || done.Usage.Completion < 1 || done.Usage.Prompt < 3 {
				t.Errorf("random weights answer with %+v, %v", done, err)
			}
		})
	}
}

// stdT is what begin needs of a *testing.T.
type stdT struct{ *testing.T }

type failer interface {
	Fatalf(format string, args ...any)
}

func begin(t failer, d *Driver, s engine.StartSpec) engine.Instance {
	ctx, cancel := contextFor(time.Minute)
	defer cancel()
	in, err := d.Start(ctx, s)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return in
}

func realDriver(t testing.TB, real kit.Real) *Driver {
	return New(Options{Path: real.LlamaServer, CacheDir: t.TempDir(), Shim: []string{self(t), "shim"}, Env: os.Environ()})
}

func realSpec(t testing.TB, path string, window int) engine.StartSpec {
	return engine.StartSpec{
		Model: engine.Model{Name: "real", Path: path, Format: "gguf"}, Window: window, Parallel: 2, LoadStall: time.Minute, RunDir: runDir(t),
	}
}

// conform runs the suite on a real model.
func conform(t *testing.T, real kit.Real, model string, window int) {
	enginetest.Run(t, enginetest.Config{
		Start: func(et enginetest.T) engine.Instance {
			return begin(et, realDriver(t, real), realSpec(t, model, window))
		},
		Kill: kill, Idle: func(t enginetest.T, in engine.Instance) { idle(t, in) }, SlowPrompt: window - 300,
		Words: func(n int) string { return strings.Repeat(" word", n) },
	})
}

func kill(t enginetest.T, in engine.Instance) {
	if err := syscall.Kill(in.State().PID, syscall.SIGKILL); err != nil {
		t.Fatalf("kill: %v", err)
	}
}

// idle returns when the engine has used no processor time for 200 ms.
func idle(t failer, in engine.Instance) {
	limit := time.Now().Add(enginetest.Bound)
	last, since := ticks(t, in.State().PID), time.Now()
	for time.Since(since) < 200*time.Millisecond {
		<-time.After(10 * time.Millisecond)
		if now := ticks(t, in.State().PID); now > last {
			last, since = now, time.Now()
		}
		if time.Now().After(limit) {
			t.Fatalf("the engine is not idle within %s", enginetest.Bound)
		}
	}
}

// ticks is the processor time of a process in the kernel's own unit.
func ticks(t failer, pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatalf("%v", err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err1 != nil || err2 != nil {
		t.Fatalf("stat of %d: %s", pid, b)
	}
	return user + system
}
