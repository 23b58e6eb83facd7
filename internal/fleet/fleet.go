package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// Options say what to serve and how.
type Options struct {
	Log    *slog.Logger
	Models []ModelSpec
	// QueueLimit is how many requests may wait per model, beyond those that run. 0 means that nobody waits.
	QueueLimit int
	// QueueWait bounds the time in the queue; 0 means no bound but the client's patience.
	QueueWait time.Duration
	// RunDir makes the folder for sockets and scratch files of one start of a model. The fleet removes it afterwards.
	RunDir func(model string) (string, error)
	// NewRestarts returns the restart policy for one model. nil means that nothing is started again.
	NewRestarts func() Restarts
	// FailureLimit is how many answers in a row an engine may fail, while it says that it is well, before it is started
	// anew. 0 means any number.
	FailureLimit int
	// OnChange, if not nil, is called after each change of a model's state or load progress, from that model's goroutine
	// or its load. It must not block.
	OnChange func(Status)
}

// Restarts decides whether and when an engine that ended by itself is started again. It is asked from one goroutine.
type Restarts interface {
	// Next takes the time of the end, and returns how long to wait before the next start; ok is false when there were
	// too many.
	Next(now time.Time) (wait time.Duration, ok bool)
}

// ModelSpec is one model to serve.
type ModelSpec struct {
	// Name is the served name. Repo is the repository id it was served under, if any: it reaches the model too.
	Name string
	Repo string
	// Aliases are further names; * in them stands for any characters.
	Aliases []string
	Driver  engine.Driver
	// Start is handed to the driver, with RunDir, Log and OnLoad filled in by the fleet.
	Start engine.StartSpec
	// Demand, EngineReason and WindowReason are for display only: what the model needs, why this engine, and where the
	// window comes from.
	Demand       engine.Demand
	EngineReason string
	WindowReason string
}

// Fleet owns the engines of a server.
type Fleet struct {
	opts   Options
	models []*model
	byName map[string]*model

	// life is the fleet's own lifetime: from New to Stop.
	life   context.Context
	cancel context.CancelFunc
	// stopCtx bounds the polite part of stopping the engines. Stop writes it before it cancels life.
	stopCtx  context.Context
	stopOnce sync.Once
	wg       sync.WaitGroup
	loaded   chan struct{}
}

// New checks the options and returns a fleet in which nothing runs yet. All problems are reported at once.
func New(o Options) (*Fleet, error) {
	if err := validate(o); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fleet{opts: o, byName: make(map[string]*model), loaded: make(chan struct{})}
	f.life, f.cancel = context.WithCancel(context.Background())
	for _, s := range o.Models {
		m := newModel(s, o)
		f.models = append(f.models, m)
		f.byName[s.Name] = m
	}
	return f, nil
}

func validate(o Options) error {
	var errs []error
	if len(o.Models) == 0 {
		errs = append(errs, errors.New("no model to serve"))
	}
	if o.RunDir == nil {
		errs = append(errs, errors.New("no RunDir"))
	}
	owner := make(map[string]string)
	claim := func(name, by string) {
		if was, taken := owner[name]; taken && was != by {
			errs = append(errs, fmt.Errorf("model %q: the name %q already belongs to model %q", by, name, was))
		}
		owner[name] = by
	}
	seen := make(map[string]bool)
	for i, s := range o.Models {
		if err := checkName(s.Name); err != nil {
			errs = append(errs, fmt.Errorf("model %d: %w", i+1, err))
		}
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("model %q is served twice; give one of them another name", s.Name))
		}
		seen[s.Name] = true
		if s.Driver == nil {
			errs = append(errs, fmt.Errorf("model %q: no driver", s.Name))
		}
		claim(s.Name, s.Name)
		for _, a := range s.Aliases {
			if a == "" {
				errs = append(errs, fmt.Errorf("model %q: an alias is empty", s.Name))
			}
			claim(a, s.Name)
		}
	}
	return errors.Join(errs...)
}

// Start begins to load all models, one after the other in their order, and returns at once. It is called once.
func (f *Fleet) Start() {
	turn := make(chan struct{})
	close(turn)
	for _, m := range f.models {
		mine, next := turn, make(chan struct{})
		f.wg.Go(func() { f.live(m, mine, next) })
		turn = next
	}
	f.wg.Go(func() {
		<-turn
		close(f.loaded)
	})
}

// Loaded is closed when the first load of each model has ended, well or not.
func (f *Fleet) Loaded() <-chan struct{} { return f.loaded }

// Stop ends all engines and returns when they are gone. Requests that wait are refused, running answers end with an error.
// ctx may shorten the polite part. Stop may be called more than once, also without Start.
func (f *Fleet) Stop(ctx context.Context) {
	f.stopOnce.Do(func() {
		f.stopCtx = ctx
		f.cancel()
	})
	f.wg.Wait()
}

// Status says how each model is, in their order. It asks no engine.
func (f *Fleet) Status() []Status {
	all := make([]Status, len(f.models))
	for i, m := range f.models {
		all[i] = m.status()
	}
	return all
}

// Generate waits for a turn on the model of that served name and starts one answer. An error means that nothing was sent
// to the client: it is an *infer.Error. Cancelling ctx leaves the queue at once, or stops the work.
func (f *Fleet) Generate(ctx context.Context, served string, r *infer.Request) (*Answer, error) {
	m := f.byName[served]
	if m == nil {
		return nil, f.notFound(served)
	}
	t, err := m.enter(ctx, r)
	if err != nil {
		return nil, err
	}
	return m.begin(ctx, t, r)
}
