package lint

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree reads every text file that git tracks, or would track.
func tree(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the files of the tree: %v", err)
	}
	var files []file
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "\x00") {
			files = append(files, file{filepath.ToSlash(name), string(b)})
		}
	}
	if len(files) < 50 {
		t.Fatalf("only %d files found: the rules would check nothing", len(files))
	}
	return files
}

func each(check func(file) []string) func([]file) []string {
	return func(files []file) []string {
		var bad []string
		for _, f := range files {
			bad = append(bad, check(f)...)
		}
		return bad
	}
}

// generated and vendored text is not ours to judge; testdata holds wrong things on purpose.
func skipped(f file) bool {
	return strings.Contains(f.path, "/testdata/") || strings.HasPrefix(f.path, "tools/")
}

// rules are all checks, each with files that it must refuse: a check that cannot fail is none.
var rules = []struct {
	name  string
	check func([]file) []string
	wrong [][]file
}{
	{"imports", each(checkImports), [][]file{
		{{"internal/infer/x.go", "package infer\nimport \"" + own + "engine\"\n"}},
		{{"internal/engine/x.go", "package engine\nimport \"" + own + "engine/llamacpp\"\n"}},
		{{"internal/engine/llamacpp/x.go", "package llamacpp\nimport \"" + own + "config\"\n"}},
		{{"internal/engine/llamacpp/x.go", "package llamacpp\nimport \"" + own + "engine/fake\"\n"}},
		{{"internal/supervise/x.go", "package supervise\nimport \"" + own + "infer\"\n"}},
		{{"internal/gateway/x.go", "package gateway\nimport \"" + own + "engine/llamacpp\"\n"}},
		{{"internal/cli/x.go", "package cli\nimport \"" + own + "fleet\"\n"}},
		{{"internal/wire/openai/x.go", "package openai\nimport \"net\"\n"}},
		{{"internal/sched/x.go", "package sched\nimport \"os/exec\"\n"}},
		{{"internal/fleet/x.go", "package fleet\nimport \"" + own + "supervise\"\n"}},
		{{"internal/client/x.go", "package client\nimport \"" + own + "daemon\"\n"}},
	}},
	{"package comments", checkPackageComments, [][]file{
		{{"internal/a/a.go", "package a\n"}},
		{{"internal/a/a.go", "// Package a.\npackage a\n"}, {"internal/a/b.go", "// Package a again.\npackage a\n"}},
	}},
	{"calls", each(checkCalls), [][]file{
		{{"internal/a/a.go", "package a\nimport \"os\"\nvar x = os.Getenv(\"A\")\n"}},
		{{"internal/a/a.go", "package a\nimport \"bufio\"\nvar x = bufio.NewScanner(nil)\n"}},
		{{"internal/a/a_test.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}},
	}},
	{"sizes", each(checkSizes), [][]file{
		{{"internal/a/a.go", "package a\nfunc f() {\n" + strings.Repeat("\n", funcMax) + "}\n"}},
		{{"internal/a/a.go", "package a\n" + strings.Repeat("\n", fileMax+1)}},
		{{"internal/a/a.go", "package a\nfunc init() {}\n"}},
	}},
	{"paths", each(checkPaths), [][]file{
		{{"README.md", "see /ho" + "me/somebody/x"}}, {{"a.go", "// from pythonho" + "sted"}}, {{"a.go", "\"/wo" + "rk/main\""}},
	}},
	{"skips", each(checkSkips), [][]file{
		{{"a_test.go", "package a\nfunc TestX(t *testing.T) { t.Skip() }\n"}}, {{"a_test.go", "package a\nfunc TestX(t *testing.T) { t.SkipNow() }\n"}},
	}},
	{"fuzz targets", checkFuzz, [][]file{{{"internal/config/a_test.go", "package config\n"}}}},
	{"links", checkLinks, [][]file{{{"docs/a.md", "[x](nowhere.md)"}}}},
}

func TestRules(t *testing.T) {
	files := slices.DeleteFunc(tree(t), skipped)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, b := range r.check(files) {
				t.Error(b)
			}
		})
	}
}

func TestRulesRefuseWhatIsWrong(t *testing.T) {
	for _, r := range rules {
		for i, files := range r.wrong {
			if bad := r.check(files); len(bad) == 0 {
				t.Errorf("rule %q takes its wrong example %d: %v", r.name, i, files)
			}
		}
	}
}

// TestNothingIsGenerated holds that no build output lies among the tracked files.
func TestNothingIsGenerated(t *testing.T) {
	for _, f := range tree(t) {
		if strings.HasPrefix(f.path, "bin/") {
			t.Errorf("%s is tracked", f.path)
		}
	}
	if _, err := fs.Stat(os.DirFS(filepath.Join("..", "..")), ".gitignore"); err != nil {
		t.Error(err)
	}
}
