package fake

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Script says how the engine behaves. The zero value is a well-behaved, instant engine. The help tags are the documentation of
// the keys; Phases are explained in [Help].
type Script struct {
	Answer     string        `yaml:"answer" help:"the text of every answer, instead of one made from the last message"`
	Think      string        `yaml:"think" help:"text that comes as reasoning before the answer"`
	Tokens     int           `yaml:"tokens" help:"how many tokens an answer made from the message has, unless the request's limit is lower (40)"`
	TokenDelay time.Duration `yaml:"token-delay" help:"pause before each token of an answer"`
	Chunk      int           `yaml:"chunk" help:"how many prompt tokens are read at once (64)"`
	ChunkDelay time.Duration `yaml:"chunk-delay" help:"pause for each of these pieces of the prompt"`
	Load       time.Duration `yaml:"load" help:"how long loading takes, with progress"`
	Window     int           `yaml:"window" help:"the window that is really given, whatever was asked for"`

	SilentAt      string   `yaml:"silent-at" help:"a phase: from there nothing more is said, for ever"`
	DieAt         string   `yaml:"die-at" help:"a phase: the process ends there"`
	DieHow        string   `yaml:"die-how" help:"exit:N, abort or kill (exit:1)"`
	LastWords     string   `yaml:"last-words" help:"a line on standard error before the process dies or falls silent"`
	Noise         int      `yaml:"noise" help:"this many MiB of output"`
	NoiseAt       string   `yaml:"noise-at" help:"load or answer: when the noise comes (load); loading ends after it"`
	NoiseTo       string   `yaml:"noise-to" help:"stderr, stdout or both: where the noise goes (stderr)"`
	NoiseNewlines bool     `yaml:"noise-newlines" help:"the noise has lines; else it is one line without an end"`
	Status        int      `yaml:"status" help:"the status of every answer, before any of it"`
	StatusBody    string   `yaml:"status-body" help:"object, string, html or empty: the body with that status (as the engine does)"`
	CloseAt       string   `yaml:"close-at" help:"a phase of an answer: the connection ends there"`
	CloseHow      string   `yaml:"close-how" help:"clean, half-line, stall-half-line, cut (the body has no end) or reset: how it ends (clean)"`
	CutUTF8       string   `yaml:"cut-utf8" help:"events or writes: characters are cut between events, or between network writes"`
	BadJSONAt     string   `yaml:"bad-json-at" help:"a phase of an answer: an event there is no JSON"`
	ErrorAt       string   `yaml:"error-at" help:"a phase of an answer: an error comes there as the engine gives it, and nothing after it"`
	Omit          []string `yaml:"omit" help:"a list of done, usage, finish: what the end of a stream lacks"`
	Lies          string   `yaml:"lies" help:"fail, never or after:N: it says it is ready, and answers fail, never come, or fail after N good ones"`
	PortLost      int      `yaml:"port-lost" help:"the first N starts find the address in use; needs state-file"`
	StateFile     string   `yaml:"state-file" help:"a file that counts the starts"`
	Grandchild    bool     `yaml:"grandchild" help:"a child of its own that ignores SIGTERM and holds a port"`
	IgnoreTerm    bool     `yaml:"ignore-sigterm" help:"SIGTERM is ignored"`
	OtherAnswer   bool     `yaml:"other-answer" help:"each answer is made from the request before it"`
	DropToolCall  bool     `yaml:"drop-tool-call" help:"a tool call is announced as the reason of the end, and does not come"`
	NoSocket      bool     `yaml:"no-socket" help:"the engine's help does not offer socket files, so a port has to be used"`
	Info          string   `yaml:"info" help:"empty, wrong, html or hang: how /props, /slots, /metrics and the list of models answer"`
	OnlyAlias     string   `yaml:"only-alias" help:"all this is played only if the engine is started with this --alias, else it is well"`
	Grow          int      `yaml:"grow" help:"each answer takes this many MiB of memory and keeps them"`
}

// Phases explains the words of die-at and its like.
const Phases = `bind      the process, before it listens (die-at, silent-at)
  load      while the model loads (die-at, silent-at)
  warmup    the first answer, before any of it
  start     an answer, before any of it
  prefill   an answer, when a piece of the prompt was read
  after:N   an answer, after N of its tokens
  final     an answer, before what ends it`

// phase is a parsed phase. The zero value is never.
type phase struct {
	name  string
	after int
}

// phasesOfProcess are those that only a whole process has.
var phasesOfProcess = [...]string{"bind", "load"}

// parsePhase reads a phase. process says whether those of the process are meant too.
func parsePhase(s string, process bool) (phase, error) {
	switch s {
	case "", "warmup", "start", "prefill", "final":
		return phase{name: s}, nil
	case phasesOfProcess[0], phasesOfProcess[1]:
		if process {
			return phase{name: s}, nil
		}
		return phase{}, fmt.Errorf("%q is no phase of an answer; those are warmup, start, prefill, after:N, final", s)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(s, "after:"))
	if !strings.HasPrefix(s, "after:") || err != nil || n < 0 {
		return phase{}, fmt.Errorf("%q is no phase; the phases are bind, load, warmup, start, prefill, after:N, final", s)
	}
	return phase{"after", n}, nil
}

