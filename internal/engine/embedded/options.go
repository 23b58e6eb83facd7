package embedded

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/nearest"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// auto leaves the choice of kernels to the engine.
const auto = "auto"

// maxThreads is the most that the engine takes.
const maxThreads = 1024

// settings are how an engine is run. Empty and 0 leave it to the engine.
type settings struct {
	mode, kernel string
	threads      int
	// pack keeps the packed weights in a file for the next start.
	pack bool
}

// optionKeys are what --engine-arg takes.
func optionKeys() []string { return []string{"kernel", "mode", "pack-cache", "threads"} }

// lay lays the user's options over s. Every error names the option and the way out.
func (s *settings) lay(opts []engine.Option, kernels func() ([]string, map[string]string)) error {
	for _, o := range opts {
		switch o.Key {
		case "mode":
			s.mode = o.Value
		case "kernel":
			s.kernel = o.Value
		case "threads":
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 1 {
				return badThreads(o.Value)
			}
			s.threads = n
		case "pack-cache":
			if o.Value != "on" && o.Value != "off" {
				return infer.Errorf(infer.ErrInvalid, o.Key, "the embedded engine's pack-cache: %q is neither on nor off", o.Value)
			}
			s.pack = o.Value == "on"
		default:
			return unknown(o.Key)
		}
	}
	return s.check(kernels)
}

func unknown(key string) error {
	hint := ""
	if near := nearest.Of(key, optionKeys()); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return infer.Errorf(infer.ErrInvalid, key, "--engine-arg %s: the embedded engine has no such option%s (it has %s)", key, hint,
		strings.Join(optionKeys(), ", "))
}

// check finds what cannot work, wherever it was set.
func (s *settings) check(kernels func() ([]string, map[string]string)) error {
	if !slices.Contains([]string{"", "exact", "fast"}, s.mode) {
		return infer.Errorf(infer.ErrInvalid, "mode", "the embedded engine's mode: %q is none: exact or fast", s.mode)
	}
	if s.threads < 0 || s.threads > maxThreads {
		return badThreads(strconv.Itoa(s.threads))
	}
	have, missing := kernels()
	if s.kernel == "" || s.kernel == auto || slices.Contains(have, s.kernel) {
		return nil
	}
	why := "is no set of kernels"
	if m, ok := missing[s.kernel]; ok {
		why = "cannot run here: " + m
	}
	return infer.Errorf(infer.ErrInvalid, "kernel", "the embedded engine's kernel: %q %s; this machine runs %s", s.kernel, why, strings.Join(have, ", "))
}

func badThreads(value string) error {
	return infer.Errorf(infer.ErrInvalid, "threads", "the embedded engine's threads: %q is no number from 1 to %d", value, maxThreads)
}

// command is the child's command line.
func (s *settings) command(spec engine.StartSpec, socket, packDir string) native.Command {
	c := native.Command{
		Model: pathOf(spec.Model), Socket: socket, Window: spec.Window, Parallel: spec.Parallel, Mode: s.mode, Kernel: s.kernel, Threads: s.threads,
	}
	if c.Kernel == auto {
		c.Kernel = ""
	}
	if s.pack {
		c.PackDir = packDir
	}
	return c
}

// keptVariables are all that the engine gets of the environment: chat templates write the date in the local time zone. Everything else it
// is told on its command line.
var keptVariables = []string{"TZ", "ZONEINFO"}

func scrub(parent []string) []string {
	return slices.DeleteFunc(slices.Clone(parent), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(keptVariables, name)
	})
}
