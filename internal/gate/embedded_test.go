package gate

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/lm"
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/cpu"
)

func env(t testing.TB, name, asset string) string {
	t.Helper()
	p := os.Getenv(name)
	if p == "" {
		t.Fatalf("%s is not set: run `make test`, or set it to what `go run ./test/assets path %s` prints", name, asset)
	}
	return p
}

// subjects are the models with references: the real ones with 20 prompts and more, the tiny ones with random weights with 3.
func subjects(t *testing.T) []struct {
	reference, model string
	prompts          int
} {
	tiny := env(t, "STOKER_TEST_TINY", "tiny")
	list := []struct {
		reference, model string
		prompts          int
	}{
		{"smollm2-135m-instruct-q4_1", env(t, "STOKER_TEST_MODEL_CHAT", "smollm2"), 20},
		{"gemma3-270m-q4_k_m", env(t, "STOKER_TEST_MODEL_BASE", "gemma3"), 20},
	}
	for _, arch := range []string{"llama", "qwen2", "qwen3", "gemma3"} {
		list = append(list, struct {
			reference, model string
			prompts          int
		}{"tiny-" + arch, filepath.Join(tiny, "tiny-"+arch+".gguf"), 3})
	}
	return list
}

func load(t testing.TB, name string) *Reference {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ref, err := LoadReference(f)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func open(t testing.TB, model string, o lm.Options) Embedded {
	t.Helper()
	o.Window = 2048
	e, err := lm.Open(t.Context(), model, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return Embedded{e}
}

func text(t testing.TB, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestEmbeddedKeepsAll holds the embedded engine's exact mode to torch, on all models.
func TestEmbeddedKeepsAll(t *testing.T) {
	for _, s := range subjects(t) {
		t.Run(s.reference, func(t *testing.T) {
			r, err := Judge(t.Context(), load(t, s.reference), open(t, s.model, lm.Options{}), Options{Prompts: s.prompts})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(text(t, r))
			if !r.Passed || !r.Inside {
				t.Error("the gate does not pass")
			}
		})
	}
}

// TestFastIsCompared says what the fast mode keeps. It is not held to anything but to answer.
func TestFastIsCompared(t *testing.T) {
	s := subjects(t)[0]
	r, err := Judge(t.Context(), load(t, s.reference), open(t, s.model, lm.Options{Mode: "fast"}), Options{Compare: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("fast mode keeps %d of %d answers on %s", r.Kept, r.Of, s.reference)
	for _, res := range r.Results {
		if res.Verdict == Failed || res.Verdict == Empty || res.Verdict == Tokens {
			t.Errorf("%+v", res)
		}
	}
}

// few keeps the prompts with these names: a fault shows in two, and there are many to plant.
func few(t *testing.T, ref *Reference, names ...string) *Reference {
	t.Helper()
	out := *ref
	out.Prompts = nil
	for _, p := range ref.Prompts {
		if slices.Contains(names, p.Name) {
			out.Prompts = append(out.Prompts, p)
		}
	}
	if len(out.Prompts) != len(names) {
		t.Fatalf("the reference has %d of the prompts %q", len(out.Prompts), names)
	}
	return &out
}

// edit changes the step with a label.
func edit(label string, f func(p *block.Program, i int)) func(*block.Program) {
	return func(p *block.Program) {
		for i, s := range p.Steps {
			if s.Label() == label {
				f(p, i)
				return
			}
		}
		panic("no step " + label)
	}
}

// swapHeads lets the first two heads of the queries change places.
func swapHeads(p *block.Program, i int) {
	part := &p.Steps[i].(block.Linear).W.Parts[0]
	row, dim := part.Row, p.Config.HeadDim
	part.Row = func(i int) int {
		if i < 2*dim {
			i = (i + dim) % (2 * dim)
		}
		if row != nil {
			return row(i)
		}
		return i
	}
}

// remove leaves a step out.
func remove(p *block.Program, i int) { p.Steps = slices.Delete(p.Steps, i, i+1) }

// scale makes attention a tenth sharper.
func scale(p *block.Program, i int) {
	a := p.Steps[i].(block.Attend)
	a.Scale *= 1.1
	p.Steps[i] = a
}

// oneBefore computes all but the first rows as if they stood one position earlier.
func oneBefore(b *cpu.Batch) {
	for i := range b.Spans {
		b.Spans[i].Start = max(0, b.Spans[i].Start-1)
	}
}

// pageTwice reads the second page in place of the first as well. To let two pages of the past change places would be no fault:
// attention does not care in which order it sees keys and values.
func pageTwice(b *cpu.Batch) {
	for i := range b.Spans {
		if s := &b.Spans[i]; len(s.Pages) > 2 && s.Start >= 64 {
			s.Pages = slices.Clone(s.Pages)
			s.Pages[0] = s.Pages[1]
		}
	}
}

// spoiled is a subject whose answers are cut.
type spoiled struct {
	Embedded
	keep func([]int32) []int32
}

func (s spoiled) Greedy(ctx context.Context, tokens []int32, n int) ([]int32, error) {
	out, err := s.Embedded.Greedy(ctx, tokens, n)
	return s.keep(out), err
}

// TestPlantedFaults plants each fault in the engine and wants the gate to fail; without one it passes.
func TestPlantedFaults(t *testing.T) {
	s := subjects(t)[0]
	ref := few(t, load(t, s.reference), "raw-german", "chat-russian") // one with taps, one longer than two pages
	faults := []struct {
		name  string
		plant lm.Plant
		keep  func([]int32) []int32
		// verdict is one that some prompt must get, and layer the first that must be found wrong, "" if the insides are right.
		verdict Verdict
		layer   string
	}{
		{name: "wrong RoPE base", plant: lm.Plant{Program: func(p *block.Program) { p.Config.Rope.Base = 10000 }}, verdict: Differs, layer: "blk.0"},
		{name: "swapped head", plant: lm.Plant{Program: edit("blk.3.qkv", swapHeads)}, verdict: Numbers, layer: "blk.3"},
		{name: "skipped norm", plant: lm.Plant{Program: edit("blk.7.ffn_norm", remove)}, verdict: Differs, layer: "blk.7"},
		{name: "wrong scale", plant: lm.Plant{Program: edit("blk.5.attend", scale)}, verdict: Numbers, layer: "blk.5"},
		{name: "off-by-one position", plant: lm.Plant{Batch: oneBefore}, verdict: Differs, layer: "blk.0"},
		{name: "page mixed up", plant: lm.Plant{Batch: pageTwice}, verdict: Differs},
		{name: "an empty run", keep: func([]int32) []int32 { return nil }, verdict: Empty},
		{name: "a short answer list", keep: func(x []int32) []int32 { return x[:len(x)-1] }, verdict: Short},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			var subject Subject = open(t, s.model, lm.Options{Plant: f.plant})
			if f.keep != nil {
				subject = spoiled{subject.(Embedded), f.keep}
			}
			r, err := Judge(t.Context(), ref, subject, Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(text(t, r))
			if r.Passed || !slices.ContainsFunc(r.Results, func(x Result) bool { return x.Verdict == f.verdict }) {
				t.Errorf("the gate passes: %t; want no pass, and %q among the verdicts", r.Passed, f.verdict)
			}
			found := ""
			for _, x := range r.Results {
				if x.Verdict == Failed {
					t.Errorf("%+v: the fault was not seen, it broke the subject", x)
				}
				if x.Taps > TapLimit {
					found = x.Layer
				}
			}
			if found != f.layer {
				t.Errorf("the first layer that is wrong is %q, want %q", found, f.layer)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		r, err := Judge(t.Context(), ref, open(t, s.model, lm.Options{}), Options{})
		if err != nil || !r.Passed {
			t.Errorf("without a fault: %v\n%s", err, text(t, r))
		}
	})
}
