package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

const (
	maxFunction = 120
	maxFile     = 600
)

// scanners may read with the default line scanner, each for its reason.
var scanners = map[string]string{
	"internal/supervise/shim.go": "reads one-word commands from our own supervisor, never a foreign program's output",
}

// readers are packages besides internal/config that may read the environment, each for its reason.
var readers = map[string]string{
	"internal/engine/fake": "takes its key as llama-server does: from the environment, where other users cannot read it",
}

func sourceRules() []rule {
	long := "package x\nfunc f() {\n" + strings.Repeat("\tg()\n", maxFunction-2)
	return []rule{
		{
			name: "one package comment each", check: checkPackageComments,
			bad: []planted{
				one("internal/x/x.go", "package x\n", "no package comment"),
				{map[string]string{"internal/x/a.go": "// Package x is.\npackage x\n", "internal/x/b.go": "// Package x is too.\npackage x\n"}, "a second package comment"},
				one("internal/x/x.go", "// X does things.\npackage x\n", "Package x"),
			},
			good: map[string]string{
				"internal/x/a.go": "// Package x is.\npackage x\n", "internal/x/b.go": "package x\n", "internal/x/x_test.go": "package x\n",
				"cmd/y/main.go": "// Command y does.\npackage main\n",
			},
		},
		{
			name: "the environment is read in config", check: checkEnvironment,
			bad: []planted{
				one("internal/hw/x.go", "package hw\nimport \"os\"\nvar _ = os.Getenv(\"X\")\n", "os.Getenv"),
				one("cmd/stoker/main.go", "package main\nimport o \"os\"\nvar _ = o.Environ()\n", "os.Environ"),
				one("internal/hw/x.go", "package hw\nimport \"syscall\"\nvar _, _ = syscall.Getenv(\"X\")\n", "syscall.Getenv"),
			},
			good: map[string]string{
				"internal/config/x.go": "package config\nimport \"os\"\nvar _ = os.Environ()\n", "internal/hw/x_test.go": "package hw\nimport \"os\"\nvar _ = os.Getenv(\"X\")\n",
				"test/assets/main.go": "package main\nimport \"os\"\nvar _ = os.Getenv(\"X\")\n", "internal/cli/x.go": "package cli\nvar os host\nvar _ = os.LookupEnv(\"X\")\n",
			},
		},
		{
			name: "no init", check: checkInit,
			bad:  []planted{one("internal/x/x.go", "package x\nfunc init() {}\n", "func init")},
			good: map[string]string{"internal/x/x.go": "package x\ntype t int\nfunc (t) init() {}\nfunc initialise() {}\n"},
		},
		{
			name: "length of functions and files", check: checkLength,
			bad: []planted{
				one("internal/x/x.go", long+"\tg()\n}\n", "f has 121 lines"),
				one("internal/x/x.go", "package x\n"+strings.Repeat("\n", maxFile), "601 lines"),
			},
			good: map[string]string{"internal/x/x.go": long + "}\n", "internal/x/y.go": "package x\n" + strings.Repeat("\n", maxFile-1), "internal/x/z.md": strings.Repeat("\n", 999)},
		},
		{
			name: "no default line scanner on streams", check: checkScanners,
			bad:  []planted{one("internal/x/x.go", "package x\nimport \"bufio\"\nvar _ = bufio.NewScanner(nil)\n", "bufio.NewScanner")},
			good: map[string]string{"internal/x/x.go": "package x\nimport \"bufio\"\nvar _ = bufio.NewReader(nil)\n", "internal/x/x_test.go": "package x\nimport \"bufio\"\nvar _ = bufio.NewScanner(nil)\n"},
		},
	}
}

func checkPackageComments(t tree) []finding {
	var out []finding
	seen := map[string]bool{}
	first := map[string]*file{}
	for _, f := range t.golang(false) {
		name := f.syntax.Name.Name
		key := f.dir() + " " + name
		if first[key] == nil {
			first[key] = f
		}
		if f.syntax.Doc == nil {
			continue
		}
		if seen[key] {
			out = append(out, f.at(f.syntax.Package, "a second package comment: keep one"))
			continue
		}
		seen[key] = true
		if name != "main" && !strings.HasPrefix(f.syntax.Doc.Text(), "Package "+name+" ") {
			out = append(out, f.at(f.syntax.Package, "the package comment begins with \"Package "+name+"\""))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(first)) {
		if !seen[key] {
			out = append(out, finding{first[key].path, 1, "no package comment: say what the package is for, how to use it, what may run at once"})
		}
	}
	return out
}

func checkEnvironment(t tree) []finding {
	var out []finding
	for _, f := range t.golang(false) {
		if readers[f.dir()] != "" || within(f.dir(), "internal/config") || within(f.dir(), "test") || within(f.dir(), "tools") {
			continue
		}
		f.mentions(func(pkg, name string, at token.Pos) {
			if (pkg == "os" || pkg == "syscall") && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}, name) {
				out = append(out, f.at(at, pkg+"."+name+" outside internal/config: have the value passed in"))
			}
		})
	}
	return out
}

func functions(f *file) []*ast.FuncDecl {
	var out []*ast.FuncDecl
	for _, d := range f.syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			out = append(out, fn)
		}
	}
	return out
}

func checkInit(t tree) []finding {
	var out []finding
	for _, f := range append(t.golang(false), t.golang(true)...) {
		for _, fn := range functions(f) {
			if fn.Recv == nil && fn.Name.Name == "init" {
				out = append(out, f.at(fn.Pos(), "func init: nothing registers or dispatches by itself here"))
			}
		}
	}
	return out
}

func checkLength(t tree) []finding {
	var out []finding
	for _, f := range append(t.golang(false), t.golang(true)...) {
		if n := strings.Count(f.text, "\n"); n > maxFile {
			out = append(out, finding{f.path, 1, fmt.Sprintf("%d lines; over %d a file is split by noun", n, maxFile)})
		}
		for _, fn := range functions(f) {
			if n := f.line(fn.End()) - f.line(fn.Pos()) + 1; n > maxFunction {
				out = append(out, f.at(fn.Pos(), fmt.Sprintf("%s has %d lines; over %d a function is split", fn.Name.Name, n, maxFunction)))
			}
		}
	}
	return out
}

func checkScanners(t tree) []finding {
	var out []finding
	for _, f := range t.golang(false) {
		if scanners[f.path] != "" || within(f.dir(), "test") {
			continue
		}
		f.mentions(func(pkg, name string, at token.Pos) {
			if pkg == "bufio" && name == "NewScanner" {
				out = append(out, f.at(at, "bufio.NewScanner gives up at 64 KiB without a newline: use a reader with a limit of its own, or list the reason"))
			}
		})
	}
	return out
}
