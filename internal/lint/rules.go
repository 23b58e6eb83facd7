package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module is the module's path, and own its internal folder.
const (
	module = "github.com/stoker-llm/stoker"
	own    = module + "/internal/"
)

// file is one file of the tree: its slash-separated path below the root, and its text.
type file struct {
	path string
	text string
}

func (f file) isGo() bool   { return strings.HasSuffix(f.path, ".go") }
func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }
func (f file) pkg() string  { return path.Dir(f.path) }

// parsed returns the file's syntax, with comments.
func (f file) parsed() (*token.FileSet, *ast.File, error) {
	set := token.NewFileSet()
	a, err := parser.ParseFile(set, f.path, f.text, parser.ParseComments)
	return set, a, err
}

// imports lists what a Go file imports.
func imports(a *ast.File) []string {
	var list []string
	for _, i := range a.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// importRule says what packages below a folder may not import, and why.
type importRule struct {
	// from is a folder; its own sub-folders are meant too.
	from string
	// except are folders below from that the rule spares.
	except []string
	// only, if set, are the folders of ours that may be imported, besides those that everybody may. never are packages and
	// folders that may not.
	only  []string
	never []string
	why   string
}

// everybody may import these: they import nothing of ours.
var everybody = []string{"internal/nearest", "internal/buildinfo"}

var importRules = []importRule{
	{from: "internal/infer", only: []string{}, why: "the neutral words must not depend on who uses them"},
	{from: "internal/engine", except: []string{"internal/engine/*"}, only: []string{"internal/infer"}, why: "the cut knows no engine by name or option"},
	{from: "internal/engine/llamacpp", only: []string{"internal/engine", "internal/infer", "internal/supervise", "internal/wire", "internal/models",
		"internal/parse", "internal/lm/tokenizer", "internal/lm/chattmpl"}, never: []string{"internal/engine/*"}, why: "a driver knows its engine, and neither the gateway nor another driver"},
	{from: "internal/engine/fake", only: []string{"internal/wire"}, why: "the scripted engine is a program of its own"},
	{from: "internal/engine/scripted", only: []string{"internal/engine", "internal/infer"}, why: "an engine in memory needs nothing else"},
	{from: "internal/supervise", only: []string{}, why: "it does not know what an engine is"},
	{from: "internal/gateway", only: []string{"internal/infer", "internal/wire", "internal/fold", "internal/auth", "internal/fleet", "internal/engine"},
		never: []string{"internal/engine/*"}, why: "it gets streams from the fleet and never meets a driver"},
	{from: "internal/fleet", only: []string{"internal/engine", "internal/infer", "internal/sched", "internal/plan"}, never: []string{"internal/engine/*"},
		why: "it carries out what sched decides, for any driver"},
	{from: "internal/cli", never: []string{"internal/daemon", "internal/fleet", "internal/gateway", "internal/engine/*", "internal/supervise", "internal/localapi"},
		why: "it knows a running server only through client"},
	{from: "internal/wire", never: []string{"os/exec", "net", "os"}, why: "translation is pure"},
	{from: "internal/plan", only: []string{}, never: []string{"os/exec", "net", "os"}, why: "arithmetic sees facts, not processes"},
	{from: "internal/sched", only: []string{"internal/infer"}, never: []string{"os/exec", "net", "os"}, why: "decisions see facts, not processes"},
	{from: "internal/models", only: []string{"internal/models"}, never: []string{"os/exec", "net"}, why: "the store reads files and does nothing else"},
	{from: "internal", except: []string{"internal/daemon"}, never: []string{"internal/daemon"}, why: "only cmd/stoker imports the composition root"},
	{from: "internal", except: []string{"internal/daemon", "internal/engine"}, never: []string{"internal/engine/llamacpp"}, why: "only daemon knows the drivers"},
}

// below reports whether p is the folder or lies below it. "a/*" means only what lies below.
func below(p, folder string) bool {
	if f, ok := strings.CutSuffix(folder, "/*"); ok {
		return strings.HasPrefix(p, f+"/")
	}
	return p == folder || strings.HasPrefix(p, folder+"/")
}

func anyBelow(p string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return below(p, f) })
}

