// Command stoker serves open-weight language models on a person's own machine. See the README.
//
// This is a doorway: it tells whether this process is a child role, and otherwise hands the functions of daemon to cli.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/stoker-llm/stoker/internal/cli"
	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/daemon"
	"github.com/stoker-llm/stoker/internal/engine/fake"
	"github.com/stoker-llm/stoker/internal/lm/lmserve"
	"github.com/stoker-llm/stoker/internal/supervise"
)

func main() {
	if supervise.IsShim(os.Args[1:]) {
		os.Exit(supervise.ShimMain(os.Args[1:]))
	}
	if lmserve.Is(os.Args[1:]) {
		os.Exit(lmserve.Main(os.Args[1:], os.Stderr))
	}
	os.Exit(run())
}

func run() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stoker: cannot find its own program file:", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end. A second one ends this process at once; the shims then end the engines.
	context.AfterFunc(ctx, stop)
	host := config.System()
	return cli.Main(ctx, os.Args[1:], cli.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, StderrIsTerminal: term.IsTerminal(int(os.Stderr.Fd())), Host: host,
		Verbs: verbs(daemon.Host{Self: []string{self}, Shim: []string{self, "shim"}, Environ: host.Environ}),
	})
}

// verbs hands the daemon's functions to the command line. Each returns a nil interface, and not a nil pointer in one, when
// there is no report.
func verbs(d daemon.Host) cli.Verbs {
	return cli.Verbs{
		Serve: func(ctx context.Context, in cli.ServeInput) error {
			return d.Serve(ctx, daemon.ServeInput(in))
		},
		Models: func(ctx context.Context, c *config.Config) (cli.Report, error) {
			r, err := d.Models(ctx, c)
			return report(r, r == nil), err
		},
		Inspect: func(ctx context.Context, path string) (cli.Report, error) {
			r, err := d.Inspect(ctx, path)
			return report(r, r == nil), err
		},
		Doctor: func(ctx context.Context, c *config.Config) (cli.Report, error) {
			r, err := d.Doctor(ctx, c)
			return report(r, r == nil), err
		},
		Explain: func(ctx context.Context, c *config.Config, model string) (cli.Report, error) {
			r, err := d.Explain(ctx, c, model)
			return report(r, r == nil), err
		},
		FakeEngine: func(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
			return fake.Main(args, stdin, stdout, stderr)
		},
	}
}

func report(r cli.Report, none bool) cli.Report {
	if none {
		return nil
	}
	return r
}
