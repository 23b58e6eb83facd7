package config

import "fmt"

// said returns what the sources say about a key, the weakest first.
func (l *loader) said(key string) []raw {
	var all []raw
	if r, ok := l.file[key]; ok {
		all = append(all, r)
	}
	if r, ok := l.env[key]; ok {
		all = append(all, r)
	}
	return append(all, l.flags[key]...)
}

// decide checks what every source says about a setting, and stores the value that counts.
func decide(l *loader, s setting[Config], c *Config) {
	all := l.said(s.key)
	valid := true
	for _, r := range all {
		valid = report(l, s, s.key, r) && valid
	}
	if !valid {
		return
	}
	winner := raw{source: FromDefault}
	for _, r := range all {
		winner = join(winner, r)
	}
	l.decided[s.key] = store(l, s, s.key, c, winner)
	if s.shape != entries {
		l.shown = append(l.shown, shownValue(s, s.key, c, l.decided[s.key]))
	}
}

// join lets r count over what weaker sources, or earlier flags, said. Options add up; everything else is replaced.
func join(before, r raw) raw {
	if r.shape == pairs && before.shape == pairs && r.source == before.source {
		r.pairs = overlay(before.pairs, r.pairs)
	}
	return r
}

// report checks one value and reports what is wrong with it. name is the setting's key, with the model in front if there is
// one. It returns whether the value can be used.
func report[C any](l *loader, s setting[C], name string, r raw) bool {
	before := len(l.problems)
	switch {
	case r.empty():
	case r.off():
		if s.off == "" {
			l.problem(r.where, "%s cannot be switched off: it takes %s", name, s.takes)
		}
	case r.shape == scalar && s.shape != texts:
		if err := s.check(r.text, r.place); err != nil {
			l.problem(r.where, "%s: %v", name, err)
		}
	case r.shape != s.shape:
		l.problem(r.where, "%s takes %s, not %s", name, s.takes, r.shape)
	case r.shape == texts:
		for _, t := range r.texts {
			if err := s.check(t.text, t.place); err != nil {
				l.problem(t.where, "%s: %v", name, err)
			}
		}
	}
	return len(l.problems) == before
}

func (s shape) String() string {
	switch s {
	case scalar:
		return "a single value"
	case pairs:
		return "a map"
	}
	return "a list"
}

// store puts a checked value, or the default, into c. It returns r with the source that counts in the end.
func store[C any](l *loader, s setting[C], name string, c *C, r raw) raw {
	var err error
	switch {
	case r.source == FromDefault || r.empty():
		r = r.toDefault()
		err = applyDefault(l, s, c)
	case r.off():
		s.clear(c)
	case r.shape == scalar:
		err = s.apply(c, r.text, r.place)
	case r.shape == texts:
		for _, t := range r.texts {
			err = s.apply(c, t.text, t.place)
		}
	case r.shape == pairs:
		*s.pairs(c) = r.pairs
	}
	if err != nil {
		l.problem(r.where, "%s: %v", name, err)
	}
	return r
}

// toDefault is the default, with a word on who asked for it.
func (r raw) toDefault() raw {
	d := raw{source: FromDefault}
	if r.source != FromDefault {
		d.where = r.where + " is empty"
	}
	return d
}

func applyDefault[C any](l *loader, s setting[C], c *C) error {
	text := s.def
	if s.computed != nil {
		var err error
		if text, err = s.computed(l.host); err != nil {
			return err
		}
	}
	if text == "" {
		s.clear(c)
		return nil
	}
	if err := s.apply(c, text, place{"/", l.host.HomeDir}); err != nil {
		return fmt.Errorf("the default is not usable: %w", err)
	}
	return nil
}
