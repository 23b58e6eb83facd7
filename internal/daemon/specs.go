package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/stoker-llm/stoker/internal/choose"
	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/hw"
	"github.com/stoker-llm/stoker/internal/models"
	"github.com/stoker-llm/stoker/internal/plan"
)

// specs decides for each model to serve which engine and window it gets. All problems are reported at once.
func (h Host) specs(ctx context.Context, c *config.Config, words []string, log *slog.Logger) ([]fleet.ModelSpec, error) {
	picked, err := c.Select(words)
	if err != nil {
		return nil, err
	}
	memory, err := available()
	if err != nil {
		return nil, err
	}
	engines := h.engines(c, log)
	var specs []fleet.ModelSpec
	var errs []error
	for _, m := range picked {
		art, err := artifact(c, m)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		choice, err := choose.Choose(ctx, engines.ranked(ctx, c, m), want(m, art), memory)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		chosen := choice.Chosen()
		memory.Promised += chosen.Plan.Total.N
		specs = append(specs, spec(c, m, art, chosen))
	}
	return specs, errors.Join(errs...)
}

// available is the memory that plans may count on.
func available() (choose.Memory, error) {
	m, err := hw.Read()
	if err != nil {
		return choose.Memory{}, fmt.Errorf("read this machine's memory: %w", err)
	}
	n := m.Memory.Available
	if g := m.Memory.GPUWorkingSet; g > 0 {
		n = min(n, g)
	}
	return choose.Memory{Available: plan.Bytes{N: n, Origin: plan.Measured}}, nil
}

// artifact finds the files of a model.
func artifact(c *config.Config, m config.Model) (models.Artifact, error) {
	store := &models.Store{Dirs: []string{c.ModelDir()}}
	arg := m.Path
	if arg == "" {
		arg = m.Name
	}
	a, err := store.Resolve(arg)
	if err != nil {
		return a, err
	}
	if m.Name != "" {
		a.Name = m.Name
	}
	return a, nil
}

func want(m config.Model, a models.Artifact) choose.Want {
	return choose.Want{
		Model: engine.Model{Name: a.Name, Path: a.Path, Format: a.Format}, Engine: m.Engine, Window: m.Ctx, Parallel: m.Parallel,
	}
}

func spec(c *config.Config, m config.Model, a models.Artifact, chosen *choose.Candidate) fleet.ModelSpec {
	s := fleet.ModelSpec{
		Name: a.Name, Aliases: m.Aliases, Driver: chosen.Driver(), Demand: *chosen.Demand, EngineReason: chosen.Reason,
		WindowReason: chosen.WindowReason(),
		Start: engine.StartSpec{
			Model: engine.Model{Name: a.Name, Path: a.Path, Format: a.Format}, Window: chosen.Plan.Tokens, Parallel: chosen.Plan.Parallel,
			LoadStall: c.LoadStall,
		},
	}
	if strings.Contains(a.ID, "/") && a.ID != a.Name {
		s.Repo = a.ID
	}
	s.Start.Options = options(c, chosen.Engine, m)
	return s
}
