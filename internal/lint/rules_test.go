package lint

import (
	"slices"
	"strings"
	"testing"
)

// finding is one place where the tree breaks a rule.
type finding struct {
	path string
	line int
	what string
}

// rule is one of our rules.
type rule struct {
	name  string
	check func(tree) []finding
	// bad are trees that the rule has to find something in, with a part of what it says. good is a near miss of all of them.
	bad  []planted
	good map[string]string
}

// planted is a tree (path to text) with one mistake.
type planted struct {
	files map[string]string
	want  string
}

// one is a tree of a single file.
func one(path, text, want string) planted { return planted{map[string]string{path: text}, want} }

func rules() []rule {
	return slices.Concat(importRules(), sourceRules(), testRules(), textRules())
}

// TestRules holds the tree to every rule.
func TestRules(t *testing.T) {
	tr := readTree(t, "../..")
	if len(tr.files) < 50 {
		t.Fatalf("only %d files were found: this is not the tree", len(tr.files))
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range r.check(tr) {
				t.Errorf("%s:%d: %s", f.path, f.line, f.what)
			}
		})
	}
}

// TestRulesCatch shows that every rule finds the mistakes that are planted for it, and nothing in the near miss.
func TestRulesCatch(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			if len(r.bad) == 0 || len(r.good) == 0 {
				t.Fatal("the rule has no planted mistake or no near miss")
			}
			for _, p := range r.bad {
				got := r.check(plant(t, p.files))
				if len(got) != 1 || !strings.Contains(got[0].what, p.want) {
					t.Errorf("got %v, want one finding with %q in\n%v", got, p.want, p.files)
				}
			}
			if got := r.check(plant(t, r.good)); len(got) != 0 {
				t.Errorf("the near miss is taken for a mistake: %v", got)
			}
		})
	}
}

// TestExceptionsAreNeeded: an exception for a file or folder that is not there says nothing any more.
func TestExceptionsAreNeeded(t *testing.T) {
	there := map[string]bool{}
	for _, f := range readTree(t, "../..").files {
		there[f.path], there[f.dir()] = true, true
	}
	for _, exceptions := range []map[string]string{sleepers, scanners, readers} {
		for name, reason := range exceptions {
			if !there[name] || reason == "" {
				t.Errorf("the exception for %s is about nothing, or has no reason", name)
			}
		}
	}
}
