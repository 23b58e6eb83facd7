package lint

import (
	"go/token"
	"slices"
	"strings"
)

// layer says what the packages of a folder may import of ours.
type layer struct {
	dir string
	// may are folders; one that ends in "/..." stands for itself and all below. Nothing else of ours may be imported.
	may    []string
	reason string
}

const driverReason = "a driver knows one engine and speaks to the rest through the engine cut: never the gateway, sched, config, or another driver"

func driverLayer(dir string) layer {
	return layer{dir, []string{
		"internal/engine", "internal/infer", "internal/supervise", "internal/wire/...", "internal/models/...", "internal/parse/...",
		"internal/lm/tokenizer/...", "internal/lm/chattmpl/...", "internal/nearest", "internal/buildinfo", dir + "/...",
	}, driverReason}
}

// layers is the table of who may import whom. The first row that a folder lies in counts; a folder without a row is a finding,
// so that a new package is a decision. nearest and buildinfo import nothing and may be imported by anybody.
func layers() []layer {
	return []layer{
		{"internal/infer", nil, "the neutral words are below everything"},
		{"internal/nearest", nil, "it serves everybody's error messages"},
		{"internal/buildinfo", nil, "it serves everybody's version"},
		{"internal/wire", []string{"internal/infer", "internal/wire/..."}, "a dialect knows the neutral words and never meets an engine"},
		{"internal/fold", []string{"internal/infer", "internal/fold/..."}, "it turns requests into requests"},
		{"internal/parse", []string{"internal/infer", "internal/parse/..."}, "it turns text into events"},
		{"internal/plan", []string{"internal/infer"}, "the planner gets facts, it does not fetch them"},
		{"internal/sched", []string{"internal/infer"}, "the scheduler decides from facts and never sees a process"},
		{"internal/models", []string{"internal/models/..."}, "reading artifacts needs no engine and no server"},
		{"internal/hw", nil, "machine facts decide nothing"},
		{"internal/supervise", nil, "it runs processes and does not know what an engine is"},
		{"internal/config", nil, "settings are read before anything else exists"},
		{"internal/auth", []string{"internal/infer"}, "keys and scopes need the error kinds only"},
		{"internal/engine/scripted", []string{"internal/engine", "internal/infer"}, "an engine in memory is a driver without a process"},
		{"internal/engine/enginetest", []string{"internal/engine", "internal/infer"}, "the conformance suite knows the cut and no engine"},
		{"internal/engine/fake", []string{"internal/wire/...", "internal/infer"}, "the scripted engine is a foreign program that speaks dialects"},
		driverLayer("internal/engine/llamacpp"),
		driverLayer("internal/engine/mlx"),
		driverLayer("internal/engine/remote"),
		driverLayer("internal/engine/embedded"),
		driverLayer("internal/engine/child"),
		{"internal/engine", []string{"internal/infer"}, "the cut knows no engine by name or option"},
		{
			"internal/lm/lmserve",
			[]string{"internal/lm", "internal/infer", "internal/wire/native"},
			"the child role puts the engine behind the dialect that its driver speaks",
		},
		{"internal/lm", []string{"internal/lm/...", "internal/infer", "internal/models/...", "internal/parse/..."}, "the embedded engine is an engine like any other"},
		{"internal/choose", []string{"internal/engine", "internal/plan"}, "choosing an engine is arithmetic on what engines say of themselves"},
		{"internal/fleet", []string{"internal/engine", "internal/infer", "internal/sched", "internal/plan"}, "it carries out decisions on instances, whatever their kind"},
		{
			"internal/gateway",
			[]string{"internal/infer", "internal/wire/...", "internal/fold/...", "internal/auth", "internal/fleet"},
			"HTTP meets streams through fleet, never a driver",
		},
		{"internal/client", []string{"internal/infer", "internal/wire/...", "internal/engine"}, "what a client needs is the words of the answers"},
		{"internal/localapi", []string{"internal/client"}, "it serves what client reads"},
		{
			"internal/cli",
			[]string{"internal/client", "internal/config", "internal/infer", "internal/engine", "internal/models", "internal/shell"},
			"a running server is known through client only; verbs that need none are handed in by cmd/stoker",
		},
		{"internal/shell", []string{"internal/client", "internal/infer"}, "the shell is a guest of the API"},
		{"internal/launch", []string{"internal/client"}, "settings for agents come from what a server says of itself"},
		{"internal/obs", []string{"internal/infer"}, "counters know no part that they count for"},
		{"internal/bench", []string{"internal/..."}, "a measurement may build any part, and nothing may depend on it"},
		{"internal/gate", []string{"internal/..."}, "a gate may build any part, and nothing may depend on it"},
		{"internal/lint", nil, "the rules look at the text only"},
		{"internal/daemon", []string{"internal/..."}, "the composition root wires everything"},
		{"cmd", []string{"internal/..."}, "the doorway hands the daemon to the command line"},
		{"test", []string{"internal/...", "test/..."}, "tests of the whole use every part"},
		{"tools", nil, "development tools are a module of their own"},
	}
}

