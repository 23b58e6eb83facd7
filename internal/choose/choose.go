// Package choose decides which engine serves a model and with which window, and keeps the reasons. `stoker serve` follows a
// [Choice], `stoker explain` prints it: there is one decision and not two.
//
// [Choose] asks each driver what it found on this machine and what the model would need, and package plan which window
// fits. It starts no engine and may be called concurrently; drivers cache what is slow.
package choose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/plan"
)

// Auto lets stoker choose the engine.
const Auto = "auto"

// Want is what the user asked for.
type Want struct {
	Model engine.Model
	// Engine is an engine's name or Auto.
	Engine string
	// Window is the requested window in tokens, 0 for what fits. Parallel is how many requests run at once.
	Window, Parallel int
}

// Ranked is a driver in the order of preference. Why says, as a clause, why it stands where it does on this machine.
type Ranked struct {
	Driver engine.Driver
	Why    string
}

// Memory is what this machine can give.
type Memory struct {
	Available plan.Bytes
	// Promised is the bytes that models chosen before, but not loaded yet, will take.
	Promised int64
}

// Candidate is one engine that was looked at.
type Candidate struct {
	Engine string `json:"engine"`
	Chosen bool   `json:"chosen"`
	// Lacks says what made it impossible, in a sentence; empty if it could serve. Reason says why it was chosen, or was not
	// though it could.
	Lacks       string             `json:"lacks,omitempty"`
	Reason      string             `json:"reason,omitempty"`
	Fingerprint engine.Fingerprint `json:"fingerprint"`
	Demand      *engine.Demand     `json:"demand,omitempty"`
	Plan        *plan.Result       `json:"plan,omitempty"`

	driver engine.Driver
}

// Choice is the decision about one model, with everything that was looked at, best engine first.
type Choice struct {
	Model      string      `json:"model"`
	Path       string      `json:"path"`
	Format     string      `json:"format"`
	Candidates []Candidate `json:"candidates"`
}

// NoEngineError says that nothing can serve a model, and what each engine lacks.
type NoEngineError struct{ Choice *Choice }

// Error lists the engines with what each lacks and how to get it.
func (e *NoEngineError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no engine can serve %s", e.Choice.Model)
	for _, c := range e.Choice.Candidates {
		fmt.Fprintf(&b, "\n  %s: %s", c.Engine, c.Lacks)
		if c.Fingerprint.Remedy != "" {
			fmt.Fprintf(&b, "\n    to get it: %s", c.Fingerprint.Remedy)
		}
	}
	return b.String()
}

// Choose looks at the drivers in their order, which is that of preference, and chooses the first that can serve what is wanted.
// The error is a *NoEngineError when none can; the Choice is whole in both cases.
func Choose(ctx context.Context, drivers []Ranked, w Want, m Memory) (*Choice, error) {
	c := &Choice{Model: w.Model.Name, Path: w.Model.Path, Format: w.Model.Format}
	taken := ""
	for _, d := range drivers {
		cand := look(ctx, d.Driver, w, m)
		switch {
		case cand.Lacks != "":
		case taken != "":
			cand.Reason = "could serve it too, but comes behind " + taken + ": " + d.Why
		default:
			taken, cand.Chosen = cand.Engine, true
			cand.Reason = reason(&cand, w, d.Why)
		}
		c.Candidates = append(c.Candidates, cand)
	}
	if err := ctx.Err(); err != nil {
		return c, err
	}
	if taken == "" {
		return c, &NoEngineError{c}
	}
	return c, nil
}

// look finds out whether d could serve what is wanted.
func look(ctx context.Context, d engine.Driver, w Want, m Memory) Candidate {
	c := Candidate{Engine: d.Name(), driver: d}
	if w.Engine != Auto && w.Engine != d.Name() {
		c.Lacks = "not asked for: the engine is set to " + w.Engine
		return c
	}
	demand, err := d.Demand(ctx, w.Model)
	if err != nil {
		c.Lacks = err.Error()
		return c
	}
	c.Demand = &demand
	if c.Fingerprint = d.Fingerprint(ctx); !c.Fingerprint.Found {
		c.Lacks = c.Fingerprint.Missing
		return c
	}
	p, err := plan.Window(input(demand, w, m))
	if _, short := errors.AsType[*plan.NoFitError](err); err == nil || short {
		c.Plan = &p
	}
	if err != nil {
		c.Lacks = err.Error()
	}
	return c
}

