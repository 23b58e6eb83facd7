package config

import (
	"fmt"
	"slices"
	"strings"
)

// Select returns what to serve: the models that words name, or every model of the file if there are no words. A word that is
// the name or an alias of a model in the file is that model; any other is taken as a path or as a name in the model folder.
// A model named twice is served once. Problems are an *Error.
func (c *Config) Select(words []string) ([]Model, error) {
	var problems []Problem
	bad := func(where, format string, args ...any) {
		problems = append(problems, Problem{where, fmt.Sprintf(format, args...)})
	}
	picked := slices.Clone(c.Models)
	if len(words) > 0 {
		picked = nil
	}
	for _, w := range words {
		m := c.named(w)
		switch {
		case strings.Trim(w, "/ ") == "":
			bad("", "%q is not a model: give a model file or folder, or the name of a model", w)
		case slices.ContainsFunc(picked, func(p Model) bool { return p.Name == m.Name && p.Path == m.Path }):
		default:
			picked = append(picked, m)
		}
	}
	if len(picked) == 0 && len(problems) == 0 {
		bad("", "no model to serve: give a model file, or list models in the config file")
	}
	if c.ServedModelName != "" && len(picked) > 1 {
		bad(c.whereIs(keyServedName), "%s is for one model, and %d are to be served: list them in the config file with a name each",
			keyServedName, len(picked))
	}
	if len(problems) > 0 {
		return nil, &Error{problems}
	}
	if c.ServedModelName != "" {
		picked[0].Name = c.ServedModelName
	}
	return picked, nil
}

// named is the model of the file with that name or alias, or one about which the file says nothing.
func (c *Config) named(word string) Model {
	for _, m := range c.Models {
		if m.Name == word || slices.Contains(m.Aliases, word) {
			return m
		}
	}
	return Model{Path: word, Ctx: c.Ctx, Parallel: c.Parallel, Engine: c.Engine, EngineArgs: c.engineArgs}
}

// whereIs is the place that decided a setting.
func (c *Config) whereIs(key string) string {
	for _, v := range c.shown {
		if v.Key == key {
			return v.Where
		}
	}
	return ""
}
