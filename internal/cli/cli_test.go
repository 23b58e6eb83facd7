package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/models"
)

// parse reads a command line, and returns the grammar that it filled.
func parse(t *testing.T, args ...string) (*grammar, error) {
	t.Helper()
	g := newGrammar()
	p, err := kong.New(g, kong.Name("stoker"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Parse(args)
	return g, err
}

// TestReviewR8BooleanFlags: for every switch B and every flag with a value V of every command, "B V x" reads as "V x B" does, and
// "V=x" as "V x".
func TestReviewR8BooleanFlags(t *testing.T) {
	p, err := kong.New(newGrammar(), kong.Name("stoker"))
	if err != nil {
		t.Fatal(err)
	}
	pairs := 0
	for _, cmd := range p.Model.Leaves(false) {
		var switches, valued []*kong.Flag
		for _, group := range cmd.AllFlags(false) {
			for _, f := range group {
				if f.Name == "help" {
					continue
				}
				if f.IsBool() {
					switches = append(switches, f)
				} else {
					valued = append(valued, f)
				}
			}
		}
		base := words(cmd)
		for _, b := range switches {
			for _, v := range valued {
				pairs++
				value := "7"
				if v.Name == "timeout" {
					value = "7s"
				}
				first, err1 := parse(t, slices.Concat(base, []string{"--" + b.Name, "--" + v.Name, value})...)
				last, err2 := parse(t, slices.Concat(base, []string{"--" + v.Name + "=" + value, "--" + b.Name})...)
				if err1 != nil || err2 != nil {
					t.Errorf("%s --%s --%s: %v, %v", cmd.Path(), b.Name, v.Name, err1, err2)
					continue
				}
				if a, z := fmt.Sprintf("%+v", settingsOf(first)), fmt.Sprintf("%+v", settingsOf(last)); a != z || first.JSON != last.JSON || first.Run.Raw != last.Run.Raw {
					t.Errorf("%s --%s --%s: %s and %s", cmd.Path(), b.Name, v.Name, a, z)
				}
			}
		}
	}
	if pairs < 50 {
		t.Errorf("only %d pairs were tried", pairs)
	}
}

// words is a command line without flags for a command: its names, and a word for each argument.
func words(cmd *kong.Node) []string {
	var list []string
	for n := cmd; n != nil && n.Type != kong.ApplicationNode; n = n.Parent {
		list = append([]string{n.Name}, list...)
	}
	for range cmd.Positional {
		list = append(list, "word")
	}
	return list
}

// settingsOf lists all settings that a command line gave, whatever the command.
func settingsOf(g *grammar) []config.Setting {
	var all []config.Setting
	for _, f := range []settingFlags{
		g.Serve.settingFlags, g.Run.settingFlags, g.Status.settingFlags, g.Stop.settingFlags, g.Models.settingFlags, g.Explain.settingFlags,
		g.Doctor.settingFlags, g.Config.Show.settingFlags,
	} {
		all = append(all, f.settings()...)
	}
	return all
}

// TestReviewR9LastOfTwoFlags: both values reach the settings in their order, of which the last counts.
func TestReviewR9LastOfTwoFlags(t *testing.T) {
	g, err := parse(t, "serve", "m", "--port", "1", "--engine-arg", "a=1", "--port=2", "--engine-arg=b=2")
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Setting{{Key: "port", Value: "1"}, {Key: "port", Value: "2"}, {Key: "engine-arg", Value: "a=1"}, {Key: "engine-arg", Value: "b=2"}}
	if got := g.Serve.settings(); !slices.Equal(got, want) {
		t.Errorf("settings %+v, want %+v", got, want)
	}
}

func TestEveryFlagOfTheTableIsThere(t *testing.T) {
	g := newGrammar()
	p, err := kong.New(g, kong.Name("stoker"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, cmd := range p.Model.Leaves(false) {
		if cmd.Name != "serve" {
			continue
		}
		for _, group := range cmd.AllFlags(false) {
			for _, f := range group {
				there[f.Name] = true
			}
		}
	}
	for _, f := range config.Flags() {
		if !there[f.Name] {
			t.Errorf("stoker serve has no --%s", f.Name)
		}
	}
}

func TestExitStatus(t *testing.T) {
	tests := map[int]error{
		exitUsage:       errors.Join(usageError{errors.New("x")}),
		exitInterrupted: fmt.Errorf("x: %w", context.Canceled),
		exitFailed:      errors.New("x"),
	}
	for want, err := range tests {
		if got := exitCode(err); got != want {
			t.Errorf("%v gives %d, want %d", err, got, want)
		}
	}
	for _, err := range []error{&config.Error{}, &models.NotFoundError{}, &models.ChoiceError{}} {
		if got := exitCode(fmt.Errorf("x: %w", err)); got != exitUsage {
			t.Errorf("%T gives %d, want %d", err, got, exitUsage)
		}
	}
}

func TestCurlLineCanBePasted(t *testing.T) {
	chat := engine.Facts{Caps: engine.Capabilities{Chat: true}}
	s := &client.Status{URL: "http://127.0.0.1:1919", Models: []client.ModelStatus{{Name: "broken"}, {Name: `it's "x"`, Facts: &chat}}}
	line := curlLine(s, true)
	for _, want := range []string{"curl -N http://127.0.0.1:1919/v1/chat/completions", `$STOKER_API_KEY`, `"model": "it'\''s \"x\""`} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	s.Models[1].Facts = &engine.Facts{}
	if line := curlLine(s, false); !strings.Contains(line, "/v1/completions") || strings.Contains(line, "Authorization") {
		t.Errorf("a base model without a key: %s", line)
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := &progress{w: &out, last: map[string]string{}}
	load := func(phase string, done int64) *client.Status {
		return &client.Status{Models: []client.ModelStatus{{Name: "m", State: "loading", Load: &engine.LoadProgress{Phase: phase, Done: done, Total: 100 << 20}}}}
	}
	for _, s := range []*client.Status{load("weights", 0), load("weights", 50<<20), load("warmup", 100<<20)} {
		p.show(s)
	}
	if want := "m: weights 0% of 100.0 MiB\nm: warmup 100% of 100.0 MiB\n"; out.String() != want {
		t.Errorf("on a file: %q, want %q", out.String(), want)
	}
	out.Reset()
	p = &progress{w: &out, terminal: true, last: map[string]string{}}
	p.show(load("weights", 0))
	p.show(load("weights", 50<<20))
	p.end()
	if got := out.String(); strings.Contains(got, "\n") || !strings.Contains(got, "weights 50%") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("on a terminal: %q", got)
	}
}
