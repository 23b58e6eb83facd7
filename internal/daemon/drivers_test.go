package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/engine/embedded"
	"github.com/stoker-llm/stoker/internal/engine/fake"
	"github.com/stoker-llm/stoker/internal/engine/llamacpp"
	"github.com/stoker-llm/stoker/test/kit"
)

// TestMain lets the test binary play the scripted engine.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) > 1 && args[0] == "engine" && args[1] == "fake" {
		os.Exit(fake.Main(args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// host is a program whose llama-server is the scripted engine, played by this test's own binary when it is asked.
func host(t *testing.T, flags ...config.Setting) (Host, *config.Config) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	llama, err := kit.WriteFakeLlama(dir, self, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Input{Flags: flags, Host: config.Host{
		Environ: []string{"STOKER_LLAMACPP_PATH=" + llama}, HomeDir: dir, WorkDir: dir, GOOS: "linux",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return Host{Self: []string{self}, Shim: []string{self, "shim"}}, c
}

func tiny(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("STOKER_TEST_TINY")
	if dir == "" {
		t.Fatal("STOKER_TEST_TINY is not set: run `make test`, or set it to what `go run ./test/assets path tiny` prints")
	}
	return filepath.Join(dir, "tiny-llama.gguf")
}

// TestOrder: without a GPU the embedded engine serves what it can, and steps aside for what only another can do.
func TestOrder(t *testing.T) {
	stub := filepath.Join(t.TempDir(), "stub.gguf") // a header that only the scripted engine takes for a model
	if err := kit.WriteModel(stub, true); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, model, chosen, mode, says string
		flags                           []config.Setting
		options                         int // that the start gets
	}{
		{"a model it knows", tiny(t), embedded.Name, "exact", "no measurements are recorded", nil, 0},
		{"in the other mode", tiny(t), embedded.Name, "fast", "", []config.Setting{{Key: "engine-arg", Value: "mode=fast"}}, 1},
		{"a model it cannot load", stub, llamacpp.Name, "engine's own", "cannot be served by the embedded engine", nil, 0},
		{
			"an option of another engine", tiny(t), llamacpp.Name, "engine's own", "has no such option",
			[]config.Setting{{Key: "engine-arg", Value: "n-gpu-layers=3"}},
			1,
		},
		{"another one by name", tiny(t), llamacpp.Name, "engine's own", "asked for by name", []config.Setting{{Key: "engine", Value: "llamacpp"}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, c := host(t, tt.flags...)
			choice, err := h.Explain(t.Context(), c, tt.model)
			if err != nil {
				t.Fatal(err)
			}
			got := choice.Chosen()
			if got.Engine != tt.chosen || got.Demand.Mode != tt.mode {
				t.Errorf("chose %s, %s; want %s, %s", got.Engine, got.Demand.Mode, tt.chosen, tt.mode)
			}
			var b strings.Builder
			if err := choice.WriteText(&b); err != nil || !strings.Contains(b.String(), tt.says) {
				t.Errorf("want %q in:\n%s", tt.says, &b)
			}
			specs, err := h.specs(t.Context(), c, []string{tt.model}, newLog(c, t.Output()))
			if err != nil || len(specs) != 1 || specs[0].Driver.Name() != tt.chosen || len(specs[0].Start.Options) != tt.options {
				t.Errorf("serve would do %+v, %v", specs, err)
			}
		})
	}
}
