package embedded

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/enginetest"
)

// conform runs the suite with nothing left out.
func conform(t *testing.T, d *Driver, s func() engine.StartSpec, failing func() engine.StartSpec, slow int) {
	enginetest.Run(t, enginetest.Config{
		Start: func(et enginetest.T) engine.Instance {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			in, err := d.Start(ctx, s())
			if err != nil {
				et.Fatalf("Start: %v", err)
			}
			return in
		},
		Idle: func(et enginetest.T, in engine.Instance) {
			until(et, "the engine does not become idle", func() bool { s := childState(et, in); return s.Active == 0 && s.Waiting == 0 })
		},
		Busy: func(et enginetest.T, in engine.Instance) {
			until(et, "the engine does not begin", func() bool { return childState(et, in).Active > 0 })
		},
		Count: func(et enginetest.T, in engine.Instance) enginetest.Count {
			s := childState(et, in)
			return enginetest.Count{Requests: int(s.Requests), Tokens: int(s.Tokens)}
		},
		Kill: func(et enginetest.T, in engine.Instance) {
			if err := syscall.Kill(in.State().PID, syscall.SIGKILL); err != nil {
				et.Fatalf("kill: %v", err)
			}
		},
		FailStart: func(enginetest.T) ([]string, error) {
			f := failing()
			_, err := d.Start(t.Context(), f)
			return left(t, f.RunDir), err
		},
		SlowPrompt: slow,
	})
}

// cutModel is a model file whose last weights are missing.
func cutModel(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(env(t, "STOKER_TEST_TINY"), "tiny-llama.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cut.gguf")
	if err := os.WriteFile(path, b[:len(b)-1000], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// conformReal runs the suite on the real child. The window is small, since the suite fills it, and nearly all of it is the prompt that is
// left while it is read: Busy looks every millisecond, so that is in time on fast machines too.
func conformReal(t *testing.T, model string, window int, options ...engine.Option) {
	conform(t, realDriver(t), func() engine.StartSpec {
		s := spec(t, model)
		s.Window, s.Options = window, options
		return s
	}, func() engine.StartSpec { return spec(t, cutModel(t)) }, window-100)
}

func TestConformanceChatModel(t *testing.T) { conformReal(t, env(t, "STOKER_TEST_MODEL_CHAT"), 1024) }

func TestConformanceBaseModel(t *testing.T) { conformReal(t, env(t, "STOKER_TEST_MODEL_BASE"), 512) }

// TestConformanceFast runs the suite in the other mode.
func TestConformanceFast(t *testing.T) {
	conformReal(t, env(t, "STOKER_TEST_MODEL_CHAT"), 512, engine.Option{Key: "mode", Value: "fast"})
}
