package daemon

import (
	"context"
	"log/slog"
	"runtime"

	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/embedded"
	"github.com/stoker-llm/stoker/internal/engine/llamacpp"
	"github.com/stoker-llm/stoker/internal/lm"
)

// drivers is the list of engines in the order of preference for this machine, with the reason for the order.
func (h Host) drivers(ctx context.Context, c *config.Config, log *slog.Logger) (list []engine.Driver, order string) {
	own := embedded.New(embedded.Options{
		Self: h.Self, Shim: h.Shim, Env: h.Environ, Mode: c.Embedded.Mode, Kernel: c.Embedded.Kernel, Threads: c.Embedded.Threads,
		Measure: measure, Kernels: lm.Kernels,
	})
	llama := llamacpp.New(llamacpp.Options{
		Path: c.LlamaCpp.Path, EngineDirs: []string{c.EngineDir(llamacpp.Name)}, CacheDir: c.CacheDir, Shim: h.Shim, Env: h.Environ, Log: log,
	})
	switch {
	case runtime.GOOS == "darwin" && runtime.GOARCH == "arm64":
		return []engine.Driver{llama, own}, "llama.cpp uses this Mac's GPU"
	case len(llama.Fingerprint(ctx).Devices) > 0:
		return []engine.Driver{llama, own}, "it uses the GPU"
	}
	return []engine.Driver{own, llama}, "no engine here uses a GPU, and this one needs nothing installed (no measurements of this machine are recorded)"
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
