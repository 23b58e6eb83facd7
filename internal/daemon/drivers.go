package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"

	"github.com/stoker-llm/stoker/internal/choose"
	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/embedded"
	"github.com/stoker-llm/stoker/internal/engine/llamacpp"
	"github.com/stoker-llm/stoker/internal/lm"
)

// engines are the drivers that this program has.
type engines struct {
	own   *embedded.Driver
	llama *llamacpp.Driver
	mac   bool // on Apple Silicon
}

func (h Host) engines(c *config.Config, log *slog.Logger) engines {
	return engines{
		own: embedded.New(embedded.Options{
			Self: h.Self, Shim: h.Shim, Env: h.Environ, Mode: c.Embedded.Mode, Kernel: c.Embedded.Kernel, Threads: c.Embedded.Threads,
			PackDir: filepath.Join(c.CacheDir, "packed"), Measure: measure, Kernels: lm.Kernels,
		}),
		llama: llamacpp.New(llamacpp.Options{
			Path: c.LlamaCpp.Path, EngineDirs: []string{c.EngineDir(llamacpp.Name)}, CacheDir: c.CacheDir, Shim: h.Shim, Env: h.Environ, Log: log,
		}),
		mac: runtime.GOOS == "darwin" && runtime.GOARCH == "arm64",
	}
}

// all lists the drivers.
func (e engines) all() []engine.Driver { return []engine.Driver{e.own, e.llama} }

// ranked lists the drivers for a model in the order of preference, with the reasons. The model's options are laid over the settings of
// the embedded engine first, so that an option of another engine's makes it step aside.
func (e engines) ranked(ctx context.Context, c *config.Config, m config.Model) []choose.Ranked {
	own := e.own.With(options(c, embedded.Name, m))
	onGPU := func(what string) []choose.Ranked {
		return []choose.Ranked{{Driver: e.llama, Why: "it computes on " + what}, {Driver: own, Why: "it computes on the processor only"}}
	}
	if e.mac {
		return onGPU("this Mac's GPU")
	}
	if m.Engine == choose.Auto { // looking for devices takes time, and the order matters for nothing else
		if found := e.llama.Fingerprint(ctx).Devices; len(found) > 0 {
			return onGPU("the GPU " + found[0].Name + " (" + found[0].Description + ")")
		}
	}
	return []choose.Ranked{
		{Driver: own, Why: "no engine here uses a GPU, and this one computes the same on every machine; " +
			"no measurements are recorded that speak for another"},
		{Driver: e.llama, Why: "it is there for what the embedded engine cannot serve"},
	}
}

// options are the user's options for a model on an engine.
func options(c *config.Config, name string, m config.Model) []engine.Option {
	var out []engine.Option
	for _, o := range c.EngineArgs(name, m) {
		out = append(out, engine.Option{Key: o.Key, Value: o.Value})
	}
	return out
}

// measure is what the embedded engine needs for a model.
func measure(path, mode string) (engine.Demand, error) {
	n, err := lm.Measure(path, mode)
	if err != nil {
		return engine.Demand{}, err
	}
	return engine.Demand{
		Architecture: n.Architecture, Quantization: n.Quantization, TrainedContext: n.TrainedContext, HasChatTemplate: n.HasTemplate, Mode: n.Mode,
		Weights:    engine.Bytes{N: n.WeightBytes, Origin: engine.Declared},
		KVPerToken: engine.Bytes{N: n.KVPerToken, Origin: engine.Declared},
		Overhead:   engine.Bytes{N: n.Overhead, Origin: engine.Estimated},
		PerSlot:    engine.Bytes{Origin: engine.Declared},
	}, nil
}
