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

// few keeps the prompts that taps were taken of and a long one: enough to see a fault, quick enough to plant many.
func few(t *testing.T, ref *Reference) *Reference {
	t.Helper()
	out := *ref
	out.Prompts = nil
	long := false
	for _, p := range ref.Prompts {
		switch {
		case len(p.Taps) > 0 && len(p.Tokens) < 300:
			out.Prompts = append(out.Prompts, p)
		case !long && len(p.Tokens) > 64 && len(p.Tokens) < 300:
			out.Prompts, long = append(out.Prompts, p), true
		}
	}
	if !long || len(out.Prompts) < 2 {
		t.Fatalf("the reference has no prompt of more than two pages, or none with taps: %d prompts", len(out.Prompts))
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
	ref := few(t, load(t, s.reference))
	head := func(p *block.Program, i int) {
		part := &p.Steps[i].(block.Linear).W.Parts[0]
		row, dim := part.Row, p.Config.HeadDim
		part.Row = func(i int) int { // the first two heads of the queries change places
			if i < 2*dim {
				i = (i + dim) % (2 * dim)
			}
			if row != nil {
				return row(i)
			}
			return i
		}
	}
	faults := []struct {
		name  string
		plant lm.Plant
		keep  func([]int32) []int32
	}{
		{name: "wrong RoPE base", plant: lm.Plant{Program: func(p *block.Program) { p.Config.Rope.Base = 10000 }}},
		{name: "swapped head", plant: lm.Plant{Program: edit("blk.3.qkv", head)}},
		{name: "skipped norm", plant: lm.Plant{Program: edit("blk.7.ffn_norm", func(p *block.Program, i int) { p.Steps = slices.Delete(p.Steps, i, i+1) })}},
		{name: "wrong scale", plant: lm.Plant{Program: edit("blk.0.attend", func(p *block.Program, i int) {
			a := p.Steps[i].(block.Attend)
			a.Scale *= 1.1
			p.Steps[i] = a
		})}},
		{name: "off-by-one position", plant: lm.Plant{Batch: func(b *cpu.Batch) {
			for i := range b.Spans {
				b.Spans[i].Start = max(0, b.Spans[i].Start-1)
			}
		}}},
		{name: "page mixed up", plant: lm.Plant{Batch: func(b *cpu.Batch) {
			for i := range b.Spans {
				if p := b.Spans[i].Pages; len(p) > 2 && b.Spans[i].Start >= 64 {
					b.Spans[i].Pages = slices.Clone(p)
					b.Spans[i].Pages[0], b.Spans[i].Pages[1] = p[1], p[0]
				}
			}
		}}},
		{name: "an empty run", keep: func([]int32) []int32 { return nil }},
		{name: "a short answer list", keep: func(x []int32) []int32 { return x[:len(x)-1] }},
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
			if r.Passed {
				t.Error("the gate passes")
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
