package config

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Value is one line of `stoker config show`.
type Value struct {
	Key string `json:"key"`
	// Value is as it would be written, "none" if the setting is off or has no value, and redacted if it is a secret.
	Value  string `json:"value"`
	Source Source `json:"source"`
	// Where is the place of the value: "FILE:LINE:COLUMN", "environment STOKER_NAME" or "--flag". For a default it is empty,
	// or says which source asked for it.
	Where string `json:"where,omitempty"`
}

// Show lists every setting, in the order of the documentation, with its value and where that came from; then what the
// entries of models say. Secrets are redacted.
func (c *Config) Show() []Value { return c.shown }

// WriteShow writes the result of Show as a table.
func WriteShow(w io.Writer, values []Value) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "SETTING\tVALUE\tFROM")
	for _, v := range values {
		from := v.Where
		switch {
		case from == "":
			from = string(v.Source)
		case v.Source == FromDefault:
			from = "default (" + from + ")"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", v.Key, v.Value, from)
	}
	return tw.Flush()
}

func shownValue[C any](s setting[C], name string, c *C, r raw) Value {
	text := s.show(c)
	switch {
	case text == "" || r.off():
		text = none
	case s.secret:
		text = Secret{&text}.String()
	}
	return Value{Key: name, Value: text, Source: r.source, Where: r.where}
}
