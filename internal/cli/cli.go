// Package cli is stoker's command line: one file per command over one kong grammar.
//
// [Main] parses, runs and returns the exit status; it keeps no state and may run many times in one process, also at once.
// Results go to stdout, everything else to stderr. With --json the result is JSON, and so is an error. A running server
// is known only through package client; the verbs that need none, or that become the server, are functions in [Verbs],
// which cmd/stoker fills. The flags that are settings come from the table of package config, so that help, parser,
// environment and file cannot drift apart.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/stoker-llm/stoker/internal/buildinfo"
	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/models"
)

// The exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// Report is the result of a verb: JSON by its fields, and text for a person.
type Report interface {
	// WriteText writes the report for a person, ending in a newline.
	WriteText(w io.Writer) error
}

// ServeInput is what Verbs.Serve gets.
type ServeInput struct {
	Config *config.Config
	// Models are the words on the command line; none means every model of the config.
	Models []string
	// Ephemeral serves for one command only: a free port and a state folder of its own.
	Ephemeral bool
	// LogTo is where the log goes.
	LogTo io.Writer
	// Notify is called with the server's status whenever it changed, from one goroutine. It must not block.
	Notify func(client.Status)
}

// Verbs are the commands that need no running server. They may be called concurrently.
type Verbs struct {
	// Serve returns when ctx ended and everything is stopped (nil), or when serving failed.
	Serve   func(ctx context.Context, in ServeInput) error
	Models  func(ctx context.Context, c *config.Config) (Report, error)
	Inspect func(ctx context.Context, path string) (Report, error)
	Doctor  func(ctx context.Context, c *config.Config) (Report, error)
	Explain func(ctx context.Context, c *config.Config, model string) (Report, error)
	// FakeEngine plays the scripted engine with its own flags and returns the exit status.
	FakeEngine func(args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// Program is the world a command runs in.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// StderrIsTerminal allows progress lines that rewrite themselves.
	StderrIsTerminal bool
	// Host is what config needs to know of the system; its LookupEnv is the only way to the environment.
	Host  config.Host
	Verbs Verbs
}

// grammar is the whole command line. Each command is in the file of its name.
type grammar struct {
	JSON bool `name:"json" help:"Print the result as JSON."`

	Serve   serveCmd   `cmd:"" help:"Serve models to OpenAI clients until stopped."`
	Run     runCmd     `cmd:"" help:"Answer one prompt on the terminal; starts what is needed."`
	Status  statusCmd  `cmd:"" help:"Show the running server."`
	Stop    stopCmd    `cmd:"" help:"Stop the running server and its engines."`
	Models  modelsCmd  `cmd:"" help:"List the models that can be served."`
	Inspect inspectCmd `cmd:"" help:"Show what a GGUF file, or a safetensors file or folder, holds."`
	Explain explainCmd `cmd:"" help:"Show which engine and window a model would get, and why."`
	Doctor  doctorCmd  `cmd:"" help:"Show the engines found on this machine, the kernels that it runs, and what is missing."`
	Config  configCmd  `cmd:"" help:"Show the settings and where each comes from, or their JSON Schema."`
	Engine  engineCmd  `cmd:"" help:"Engines that stoker carries itself."`
	Version versionCmd `cmd:"" help:"Show the version."`
}

func newGrammar() *grammar {
	g := &grammar{}
	g.Serve.settingFlags = newSettingFlags()
	g.Config.Show.settingFlags = newSettingFlags()
	for _, f := range []*settingFlags{&g.Run.settingFlags, &g.Explain.settingFlags, &g.Models.settingFlags, &g.Doctor.settingFlags} {
		*f = newSettingFlags(modelFlags...)
	}
	for _, f := range []*settingFlags{&g.Status.settingFlags, &g.Stop.settingFlags} {
		*f = newSettingFlags(stateFlags...)
	}
	return g
}

// env is what a command's Run gets.
type env struct {
	Program
	ctx  context.Context
	json bool
}

// usageError is a mistake on the command line: exit 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Main runs one command line (without the program's name) and returns the exit status.
func Main(ctx context.Context, args []string, p Program) int {
	if len(args) >= 2 && args[0] == "engine" && args[1] == "fake" {
		return p.Verbs.FakeEngine(args[2:], p.Stdin, p.Stdout, p.Stderr)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	g := newGrammar()
	helped := false
	parser, err := kong.New(g, kong.Name("stoker"),
		kong.Description("stoker serves open-weight language models on your own machine: it picks an inference engine, keeps it alive "+
			"and answers OpenAI clients truthfully."),
		kong.Writers(p.Stdout, p.Stderr), kong.Exit(func(int) { helped = true }), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}))
	if err != nil {
		return report(p, false, fmt.Errorf("command line grammar: %w", err))
	}
	k, err := parser.Parse(args)
	if helped {
		return exitOK
	}
	if err != nil {
		// The grammar's values are not set when the command line is wrong.
		return report(p, slices.Contains(args, "--json"), usageError{err})
	}
	e := &env{Program: p, ctx: ctx, json: g.JSON}
	return report(p, g.JSON, k.Run(e))
}

// report prints err, if there is one, and returns the exit status that belongs to it.
func report(p Program, asJSON bool, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if asJSON {
		body, jerr := json.Marshal(map[string]any{"error": map[string]any{"message": err.Error(), "exit": code}})
		if jerr == nil {
			fmt.Fprintf(p.Stderr, "%s\n", body)
		}
		return code
	}
	fmt.Fprintf(p.Stderr, "stoker: %v\n", err)
	if _, ok := errors.AsType[*kong.ParseError](err); ok {
		fmt.Fprintln(p.Stderr, "Run `stoker --help`, or `stoker COMMAND --help`, for what there is.")
	}
	return code
}

func exitCode(err error) int {
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*models.NotFoundError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*models.ChoiceError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// show prints a report as the user asked for it.
func (e *env) show(r Report) error {
	if e.json {
		return e.showJSON(r)
	}
	return r.WriteText(e.Stdout)
}

func (e *env) showJSON(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(e *env) error {
	info := buildinfo.Get()
	if e.json {
		return e.showJSON(info)
	}
	_, err := fmt.Fprintln(e.Stdout, info)
	return err
}

// engineCmd only documents: Main hands `engine fake` on before kong sees it, because the scripted engine has flags of its
// own (those of the engine it plays).
type engineCmd struct {
	Fake struct{} `cmd:"" help:"Play a scripted engine, to test clients without a model (see engine fake --help)."`
}
