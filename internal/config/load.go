package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Source is where a value came from.
type Source string

// The sources, from the weakest to the strongest.
const (
	FromDefault     Source = "default"
	FromFile        Source = "file"
	FromEnvironment Source = "environment"
	FromFlag        Source = "flag"
)

// rank orders the sources.
func (s Source) rank() int {
	return slices.Index([]Source{FromDefault, FromFile, FromEnvironment, FromFlag}, s)
}

// none is the word that switches a setting off.
const none = "none"

// raw is what one source says about one setting, not yet checked.
type raw struct {
	source Source
	where  string
	place  place
	// shape is the form in which the value was given. text is a scalar ("" also for YAML's null); the others hold the rest.
	shape   shape
	text    string
	texts   []raw
	pairs   []Option
	entries []rawModel
}

// empty reports whether the source sends the setting back to its default.
func (r raw) empty() bool { return r.shape == scalar && r.text == "" }

// off reports whether the source switches the setting off.
func (r raw) off() bool { return r.shape == scalar && r.text == none }

// rawModel is one entry of models.
type rawModel struct {
	where  string
	fields map[string]raw
}

// loader collects what the sources say, and everything that is wrong with it.
type loader struct {
	host     Host
	table    []setting[Config]
	problems []Problem
	warnings []string
	// flags holds every occurrence in order. Nothing in here changes once a Config is made from it.
	flags map[string][]raw
	env   map[string]raw
	file  map[string]raw
	// decided says for each key which value counted; the source is FromDefault if none did.
	decided map[string]raw
	// shown are the settings for Show, and shownModels those of the entries of models.
	shown, shownModels []Value
}

// Load reads the sources and returns the settings, or an *Error with all problems.
func Load(in Input) (*Config, error) {
	l := &loader{host: in.Host, table: settings(), decided: map[string]raw{}}
	l.readFlags(in.Flags)
	l.readEnv()
	c := &Config{}
	l.readFile(c)
	for _, s := range l.table {
		if s.key != keyFile {
			decide(l, s, c)
		}
	}
	l.finishKey(c)
	l.finishModels(c)
	if !in.NoListen {
		l.checkBind(c)
	}
	l.checkRunDir(c)
	if len(l.problems) > 0 {
		return nil, &Error{l.problems}
	}
	c.Warnings, c.shown = l.warnings, l.shown
	return c, nil
}

func (l *loader) problem(where, format string, args ...any) {
	l.problems = append(l.problems, Problem{where, fmt.Sprintf(format, args...)})
}

func (l *loader) warn(where, format string, args ...any) {
	l.warnings = append(l.warnings, Problem{where, fmt.Sprintf(format, args...)}.String())
}

// readFlags sorts the flags by setting, each occurrence with the option it may hold.
func (l *loader) readFlags(flags []Setting) {
	l.flags = map[string][]raw{}
	byFlag := map[string]setting[Config]{}
	for _, s := range l.table {
		if s.flag != "" {
			byFlag[s.flag] = s
		}
	}
	for _, f := range flags {
		s, ok := byFlag[f.Key]
		if !ok {
			l.problem("--"+f.Key, "unknown flag%s", didYouMean(f.Key, slices.Sorted(maps.Keys(byFlag))))
			continue
		}
		r := raw{source: FromFlag, where: "--" + f.Key, place: l.workPlace(), text: f.Value}
		if s.shape == pairs && !r.empty() && !r.off() {
			if r, ok = l.pairFlag(r); !ok {
				continue
			}
		}
		l.flags[s.key] = append(l.flags[s.key], r)
	}
}

// pairFlag splits key=value.
func (l *loader) pairFlag(r raw) (raw, bool) {
	k, v, ok := strings.Cut(r.text, "=")
	if !ok || k == "" {
		l.problem(r.where, "%q has no value: write key=value, and key=true for a switch", clip(r.text))
		return r, false
	}
	if !l.checkOption(r.where, k) {
		return r, false
	}
	r.shape, r.pairs = pairs, []Option{{k, v}}
	return r, true
}

// checkOption refuses names that are no names. Which ones there are, the engine's driver knows.
func (l *loader) checkOption(where, key string) bool {
	if key == "" || strings.HasPrefix(key, "-") || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == '=' }) {
		l.problem(where, "%q is not the name of an engine option: write it without dashes before it", clip(key))
		return false
	}
	return true
}

// workPlace is what relative paths of flags and environment start from.
func (l *loader) workPlace() place { return place{l.host.WorkDir, l.host.HomeDir} }

// envPrefix begins the names of stoker's variables.
const envPrefix = "STOKER_"

// foreignEnv begins names that are stoker's but no settings: those of its tests and of the program that fetches their assets.
var foreignEnv = [...]string{"STOKER_TEST_", "STOKER_ASSETS"}

// readEnv takes the variables of the table. An unknown one only warns: it may belong to another version, or to a tool
// around stoker, and unlike a flag it was not given to this command.
func (l *loader) readEnv() {
	l.env = map[string]raw{}
	known := map[string]string{}
	for _, s := range l.table {
		if s.env != "" {
			known[s.env] = s.key
		}
	}
	names := map[string]bool{}
	for _, e := range l.host.Environ {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, envPrefix) {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		where := "environment " + name
		if key, ok := known[name]; ok {
			text, _ := l.host.LookupEnv(name)
			l.env[key] = raw{source: FromEnvironment, where: where, place: l.workPlace(), text: text}
		} else if !slices.ContainsFunc(foreignEnv[:], func(p string) bool { return strings.HasPrefix(name, p) }) {
			l.warn(where, "no setting has this name, so it has no effect%s", didYouMean(name, slices.Sorted(maps.Keys(known))))
		}
	}
}
