package llamacpp

import (
	"context"
	"log/slog"
	"os/exec"
	"runtime"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// Name is the engine's word in the config.
const Name = "llamacpp"

// Options are what the driver needs to know about its surroundings. The zero value looks on PATH only.
type Options struct {
	// Path is the llama-server named in the config: a path, or a name on PATH. When set, nothing else is tried.
	Path string
	// EngineDirs are stoker's own engine folders, best first.
	EngineDirs []string
	// LookPath finds a program; nil means exec.LookPath.
	LookPath func(string) (string, error)
	// CacheDir keeps what was learned about binaries between runs; empty means to ask again in each.
	CacheDir string
	// Shim is the command that runs an engine so that it dies with us: our own binary and its role. Empty runs the engine
	// as a direct child, which outlives a parent that is killed.
	Shim []string
	// Env is the environment that engines are started with, after the settings of other programs were taken out.
	Env []string
	// Threads is how many threads generate; 0 leaves it to the engine, which counts the physical cores of the machine and
	// not what a container may use of them.
	Threads int
	// Log receives what the driver does; nil drops it.
	Log *slog.Logger
}

// Driver finds and starts llama-server. Use New.
type Driver struct {
	opts  Options
	cache probeCache

	// searching guards found, which is what the last search saw. It is a channel, because a search may take seconds and whoever
	// waits for another's must be able to give up.
	searching chan struct{}
	found     *found
}

// found is a probed binary and where it came from.
type found struct {
	*probe
	origin string
}

var _ engine.Driver = (*Driver)(nil)

// New returns a driver. It looks for nothing yet.
func New(o Options) *Driver {
	if o.LookPath == nil {
		o.LookPath = exec.LookPath
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{opts: o, cache: probeCache{dir: o.CacheDir}, searching: make(chan struct{}, 1)}
}

// Name returns the engine's word in the config.
func (d *Driver) Name() string { return Name }

// Fingerprint says which llama-server would be used, or what is missing. The first call of a process asks the binary for
// its devices (some 10 ms, seconds with a GPU runtime). Later ones answer from memory as long as the file is the same.
func (d *Driver) Fingerprint(ctx context.Context) engine.Fingerprint {
	f, err := d.find(ctx)
	if err != nil {
		return engine.Fingerprint{Engine: Name, Missing: err.Error(), Remedy: remedy(runtime.GOOS)}
	}
	return engine.Fingerprint{
		Engine: Name, Found: true, Path: f.path, Origin: f.origin,
		Version: f.version, Build: f.build, Digest: f.digest, Devices: f.devices,
	}
}

// remedy is the one command that gets the engine.
func remedy(goos string) string {
	if goos == "darwin" {
		return "brew install llama.cpp"
	}
	return "make engine"
}

// find returns the first candidate that passes its probe, and remembers it. When none does it returns the reason of the
// best candidate.
func (d *Driver) find(ctx context.Context) (*found, error) {
	select {
	case d.searching <- struct{}{}:
		defer func() { <-d.searching }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if d.found != nil && d.found.unchanged() {
		return d.found, nil
	}
	d.found = nil
	cs, err := d.opts.candidates()
	if err != nil {
		return nil, err
	}
	var first error
	for _, c := range cs {
		p, err := d.probeBinary(ctx, c)
		if err == nil {
			d.found = &found{probe: p, origin: c.origin}
			return d.found, nil
		}
		d.opts.Log.Warn("llama-server rejected", "path", c.path, "origin", c.origin, "err", err)
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// unavailable is the error of everything that needs an engine when there is none.
func unavailable(err error) error {
	return &infer.Error{Kind: infer.ErrUnavailable, Message: "llama-server is not there (`" + remedy(runtime.GOOS) + "` gets it)", Err: err}
}
