package llamacpp

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/fake"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/supervise"
	"github.com/stoker-llm/stoker/test/kit"
)

// The test binary plays the shim and the scripted engine.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	if supervise.IsShim(args) {
		os.Exit(supervise.ShimMain(args))
	}
	if len(args) > 1 && args[0] == "engine" && args[1] == "fake" {
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

// scriptedDriver returns a driver whose llama-server is the scripted engine with a script.
func scriptedDriver(t testing.TB, script string) *Driver {
	t.Helper()
	dir := t.TempDir()
	path, err := kit.WriteFakeLlama(dir, self(t), script)
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Path: path, CacheDir: filepath.Join(dir, "cache"), Shim: []string{self(t), "shim"}, Env: os.Environ()})
}

// runDir makes a folder with a path short enough for sockets.
func runDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "l")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// scriptedSpec says to start a model that only the scripted engine can serve.
func scriptedSpec(t testing.TB) engine.StartSpec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := kit.WriteModel(path, true); err != nil {
		t.Fatal(err)
	}
	return engine.StartSpec{
		Model: engine.Model{Name: "tiny", Path: path, Format: "gguf"}, Window: 4096, Parallel: 1, LoadStall: time.Minute, RunDir: runDir(t),
	}
}

// startScripted starts the scripted engine, or fails the test.
func startScripted(t testing.TB, script string) *instance {
	t.Helper()
	in, err := scriptedDriver(t, script).Start(context.Background(), scriptedSpec(t))
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	stopAfter(t, in)
	return in.(*instance)
}

func stopAfter(t testing.TB, in engine.Instance) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := in.Stop(ctx); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
}

func chat(text string, max int) *infer.Request {
	zero := 0.0
	return &infer.Request{
		Kind: infer.Chat, MaxTokens: max, Sampling: infer.Sampling{Temperature: &zero},
		Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: text}}}},
	}
}

func completion(text string, max int) *infer.Request {
	zero := 0.0
	return &infer.Request{Kind: infer.Completion, Prompt: text, MaxTokens: max, Sampling: infer.Sampling{Temperature: &zero}}
}

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// answer collects a stream's text, and the error that ended it, nil after Done.
func answer(ctx context.Context, s engine.Stream) (string, *infer.Done, error) {
	defer s.Close()
	text := ""
	for {
		ev, err := s.Next(ctx)
		if err != nil {
			return text, nil, err
		}
		switch e := ev.(type) {
		case infer.Text:
			text += e.Text
		case infer.Done:
			return text, &e, nil
		}
	}
}

// mine lists the processes that were started from this test's binary with dir among their arguments.
func mine(t testing.TB, dir string) string {
	t.Helper()
	out, err := exec.Command("pgrep", "-f", dir).Output()
	if err != nil && len(out) > 0 {
		t.Fatal(err)
	}
	return string(out)
}