// anybody may import these.
var anybody = []string{"internal/nearest", "internal/buildinfo"}

// guarded may be imported by few, whatever the table allows.
var guarded = []struct{ pkg, by, reason string }{
	{"internal/daemon", "cmd/stoker", "only cmd/stoker starts the daemon"},
	{"internal/cli", "cmd/stoker", "only cmd/stoker is a command line"},
	{"internal/engine/llamacpp", "internal/daemon", "only daemon holds drivers"},
	{"internal/engine/mlx", "internal/daemon", "only daemon holds drivers"},
	{"internal/engine/remote", "internal/daemon", "only daemon holds drivers"},
	{"internal/engine/embedded", "internal/daemon", "only daemon holds drivers"},
	{"internal/engine/child", "internal/daemon", "only daemon holds drivers"},
}

// libraries that only some packages may use.
var libraries = []struct {
	prefix string
	by     []string
	reason string
}{
	{"github.com/prometheus/", []string{"internal/obs"}, "counters have one home"},
	{"github.com/shirou/gopsutil/", []string{"internal/hw", "internal/supervise"}, "machine and process facts have two homes"},
	{"github.com/goccy/go-yaml", []string{"internal/config", "internal/engine/fake"}, "there is one config file, and the scripts of the scripted engine"},
	{"github.com/alecthomas/kong", []string{"internal/cli"}, "there is one command line"},
	{"github.com/kardianos/service", []string{"internal/daemon", "internal/install"}, "services are the daemon's business"},
}

// pure packages compute: what they need is handed in. files are those that may read files all the same.
var pure = []struct {
	dir    string
	files  bool
	except string
}{
	{"internal/infer", false, ""},
	{"internal/wire", false, ""},
	{"internal/fold", false, ""},
	{"internal/parse", false, ""},
	{"internal/plan", false, ""},
	{"internal/sched", false, ""},
	{"internal/nearest", false, ""},
	{"internal/choose", false, ""},
	{"internal/models", true, ""},
	{"internal/lm", true, "internal/lm/lmserve"},
}

func importRules() []rule {
	return []rule{
		{
			name: "who may import whom", check: checkLayers,
			bad: []planted{
				one("internal/wire/openai/x.go", "package openai\nimport _ \""+module+"internal/engine\"\n", "never meets an engine"),
				one("internal/engine/engine.go", "package engine\nimport _ \""+module+"internal/engine/llamacpp\"\n", "knows no engine by name"),
				one("internal/engine/llamacpp/x.go", "package llamacpp\nimport _ \""+module+"internal/config\"\n", "never the gateway"),
				one("internal/engine/mlx/x.go", "package mlx\nimport _ \""+module+"internal/engine/llamacpp\"\n", "another driver"),
				one("internal/gateway/x.go", "package gateway\nimport _ \""+module+"internal/engine/llamacpp\"\n", "never a driver"),
				one("internal/cli/x.go", "package cli\nimport _ \""+module+"internal/daemon\"\n", "through client only"),
				one("internal/bench/x.go", "package bench\nimport _ \""+module+"internal/daemon\"\n", "only cmd/stoker starts the daemon"),
				one("internal/brandnew/x.go", "package brandnew\n", "no row"),
			},
			good: map[string]string{
				"internal/engine/llamacpp/x.go":      "package llamacpp\nimport _ \"" + module + "internal/wire/openai\"\n",
				"internal/engine/llamacpp/x_test.go": "package llamacpp\nimport _ \"" + module + "internal/engine/fake\"\n",
				"internal/infer/x.go":                "package infer\nimport _ \"" + module + "internal/nearest\"\n",
				"internal/daemon/x.go":               "package daemon\nimport _ \"" + module + "internal/engine/llamacpp\"\n",
				"cmd/stoker/main.go":                 "package main\nimport _ \"" + module + "internal/daemon\"\n",
			},
		},
		{
			name: "libraries stay at home", check: checkLibraries,
			bad: []planted{one("internal/fleet/x.go", "package fleet\nimport _ \"github.com/prometheus/client_golang/prometheus\"\n", "counters have one home")},
			good: map[string]string{
				"internal/hw/x.go":    "package hw\nimport _ \"github.com/shirou/gopsutil/v4/mem\"\n",
				"test/assets/main.go": "package main\nimport _ \"github.com/alecthomas/kong\"\n",
			},
		},
		{
			name: "pure packages only compute", check: checkPure,
			bad: []planted{
				one("internal/sched/x.go", "package sched\nimport _ \"os/exec\"\n", "os/exec"),
				one("internal/plan/x.go", "package plan\nimport _ \"os\"\n", "os"),
				one("internal/lm/kv/x.go", "package kv\nimport \"net\"\nvar _ = net.Listen\n", "net.Listen"),
				one("internal/models/x.go", "package models\nimport \"net/http\"\nvar _ = http.ListenAndServe\n", "http.ListenAndServe"),
			},
			good: map[string]string{
				"internal/models/x.go":     "package models\nimport \"os\"\nvar _ = os.Open\n",
				"internal/lm/lmserve/x.go": "package lmserve\nimport \"net\"\nvar _ = net.Listen\n",
				"internal/wire/x_test.go":  "package wire\nimport _ \"os\"\n",
				"internal/wire/x.go":       "package wire\nimport \"net/http\"\nvar _ = http.StatusOK\n",
				"internal/schedule/x.go":   "package schedule\nimport _ \"os/exec\"\n",
			},
		},
	}
}