// checkImports holds a file to the import rules. Tests may import more, since they build what they test.
func checkImports(f file) []string {
	if !f.isGo() || f.isTest() {
		return nil
	}
	_, a, err := f.parsed()
	if err != nil {
		return []string{f.path + ": " + err.Error()}
	}
	var bad []string
	for _, r := range importRules {
		if !below(f.pkg(), r.from) || anyBelow(f.pkg(), r.except) {
			continue
		}
		for _, i := range imports(a) {
			if !r.allows(i) {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", f.path, i, r.why))
			}
		}
	}
	return bad
}

func (r importRule) allows(imported string) bool {
	ours, isOurs := strings.CutPrefix(imported, module+"/")
	name := imported
	if isOurs {
		name = ours
	}
	// Of the standard library the very package is meant: net listens, net/http also holds the statuses' names.
	if isOurs && anyBelow(name, r.never) || !isOurs && slices.Contains(r.never, name) {
		return false
	}
	if !isOurs || r.only == nil {
		return true
	}
	return below(name, r.from) && !strings.Contains(r.from, "internal/engine") || name == r.from || anyBelow(name, everybody) || anyBelow(name, r.only)
}

// checkPackageComments holds that each package has exactly one package comment.
func checkPackageComments(files []file) []string {
	count := map[string][]string{}
	for _, f := range files {
		if !f.isGo() || f.isTest() {
			continue
		}
		_, a, err := f.parsed()
		if err != nil {
			return []string{f.path + ": " + err.Error()}
		}
		list := count[f.pkg()]
		if a.Doc != nil && strings.TrimSpace(a.Doc.Text()) != "" {
			list = append(list, f.path)
		}
		count[f.pkg()] = list
	}
	var bad []string
	for pkg, list := range count {
		if len(list) != 1 {
			bad = append(bad, fmt.Sprintf("package %s has %d package comments (%s): one is wanted", pkg, len(list), strings.Join(list, ", ")))
		}
	}
	slices.Sort(bad)
	return bad
}

// call is a function that only some may call, and why.
type call struct {
	pkg, name string
	allowed   []string // folders
	inTests   bool
	why       string
}

var calls = []call{
	// The scripted engine takes its key as llama-server does: from the environment, where other users cannot read it.
	{"os", "Getenv", []string{"internal/config", "internal/engine/fake", "test"}, true, "only config reads the environment; others are told"},
	{"os", "LookupEnv", []string{"internal/config", "test"}, true, "only config reads the environment; others are told"},
	{"os", "Environ", []string{"internal/config", "test"}, true, "only config reads the environment; others are told"},
	{"bufio", "NewScanner", []string{"internal/supervise/shim.go", "test"}, true, "the default line scanner fails on long lines"},
	{"time", "Sleep", []string{
		"internal/supervise/shim.go",                                   // bounds a process that is to end
		"internal/engine/fake",                                         // pauses are what its scripts ask for
		"internal/supervise/main_test.go",                              // children that live for ever, and polls of foreign processes
		"cmd/stoker/script_test.go", "internal/gateway/cancel_test.go", // poll what has no event
		"internal/engine/enginetest", "test", // the same
	}, false, "wait for an event, not for a time"},
}

// checkCalls holds a file to the list of calls.
func checkCalls(f file) []string {
	if !f.isGo() {
		return nil
	}
	set, a, err := f.parsed()
	if err != nil {
		return []string{f.path + ": " + err.Error()}
	}
	fakeTime := slices.Contains(imports(a), "testing/synctest") // sleeping there takes no time, and is how time passes
	var bad []string
	ast.Inspect(a, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		for _, c := range calls {
			spared := c.inTests && f.isTest() || c.pkg == "time" && fakeTime || anyBelow(f.path, c.allowed)
			if x.Name == c.pkg && sel.Sel.Name == c.name && !spared {
				bad = append(bad, fmt.Sprintf("%s calls %s.%s: %s", set.Position(n.Pos()), c.pkg, c.name, c.why))
			}
		}
		return true
	})
	return bad
}

