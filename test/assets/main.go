// Command assets brings what stoker's tests and `make run` need into a cache
// outside the source tree: models, a real llama-server, vocabularies, clients.
//
//	go run ./test/assets list                what there is, and what is in the cache
//	go run ./test/assets get NAME...         bring assets into the cache
//	go run ./test/assets path NAME           print where an asset is
//	go run ./test/assets env NAME...         print the variables that the tests read
//	go run ./test/assets install llama-server
//
// The cache is $STOKER_ASSETS, or stoker-assets in the user's cache folder. It may
// be deleted at any time, and shared by several checkouts: two commands that want
// the same asset wait for each other. An interrupted get goes on where it was.
// Progress goes to standard error; standard output has paths and variables only.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/test/assets/internal/catalog"
	"github.com/stoker-llm/stoker/test/assets/internal/machine"
	"github.com/stoker-llm/stoker/test/assets/internal/report"
	"github.com/stoker-llm/stoker/test/assets/internal/store"
)

// cli is the command line.
type cli struct {
	Jobs int `help:"Compilers at a time; each wants up to 1.5 GB of memory." default:"2"`

	List    listCmd    `cmd:"" help:"Show the assets, and which are in the cache."`
	Get     getCmd     `cmd:"" help:"Bring assets into the cache."`
	Path    pathCmd    `cmd:"" help:"Print where an asset is."`
	Env     envCmd     `cmd:"" help:"Print KEY=VALUE lines with the variables that the tests read."`
	Install installCmd `cmd:"" help:"Get an engine and copy it to where stoker finds it."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c cli
	parser, err := kong.New(&c, kong.Name("assets"),
		kong.Description("Models, engines and clients for stoker's tests, in a cache outside the source tree."),
		kong.Writers(stdout, stderr))
	if err != nil {
		return err
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return err
	}
	cat, err := openCatalog(ctx, c.Jobs, stderr)
	if err != nil {
		return err
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	kctx.BindTo(stdout, (*io.Writer)(nil))
	return kctx.Run(cat)
}

func openCatalog(ctx context.Context, jobs int, stderr io.Writer) (*catalog.Catalog, error) {
	if jobs < 1 {
		return nil, fmt.Errorf("--jobs is %d, want at least 1", jobs)
	}
	root, err := cacheRoot()
	if err != nil {
		return nil, err
	}
	cpu, err := machine.CPU(ctx)
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // only used to search for more Pythons
	f, isFile := stderr.(*os.File)
	return catalog.New(catalog.Options{
		Store:  store.New(root),
		Report: report.New(stderr, isFile && term.IsTerminal(int(f.Fd()))),
		Jobs:   jobs,
		CPU:    cpu,
		CXX:    os.Getenv("CXX"),
		Home:   home,
	}), nil
}

func cacheRoot() (string, error) {
	if dir := os.Getenv("STOKER_ASSETS"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder for this user: %w; set STOKER_ASSETS to a folder", err)
	}
	return filepath.Join(dir, "stoker-assets"), nil
}

type listCmd struct{}

func (listCmd) Run(cat *catalog.Catalog, stdout io.Writer) error {
	for _, name := range cat.Names() {
		st, err := cat.Status(name)
		if err != nil {
			return err
		}
		state := "not in the cache"
		if st.Present {
			state = st.Path
		}
		fmt.Fprintf(stdout, "%-13s %s\n%-13s %s\n", st.Name, st.About, "", state)
	}
	return nil
}

type getCmd struct {
	Names []string `arg:"" name:"name" help:"Assets to get."`
}

// Run gets all that can be had, and only then fails for what cannot.
func (g getCmd) Run(ctx context.Context, cat *catalog.Catalog) error {
	var failed []error
	for _, name := range g.Names {
		if _, err := cat.Get(ctx, name); err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			return errors.New("interrupted; the same command goes on from here")
		}
	}
	return errors.Join(failed...)
}

type pathCmd struct {
	Name string `arg:"" help:"The asset."`
}

func (p pathCmd) Run(cat *catalog.Catalog, stdout io.Writer) error {
	path, err := cat.Path(p.Name)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, path)
	return nil
}

type envCmd struct {
	Names []string `arg:"" name:"name" help:"Assets to name."`
}

func (e envCmd) Run(cat *catalog.Catalog, stdout io.Writer) error {
	var lines strings.Builder
	for _, name := range e.Names {
		st, err := cat.Status(name)
		if err != nil {
			return err
		}
		path, err := cat.Path(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s=%s\n", st.Env, shellQuote(path))
	}
	_, err := io.WriteString(stdout, lines.String())
	return err
}

// shellQuote quotes s for a POSIX shell if it holds anything but the usual
// characters of a path.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@:,", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

type installCmd struct {
	Engine string `arg:"" enum:"llama-server" help:"The engine: llama-server."`
	Into   string `help:"Folder to install into, instead of stoker's own engine folder." placeholder:"DIR"`
}

func (i installCmd) Run(ctx context.Context, cat *catalog.Catalog, stdout io.Writer) error {
	into := i.Into
	if into == "" {
		// stoker itself says where it looks: its data folder may be set in its config.
		cfg, err := config.Load(config.Input{Host: config.System()})
		if err != nil {
			return fmt.Errorf("where does stoker keep engines? %w; or say --into DIR", err)
		}
		into = cfg.EngineDir("llamacpp")
	}
	path, err := cat.InstallEngine(ctx, into)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, path)
	return nil
}
