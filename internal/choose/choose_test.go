package choose

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/plan"
)

// driver is one that only says what it could do.
type driver struct {
	name    string
	missing string
	refuses string
	weights int64
}

func (d driver) Name() string { return d.name }

func (d driver) Fingerprint(context.Context) engine.Fingerprint {
	return engine.Fingerprint{
		Engine: d.name, Found: d.missing == "", Missing: d.missing, Remedy: "get " + d.name, Path: "/bin/" + d.name, Version: "1.0", Build: "two threads",
		Origin: "config",
	}
}

func (d driver) Demand(context.Context, engine.Model) (engine.Demand, error) {
	if d.refuses != "" {
		return engine.Demand{}, infer.Errorf(infer.ErrUnsupported, "model", "%s", d.refuses)
	}
	return engine.Demand{
		Architecture: "llama", Quantization: "Q8_0", TrainedContext: 4096, Mode: "exact", Weights: engine.Bytes{N: d.weights, Origin: engine.Declared},
		KVPerToken: engine.Bytes{N: 1 << 10, Origin: engine.Declared},
	}, nil
}

func (d driver) Start(context.Context, engine.StartSpec) (engine.Instance, error) {
	return nil, errors.New("nothing is started to choose")
}

func ranked(list ...driver) []Ranked {
	var out []Ranked
	for _, d := range list {
		out = append(out, Ranked{d, d.name + " has its reason"})
	}
	return out
}

func TestChoose(t *testing.T) {
	one, two := driver{name: "one"}, driver{name: "two"}
	tests := []struct {
		name    string
		engine  string
		drivers []driver
		chosen  string
		reasons []string // of each candidate: why, or what it lacks
	}{
		{
			"the first", Auto,
			[]driver{one, two},
			"one",
			[]string{"first that can serve it here: one has its reason", "comes behind one: two has its reason"},
		},
		{
			"the second, since the first does not know the model", Auto,
			[]driver{{name: "one", refuses: "architecture mamba is not known"}, two},
			"two",
			[]string{"architecture mamba is not known", "first that can serve it here: two has its reason"},
		},
		{
			"the second, since the first is not there", Auto,
			[]driver{{name: "one", missing: "no such program"}, two},
			"two",
			[]string{"no such program", "two has its reason"},
		},
		{
			"the second, since the first takes too much", Auto,
			[]driver{{name: "one", weights: 1 << 40}, two},
			"two",
			[]string{"only 7", "two has its reason"},
		},
		{"by name", "two", []driver{one, two}, "two", []string{"the engine is set to two", "asked for by name"}},
		{"none", "two", []driver{one, {name: "two", missing: "no such program"}}, "", []string{"the engine is set to two", "no such program"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Choose(t.Context(), ranked(tt.drivers...), Want{Engine: tt.engine, Model: engine.Model{Name: "m", Format: "gguf"}},
				Memory{Available: plan.Bytes{N: 10 << 30, Origin: plan.Measured}})
			chosen := ""
			if got := c.Chosen(); got != nil {
				chosen = got.Engine
			}
			none, failed := errors.AsType[*NoEngineError](err)
			if chosen != tt.chosen || failed != (tt.chosen == "") {
				t.Errorf("chose %q (%v), want %q", chosen, err, tt.chosen)
			}
			for i, cand := range c.Candidates {
				if said := cand.Lacks + cand.Reason; !strings.Contains(said, tt.reasons[i]) {
					t.Errorf("%s: %q, want %q", cand.Engine, said, tt.reasons[i])
				}
			}
			if failed && (!strings.Contains(none.Error(), "get two") || !strings.Contains(none.Error(), "no such program")) {
				t.Errorf("the error is %v", none)
			}
		})
	}
}

// TestText: the report has each engine with its verdict, and says what computes and how.
func TestText(t *testing.T) {
	c, err := Choose(t.Context(), ranked(driver{name: "one"}, driver{name: "two", refuses: "it cannot"}), Want{Engine: Auto, Window: 1024},
		Memory{Available: plan.Bytes{N: 1 << 30, Origin: plan.Measured}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"one: chosen: ", "/bin/one (1.0, two threads, found by config)", "arithmetic: exact", "1024 tokens: as requested", "two: rejected: it cannot",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &b)
		}
	}
}

// TestCanceled: an end in the middle of looking is no verdict.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Choose(ctx, ranked(driver{name: "one"}), Want{Engine: Auto}, Memory{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Choose = %v", err)
	}
}
