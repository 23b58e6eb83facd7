package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of go test -json; see `go doc cmd/test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // build-output, build-fail
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// summary counts tests, and subtests as tests of their own, as they end.
type summary struct {
	w                       io.Writer
	passed, failed, skipped int
	output                  map[string][]string // of tests, packages and builds still open, by name
	skips                   []string
	failures                []string
}

func newSummary(w io.Writer) *summary {
	return &summary{w: w, output: map[string][]string{}}
}

// read takes events until the end of r. A line that is no event (go test prints
// some when its arguments are wrong) is passed on.
func (s *summary) read(r io.Reader) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(s.w, "%s", line)
			} else {
				s.see(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) see(e event) {
	switch e.Action {
	case "output":
		key := e.Package + "\x00" + e.Test
		s.output[key] = append(s.output[key], e.Output)
	case "build-output":
		s.output[e.ImportPath] = append(s.output[e.ImportPath], e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" {
			s.endTest(e)
		} else {
			s.endPackage(e)
		}
	}
}

func (s *summary) endTest(e event) {
	key := e.Package + "\x00" + e.Test
	name := e.Package + " " + e.Test
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		s.skips = append(s.skips, name+": "+reason(s.output[key]))
	case "fail":
		s.failed++
		s.failures = append(s.failures, name)
		fmt.Fprintf(s.w, "--- FAIL: %s\n%s", name, strings.Join(s.output[key], ""))
	}
	delete(s.output, key)
}

// endPackage reports a package. One that fails without a failed test did not
// build, or died outside of a test: that counts as one failure of its own.
func (s *summary) endPackage(e event) {
	word := map[string]string{"pass": "ok", "fail": "FAIL", "skip": "no tests"}[e.Action]
	if e.Action != "skip" {
		fmt.Fprintf(s.w, "%-8s %s (%.1fs)\n", word, e.Package, e.Elapsed)
	}
	ownFailure := !slices.ContainsFunc(s.failures, func(f string) bool { return strings.HasPrefix(f, e.Package+" ") })
	if e.Action == "fail" && ownFailure {
		s.failed++
		s.failures = append(s.failures, e.Package+" (the package itself)")
		s.dumpOpen(e)
	}
	delete(s.output, e.Package+"\x00")
}

// dumpOpen prints what is known about a package that did not end well: the
// compiler's words, or the output of the tests that were running.
func (s *summary) dumpOpen(e event) {
	if e.FailedBuild != "" {
		fmt.Fprint(s.w, strings.Join(s.output[e.FailedBuild], ""))
	}
	for key, lines := range s.output {
		if strings.HasPrefix(key, e.Package+"\x00") {
			fmt.Fprint(s.w, strings.Join(lines, ""))
			delete(s.output, key)
		}
	}
}

// reason takes what a test said when it skipped out of its output: the lines
// that are not the test runner's own.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		t := strings.TrimSpace(line)
		if t == "" || strings.HasPrefix(t, "=== ") || strings.HasPrefix(t, "--- ") {
			continue
		}
		said = append(said, t)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// close prints the lists and the counts.
func (s *summary) close() {
	s.list("Skipped:", s.skips)
	s.list("Failed:", s.failures)
	fmt.Fprintf(s.w, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
}

func (s *summary) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	slices.Sort(lines)
	fmt.Fprintf(s.w, "\n%s\n", title)
	for _, l := range lines {
		fmt.Fprintln(s.w, " ", l)
	}
}
