package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is one type of value: how its text is read and written, and what to tell somebody who wrote something else.
type kind[T any] struct {
	// name is the one word for help, such as "number".
	name string
	// takes finishes the sentence "it takes ...".
	takes string
	parse func(text string, p place) (T, error)
	show  func(T) string
	// schema is the JSON Schema of the values, without empty and none.
	schema map[string]any
}

// place is what a relative path starts from.
type place struct{ dir, home string }

func number(lo, hi int) kind[int] {
	takes := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	return kind[int]{
		name: "number", takes: takes, show: strconv.Itoa,
		parse: func(text string, _ place) (int, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < lo || n > hi {
				return 0, notA(text, takes)
			}
			return n, nil
		},
		schema: map[string]any{"type": "integer", "minimum": lo, "maximum": hi},
	}
}

// maxTokens bounds a window. No published model comes near; more is a slip of the finger.
const maxTokens = 1 << 24

// tokens is a window: auto (0) or a count, where the suffix k means 1024.
func tokens() kind[int] {
	takes := fmt.Sprintf("auto, or a number of tokens from 1 to %d; the suffix k means 1024, as in 32k", maxTokens)
	return kind[int]{
		name: "tokens", takes: takes,
		parse: func(text string, _ place) (int, error) {
			if text == "auto" {
				return 0, nil
			}
			digits, unit := strings.TrimSuffix(strings.ToLower(text), "k"), 1
			if len(digits) < len(text) {
				unit = 1024
			}
			n, err := strconv.Atoi(digits)
			if err != nil || n < 1 || n > maxTokens/unit {
				return 0, notA(text, takes)
			}
			return n * unit, nil
		},
		show: func(n int) string {
			if n == 0 {
				return "auto"
			}
			return strconv.Itoa(n)
		},
		schema: anyOf(map[string]any{"const": "auto"}, map[string]any{"type": "integer", "minimum": 1, "maximum": maxTokens},
			map[string]any{"type": "string", "pattern": "^[0-9]+[kK]?$"}),
	}
}

// size is a number of bytes, where KiB, MiB and GiB are units.
func size(lo, hi int64) kind[int64] {
	takes := fmt.Sprintf("a size from %s to %s, in bytes or with KiB, MiB or GiB behind it", showSize(lo), showSize(hi))
	return kind[int64]{
		name: "size", takes: takes, show: showSize,
		parse: func(text string, _ place) (int64, error) {
			digits, unit := text, int64(1)
			for _, u := range sizeUnits {
				if d, ok := strings.CutSuffix(text, u.name); ok {
					digits, unit = strings.TrimRight(d, " "), u.bytes
				}
			}
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil || n < 0 || n > hi/unit || n*unit < lo {
				return 0, notA(text, takes)
			}
			return n * unit, nil
		},
		schema: anyOf(map[string]any{"type": "integer", "minimum": lo, "maximum": hi},
			map[string]any{"type": "string", "pattern": "^[0-9]+ *([KMG]iB)?$"}),
	}
}

type sizeUnit struct {
	name  string
	bytes int64
}

var sizeUnits = [...]sizeUnit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func showSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func duration(lo, hi time.Duration) kind[time.Duration] {
	takes := fmt.Sprintf("a time from %s to %s, such as 90s or 5m", showDuration(lo), showDuration(hi))
	return kind[time.Duration]{
		name: "time", takes: takes, show: showDuration,
		parse: func(text string, _ place) (time.Duration, error) {
			d, err := time.ParseDuration(text)
			if err != nil || d < lo || d > hi {
				return 0, notA(text, takes)
			}
			return d, nil
		},
		schema: map[string]any{"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+$"},
	}
}

// showDuration writes 5m instead of 5m0s.
func showDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func oneOf(words ...string) kind[string] {
	takes := strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	return kind[string]{
		name: "word", takes: takes, show: same,
		parse: func(text string, _ place) (string, error) {
			if !slices.Contains(words, text) {
				return "", notA(text, takes+didYouMean(text, words))
			}
			return text, nil
		},
		schema: map[string]any{"enum": words},
	}
}

