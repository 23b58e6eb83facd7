package llamacpp

import (
	"fmt"
	"path/filepath"
	"slices"
)

// binaryName is the program that the driver looks for.
const binaryName = "llama-server"

// candidate is a binary that may be the engine.
type candidate struct {
	path, origin string
}

// candidates lists where the engine may be, best first. A path in the config is meant, so nothing else is looked at then.
// Stoker's own engine folder comes before PATH: somebody put an engine there for stoker, and a daemon started by the
// system has another PATH than the shell it was tried in.
func (o *Options) candidates() ([]candidate, error) {
	if o.Path != "" {
		path, err := o.LookPath(o.Path)
		if err != nil {
			return nil, fmt.Errorf("%s, the llama-server named in the config: %w", o.Path, err)
		}
		return []candidate{{path, "config"}}, nil
	}
	var cs []candidate
	for _, dir := range o.EngineDirs {
		for _, path := range inEngineDir(dir) {
			if p, err := o.LookPath(path); err == nil {
				cs = append(cs, candidate{p, "engine folder"})
			}
		}
	}
	if p, err := o.LookPath(binaryName); err == nil {
		cs = append(cs, candidate{p, "PATH"})
	}
	if len(cs) == 0 {
		return nil, fmt.Errorf("no %s in stoker's engine folder or on PATH", binaryName)
	}
	return cs, nil
}

// inEngineDir lists the places in one engine folder: the binary itself, or an install of its own, the newest name first.
func inEngineDir(dir string) []string {
	paths := []string{filepath.Join(dir, binaryName), filepath.Join(dir, "bin", binaryName)}
	for _, pattern := range []string{"llama*/" + binaryName, "llama*/bin/" + binaryName} {
		found, _ := filepath.Glob(filepath.Join(escapeGlob(dir), pattern)) // the pattern is ours and well formed
		slices.Sort(found)
		slices.Reverse(found)
		paths = append(paths, found...)
	}
	return paths
}

// escapeGlob returns path as a pattern that matches only itself.
func escapeGlob(path string) string {
	var b []byte
	for i := range len(path) {
		switch path[i] {
		case '*', '?', '[', '\\':
			b = append(b, '\\')
		}
		b = append(b, path[i])
	}
	return string(b)
}
