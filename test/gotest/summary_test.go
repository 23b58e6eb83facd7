package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSummaryOfEvents(t *testing.T) {
	tests := []struct {
		name   string
		events string
		want   []string // in this order
	}{
		{
			"all well",
			`{"Action":"pass","Package":"a","Test":"TestX"}
			{"Action":"pass","Package":"a","Test":"TestX/sub"}
			{"Action":"pass","Package":"a","Elapsed":1.25}
			{"Action":"skip","Package":"empty"}`,
			[]string{"ok       a (1.2s)\n", "\n2 passed, 0 failed, 0 skipped\n"},
		},
		{
			"failure shows its output",
			`{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:3: got 1\n"}
			{"Action":"output","Package":"a","Test":"TestY","Output":"of a test that passes\n"}
			{"Action":"fail","Package":"a","Test":"TestX"}
			{"Action":"pass","Package":"a","Test":"TestY"}
			{"Action":"fail","Package":"a"}`,
			[]string{"--- FAIL: a TestX\n    x_test.go:3: got 1\n", "FAIL     a", "Failed:\n  a TestX\n", "\n1 passed, 1 failed, 0 skipped\n"},
		},
		{
			"skip shows its reason",
			`{"Action":"output","Package":"a","Test":"TestX","Output":"=== RUN   TestX\n"}
			{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:3: needs a Mac\n"}
			{"Action":"output","Package":"a","Test":"TestX","Output":"--- SKIP: TestX (0.00s)\n"}
			{"Action":"skip","Package":"a","Test":"TestX"}
			{"Action":"skip","Package":"a","Test":"TestY"}
			{"Action":"pass","Package":"a"}`,
			[]string{"Skipped:\n  a TestX: x_test.go:3: needs a Mac\n  a TestY: no reason given\n", "\n0 passed, 0 failed, 2 skipped\n"},
		},
		{
			"package that does not build",
			`{"Action":"build-output","ImportPath":"a [a.test]","Output":"a.go:1: undefined: b\n"}
			{"Action":"build-fail","ImportPath":"a [a.test]"}
			{"Action":"fail","Package":"a","FailedBuild":"a [a.test]"}`,
			[]string{"a.go:1: undefined: b\n", "Failed:\n  a (the package itself)\n", "\n0 passed, 1 failed, 0 skipped\n"},
		},
		{
			"package that dies outside of a test",
			`{"Action":"pass","Package":"a","Test":"TestX"}
			{"Action":"output","Package":"a","Output":"panic: in TestMain\n"}
			{"Action":"fail","Package":"a"}`,
			[]string{"panic: in TestMain\n", "\n1 passed, 1 failed, 0 skipped\n"},
		},
		{
			"a line that is no event",
			"no such flag\n",
			[]string{"no such flag\n", "\n0 passed, 0 failed, 0 skipped\n"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(tt.events)); err != nil {
				t.Fatal(err)
			}
			s.close()
			rest := out.String()
			for _, want := range tt.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("%q is missing or out of order in\n%s", want, out.String())
				}
				rest = after
			}
			if strings.Contains(out.String(), "a test that passes") {
				t.Error("the output of a test that passed is shown")
			}
		})
	}
}

type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("broken")

func TestReadErrorIsNotTheEnd(t *testing.T) {
	if err := newSummary(&strings.Builder{}).read(brokenPipe{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

// module writes a module with one test file and makes it the current folder.
func module(t *testing.T, test string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.27\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\n" + test,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestRealRuns(t *testing.T) {
	tests := []struct {
		name, test, want, wantErr string
	}{
		{"pass", `func TestX(t *testing.T) {}`, "1 passed, 0 failed, 0 skipped", ""},
		{"fail", `func TestX(t *testing.T) { t.Error("so it is") }`, "so it is", "tests failed"},
		{"does not build", `func TestX(t *testing.T) { undefined() }`, "undefined: undefined", "tests failed"},
		{"panic", `func TestX(t *testing.T) { panic("oh no") }`, "oh no", "tests failed"},
		{"only skips", `func TestX(t *testing.T) { t.Skip("some reason") }`, "TestX: m_test.go:5: some reason", "no test ran"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			module(t, tt.test+"\n")
			var out, errs bytes.Buffer
			err := run([]string{"./..."}, &out, &errs)
			if got := errorText(err); got != tt.wantErr {
				t.Errorf("error %q, want %q", got, tt.wantErr)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("%q is missing in\n%s%s", tt.want, &out, &errs)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
