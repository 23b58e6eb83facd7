package config

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret holds a value that must not be printed. It redacts itself in every fmt verb, in slog and in JSON; only Reveal
// returns the value. The zero value is unset.
type Secret struct {
	// v is a pointer so that fmt, which calls no methods on unexported fields of somebody's struct, prints an address.
	v *string
}

// NewSecret wraps value; an empty value is an unset secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Set reports whether there is a value.
func (s Secret) Set() bool { return s.v != nil }

// Reveal returns the value, "" if it is unset. Its result must not be logged or put into an error.
func (s Secret) Reveal() string {
	if s.v == nil {
		return ""
	}
	return *s.v
}

// Equal reports whether both hold the same value. It is for tests; it does not take constant time.
func (s Secret) Equal(o Secret) bool { return s.Reveal() == o.Reveal() }

// String says only whether there is a value.
func (s Secret) String() string {
	if s.v == nil {
		return ""
	}
	return "[redacted]"
}

// Format prints String for every verb, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) {
	io.WriteString(f, s.String()) //nolint:errcheck // fmt.State does not fail
}

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, which encoding/json uses as well.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
