package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testHost is a machine with a home, and nothing in its environment but env.
func testHost(t *testing.T, env ...string) Host {
	t.Helper()
	return Host{Environ: env, HomeDir: "/home-of-test", WorkDir: "/work-of-test", GOOS: "linux", UID: 1000}
}

// writeFile makes a private file and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sample are two values of each setting, other than its default, as they are written and as Show shows them. For options the
// map form of the file differs from the flag.
type sample struct{ text, shown, yaml string }

func samples(t *testing.T) map[string][2]sample {
	t.Helper()
	plain := func(a, b string) [2]sample { return [2]sample{{a, a, a}, {b, b, b}} }
	one, two := writeFile(t, "one", "k-one"), writeFile(t, "two", "k-two")
	file := writeFile(t, "empty.yaml", "")
	other := writeFile(t, "other.yaml", "")
	return map[string][2]sample{
		keyHost: plain("127.0.0.2", "::1"), "port": plain("1", "65535"),
		keyAPIKey:     {{"sk-1", "[redacted]", "sk-1"}, {"sk-2", "[redacted]", "sk-2"}},
		keyAPIKeyFile: plain(one, two), keyServedName: plain("qwen3", "org/qwen3"),
		keyCtx: {{"32k", "32768", "32k"}, {"1", "1", "1"}}, keyParallel: plain("2", "256"),
		keyModels:     {{"", "a", "[{name: a}]"}, {"", "b", "[{name: b}]"}},
		"queue_limit": plain("1", "10000"), "queue_wait": plain("1ms", "24h"), "max_body_bytes": plain("1KiB", "4GiB"),
		"heartbeat": plain("1s", "90ms"), "load_stall": plain("1m30s", "1h"), keyEngine: plain("llamacpp", "llamacpp"),
		"engines.embedded.mode": plain("fast", "fast"), "engines.embedded.kernel": plain("generic", "avx2"),
		"engines.embedded.threads": plain("1", "1024"),
		keyEngineArgs:              {{"threads=4", "threads=4", ""}, {"mlock=true", "mlock=true", ""}},
		"engines.llamacpp.path":    plain("/opt/llama-server", "/usr/bin/llama-server"),
		keyLlamaCppArgs:            {{"", "threads=4", "{threads: 4}"}, {"", "mlock=true", "{mlock: true}"}},
		keyFile:                    plain(file, other), keyStateDir: plain("/s1", "/s2"), "data_dir": plain("/d1", "/d2"),
		"cache_dir": plain("/c1", "/c2"), keyRunDir: plain("/r1", "/r2"),
		"log_level": plain("debug", "error"), "log_format": plain("json", "json"),
	}
}

// yamlOf nests a dotted key.
func yamlOf(key, value string) string {
	var b strings.Builder
	parts := strings.Split(key, ".")
	for i, p := range parts {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat("  ", i), p)
		if i < len(parts)-1 {
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, " %s\n", value)
	return b.String()
}

// given is what each source says; nil leaves the setting unset there.
type given struct{ file, env, flag *string }

// load reads one setting from up to three sources. The config file itself is found by a flag, unless it is what is tested.
func load(t *testing.T, s setting[Config], g given) (*Config, error) {
	t.Helper()
	var in Input
	in.Host = testHost(t)
	if g.file != nil {
		in.Flags = append(in.Flags, Setting{"config", writeFile(t, "stoker.yaml", yamlOf(s.key, *g.file))})
	}
	if g.env != nil {
		in.Host.Environ = append(in.Host.Environ, s.env+"="+*g.env)
	}
	if g.flag != nil {
		in.Flags = append(in.Flags, Setting{s.flag, *g.flag})
	}
	return Load(in)
}

func valueOf(t *testing.T, c *Config, key string) Value {
	t.Helper()
	i := slices.IndexFunc(c.Show(), func(v Value) bool { return v.Key == key })
	if i < 0 {
		t.Fatalf("Show has no %s", key)
	}
	return c.Show()[i]
}

