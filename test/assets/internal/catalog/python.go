package catalog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stoker-llm/stoker/test/assets/internal/command"
)

// mlxPython is the Python that the pinned mlx-lm is known to run on.
const mlxPython = "3.12"

func mlxLM() asset {
	pkgs := []string{"mlx-lm[cpu]==0.32.2"}
	return asset{
		name:   "mlx-lm",
		about:  "mlx-lm 0.32.2 in a Python " + mlxPython + " environment, for the CPU",
		file:   filepath.Join("venv", "bin", "python"),
		env:    "STOKER_TEST_MLX_PYTHON",
		recipe: map[string]any{"python": mlxPython, "packages": pkgs},
		build:  func(ctx context.Context, j *job) error { return buildMLX(ctx, j, pkgs) },
	}
}

func buildMLX(ctx context.Context, j *job, pkgs []string) error {
	python, err := findPython(ctx, mlxPython, j.opt.Home)
	if err != nil {
		return err
	}
	venv := filepath.Join(j.Out, "venv")
	if err := j.makeVenv(ctx, python, venv, pkgs...); err != nil {
		return err
	}
	if err := j.run(ctx, "trying it", filepath.Join(venv, "bin", "python"), "-c", "import mlx_lm.server"); err != nil {
		return err
	}
	return rehome(filepath.Join(venv, "bin"), j.Out, j.Final)
}

// makeVenv makes a Python environment in dir and installs packages into it.
func (j *job) makeVenv(ctx context.Context, python, dir string, packages ...string) error {
	if err := j.run(ctx, "python environment", python, "-m", "venv", "--clear", dir); err != nil {
		return fmt.Errorf("%w (Debian and Ubuntu have it in a package of its own: apt-get install python3-venv)", err)
	}
	args := append([]string{"-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"}, packages...)
	return j.run(ctx, "installing "+strings.Join(packages, " "), filepath.Join(dir, "bin", "python"), args...)
}

// rehome rewrites the scripts in a Python environment's bin folder, whose first
// line names the environment's own path, for its place after the rename.
func rehome(bin, from, to string) error {
	entries, err := os.ReadDir(bin)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(bin, e.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Contains(b, []byte(from)) || bytes.IndexByte(b, 0) >= 0 {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte(from), []byte(to)), info.Mode()); err != nil {
			return err
		}
	}
	return nil
}

// findPython looks for a Python of one minor version: by its name on PATH, as the
// plain python3, and among pyenv's versions, whose names on PATH are stand-ins
// that may refuse.
func findPython(ctx context.Context, version, home string) (string, error) {
	candidates := []string{"python" + version, "python3"}
	if home != "" {
		// The pattern is a constant, so Glob cannot fail.
		more, _ := filepath.Glob(filepath.Join(home, ".pyenv", "versions", version+"*", "bin", "python"+version))
		slices.Reverse(more) // newest first
		candidates = append(candidates, more...)
	}
	for _, c := range candidates {
		path, err := exec.LookPath(c)
		if err != nil {
			continue
		}
		out, err := command.Output(ctx, path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
		if err == nil && out == version {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Python %s found: install it (Debian 13, Ubuntu 24.04: apt-get install python%s python%s-venv)", version, version, version)
}
