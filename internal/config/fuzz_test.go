package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var position = regexp.MustCompile(`^stoker\.yaml(:[0-9]+:[0-9]+)?$`)

// FuzzFile: whatever a config file holds, Load's reader neither panics nor hangs, each problem has a place in the file and a
// text, and a value that is taken is shown.
func FuzzFile(f *testing.F) {
	example, err := os.ReadFile(exampleFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	for _, s := range []string{
		"", "port: 1\n", modelsFile, "a: &a [*a]\n", "<<: {port: 1}\n", "? [a]\n: b\n", "port: |\n  1\n", "host: >-\n  a\n  b\n", "- 1\n- 2\n", "{",
		"port: \"\\ud800\"\n", "!!map {a: b}\n", "port: 1\n---\nport: 2\n", "\xff\xfe", "a:\n\t- b\n", "models: [{name: [a]}, null, {}]\n", "%YAML 1.2\n---\nport: 1\n",
		"engines: {llamacpp: {args: {? {a: b} : c}}}\n", "port: .nan\n", "# c\n...\n", "port: 0x7\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l := &loader{host: Host{HomeDir: "/h", GOOS: "linux"}, table: settings(), file: map[string]raw{}, decided: map[string]raw{}}
		l.parseFile("stoker.yaml", text)
		c := &Config{}
		for _, s := range l.table {
			decide(l, s, c)
		}
		l.finishModels(c)
		for _, p := range l.problems {
			if !position.MatchString(p.Where) || p.What == "" {
				t.Errorf("problem without a place or a text: %q", p)
			}
		}
		if len(l.problems) == 0 && len(c.Models) != len(l.file[keyModels].entries) {
			t.Errorf("%d models of %d were taken without a problem", len(c.Models), len(l.file[keyModels].entries))
		}
	})
}

// TestDeepFile: nesting as deep as the size limit allows ends in a problem, not in a dead process.
func TestDeepFile(t *testing.T) {
	text := make([]byte, maxFile-1)
	for i := range text {
		text[i] = '['
	}
	path := filepath.Join(t.TempDir(), "deep.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Input{Host: testHost(t), Flags: []Setting{{"config", path}}})
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("got %v, want an *Error", err)
	}
}