// faults are the phases of a script, read once for an answer.
type faults struct{ die, silent, close, badJSON, fail phase }

// faults reads the phases. first says whether the answer is the engine's first one, which is its warm-up.
func (s Script) faults(first bool) (f faults, err error) {
	for _, k := range []struct {
		key, text string
		to        *phase
		process   bool
	}{
		{"die-at", s.DieAt, &f.die, true},
		{"silent-at", s.SilentAt, &f.silent, true},
		{"close-at", s.CloseAt, &f.close, false},
		{"bad-json-at", s.BadJSONAt, &f.badJSON, false},
		{"error-at", s.ErrorAt, &f.fail, false},
	} {
		if *k.to, err = parsePhase(k.text, k.process); err != nil {
			return f, fmt.Errorf("script: %s: %w", k.key, err)
		}
		if k.text == "warmup" {
			*k.to = phase{}
			if first {
				*k.to = phase{name: "start"}
			}
		}
	}
	return f, nil
}

// ParseScript reads a script in YAML. Unknown keys and values are errors.
func ParseScript(text []byte) (Script, error) {
	var s Script
	if len(bytes.TrimSpace(text)) == 0 {
		return s, nil
	}
	if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
		return s, fmt.Errorf("script: %w", err)
	}
	return s, s.check()
}

func (s Script) check() error {
	if _, err := s.faults(true); err != nil {
		return err
	}
	words := []struct {
		key, value string
		allowed    []string
	}{
		{"noise-at", s.NoiseAt, []string{"", "load", "answer"}},
		{"status-body", s.StatusBody, []string{"", "object", "string", "html", "empty"}},
		{"close-how", s.CloseHow, []string{"", "clean", "half-line", "stall-half-line", "cut", "reset"}},
		{"noise-to", s.NoiseTo, []string{"", "stderr", "stdout", "both"}},
		{"info", s.Info, []string{"", "empty", "wrong", "html", "hang"}},
		{"cut-utf8", s.CutUTF8, []string{"", "events", "writes"}},
	}
	for _, o := range s.Omit {
		words = append(words, struct {
			key, value string
			allowed    []string
		}{"omit", o, []string{"done", "usage", "finish"}})
	}
	for _, w := range words {
		if !has(w.allowed, w.value) {
			return fmt.Errorf("script: %s: %q is none of %s", w.key, w.value, strings.Join(w.allowed[min(1, len(w.allowed)-1):], ", "))
		}
	}
	if s.PortLost > 0 && s.StateFile == "" {
		return fmt.Errorf("script: port-lost needs state-file")
	}
	if _, err := s.lie(); err != nil {
		return err
	}
	_, _, err := s.death()
	return err
}

// death is how the process dies: a signal's word or an exit status.
func (s Script) death() (word string, code int, err error) {
	switch s.DieHow {
	case "":
		return "exit", 1, nil
	case "abort", "kill":
		return s.DieHow, 0, nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(s.DieHow, "exit:"))
	if err != nil || !strings.HasPrefix(s.DieHow, "exit:") || n < 0 || n > 255 {
		return "", 0, fmt.Errorf("script: die-how: %q is none of exit:N, abort, kill", s.DieHow)
	}
	return "exit", n, nil
}

// lie returns after how many good answers the engine fails; -1 for never failing, -2 for never answering.
func (s Script) lie() (int, error) {
	switch s.Lies {
	case "":
		return -1, nil
	case "fail":
		return 0, nil
	case "never":
		return -2, nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(s.Lies, "after:"))
	if err != nil || !strings.HasPrefix(s.Lies, "after:") || n < 0 {
		return 0, fmt.Errorf("script: lies: %q is none of fail, never, after:N", s.Lies)
	}
	return n, nil
}

func has(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// over lays a request's own script over s: what it sets counts.
func (s Script) over(own Script) Script {
	out, from := reflect.ValueOf(&s).Elem(), reflect.ValueOf(own)
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			out.Field(i).Set(from.Field(i))
		}
	}
	return s
}

// marker begins a script in a prompt. maxMarked bounds it: a client may have written it, and the YAML parser's memory grows with the
// square of the nesting.
const (
	marker    = "@fault{"
	maxMarked = 2000
)

// scriptIn takes a script out of a prompt's text: @fault{key: value, ...}.
func scriptIn(prompt string) (own Script, rest string, err error) {
	at := strings.LastIndex(prompt, marker)
	if at < 0 {
		return own, prompt, nil
	}
	end := strings.IndexByte(prompt[at:], '}')
	if end < 0 || end > maxMarked {
		return own, prompt, fmt.Errorf("script in the prompt: %q has no closing brace within %d bytes", marker, maxMarked)
	}
	text := prompt[at+len(marker)-1 : at+end+1]
	own, err = ParseScript([]byte(text))
	return own, prompt[:at] + prompt[at+end+1:], err
}

// keys lists the keys of a script with their help, in order.
func keys() []reflect.StructField {
	t := reflect.TypeFor[Script]()
	list := make([]reflect.StructField, t.NumField())
	for i := range list {
		list[i] = t.Field(i)
	}
	return list
}