// checkLayers holds everything but tests to the tables: a test may use what it needs to build its scene.
func checkLayers(t tree) []finding {
	var out []finding
	rowless := map[string]bool{}
	for _, f := range t.golang(false) {
		i := slices.IndexFunc(layers(), func(l layer) bool { return within(f.dir(), l.dir) })
		if i < 0 {
			if !rowless[f.dir()] {
				out = append(out, finding{f.path, 1, f.dir() + " has no row in the table of layers: decide what it may import, and why"})
			}
			rowless[f.dir()] = true
			continue
		}
		for _, s := range f.syntax.Imports {
			if what := forbidden(layers()[i], f.dir(), importPath(s)); what != "" {
				out = append(out, f.at(s.Pos(), what))
			}
		}
	}
	return out
}

// forbidden says why a package in dir, of layer l, may not import p, or "".
func forbidden(l layer, dir, p string) string {
	pkg, ours := strings.CutPrefix(p, module)
	if !ours || slices.Contains(anybody, pkg) {
		return ""
	}
	if !slices.ContainsFunc(l.may, func(m string) bool { return allows(m, pkg) }) {
		return dir + " may not import " + pkg + ": " + l.reason
	}
	for _, g := range guarded {
		if within(pkg, g.pkg) && !within(dir, g.by) && !within(dir, g.pkg) && !within(dir, "test") {
			return dir + " may not import " + pkg + ": " + g.reason
		}
	}
	return ""
}

func allows(may, pkg string) bool {
	if p, ok := strings.CutSuffix(may, "/..."); ok {
		return within(pkg, p)
	}
	return pkg == may
}

func checkLibraries(t tree) []finding {
	var out []finding
	for _, f := range t.golang(false) {
		if within(f.dir(), "test") || within(f.dir(), "tools") {
			continue
		}
		for _, s := range f.syntax.Imports {
			for _, l := range libraries {
				home := slices.ContainsFunc(l.by, func(d string) bool { return within(f.dir(), d) })
				if strings.HasPrefix(importPath(s), l.prefix) && !home {
					out = append(out, f.at(s.Pos(), importPath(s)+" belongs into "+strings.Join(l.by, " or ")+": "+l.reason))
				}
			}
		}
	}
	return out
}

func checkPure(t tree) []finding {
	var out []finding
	for _, f := range t.golang(false) {
		for _, p := range pure {
			if !within(f.dir(), p.dir) || p.except != "" && within(f.dir(), p.except) {
				continue
			}
			for _, s := range f.syntax.Imports {
				if i := importPath(s); i == "os/exec" || i == "os" && !p.files || i == "net/http/httptest" {
					out = append(out, f.at(s.Pos(), f.dir()+" is pure and may not import "+i))
				}
			}
			f.mentions(func(pkg, name string, at token.Pos) {
				if (pkg == "net" || pkg == "net/http") && (strings.HasPrefix(name, "Listen") || strings.HasPrefix(name, "Serve") && name != "ServeMux") {
					out = append(out, f.at(at, f.dir()+" is pure and may not use "+pkg[strings.LastIndex(pkg, "/")+1:]+"."+name))
				}
			})
		}
	}
	return out
}