func input(d engine.Demand, w Want, m Memory) plan.Input {
	return plan.Input{
		Weights: amount(d.Weights), Overhead: amount(d.Overhead), KVPerToken: amount(d.KVPerToken), PerSlot: amount(d.PerSlot),
		Available: m.Available, Promised: m.Promised, Trained: d.TrainedContext, Requested: w.Window, Parallel: w.Parallel,
	}
}

func amount(b engine.Bytes) plan.Bytes { return plan.Bytes{N: b.N, Origin: plan.Origin(b.Origin)} }

func reason(c *Candidate, w Want, why string) string {
	loads := fmt.Sprintf("it loads %s files of architecture %s", w.Model.Format, c.Demand.Architecture)
	if w.Engine != Auto {
		return "asked for by name, and " + loads
	}
	return loads + ", and is the first that can serve it here: " + why
}

// Chosen returns the chosen candidate, or nil.
func (c *Choice) Chosen() *Candidate {
	for i := range c.Candidates {
		if c.Candidates[i].Chosen {
			return &c.Candidates[i]
		}
	}
	return nil
}

// Driver returns the candidate's driver.
func (c *Candidate) Driver() engine.Driver { return c.driver }

// WindowReason says where the window comes from, without repeating its number.
func (c *Candidate) WindowReason() string {
	_, why, _ := strings.Cut(c.Plan.Reason, ": ")
	return why
}

// WriteText writes the choice for a person.
func (c *Choice) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s, %s)\n", c.Model, c.Format, c.Path)
	for i := range c.Candidates {
		c.Candidates[i].write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Candidate) write(b *strings.Builder) {
	verdict := "chosen: " + c.Reason
	switch {
	case c.Lacks != "":
		verdict = "rejected: " + c.Lacks
	case !c.Chosen:
		verdict = "not chosen: " + c.Reason
	}
	fmt.Fprintf(b, "  %s: %s\n", c.Engine, verdict)
	if f := c.Fingerprint; f.Found {
		fmt.Fprintf(b, "    binary    %s (%s, found by %s)\n", f.Path, version(f), f.Origin)
	} else if f.Remedy != "" {
		fmt.Fprintf(b, "    to get it %s\n", f.Remedy)
	}
	if d := c.Demand; d != nil {
		fmt.Fprintf(b, "    model     %s, %s, trained for %d tokens; answers chats: %s; arithmetic: %s\n", d.Architecture, d.Quantization,
			d.TrainedContext, yes(d.HasChatTemplate), d.Mode)
	}
	if p := c.Plan; p != nil {
		c.writePlan(b, p)
	}
}

func (c *Candidate) writePlan(b *strings.Builder, p *plan.Result) {
	if p.Reason != "" {
		fmt.Fprintf(b, "    window    %s\n", p.Reason)
	}
	fmt.Fprintf(b, "    memory    %s of the %s that may be used:\n", bytes(p.Total), bytes(p.Budget))
	fmt.Fprintf(b, "      weights   %s\n", bytes(p.Weights))
	fmt.Fprintf(b, "      KV cache  %s for %d request(s) at once, %d bytes per token\n", bytes(p.KV), p.Parallel, c.Demand.KVPerToken.N)
	fmt.Fprintf(b, "      overhead  %s\n", bytes(p.Overhead))
}

// version is the engine's own words for what it is: a version, and a build if it has one.
func version(f engine.Fingerprint) string {
	if f.Build == "" {
		return f.Version
	}
	return f.Version + ", " + f.Build
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func bytes(p plan.Bytes) string {
	if p.N >= 1<<30 {
		return fmt.Sprintf("%.1f GiB (%s)", float64(p.N)/(1<<30), p.Origin)
	}
	return fmt.Sprintf("%.1f MiB (%s)", float64(p.N)/(1<<20), p.Origin)
}
