// Package embedded is the driver for stoker's own engine: this same program in its child role "lm" (package lm/lmserve), which it
// starts through the shim on a unix socket and speaks to in the dialect of wire/native.
//
// The engine needs nothing installed, so Fingerprint always finds it. What a model needs, and which kernels this machine runs, is
// handed in by whoever builds the driver: a driver does not import the engine. All methods may be called concurrently.
package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/stoker-llm/stoker/internal/buildinfo"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/nearest"
)

// Name is the engine's word in the config.
const Name = "embedded"

// Options are what the driver needs to know about its surroundings.
type Options struct {
	// Self is the command that runs this program in the role lm: its path, and what else is needed.
	Self []string
	// Shim is the command that runs an engine so that it dies with us.
	Shim []string
	// Env is the environment that engines are started with, less what holds credentials.
	Env []string
	// Mode, Kernel and Threads are the settings that hold unless a start says otherwise; empty and 0 leave them to the engine.
	Mode, Kernel string
	Threads      int
	// Measure reads what a model needs in a mode, from its header. Errors are *infer.Error.
	Measure func(path, mode string) (engine.Demand, error)
	// Kernels returns the sets of kernels that this machine runs, best first, and those it cannot run, with the reasons.
	Kernels func() (have []string, missing map[string]string)
}

// Driver starts the embedded engine. Use New.
type Driver struct{ o Options }

var _ engine.Driver = (*Driver)(nil)

// New returns a driver.
func New(o Options) *Driver { return &Driver{o} }

// Name returns the engine's word in the config.
func (d *Driver) Name() string { return Name }

// Fingerprint describes this program.
func (d *Driver) Fingerprint(context.Context) engine.Fingerprint {
	f := engine.Fingerprint{Engine: Name, Found: true, Path: d.o.Self[0], Origin: "this program", Version: buildinfo.Get().Version}
	have, missing := d.o.Kernels()
	f.Build = "kernels " + have[0]
	f.Notes = append(f.Notes, "kernels: "+strings.Join(have, ", ")+" (the first is used unless engines.embedded.kernel says otherwise)")
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		f.Notes = append(f.Notes, "kernels "+name+" cannot run here: "+missing[name])
	}
	return f
}

// Demand says what serving m would need, or refuses m by name. It reads headers only.
func (d *Driver) Demand(_ context.Context, m engine.Model) (engine.Demand, error) {
	if m.Format != "gguf" && m.Format != "safetensors" {
		return engine.Demand{}, infer.Errorf(infer.ErrUnsupported, "model", "%s is a %s model; the embedded engine reads GGUF files and safetensors folders", m.Name, m.Format)
	}
	return d.o.Measure(m.Path, d.o.Mode)
}

// settings are how one engine is run.
type settings struct{ mode, kernel, threads string }

// optionNames are the settings of --engine-arg.
func optionNames() []string { return []string{"kernel", "mode", "threads"} }

// settings merges the user's options over the driver's. Every error names the option and the way out.
func (d *Driver) settings(opts []engine.Option) (settings, error) {
	s := settings{mode: d.o.Mode, kernel: d.o.Kernel}
	if d.o.Threads > 0 {
		s.threads = fmt.Sprint(d.o.Threads)
	}
	for _, o := range opts {
		switch o.Key {
		case "mode":
			s.mode = o.Value
		case "kernel":
			s.kernel = o.Value
		case "threads":
			s.threads = o.Value
		default:
			hint := ""
			if near := nearest.Of(o.Key, optionNames()); len(near) > 0 {
				hint = ": did you mean " + strings.Join(near, ", ") + "?"
			}
			return s, infer.Errorf(infer.ErrInvalid, o.Key, "--engine-arg %s: the embedded engine has no such setting%s (it has %s)", o.Key, hint, strings.Join(optionNames(), ", "))
		}
	}
	return s, s.check(d)
}

func (s *settings) check(d *Driver) error {
	if s.mode != "" && s.mode != "exact" && s.mode != "fast" {
		return infer.Errorf(infer.ErrInvalid, "mode", "--engine-arg mode: %q is not a mode: exact or fast", s.mode)
	}
	have, missing := d.o.Kernels()
	if s.kernel != "" && s.kernel != "auto" && !slices.Contains(have, s.kernel) {
		why := "is not known"
		if m, ok := missing[s.kernel]; ok {
			why = "cannot run here: " + m
		}
		return infer.Errorf(infer.ErrInvalid, "kernel", "--engine-arg kernel: %q %s; this machine runs %s", s.kernel, why, strings.Join(have, ", "))
	}
	var n int
	if s.threads != "" {
		if _, err := fmt.Sscanf(s.threads, "%d", &n); err != nil || n < 1 || n > 1024 || fmt.Sprint(n) != s.threads {
			return infer.Errorf(infer.ErrInvalid, "threads", "--engine-arg threads: %q is not a number of threads from 1 to 1024", s.threads)
		}
	}
	return nil
}

// args is the command line of the child.
func (s *settings) args(spec engine.StartSpec, socket string) []string {
	words := []string{
		"lm", "--model", spec.Model.Path, "--socket", socket, "--window", fmt.Sprint(spec.Window), "--parallel", fmt.Sprint(spec.Parallel),
	}
	for _, v := range [][2]string{{"--mode", s.mode}, {"--kernel", s.kernel}, {"--threads", s.threads}} {
		if v[1] != "" {
			words = append(words, v[0], v[1])
		}
	}
	return words
}

// secretWords mark variables that hold credentials. The engine needs none.
var secretWords = []string{"API_KEY", "APIKEY", "_TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"}

// scrub returns parent without credentials, and without stoker's own settings: the child gets its own on the command line.
func scrub(parent []string) []string {
	return slices.DeleteFunc(slices.Clone(parent), func(kv string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(kv), "=")
		return strings.HasPrefix(name, "STOKER_") || slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(name, w) })
	})
}

func discard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