// TestUnsetEmptyNone holds the rule for every setting of the table, in every source that it has: unset lets the next lower
// source decide, empty goes back to the default whatever lower sources say, none switches off or is refused.
func TestUnsetEmptyNone(t *testing.T) {
	all := samples(t)
	for _, s := range settings() {
		two, ok := all[s.key]
		if !ok {
			t.Errorf("no samples for %s: every setting is tested", s.key)
			continue
		}
		delete(all, s.key)
		def := defaultOf(t, s)
		for _, src := range sourcesOf(s, two) {
			name := s.key + "/" + string(src.source)
			t.Run(name+"/value", func(t *testing.T) { expect(t, s, src.with(src.high), two[1].shown, src.source) })
			t.Run(name+"/unset", func(t *testing.T) {
				if src.lower == nil {
					expect(t, s, given{}, def, FromDefault)
					return
				}
				expect(t, s, src.with(nil), two[0].shown, src.lowerSource)
			})
			for _, empty := range src.empties {
				t.Run(name+"/empty "+empty, func(t *testing.T) { expect(t, s, src.with(&empty), def, FromDefault) })
			}
			t.Run(name+"/none", func(t *testing.T) {
				word := none
				if s.off == "" {
					expectNoNone(t, s, src.with(&word))
					return
				}
				expect(t, s, src.with(&word), none, src.source)
			})
		}
	}
	if len(all) > 0 {
		t.Errorf("samples for settings that are not in the table: %v", slices.Sorted(maps.Keys(all)))
	}
}

// source is one source of a setting with a value for it, and the lower one that it overrides.
type source struct {
	source, lowerSource Source
	high, lower         *string
	empties             []string
}

func (s source) with(v *string) given {
	var g given
	for _, x := range []struct {
		source Source
		text   *string
	}{{s.lowerSource, s.lower}, {s.source, v}} {
		switch x.source {
		case FromFile:
			g.file = x.text
		case FromEnvironment:
			g.env = x.text
		case FromFlag:
			g.flag = x.text
		}
	}
	return g
}

func sourcesOf(s setting[Config], two [2]sample) []source {
	var out []source
	add := func(src Source, low, high string, empties ...string) {
		next := source{source: src, high: &high, empties: empties, lowerSource: FromDefault}
		if n := len(out); n > 0 {
			next.lowerSource, next.lower = out[n-1].source, &low
			if out[n-1].source == FromFile {
				next.lower = &two[0].yaml
			}
		}
		out = append(out, next)
	}
	if !s.notInFile {
		add(FromFile, "", two[1].yaml, "", `""`, "null", "~")
	}
	if s.env != "" {
		add(FromEnvironment, two[0].text, two[1].text, "")
	}
	if s.flag != "" {
		add(FromFlag, two[0].text, two[1].text, "")
	}
	return out
}

// defaultOf is what Show shows when no source says anything.
func defaultOf(t *testing.T, s setting[Config]) string {
	t.Helper()
	c, err := Load(Input{Host: testHost(t)})
	if err != nil {
		t.Fatal(err)
	}
	v := valueOf(t, c, s.key)
	if s.computed == nil && s.def != "" && v.Value != s.def {
		t.Errorf("%s: the default is shown as %q and declared as %q", s.key, v.Value, s.def)
	}
	return v.Value
}

func expect(t *testing.T, s setting[Config], g given, want string, from Source) {
	t.Helper()
	c, err := load(t, s, g)
	if err != nil {
		t.Fatal(err)
	}
	v := valueOf(t, c, s.key)
	if v.Value != want || v.Source != from {
		t.Errorf("got %q from %s, want %q from %s", v.Value, v.Source, want, from)
	}
}

func expectNoNone(t *testing.T, s setting[Config], g given) {
	t.Helper()
	_, err := load(t, s, g)
	if err == nil {
		t.Fatal("none is accepted for a setting that cannot be off")
	}
	if !strings.Contains(err.Error(), s.key) || !strings.Contains(err.Error(), s.takes) {
		t.Errorf("the error %q does not name %s and what it takes", err, s.key)
	}
}
