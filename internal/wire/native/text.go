package native

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// text is a string of any bytes in JSON. One that is not valid UTF-8 travels as base64 behind a mark, and so does one that begins with
// the mark.
type text string

const mark = "\x00"

func (t text) pack() string {
	s := string(t)
	if strings.HasPrefix(s, mark) || !utf8.ValidString(s) {
		return mark + base64.StdEncoding.EncodeToString([]byte(s))
	}
	return s
}

func unpack(s string) (text, error) {
	code, marked := strings.CutPrefix(s, mark)
	if !marked {
		return text(s), nil
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(code)
	if err != nil {
		return "", fmt.Errorf("a string's base64: %w", err)
	}
	return text(raw), nil
}

// MarshalText writes valid UTF-8.
func (t text) MarshalText() ([]byte, error) { return []byte(t.pack()), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *text) UnmarshalText(b []byte) (err error) {
	*t, err = unpack(string(b))
	return err
}

func texts(list []string) []text {
	if list == nil {
		return nil
	}
	out := make([]text, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

func plain(list []text) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// rawText carries JSON that a client sent as a string, so that its spaces and the order of its members survive. nil stays nil.
func rawText(raw json.RawMessage) *text {
	if raw == nil {
		return nil
	}
	t := text(raw)
	return &t
}

func (t *text) raw() json.RawMessage {
	if t == nil {
		return nil
	}
	return json.RawMessage(*t)
}

// real is a number that may be infinite: the logarithm of no chance at all is.
type real float64

// MarshalJSON writes a number, or the name of one that JSON lacks.
func (r real) MarshalJSON() ([]byte, error) {
	switch f := float64(r); {
	case math.IsNaN(f):
		return []byte(`"nan"`), nil
	case math.IsInf(f, 0):
		return json.Marshal(map[bool]string{true: "inf", false: "-inf"}[f > 0])
	default:
		return json.Marshal(f)
	}
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *real) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"nan"`:
		*r = real(math.NaN())
	case `"inf"`:
		*r = real(math.Inf(1))
	case `"-inf"`:
		*r = real(math.Inf(-1))
	default:
		return json.Unmarshal(b, (*float64)(r))
	}
	return nil
}

// strict reads one value, which has to be all there is. Its error is never io.EOF, which means a whole answer to readers.
func strict(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(v); errors.Is(err, io.EOF) {
		return errors.New("there is nothing")
	} else if err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands behind the value")
	}
	return nil
}

func strictBytes(b []byte, v any) error { return strict(bytes.NewReader(b), v) }
