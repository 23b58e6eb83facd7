package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/stoker-llm/stoker/internal/nearest"
)

// about is what a row of the table says in words.
type about struct {
	// key is the name in the file, with dots between levels. flag and env are "" where the setting has none.
	key, flag, env string
	// def is the default as it would be written, "" for none. If computed is set, it makes the value and def describes it.
	def      string
	computed func(Host) (string, error)
	// off says what none means, "" where the setting cannot be off.
	off string
	// help is for everybody, why says why the default is what it is.
	help, why string
	// secret values are never shown. notInFile settings are known to flags and environment only.
	secret, notInFile bool
}

// shape is the form of a setting's value.
type shape int

const (
	scalar  shape = iota
	texts         // a list of words
	pairs         // a map of words, or key=value flags
	entries       // the list of models
)

// setting is a row of the table, for a struct C that its value goes into.
type setting[C any] struct {
	about
	shape shape
	// kindName and takes are those of the kind.
	kindName, takes string
	schema          map[string]any
	// check tells what is wrong with one word, apply stores it, and clear stores "none".
	check func(text string, p place) error
	apply func(c *C, text string, p place) error
	clear func(c *C)
	show  func(c *C) string
	// pairs is the field of a setting of that shape.
	pairs func(c *C) *[]Option
}

// row makes a setting of one word from its kind and its field in C. Off is the field's zero value.
func row[C, T any](a about, k kind[T], field func(*C) *T) setting[C] {
	return setting[C]{
		about: a, shape: scalar, kindName: k.name, takes: k.takes, schema: k.schema,
		check: func(text string, p place) error { _, err := k.parse(text, p); return err },
		apply: func(c *C, text string, p place) (err error) {
			v, err := k.parse(text, p)
			if err == nil {
				*field(c) = v
			}
			return err
		},
		clear: func(c *C) { var zero T; *field(c) = zero },
		show:  func(c *C) string { return k.show(*field(c)) },
	}
}

// words makes a setting that is a list of words of one kind.
func words[C any](a about, k kind[string], field func(*C) *[]string) setting[C] {
	s := row(a, k, func(*C) *string { return new(string) })
	s.shape, s.kindName, s.takes = texts, "list", "a list, each entry "+k.takes
	s.schema = map[string]any{"type": "array", "items": k.schema}
	s.apply = func(c *C, text string, p place) error {
		v, err := k.parse(text, p)
		if err == nil {
			*field(c) = append(*field(c), v)
		}
		return err
	}
	s.clear = func(c *C) { *field(c) = nil }
	s.show = func(c *C) string { return strings.Join(*field(c), ", ") }
	return s
}

// options makes a setting that is a map from option to value.
func options[C any](a about, field func(*C) *[]Option) setting[C] {
	return setting[C]{
		about: a, shape: pairs, kindName: "options", takes: "option names, each with a value",
		schema: map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean", "null"}}},
		check: func(text string, _ place) error {
			return errors.New("it takes options, each with a value, not the single word " + quote(text))
		},
		clear: func(c *C) { *field(c) = nil },
		show:  func(c *C) string { return showOptions(*field(c)) },
		pairs: field,
	}
}

// list makes the setting that holds the models.
func list(a about, field func(*Config) *[]Model) setting[Config] {
	return setting[Config]{
		about: a, shape: entries, kindName: "list", takes: "a list of models, each with a name",
		check: func(text string, _ place) error {
			return errors.New("it takes a list of models, not the single word " + quote(text))
		},
		clear: func(c *Config) { *field(c) = nil },
		show: func(c *Config) string {
			var names []string
			for _, m := range *field(c) {
				names = append(names, m.Name)
			}
			return strings.Join(names, ", ")
		},
	}
}

func levelField(c *Config) *slog.Level { return &c.LogLevel }

// alias is a served name in which * stands for any characters.
func alias() kind[string] {
	name := servedName()
	k := name
	k.takes = "a served name, in which * may stand for any characters"
	k.schema = map[string]any{"type": "string", "maxLength": maxName, "pattern": `^[A-Za-z0-9*._:@+/-]+$`}
	k.parse = func(text string, p place) (string, error) {
		// Any character will do in the place of a star: what is left has to look like a name.
		if _, err := name.parse(strings.ReplaceAll(text, "*", "x"), p); err != nil {
			return "", notA(text, k.takes)
		}
		return text, nil
	}
	return k
}

func quote(text string) string { return fmt.Sprintf("%q", clip(text)) }

// showOptions writes options as the command line takes them.
func showOptions(o []Option) string {
	var b strings.Builder
	for i, p := range o {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.Key + "=" + p.Value)
	}
	return b.String()
}

// overlay lays upper over lower. The order is that of first mention.
func overlay(lower, upper []Option) []Option {
	var out []Option
	at := map[string]int{}
	for _, list := range [2][]Option{lower, upper} {
		for _, o := range list {
			i, known := at[o.Key]
			if !known {
				at[o.Key] = len(out)
				out = append(out, o)
				continue
			}
			out[i] = o
		}
	}
	return out
}

// withoutEmpty drops options without a value: those go back to the engine's own default.
func withoutEmpty(list []Option) []Option {
	var out []Option
	for _, o := range list {
		if o.Value != "" {
			out = append(out, o)
		}
	}
	return out
}

// didYouMean offers the nearest of the known names, as the end of a sentence, or nothing.
func didYouMean(name string, known []string) string {
	near := nearest.Of(name, known)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}
