package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const modelsFile = `
ctx: 16k
parallel: 3
engines: {llamacpp: {args: {threads: 4, mlock: true, keep: 1}}}
models:
  - name: fast
    path: /m/fast.gguf
    aliases: [claude-*, quick]
    ctx: 8k
    engine: llamacpp
    engine_args: {threads: 8, keep: , extra: none}
  - name: org/plain
  - name: reset
    ctx:
    parallel: ""
    engine_args: none
`

func TestModels(t *testing.T) {
	file := writeFile(t, "stoker.yaml", modelsFile)
	arg := []Option{{"threads", "8"}, {"keep", ""}, {"extra", "none"}}
	fast := Model{Name: "fast", Path: "/m/fast.gguf", Aliases: []string{"claude-*", "quick"}, Ctx: 8192, Parallel: 3, Engine: "llamacpp", EngineArgs: arg}
	plain := Model{Name: "org/plain", Ctx: 16384, Parallel: 3, Engine: "auto"}
	reset := Model{Name: "reset", Ctx: 0, Parallel: 1, Engine: "auto"}
	over := func(m Model) Model { m.Ctx, m.Parallel = 32, 7; return m }
	for _, c := range []struct {
		name  string
		flags []Setting
		env   []string
		want  []Model
	}{
		{"the file alone", nil, nil, []Model{fast, plain, reset}},
		{"flags and environment count over an entry", []Setting{{"ctx", "32"}}, []string{"STOKER_PARALLEL=7"}, []Model{over(fast), over(plain), over(reset)}},
		{"an empty flag is the default for all", []Setting{{"ctx", ""}, {"parallel", ""}}, nil, func() []Model {
			f, p := fast, plain
			f.Ctx, f.Parallel, p.Ctx, p.Parallel = 0, 1, 0, 1
			return []Model{f, p, reset}
		}()},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := mustLoad(t, Input{Host: testHost(t, c.env...), Flags: append(c.flags, Setting{"config", file})})
			if d := cmp.Diff(c.want, cfg.Models); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestShowModels(t *testing.T) {
	file := writeFile(t, "stoker.yaml", modelsFile)
	c := mustLoad(t, Input{Host: testHost(t), Flags: []Setting{{"config", file}}})
	for _, want := range []Value{
		{"models", "fast, org/plain, reset", FromFile, file + ":6:3"},
		{"models.fast.ctx", "8192", FromFile, file + ":9:10"},
		{"models.reset.ctx", "auto", FromDefault, ""},
		{"models.reset.engine_args", "none", FromFile, file + ":16:18"},
	} {
		got := valueOf(t, c, want.Key)
		if want.Source == FromDefault && strings.HasSuffix(got.Where, " is empty") {
			got.Where = ""
		}
		if got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestEngineArgs(t *testing.T) {
	file := writeFile(t, "stoker.yaml", modelsFile)
	c := mustLoad(t, Input{Host: testHost(t), Flags: []Setting{
		{"config", file},
		{"engine-arg", "gone=1"},
		{"engine-arg", "none"},
		{"engine-arg", "a=b=c"},
		{"engine-arg", "threads=2"},
		{"engine-arg", "mlock="},
		{"engine-arg", "threads=3"},
	}})
	word, err := c.Select([]string{"./other.gguf"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, engine string
		m            Model
		want         []Option
	}{
		{"flags over the model over the engine", "llamacpp", c.Models[0], []Option{{"threads", "3"}, {"extra", "none"}, {"a", "b=c"}}},
		{"a model without options", "llamacpp", c.Models[1], []Option{{"threads", "3"}, {"keep", "1"}, {"a", "b=c"}}},
		{"a word of the command line", "llamacpp", word[0], []Option{{"threads", "3"}, {"keep", "1"}, {"a", "b=c"}}},
		{"another engine", "other", c.Models[1], []Option{{"a", "b=c"}, {"threads", "3"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, c.EngineArgs(tc.engine, tc.m)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	file := Setting{"config", writeFile(t, "stoker.yaml", modelsFile)}
	for _, c := range []struct {
		name  string
		flags []Setting
		words []string
		want  []string // name=path
		err   string
	}{
		{"all of the file", []Setting{file}, nil, []string{"fast=/m/fast.gguf", "org/plain=", "reset="}, ""},
		{"by name and alias, once", []Setting{file}, []string{"quick", "fast"}, []string{"fast=/m/fast.gguf"}, ""},
		{"a pattern is no word for a model", []Setting{file}, []string{"claude-x"}, []string{"=claude-x"}, ""},
		{"paths stay as they are", nil, []string{"a.gguf", "./b/", "a.gguf"}, []string{"=a.gguf", "=./b/"}, ""},
		{"a name for one", []Setting{{"served-model-name", "x"}}, []string{"a.gguf"}, []string{"x=a.gguf"}, ""},
		{"a name for one of the file", []Setting{file, {"served-model-name", "x"}}, []string{"fast"}, []string{"x=/m/fast.gguf"}, ""},
		{"a name for two", []Setting{{"served-model-name", "x"}}, []string{"a", "b"}, nil, "--served-model-name: served_model_name is for one model, and 2"},
		{"nothing", nil, nil, nil, "no model to serve: give a model file"},
		{"empty word", nil, []string{"a", "", "/"}, nil, `2 problems with the settings:
  "" is not a model: give a model file or folder, or the name of a model
  "/" is not a model`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := mustLoad(t, Input{Host: testHost(t), Flags: c.flags})
			got, err := cfg.Select(c.words)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, m := range got {
				names = append(names, m.Name+"="+m.Path)
			}
			if d := cmp.Diff(c.want, names); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if len(cfg.Models) > 0 && cfg.Models[0].Name != "fast" {
				t.Error("Select changed the Config")
			}
		})
	}
}

func TestNames(t *testing.T) {
	good := []string{"a", "Qwen3-8B", "org/qwen3-8b", "llama3.2:3b", "a@b+c_d", strings.Repeat("x", 128)}
	bad := []string{"/abs", "./rel", "../up", "a/../b", "a//b", "a/", "~x", "a b", "a\tb", "ä", "-a", strings.Repeat("x", 129), `a\b`, "a*", "C:/"}
	for _, n := range good {
		if _, err := servedName().parse(n, place{}); err != nil {
			t.Errorf("%q is refused: %v", n, err)
		}
	}
	for _, n := range bad {
		if _, err := servedName().parse(n, place{}); err == nil {
			t.Errorf("%q is taken as a name", n)
		}
	}
	for _, a := range []string{"*", "claude-*", "gpt-*-mini", "org/*"} {
		if _, err := alias().parse(a, place{}); err != nil {
			t.Errorf("alias %q is refused: %v", a, err)
		}
	}
}