func logLevel() kind[slog.Level] {
	words := oneOf("debug", "info", "warn", "error")
	return kind[slog.Level]{
		name: words.name, takes: words.takes, schema: words.schema,
		show: func(l slog.Level) string { return strings.ToLower(l.String()) },
		parse: func(text string, p place) (l slog.Level, err error) {
			if _, err = words.parse(text, p); err == nil {
				err = l.UnmarshalText([]byte(text))
			}
			return l, err
		},
	}
}

// hostName is what a host has to look like that is no address.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

// numeric is what only an address may look like: "127.0.0.999" is a slip and not a name.
var numeric = regexp.MustCompile(`^[0-9.]+$`)

func host() kind[string] {
	const takes = "an address such as 127.0.0.1, ::1 or 0.0.0.0, or the name of a host"
	return kind[string]{
		name: "host", takes: takes, show: same, schema: map[string]any{"type": "string", "maxLength": 255},
		parse: func(text string, _ place) (string, error) {
			bare := text
			if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
				bare = text[1 : len(text)-1]
			}
			if _, err := netip.ParseAddr(bare); err == nil {
				return bare, nil
			}
			if !hostName.MatchString(text) || numeric.MatchString(text) {
				return "", notA(text, takes+" (the port is a setting of its own)")
			}
			return text, nil
		},
	}
}

// path is a file or folder. It is made absolute: "~/" is the home, anything else relative starts at the working folder, or
// at the config file's folder if it stands there.
func path(what string) kind[string] {
	return kind[string]{
		name: "path", takes: "the path of " + what, show: same, schema: map[string]any{"type": "string"},
		parse: func(text string, p place) (string, error) {
			if strings.ContainsRune(text, 0) {
				return "", errors.New("a path holds no zero byte")
			}
			if rest, ok := strings.CutPrefix(text, "~/"); ok || text == "~" {
				if p.home == "" {
					return "", errors.New("~ stands for the home folder, and none is known: set HOME, or write the path out")
				}
				return filepath.Join(p.home, rest), nil
			}
			if !filepath.IsAbs(text) {
				text = filepath.Join(p.dir, text)
			}
			return filepath.Clean(text), nil
		},
	}
}

// maxName bounds served names and aliases. Clients show them and put them into addresses.
const maxName = 128

// nameShape is a served name: no path, nothing that an address or a log line would have to escape.
var nameShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@+-]*(/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*$`)

func servedName() kind[string] {
	takes := fmt.Sprintf("a name of up to %d letters, digits and . _ - : @ + /, such as qwen3-8b or org/qwen3-8b; a file path is never a name", maxName)
	return kind[string]{
		name: "name", takes: takes, show: same,
		schema: map[string]any{"type": "string", "maxLength": maxName, "pattern": nameShape.String()},
		parse: func(text string, _ place) (string, error) {
			if len(text) > maxName || !nameShape.MatchString(text) {
				return "", notA(text, takes)
			}
			return text, nil
		},
	}
}

// keyText is an API key: something that a header can carry.
func keyText() kind[Secret] {
	const takes = "a key of up to 4096 visible ASCII characters"
	return kind[Secret]{
		name: "secret", takes: takes, show: Secret.String,
		schema: map[string]any{"type": "string", "maxLength": maxKey, "pattern": "^[!-~]+$"},
		parse: func(text string, _ place) (Secret, error) {
			if len(text) > maxKey || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return Secret{}, errors.New("the value is not " + takes)
			}
			return NewSecret(text), nil
		},
	}
}

// maxKey bounds an API key. It has to fit into a header of a request.
const maxKey = 4096

func notA(text, takes string) error { return fmt.Errorf("%q is not %s", clip(text), takes) }

// clip keeps a value that somebody got badly wrong from filling the screen.
func clip(text string) string {
	const most = 80
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}

func same(s string) string { return s }

func anyOf(schemas ...map[string]any) map[string]any {
	list := make([]any, len(schemas))
	for i, s := range schemas {
		list[i] = s
	}
	return map[string]any{"anyOf": list}
}
