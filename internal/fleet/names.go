package fleet

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/nearest"
)

// Resolve returns the served name of the model that a client's name reaches: by its served name, by the repository id it was
// served under, by an alias, or by an alias pattern, in this order. A file path reaches nothing. The empty name reaches the
// only model of a fleet of one: nothing has to be guessed there, and some clients send null. An unknown name is
// ErrModelNotFound and goes no further: no engine ever hears a client's name.
func (f *Fleet) Resolve(name string) (string, error) {
	if name == "" {
		if len(f.models) == 1 {
			return f.models[0].spec.Name, nil
		}
		return "", infer.Errorf(infer.ErrInvalid, "model", "model is missing, and more than one is served: %s", f.list())
	}
	if m := f.byName[name]; m != nil {
		return m.spec.Name, nil
	}
	for _, reaches := range []func(ModelSpec, string) bool{byRepo, byAlias, byPattern} {
		for _, m := range f.models {
			if reaches(m.spec, name) {
				return m.spec.Name, nil
			}
		}
	}
	return "", f.notFound(name)
}

func byRepo(s ModelSpec, name string) bool { return s.Repo == name }

func byAlias(s ModelSpec, name string) bool {
	for _, a := range s.Aliases {
		if a == name {
			return true
		}
	}
	return false
}

func byPattern(s ModelSpec, name string) bool {
	for _, a := range s.Aliases {
		if strings.Contains(a, "*") && match(a, name) {
			return true
		}
	}
	return false
}

// match reports whether name fits pattern, in which each * stands for any characters, slashes included.
func match(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		head, tail, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, head)
		}
		i := strings.Index(name, head)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(head):], tail
	}
}

// checkName refuses served names that are, or look like, file paths: they would show in every reply.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the served name is empty")
	case filepath.IsAbs(name), strings.HasPrefix(name, "./"), strings.HasPrefix(name, "../"), strings.HasPrefix(name, "~"):
		return fmt.Errorf("the served name %q looks like a file path, and would show in every reply; give it a name of its own", name)
	case strings.HasSuffix(name, "/"):
		return fmt.Errorf("the served name %q ends with a slash", name)
	}
	return nil
}

// maxEcho bounds how much of a client's name is repeated in an error.
const maxEcho = 200

func (f *Fleet) notFound(name string) error {
	if len(name) > maxEcho {
		name = strings.ToValidUTF8(name[:maxEcho], "") + "..."
	}
	msg := fmt.Sprintf("model %q is not served here; served: %s", name, f.list())
	owner := f.models[0].spec.Name
	if near := nearest.Of(name, f.names()); len(near) > 0 {
		msg += fmt.Sprintf("; did you mean %q?", near[0])
		if s, err := f.Resolve(near[0]); err == nil {
			owner = s
		}
	}
	msg += fmt.Sprintf(" (to let %q answer to this name, add to its entry in the config: aliases: [%q])", owner, name)
	return &infer.Error{Kind: infer.ErrModelNotFound, Param: "model", Message: msg}
}

// names lists what a client can write, patterns left out.
func (f *Fleet) names() []string {
	var names []string
	for _, m := range f.models {
		names = append(names, m.spec.Name)
		if m.spec.Repo != "" {
			names = append(names, m.spec.Repo)
		}
		for _, a := range m.spec.Aliases {
			if !strings.Contains(a, "*") {
				names = append(names, a)
			}
		}
	}
	return names
}

func (f *Fleet) list() string {
	names := make([]string, len(f.models))
	for i, m := range f.models {
		names[i] = fmt.Sprintf("%q", m.spec.Name)
	}
	return strings.Join(names, ", ")
}