const (
	funcMax = 120
	fileMax = 600
)

// checkSizes holds functions and files to the house numbers, and refuses init functions.
func checkSizes(f file) []string {
	if !f.isGo() {
		return nil
	}
	set, a, err := f.parsed()
	if err != nil {
		return []string{f.path + ": " + err.Error()}
	}
	var bad []string
	if n := strings.Count(f.text, "\n"); n > fileMax {
		bad = append(bad, fmt.Sprintf("%s has %d lines: over %d it is split by noun", f.path, n, fileMax))
	}
	for _, d := range a.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; n > funcMax {
			bad = append(bad, fmt.Sprintf("%s: %s has %d lines: over %d it is split", f.path, fn.Name.Name, n, funcMax))
		}
		if fn.Name.Name == "init" && fn.Recv == nil {
			bad = append(bad, f.path+": an init function: nothing happens before main")
		}
	}
	return bad
}

// hostPath matches paths of one machine and names of package registries, which have no place in the project. The pieces are
// put together so that this file does not hold them.
var hostPath = regexp.MustCompile(strings.Join([]string{
	"/wo" + "rk/[a-z]", "/ro" + "ot/", `py` + `pi\.org`, "pythonho" + "sted", `npm` + `js\.(com|org)`, `proxy\.gol` + `ang`,
}, "|"))

// homePath matches home folders. Tests of path rules need some.
var homePath = regexp.MustCompile("/ho" + "me/[a-z]|/Us" + "ers/[a-z]")

// checkPaths refuses host paths and registry names.
func checkPaths(f file) []string {
	if strings.HasSuffix(f.path, "go.sum") {
		return nil
	}
	var bad []string
	for i, line := range strings.Split(f.text, "\n") {
		m := hostPath.FindString(line)
		if m == "" && !f.isTest() {
			m = homePath.FindString(line)
		}
		if m != "" {
			bad = append(bad, fmt.Sprintf("%s:%d holds %q: no path of a machine and no registry's name belongs here", f.path, i+1, m))
		}
	}
	return bad
}

// checkSkips refuses skips without a reason.
func checkSkips(f file) []string {
	if !f.isTest() {
		return nil
	}
	set, a, err := f.parsed()
	if err != nil {
		return []string{f.path + ": " + err.Error()}
	}
	var bad []string
	ast.Inspect(a, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := c.Fun.(*ast.SelectorExpr)
		if ok && (sel.Sel.Name == "SkipNow" || sel.Sel.Name == "Skip" && len(c.Args) == 0) {
			bad = append(bad, fmt.Sprintf("%s skips without a reason", set.Position(n.Pos())))
		}
		return true
	})
	return bad
}

// parsers are the packages that read foreign bytes: each has a fuzz target.
var parsers = []string{
	"internal/config", "internal/models/gguf", "internal/models/safetensors", "internal/wire/openai", "internal/wire/sse", "internal/wire/rawjson",
	"internal/engine/llamacpp", "internal/engine/fake",
}

// checkFuzz holds that every parser has a fuzz target.
func checkFuzz(files []file) []string {
	has := map[string]bool{}
	for _, f := range files {
		if f.isTest() && strings.Contains(f.text, "func Fuzz") {
			has[f.pkg()] = true
		}
	}
	var bad []string
	for _, p := range parsers {
		if !has[p] {
			bad = append(bad, p+" reads foreign bytes and has no fuzz target")
		}
	}
	return bad
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

// checkLinks holds that links between our documents lead somewhere.
func checkLinks(files []file) []string {
	exists := map[string]bool{".": true}
	for _, f := range files {
		for p := f.path; p != "."; p = path.Dir(p) {
			exists[p] = true
		}
	}
	var bad []string
	for _, f := range files {
		if !strings.HasSuffix(f.path, ".md") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(f.text, -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			if !exists[path.Join(f.pkg(), target)] {
				bad = append(bad, fmt.Sprintf("%s links to %s, which is not there", f.path, target))
			}
		}
	}
	return bad
}
