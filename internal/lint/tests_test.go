package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// sleepers are files and folders in which real time passes, each for its reason. Inside synctest.Test time is fake, and free.
var sleepers = map[string]string{
	"internal/supervise/shim.go":      "bounds the wait for a child that the kernel does not let go; nothing else happens in that process",
	"internal/supervise/main_test.go": "the test binary plays engines that do nothing for long, and polls processes that are not its children",
	"internal/engine/fake":            "its scripts ask for pauses",
	"internal/gateway/cancel_test.go": "polls the fleet's published status, which has no event",
	"test/bench":                      "waits for another process, and spreads clients out",
	"test/enginebench":                "waits for another process, and for a number of tokens",
	"test/assets/internal/command":    "polls a process that is not its child",
	"cmd/stoker/script_test.go":       "polls other processes",
	"test/e2e":                        "polls other processes",
	"test/soak":                       "polls other processes, and gives an engine time to start again",
}

// parsers are the packages that read foreign bytes. Each has a fuzz target.
var parsers = []string{
	"internal/client", "internal/config", "internal/wire/sse", "internal/wire/rawjson", "internal/wire/openai", "internal/wire/anthropic", "internal/wire/ollama", "internal/wire/native",
	"internal/models", "internal/models/gguf", "internal/models/safetensors", "internal/hw", "internal/engine/llamacpp", "internal/engine/fake", "internal/parse",
	"internal/lm/tokenizer", "internal/lm/chattmpl",
}

const testHead = "package x\nimport (\n\t\"testing\"\n\t\"time\"\n\t\"testing/synctest\"\n)\n"

func testRules() []rule {
	return []rule{
		{
			name: "nothing sleeps instead of waiting", check: checkSleeps,
			bad: []planted{
				one("internal/x/x_test.go", testHead+"func TestX(t *testing.T) { time.Sleep(1) }\n", "time.Sleep"),
				one("internal/x/x_test.go", testHead+"func TestX(t *testing.T) { synctest.Test(t, f); time.Sleep(1) }\n", "time.Sleep"),
				one("internal/x/x.go", testHead+"func X() { time.Sleep(1) }\n", "time.Sleep"),
			},
			good: map[string]string{
				"internal/x/x_test.go": testHead + "func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }\n",
				"internal/x/x.go":      testHead + "func X() { <-time.After(1); clock.Sleep(1) }\n",
			},
		},
		{
			name: "no silent skips", check: checkSkips,
			bad: []planted{
				one("internal/x/x_test.go", testHead+"func TestX(t *testing.T) { if testing.Short() { t.SkipNow() } }\n", "SkipNow"),
				one("internal/x/x_test.go", testHead+"func TestX(t *testing.T) { if testing.Short() { t.Skip() } }\n", "without a reason"),
				one("internal/x/x_test.go", testHead+"func TestX(t *testing.T) { if testing.Short() { t.Skip(\" \") } }\n", "without a reason"),
				one("internal/x/x_test.go", testHead+"func TestX(t *testing.T) { t.Skip(\"no engine here\") }\n", "-short"),
			},
			good: map[string]string{
				"internal/x/x_test.go": testHead + "func TestX(t *testing.T) { if testing.Short() { t.Skipf(\"%s is not needed\", \"x\") } }\n",
				"internal/x/x.go":      "package x\nfunc f(r reader) { r.Skip() }\n",
			},
		},
		{
			name: "parsers of foreign bytes are fuzzed", check: checkFuzz,
			bad: []planted{
				{map[string]string{"internal/config/x.go": "package config\n", "internal/config/x_test.go": "package config\nfunc TestX() {}\n"}, "no fuzz target"},
				one("internal/wire/sse/x.go", "package sse\nfunc FuzzX() {}\n", "no fuzz target"),
			},
			good: map[string]string{"internal/config/x.go": "package config\n", "internal/config/x_test.go": testHead + "func FuzzX(f *testing.F) {}\n"},
		},
	}
}

func checkSleeps(t tree) []finding {
	var out []finding
	for _, f := range append(t.golang(false), t.golang(true)...) {
		if sleepers[f.path] != "" || slices.ContainsFunc(slices.Collect(maps.Keys(sleepers)), func(d string) bool { return within(f.dir(), d) }) {
			continue
		}
		bubbles := bubbles(f)
		f.mentions(func(pkg, name string, at token.Pos) {
			inBubble := slices.ContainsFunc(bubbles, func(b ast.Node) bool { return b.Pos() <= at && at < b.End() })
			if pkg == "time" && name == "Sleep" && !inBubble {
				out = append(out, f.at(at, "time.Sleep: wait for an event, use testing/synctest, or list the reason"))
			}
		})
	}
	return out
}

// bubbles are the functions that are written out as the argument of synctest.Test.
func bubbles(f *file) []ast.Node {
	var out []ast.Node
	names := f.imports()
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Test" && len(c.Args) == 2 {
			x, ok := s.X.(*ast.Ident)
			if ok && names[x.Name] != nil && importPath(names[x.Name]) == "testing/synctest" {
				out = append(out, c.Args[1])
			}
		}
		return true
	})
	return out
}

// testCode reports whether a file is a test, or helps tests and so imports testing.
func (f *file) testCode() bool { return f.isTest() || f.imports()["testing"] != nil }

func checkSkips(t tree) []finding {
	var out []finding
	for _, f := range append(t.golang(false), t.golang(true)...) {
		if !f.testCode() {
			continue
		}
		for _, fn := range functions(f) {
			out = append(out, skipsOf(f, fn)...)
		}
	}
	return out
}

// skipsOf finds the skips of one function. A skip needs a reason in words, and -short is the only cause there is: what is
// missing otherwise is a failure.
func skipsOf(f *file, fn *ast.FuncDecl) []finding {
	var out []finding
	short := mentionsShort(fn)
	ast.Inspect(fn, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		s, ok := c.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
			return true
		}
		switch {
		case s.Sel.Name == "SkipNow":
			out = append(out, f.at(c.Pos(), "SkipNow says nothing: use Skip with a reason"))
		case !hasReason(c):
			out = append(out, f.at(c.Pos(), "a skip without a reason"))
		case !short:
			out = append(out, f.at(c.Pos(), "a skip without -short: what a test needs and does not find is a failure"))
		}
		return true
	})
	return out
}

func mentionsShort(fn *ast.FuncDecl) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Short" {
			found = true
		}
		return !found
	})
	return found
}

func hasReason(c *ast.CallExpr) bool {
	if len(c.Args) == 0 {
		return false
	}
	lit, ok := c.Args[0].(*ast.BasicLit)
	if !ok {
		return true // a value that is made elsewhere
	}
	text, err := strconv.Unquote(lit.Value)
	return err == nil && len(strings.TrimSpace(text)) > 5
}

func checkFuzz(t tree) []finding {
	has, fuzzed := map[string]string{}, map[string]bool{}
	for _, f := range append(t.golang(false), t.golang(true)...) {
		if !slices.Contains(parsers, f.dir()) {
			continue
		}
		if !f.isTest() {
			has[f.dir()] = f.path
		}
		for _, fn := range functions(f) {
			fuzzed[f.dir()] = fuzzed[f.dir()] || f.isTest() && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz")
		}
	}
	var out []finding
	for _, dir := range slices.Sorted(maps.Keys(has)) {
		if !fuzzed[dir] {
			out = append(out, finding{has[dir], 1, dir + " reads foreign bytes and has no fuzz target"})
		}
	}
	return out
}
