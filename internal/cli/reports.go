package cli

import (
	"fmt"

	"github.com/stoker-llm/stoker/internal/config"
)

type modelsCmd struct {
	settingFlags
}

// Run lists what can be served: the models of the config and of stoker's model folder.
func (c *modelsCmd) Run(e *env) error {
	return e.withConfig(c.settingFlags, func(cfg *config.Config) (Report, error) { return e.Verbs.Models(e.ctx, cfg) })
}

type inspectCmd struct {
	File string `arg:"" help:"A GGUF file, a safetensors file, or a folder that holds safetensors."`
}

// Run shows what a model file holds.
func (c *inspectCmd) Run(e *env) error {
	r, err := e.Verbs.Inspect(e.ctx, c.File)
	if err != nil {
		return err
	}
	return e.show(r)
}

type explainCmd struct {
	settingFlags
	Model string `arg:"" help:"A model file or folder, or the name of a model in the config or the model folder."`
}

// Run shows the choice of engine and window for a model. A model that nothing can serve is a failure, explained.
func (c *explainCmd) Run(e *env) error {
	return e.withConfig(c.settingFlags, func(cfg *config.Config) (Report, error) { return e.Verbs.Explain(e.ctx, cfg, c.Model) })
}

type doctorCmd struct {
	settingFlags
}

// Run shows engines, machine and what is missing.
func (c *doctorCmd) Run(e *env) error {
	return e.withConfig(c.settingFlags, func(cfg *config.Config) (Report, error) { return e.Verbs.Doctor(e.ctx, cfg) })
}

// withConfig loads the settings and shows the report made from them. A verb may return a report beside its error: both are
// shown.
func (e *env) withConfig(f settingFlags, make func(*config.Config) (Report, error)) error {
	cfg, err := e.load(f)
	if err != nil {
		return err
	}
	r, err := make(cfg)
	if r != nil {
		if serr := e.show(r); serr != nil {
			return fmt.Errorf("write the report: %w", serr)
		}
	}
	return err
}
