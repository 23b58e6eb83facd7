package daemon

import (
	"log/slog"

	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/llamacpp"
)

// drivers is the list of engines, best first.
func (h Host) drivers(c *config.Config, log *slog.Logger) []engine.Driver {
	return []engine.Driver{
		llamacpp.New(llamacpp.Options{
			Path: c.LlamaCpp.Path, EngineDirs: []string{c.EngineDir(llamacpp.Name)}, CacheDir: c.CacheDir, Shim: h.Shim, Env: h.Environ, Log: log,
		}),
	}
}
