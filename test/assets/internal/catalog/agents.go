package catalog

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/stoker-llm/stoker/test/assets/internal/command"
	"github.com/stoker-llm/stoker/test/assets/internal/report"
)

// agent is a coding agent on npm, with the versions we know to work, best first.
type agent struct {
	Package  string   `json:"package"`
	Versions []string `json:"versions"`
	Program  string   `json:"program"`
}

func agents() asset {
	list := []agent{
		{Package: "@anthropic-ai/claude-code", Versions: []string{"2.1.332", "2.1.197"}, Program: "claude"},
		{Package: "@openai/codex", Versions: []string{"0.171.0"}, Program: "codex"},
		{Package: "opencode-ai", Versions: []string{"1.18.33"}, Program: "opencode"},
	}
	return asset{
		name:   "agents",
		about:  "the coding agents Claude Code, Codex and OpenCode, 1 GB",
		file:   filepath.Join("node_modules", ".bin"),
		env:    "STOKER_TEST_AGENTS",
		recipe: list,
		build: func(ctx context.Context, j *job) error {
			npm, err := workingProgram(ctx, "npm")
			if err != nil {
				return errors.New("npm not found: install Node.js 20 or newer")
			}
			for _, a := range list {
				if err := installAgent(ctx, j, npm, a); err != nil {
					return err
				}
				if err := tryAgent(ctx, j, a); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// installAgent installs the first version that the registry serves. Install
// scripts run: two of the agents put their program into place with one.
func installAgent(ctx context.Context, j *job, npm string, a agent) (err error) {
	for _, v := range a.Versions {
		spec := a.Package + "@" + v
		err = j.step("installing "+spec, func(*report.Step) error {
			return command.Run(ctx, command.Spec{
				Path: npm, Log: j.Log,
				Args: []string{"install", "--prefix", j.Out, "--no-audit", "--no-fund", "--loglevel", "error", spec},
			})
		})
		if err == nil {
			j.Details[a.Package] = v
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
	return err
}

// tryAgent asks the agent for its version, in a home of its own so that it
// neither reads nor writes the user's settings.
func tryAgent(ctx context.Context, j *job, a agent) error {
	return j.step("trying "+a.Program, func(*report.Step) error {
		return command.Run(ctx, command.Spec{
			Path: filepath.Join(j.Out, "node_modules", ".bin", a.Program), Args: []string{"--version"},
			Env: []string{"HOME=" + filepath.Join(j.Dir, "home")}, Log: j.Log,
		})
	})
}
