package enginetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// recorder is a T that notes which checks failed, and with which words.
type recorder struct {
	t    *testing.T
	name string
	all  *record

	mu       sync.Mutex // guards cleanups
	cleanups []func()
}

type record struct {
	mu     sync.Mutex // guards the rest
	failed []string
	words  []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Context() context.Context { return r.t.Context() }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	if !slices.Contains(r.all.failed, r.name) {
		r.all.failed = append(r.all.failed, r.name)
	}
	r.all.words = append(r.all.words, r.name+": "+fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Run(name string, f func(T)) bool {
	sub := &recorder{t: r.t, name: name, all: r.all}
	sub.do(f)
	return true
}

// do runs f, which Fatalf may end, and then its clean-ups.
func (r *recorder) do(f func(T)) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(r)
	}()
	<-ended
	for _, c := range slices.Backward(r.cleanups) {
		c()
	}
}

// runOn runs the suite on a reference with one fault.
func runOn(t *testing.T, wrong string) *record {
	rec := &recorder{t: t, all: &record{}}
	rec.do(func(rt T) {
		runAll(rt, Config{
			Start: func(T) engine.Instance { return newReference(wrong) },
			Kill: func(_ T, in engine.Instance) {
				in.(*reference).finish(engine.ExitCrashed)
			},
			Count: func(_ T, in engine.Instance) Count {
				e := in.(*reference)
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.count
			},
			FailStart: func(T) ([]string, error) {
				switch wrong {
				case "fails without a word":
					return nil, errors.New("no")
				case "leaves a process":
					return []string{"process 7"}, infer.Errorf(infer.ErrEngine, "", "no")
				}
				return nil, infer.Errorf(infer.ErrEngine, "", "no")
			},
			Busy:     func(T, engine.Instance) {},
			SlowText: "read slowly", MaxTokens: 8,
		})
	})
	return rec.all
}

func TestARightDriverPasses(t *testing.T) {
	if r := runOn(t, ""); len(r.failed) > 0 {
		t.Errorf("a right driver fails:\n%s", strings.Join(r.words, "\n"))
	}
}

// TestWrongDriversFail: each planted fault is caught, by the check that is there for it.
func TestWrongDriversFail(t *testing.T) {
	tests := map[string]string{ // fault: the check that has to catch it
		"forgets Done":               "text, then Done, then EOF",
		"says Done twice":            "text, then Done, then EOF",
		"talks after Done":           "text, then Done, then EOF",
		"sends empty text":           "text, then Done, then EOF",
		"counts nothing":             "usage",
		"ignores max tokens":         "max tokens",
		"ignores stop texts":         "stop texts",
		"leaks the stop text":        "stop texts",
		"names another stop text":    "stop texts",
		"is not greedy":              "greedy answers repeat",
		"ignores the seed":           "seeds repeat",
		"has one seed":               "seeds repeat",
		"gives impossible odds":      "log probabilities",
		"leaves out a probability":   "log probabilities",
		"cuts characters":            "text is UTF-8",
		"breaks the schema":          "JSON schema",
		"calls another tool":         "forced tool calls",
		"breaks the arguments":       "forced tool calls",
		"ends a call as a text":      "forced tool calls",
		"mixes answers up":           "answers at once do not mix",
		"hides that it counts":       "abilities agree with interfaces",
		"takes a suffix":             "what it cannot do is refused by name",
		"refuses without a name":     "what it cannot do is refused by name",
		"asks the engine first":      "what it cannot do is refused by name",
		"has no window":              "over the window",
		"gives wrong numbers":        "over the window",
		"takes one too many":         "at the window",
		"writes over the window":     "at the window",
		"counts one too many":        "counts agree",
		"says nothing":               "text to continue",
		"is ready too early":         "ready means a token",
		"fails without a word":       "a start that fails leaves nothing",
		"leaves a process":           "a start that fails leaves nothing",
		"goes on when it is left":    "leaving while it writes",
		"calls a leaver lost":        "leaving while it reads",
		"ends in order when it dies": "death in an answer",
		"takes requests when dead":   "death in an answer",
		"forgets why it ended":       "death in an answer",
		"loses its log":              "death in an answer",
		"calls a stop a crash":       "stop",
		"cannot be stopped twice":    "stop",
	}
	caught := map[string]bool{}
	for _, check := range tests {
		caught[check] = true
	}
	for _, c := range checks() {
		if !caught[c.name] {
			t.Errorf("no wrong driver shows that the check %q can fail", c.name)
		}
	}
	for wrong, check := range tests {
		t.Run(wrong, func(t *testing.T) {
			if r := runOn(t, wrong); !slices.Contains(r.failed, check) {
				t.Errorf("%q does not fail; these do: %q\n%s", check, r.failed, strings.Join(r.words, "\n"))
			}
		})
	}
}
