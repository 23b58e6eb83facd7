package config

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Config is the checked result. See docs/configuration.md for what each setting means.
type Config struct {
	// File is the config file that was read, "" if none was.
	File string

	// Host and Port are what to listen on. Port 0 asks the system for a free one.
	Host string
	Port int

	// StateDir, DataDir, CacheDir and RunDir are absolute. Sockets lie in RunDir: see SocketRoom. None of them is made here.
	StateDir string
	DataDir  string
	CacheDir string
	RunDir   string

	// Engine is "auto" or an engine's name.
	Engine string
	// Ctx is the tokens that one request can use, 0 for auto: what the model and this machine allow.
	Ctx int
	// Parallel is how many requests of one model run at once, each with a whole window.
	Parallel int
	// ServedModelName replaces the name of the one model that is served; "" keeps it. Select applies it.
	ServedModelName string

	// APIKey is what clients must send, already read from APIKeyFile if that was the source. It may be unset.
	APIKey     Secret
	APIKeyFile string

	// QueueLimit is how many requests of one model may wait, 0 for none: what cannot run at once is refused.
	QueueLimit int
	// QueueWait is how long one may wait, 0 for as long as its client stays.
	QueueWait time.Duration
	// MaxBodyBytes bounds the body of a request.
	MaxBodyBytes int64
	// Heartbeat is the longest silence on a stream, 0 for no heartbeats.
	Heartbeat time.Duration
	// LoadStall ends a load that shows no progress for so long, 0 for never.
	LoadStall time.Duration

	LogLevel slog.Level
	// LogFormat is "text" or "json".
	LogFormat string

	Embedded Embedded
	LlamaCpp LlamaCpp
	// Models are the models that the file declares, with flags, environment and defaults applied.
	Models []Model

	// Warnings are for a person, one sentence each. They stop nothing.
	Warnings []string

	engineArgs []Option // --engine-arg
	shown      []Value
}

// Embedded are the settings of stoker's own engine.
type Embedded struct {
	// Mode is "exact" or "fast", Kernel the set of kernels or "auto".
	Mode, Kernel string
	// Threads is 0 for one for each processor.
	Threads int
}

// LlamaCpp are the settings of the engine llamacpp.
type LlamaCpp struct {
	// Path is the llama-server to use, "" to look in EngineDir and on PATH.
	Path string
	// Args hold for every model that this engine runs; see Config.EngineArgs.
	Args []Option
}

// Option is one setting of an engine. Its driver says which keys there are.
type Option struct{ Key, Value string }

// Model is one model to serve.
type Model struct {
	// Name is the served name. It is "" for a model that is not in the file and was given no name: the name then follows
	// from the artifact.
	Name string
	// Path is the artifact. For a model of the file it is absolute, or "" for the artifact called Name in the model folder.
	// For a word of the command line it is that word, unchanged.
	Path string
	// Aliases are further names that reach the model. "*" in them stands for any run of characters.
	Aliases []string
	// Ctx, Parallel and Engine are as in Config.
	Ctx      int
	Parallel int
	Engine   string
	// EngineArgs hold for this model: those of the file with the flags laid over them.
	EngineArgs []Option
}

// SocketRoom is the longest that a socket's path below RunDir can be, "/" included. RunDir is checked to leave it.
const SocketRoom = 40

// EngineDir is the folder of the engines that stoker keeps itself, by the engine's name.
func (c *Config) EngineDir(engine string) string { return filepath.Join(c.DataDir, "engines", engine) }

// ModelDir is stoker's own model folder.
func (c *Config) ModelDir() string { return filepath.Join(c.DataDir, "models") }

// Addr is Host and Port as a listener takes them.
func (c *Config) Addr() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// Loopback reports whether only this machine can reach Host.
func (c *Config) Loopback() bool { return isLoopback(c.Host) }

// EngineArgs are the options for m on the engine of that name: the engine's own, the model's laid over them, and the flags
// over both. Each key occurs once.
func (c *Config) EngineArgs(engine string, m Model) []Option {
	var base []Option
	if engine == engineLlamaCpp {
		base = c.LlamaCpp.Args
	}
	return withoutEmpty(overlay(base, m.EngineArgs))
}

// Setting is one flag as it was given, without its dashes.
type Setting struct{ Key, Value string }

// Input is all that Load looks at.
type Input struct {
	// Flags are in the order of the command line. Each Key is a Name of Flags.
	Flags []Setting
	Host  Host
	// NoListen is set by commands that open no address, such as stop: a host that would need a key is then no problem.
	NoListen bool
}

// Host is what the settings need to know of the system.
type Host struct {
	// Environ holds "NAME=value" entries, as os.Environ returns them. The last of two counts.
	Environ []string
	// HomeDir is the user's home, "" if there is none.
	HomeDir string
	// WorkDir is what relative paths of flags and environment start from.
	WorkDir string
	GOOS    string
	UID     int
}

// System is the Host this process runs on. It is the one place where stoker reads its environment.
func System() Host {
	h := Host{Environ: os.Environ(), GOOS: runtime.GOOS, UID: os.Getuid()}
	if home, ok := h.LookupEnv("HOME"); ok && filepath.IsAbs(home) {
		h.HomeDir = home
	}
	// Without a working folder only relative paths suffer, and those fail with their own name when they are opened.
	h.WorkDir, _ = os.Getwd()
	return h
}

// LookupEnv is the value of an environment variable, and whether it is set.
func (h Host) LookupEnv(name string) (string, bool) {
	for i := len(h.Environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(h.Environ[i], "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}
