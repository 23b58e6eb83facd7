package embedded

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/stoker-llm/stoker/internal/buildinfo"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/models"
)

// Name is the engine's word in the config.
const Name = "embedded"

// Options are what the driver needs to know about its surroundings.
type Options struct {
	// Self is the command that runs this program: its path, and what else comes before a role's name.
	Self []string
	// Shim is the command that runs an engine so that it dies with us.
	Shim []string
	// Env is the environment that is there; the engine gets hardly any of it.
	Env []string
	// Mode, Kernel and Threads are the settings that hold unless an option says otherwise; empty and 0 leave them to the engine.
	Mode, Kernel string
	Threads      int
	// PackDir is the folder for packed weights, for those who ask for it with pack-cache=on.
	PackDir string
	// Measure reads what a model needs in a mode, from its header. Errors are *infer.Error.
	Measure func(path, mode string) (engine.Demand, error)
	// Kernels returns the sets of kernels that this machine runs, best first, and those it cannot run, with the reasons.
	Kernels func() (have []string, missing map[string]string)
}

// Driver starts the embedded engine. Use New.
type Driver struct {
	o Options
	// set is how engines are run, and wrong what is wrong with it: nothing else works then.
	set   settings
	wrong error
}

var _ engine.Driver = (*Driver)(nil)

// New returns a driver. Settings that cannot work are found out by Demand and Start.
func New(o Options) *Driver {
	d := &Driver{o: o, set: settings{mode: o.Mode, kernel: o.Kernel, threads: o.Threads}}
	d.wrong = d.set.check(o.Kernels)
	return d
}

// With returns a driver whose settings have the user's options laid over them, so that what it says of a model holds for a start with
// those options. Wrong options make it refuse every model, by the option's name.
func (d *Driver) With(opts []engine.Option) *Driver {
	out := &Driver{o: d.o, set: d.set}
	out.wrong = out.set.lay(opts, d.o.Kernels)
	return out
}

// Name returns the engine's word in the config.
func (d *Driver) Name() string { return Name }

// Fingerprint describes this program, with the kernels and threads that it would compute with.
func (d *Driver) Fingerprint(context.Context) engine.Fingerprint {
	have, missing := d.o.Kernels()
	kernel, threads := d.set.kernel, d.set.threads
	if kernel == "" || kernel == auto {
		kernel = have[0]
	}
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	f := engine.Fingerprint{
		Engine: Name, Found: true, Path: d.o.Self[0], Origin: "being part of this program", Version: buildinfo.Get().Version, Build: build(kernel, threads),
		Notes: []string{"kernels that this machine runs, best first: " + strings.Join(have, ", ")},
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		f.Notes = append(f.Notes, fmt.Sprintf("kernels that it cannot run: %s, because %s", name, missing[name]))
	}
	return f
}

// build says in a few words what computes.
func build(kernel string, threads int) string {
	plural := "s"
	if threads == 1 {
		plural = ""
	}
	return fmt.Sprintf("%s kernels, %d thread%s", kernel, threads, plural)
}

// Demand says what serving m would need, or refuses m by name. It reads headers only.
func (d *Driver) Demand(_ context.Context, m engine.Model) (engine.Demand, error) {
	if d.wrong != nil {
		return engine.Demand{}, d.wrong
	}
	if m.Format != models.FormatGGUF && m.Format != models.FormatSafetensors {
		return engine.Demand{}, infer.Errorf(infer.ErrUnsupported, "model",
			"%s is a %s model; the embedded engine reads GGUF files and Hugging Face folders with safetensors", m.Name, m.Format)
	}
	return d.o.Measure(pathOf(m), d.set.mode)
}

// pathOf is what the engine opens: it takes a folder of safetensors files as a whole, whichever of them was named.
func pathOf(m engine.Model) string {
	if m.Format == models.FormatSafetensors && strings.HasSuffix(m.Path, ".safetensors") {
		return filepath.Dir(m.Path)
	}
	return m.Path
}
