package fleet_test

import (
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/infer"
)

func named(t *testing.T, specs ...fleet.ModelSpec) *fleet.Fleet {
	t.Helper()
	for i := range specs {
		specs[i].Driver = &scripted.Driver{}
	}
	f, err := fleet.New(fleet.Options{Models: specs, RunDir: func(string) (string, error) { return "", nil }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestReviewR7NamesReachModels(t *testing.T) {
	f := named(t,
		fleet.ModelSpec{
			Name: "small", Repo: "org/small-instruct", Aliases: []string{"tiny", "gpt-*", "*-haiku-*"},
			Start: engine.StartSpec{Model: engine.Model{Path: "/models/small.gguf"}},
		},
		fleet.ModelSpec{Name: "org/big", Aliases: []string{"gpt-4", "claude-*"}},
	)
	for _, c := range []struct{ name, want string }{
		{"small", "small"},
		{"org/small-instruct", "small"},
		{"tiny", "small"},
		{"org/big", "org/big"},
		{"gpt-4", "org/big"}, // an exact alias goes before a pattern
		{"gpt-4o", "small"},
		{"gpt-", "small"},
		{"claude-x/y", "org/big"},
		{"claude-haiku-4", "small"}, // patterns in the order of the models
		{"Small", ""},
		{"small/", ""},
		{"org/big/", ""},
		{"./small", ""},
		{"/models/small.gguf", ""},
		{"small.gguf", ""},
		{"gpt", ""},
		{"gpt-*x", "small"},
		{"haiku", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := f.Resolve(c.name)
			if got != c.want {
				t.Fatalf("got %q (%v), want %q", got, err, c.want)
			}
			if c.want == "" && infer.KindOf(err) != infer.ErrModelNotFound {
				t.Errorf("error %v", err)
			}
			if err != nil && !strings.Contains(c.name, "/models") && strings.Contains(err.Error(), "/models") {
				t.Errorf("error shows the path: %v", err)
			}
		})
	}
}

func TestUnknownNameSaysTheWayOut(t *testing.T) {
	f := named(t, fleet.ModelSpec{Name: "other"}, fleet.ModelSpec{Name: "smollm2", Aliases: []string{"tiny"}})
	_, err := f.Resolve("smolm2")
	_ = wantKind(t, err, infer.ErrModelNotFound, `"other", "smollm2"`, `did you mean "smollm2"?`, `aliases: ["smolm2"]`, `let "smollm2" answer`)
	_, err = f.Resolve("tyny")
	_ = wantKind(t, err, infer.ErrModelNotFound, `did you mean "tiny"?`, `let "smollm2" answer`)
	_, err = f.Resolve(strings.Repeat("é", 5000))
	if e := wantKind(t, err, infer.ErrModelNotFound); len(e.Message) > 2000 {
		t.Errorf("the error repeats %d bytes", len(e.Message))
	}
}

func TestEmptyName(t *testing.T) {
	if got, err := named(t, fleet.ModelSpec{Name: "a"}).Resolve(""); got != "a" {
		t.Errorf("got %q (%v), want the only model", got, err)
	}
	_, err := named(t, fleet.ModelSpec{Name: "a"}, fleet.ModelSpec{Name: "b"}).Resolve("")
	if e := wantKind(t, err, infer.ErrInvalid, `"a", "b"`); e.Param != "model" {
		t.Errorf("param %q", e.Param)
	}
}

func TestNewReportsAllProblems(t *testing.T) {
	d := &scripted.Driver{}
	_, err := fleet.New(fleet.Options{Models: []fleet.ModelSpec{
		{Name: "a", Driver: d, Aliases: []string{"x", ""}},
		{Name: "a", Driver: d},
		{Name: "b", Driver: d, Aliases: []string{"x", "a"}},
		{Name: "/abs/path.gguf", Driver: d},
		{Name: "./rel.gguf", Driver: d},
		{Name: "c/", Driver: d},
		{Name: "", Driver: d},
		{Name: "d"},
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"no RunDir", `"a" is served twice`, "an alias is empty", `the name "x" already belongs to model "a"`,
		`the name "a" already belongs to model "a"`, `"/abs/path.gguf" looks like a file path`, `"./rel.gguf" looks like`,
		`"c/" ends with a slash`, "name is empty", `model "d": no driver`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("does not say %q", want)
		}
	}
	if _, err := fleet.New(fleet.Options{}); err == nil || !strings.Contains(err.Error(), "no model") {
		t.Errorf("empty options: %v", err)
	}
}
