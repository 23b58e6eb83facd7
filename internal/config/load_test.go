package config

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// problems loads in and returns what is wrong, with dir replaced by "DIR".
func problems(t *testing.T, in Input, dir string) []string {
	t.Helper()
	_, err := Load(in)
	if err == nil {
		t.Fatal("no problem was found")
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is not an *Error: %v", err, err)
	}
	var out []string
	for _, p := range e.Problems {
		text := p.String()
		if dir != "" {
			text = strings.ReplaceAll(text, dir, "DIR")
		}
		out = append(out, text)
	}
	return out
}

func mustLoad(t *testing.T, in Input) *Config {
	t.Helper()
	c, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	c := mustLoad(t, Input{Host: testHost(t)})
	want := &Config{
		Host: "127.0.0.1", Port: 1919, Engine: "auto", Parallel: 1, QueueLimit: 64, QueueWait: 5 * time.Minute, MaxBodyBytes: 64 << 20,
		Heartbeat: 5 * time.Second, LoadStall: 5 * time.Minute, LogLevel: slog.LevelInfo, LogFormat: "text", Embedded: Embedded{Mode: "exact", Kernel: "auto"},
		StateDir: "/home-of-test/.local/state/stoker", DataDir: "/home-of-test/.local/share/stoker", CacheDir: "/home-of-test/.cache/stoker",
		RunDir: "/tmp/stoker-1000",
	}
	c.shown = nil
	if d := cmp.Diff(want, c, cmp.AllowUnexported(Config{})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestSourcesInOrder(t *testing.T) {
	file := writeFile(t, "stoker.yaml", "port: 1001\nparallel: 2\nctx: 4k\n")
	h := testHost(t, "STOKER_PORT=1002", "STOKER_PORT=1003", "STOKER_PARALLEL=3", "STOKER_CONFIG="+file)
	c := mustLoad(t, Input{Host: h, Flags: []Setting{{"port", "1004"}, {"port", "1005"}}})
	if c.Port != 1005 || c.Parallel != 3 || c.Ctx != 4096 || c.Engine != "auto" {
		t.Errorf("port %d, parallel %d, ctx %d, engine %s; want 1005, 3, 4096, auto", c.Port, c.Parallel, c.Ctx, c.Engine)
	}
	for key, want := range map[string]Value{
		"port":     {"port", "1005", FromFlag, "--port"},
		"parallel": {"parallel", "3", FromEnvironment, "environment STOKER_PARALLEL"},
		"ctx":      {"ctx", "4096", FromFile, file + ":3:6"},
		"engine":   {"engine", "auto", FromDefault, ""},
	} {
		if got := valueOf(t, c, key); got != want {
			t.Errorf("Show has %v, want %v", got, want)
		}
	}
}

// TestReviewR9EffectivePort: of a port given several times one effective value exists, and the listing has the same.
func TestReviewR9EffectivePort(t *testing.T) {
	file := writeFile(t, "stoker.yaml", "port: 7001\n")
	for _, c := range []struct {
		name string
		in   Input
		want string
	}{
		{"twice on the command line", Input{Flags: []Setting{{"port", "7002"}, {"port", "7003"}}}, "127.0.0.1:7003"},
		{"file and command line", Input{Flags: []Setting{{"port", "7002"}, {"config", file}}}, "127.0.0.1:7002"},
		{"the last is empty", Input{Flags: []Setting{{"port", "7002"}, {"port", ""}, {"config", file}}}, "127.0.0.1:1919"},
		{"IPv6", Input{Flags: []Setting{{"port", "0"}, {"host", "[::1]"}}}, "[::1]:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in.Host = testHost(t)
			got := mustLoad(t, c.in)
			if got.Addr() != c.want {
				t.Errorf("got %s, want %s", got.Addr(), c.want)
			}
			if port := valueOf(t, got, "port").Value; !strings.HasSuffix(c.want, ":"+port) {
				t.Errorf("Show has port %s beside %s", port, c.want)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	file := writeFile(t, "stoker.yaml", `prot: 1
port: many
port: 2
host: none
engines:
  lamacpp: {}
  llamacpp:
    path: [a]
    args: {"--threads": 4, threads: {a: b}}
heartbeat: 5
models:
  - path: x.gguf
    ctxx: 5
  - name: a/
  - name: b
    aliases: [b, "x y"]
log_level: &x info
`)
	in := Input{
		Host: testHost(t, "STOKER_PARALLEL=0", "STOKER_QUEUE_WAIT=x"),
		Flags: []Setting{
			{"config", file},
			{"prt", "1"},
			{"engine-arg", "novalue"},
			{"engine", "lamacpp"},
			{"port", "70000"},
			{"host", "1.2.3.4:80"},
		},
	}
	got := problems(t, in, filepath.Dir(file))
	want := []string{
		`--prt: unknown flag; did you mean port?`,
		`--engine-arg: "novalue" has no value: write key=value, and key=true for a switch`,
		`DIR/stoker.yaml:1:1: unknown key "prot"; did you mean port?`,
		`DIR/stoker.yaml:3:1: port is set twice: keep one`,
		`DIR/stoker.yaml:6:3: unknown key "lamacpp" in engines; did you mean llamacpp?`,
		`DIR/stoker.yaml:9:12: "--threads" is not the name of an engine option: write it without dashes before it`,
		`DIR/stoker.yaml:9:37: engines.llamacpp.args.threads takes a single value here`,
		`DIR/stoker.yaml:13:5: unknown key "ctxx" in models[0]; did you mean ctx?`,
		`DIR/stoker.yaml:17:12: log_level: anchors, aliases, tags and ? keys are not used here: write the value out`,
		`DIR/stoker.yaml:4:7: host cannot be switched off: it takes an address such as 127.0.0.1, ::1 or 0.0.0.0, or the name of a host`,
		`--host: host: "1.2.3.4:80" is not an address such as 127.0.0.1, ::1 or 0.0.0.0, or the name of a host (the port is a setting of its own)`,
		`DIR/stoker.yaml:2:7: port: "many" is not a whole number from 0 to 65535`,
		`--port: port: "70000" is not a whole number from 0 to 65535`,
		`environment STOKER_PARALLEL: parallel: "0" is not a whole number from 1 to 256`,
		`environment STOKER_QUEUE_WAIT: queue_wait: "x" is not a time from 1ms to 24h, such as 90s or 5m`,
		`DIR/stoker.yaml:10:12: heartbeat: "5" is not a time from 1ms to 1h, such as 90s or 5m`,
		`--engine: engine: "lamacpp" is not auto, embedded or llamacpp; did you mean llamacpp?`,
		`DIR/stoker.yaml:8:11: engines.llamacpp.path takes the path of a llama-server, not a list`,
		`DIR/stoker.yaml:12:5: models[0] has no name: add name: and what clients shall call it`,
		`DIR/stoker.yaml:14:11: models.a/.name: "a/" is not a name of up to 128 letters, digits and . _ - : @ + /, such as qwen3-8b or org/qwen3-8b; a file path is never a name`,
		`DIR/stoker.yaml:16:18: models.b.aliases: "x y" is not a served name, in which * may stand for any characters`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestProblemsOfTheFile(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, text, want string }{
		{"syntax", "host: [\n", "not valid YAML"},
		{"tabs", "engines:\n\tllamacpp: {}\n", "2:1: not valid YAML"},
		{"two documents", "port: 1\n---\nport: 2\n", "3:1: a second document"},
		{"a word", "port\n", "1:1: takes keys with values"},
		{"merge key", "<<: {port: 1}\n", "merge keys are not used"},
		{"tag", "port: !!int 3\n", "1:7: port: anchors, aliases, tags"},
		{"alias", "port: *a\n", "1:7: port: anchors"},
		{"models as a map", "models: {a: b}\n", "models takes a list of models, each with a name, not a map"},
		{"models as a word", "models: smollm2\n", `1:9: models: it takes a list of models, not the single word "smollm2"`},
		{"model as a word", "models: [smollm2]\n", "1:10: models[0] takes keys with values"},
		{"aliases as a map", "models: [{name: a, aliases: {b: c}}]\n", "models.a.aliases takes a list"},
		{"args as a list", "engines: {llamacpp: {args: [a]}}\n", "engines.llamacpp.args takes option names, each with a value, not a list"},
		{"the file cannot name the file", "config: other.yaml\n", `1:1: unknown key "config"`},
		{"two models of one name", "models: [{name: a}, {name: b, aliases: [a]}]\n", "the name a reaches two models"},
		{"long value", "host: " + strings.Repeat("x", 500) + "\n", strings.Repeat("x", 80) + `..." is not`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := writeFile(t, "stoker.yaml", c.text)
			got := problems(t, Input{Host: testHost(t), Flags: []Setting{{"config", file}}}, dir)
			if len(got) != 1 || !strings.Contains(got[0], c.want) || !strings.HasPrefix(got[0], file) {
				t.Errorf("got %q, want one problem of %s with %q", got, file, c.want)
			}
		})
	}
}

func TestFilesThatSayNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# only a comment\n", "---\n", "---\n...\n", "{}\n", "engines:\n", "engines:\n  llamacpp:\n", "models: []\n", "null\n"} {
		file := writeFile(t, "stoker.yaml", text)
		c := mustLoad(t, Input{Host: testHost(t), Flags: []Setting{{"config", file}}})
		if c.Port != 1919 || len(c.Models) != 0 || c.File != file {
			t.Errorf("%q: port %d, models %v, file %q", text, c.Port, c.Models, c.File)
		}
	}
}

func TestConfigFileMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nowhere.yaml")
	for _, in := range []Input{
		{Host: testHost(t), Flags: []Setting{{"config", file}}},
		{Host: testHost(t, "STOKER_CONFIG="+file)},
	} {
		got := problems(t, in, filepath.Dir(file))
		if len(got) != 1 || !strings.Contains(got[0], "there is no config file DIR/nowhere.yaml") {
			t.Errorf("got %q", got)
		}
	}
	c := mustLoad(t, Input{Host: testHost(t)})
	if want := (Value{"config", "/home-of-test/.config/stoker/config.yaml", FromDefault, "not there"}); valueOf(t, c, "config") != want {
		t.Errorf("got %v, want %v", valueOf(t, c, "config"), want)
	}
	long := writeFile(t, "long.yaml", strings.Repeat("# long\n", maxFile/7+1))
	if got := problems(t, Input{Host: testHost(t), Flags: []Setting{{"config", long}}}, ""); !strings.Contains(got[0], "longer than 64KiB") {
		t.Errorf("got %q", got)
	}
}

func TestUnknownEnvironmentWarns(t *testing.T) {
	c := mustLoad(t, Input{Host: testHost(t, "STOKER_PROT=1", "STOKER_TEST_MODEL=x", "STOKER_ASSETS=y", "OTHER=z", "STOKERX=1", "STOKER_ZZZZZZZZ=")})
	want := []string{
		"environment STOKER_PROT: no setting has this name, so it has no effect; did you mean STOKER_PORT?",
		"environment STOKER_ZZZZZZZZ: no setting has this name, so it has no effect",
	}
	var got []string
	for _, w := range c.Warnings {
		head, tail, _ := strings.Cut(w, "; did you mean ")
		if tail != "" {
			first, _, _ := strings.Cut(strings.TrimSuffix(tail, "?"), " or ")
			head += "; did you mean " + first + "?"
		}
		got = append(got, head)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestDirectories(t *testing.T) {
	long := "/" + strings.Repeat("r", 70)
	for _, c := range []struct {
		name string
		host Host
		want [5]string // config, state, data, cache, run
	}{
		{
			"linux",
			Host{HomeDir: "/h", GOOS: "linux", UID: 7},
			[5]string{"/h/.config/stoker/config.yaml", "/h/.local/state/stoker", "/h/.local/share/stoker", "/h/.cache/stoker", "/tmp/stoker-7"},
		},
		{
			"linux with XDG",
			Host{HomeDir: "/h", GOOS: "linux", UID: 7, Environ: []string{
				"XDG_CONFIG_HOME=/xc", "XDG_STATE_HOME=/xs", "XDG_DATA_HOME=/xd", "XDG_CACHE_HOME=/xca", "XDG_RUNTIME_DIR=/run/user/7",
			}},
			[5]string{"/xc/stoker/config.yaml", "/xs/stoker", "/xd/stoker", "/xca/stoker", "/run/user/7/stoker"},
		},
		{
			"XDG not absolute, empty, too long for sockets",
			Host{HomeDir: "/h", GOOS: "linux", UID: 7, Environ: []string{
				"XDG_CONFIG_HOME=xc", "XDG_STATE_HOME=", "XDG_DATA_HOME=./d", "XDG_RUNTIME_DIR=" + long,
			}},
			[5]string{"/h/.config/stoker/config.yaml", "/h/.local/state/stoker", "/h/.local/share/stoker", "/h/.cache/stoker", "/tmp/stoker-7"},
		},
		{
			"macOS ignores XDG",
			Host{HomeDir: "/Users/u", GOOS: "darwin", UID: 501, Environ: []string{"XDG_STATE_HOME=/xs", "XDG_RUNTIME_DIR=/x"}},
			[5]string{
				"/Users/u/Library/Application Support/stoker/config.yaml", "/Users/u/Library/Application Support/stoker/state",
				"/Users/u/Library/Application Support/stoker", "/Users/u/Library/Caches/stoker", "/tmp/stoker-501",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := mustLoad(t, Input{Host: c.host})
			got := [5]string{valueOf(t, cfg, "config").Value, cfg.StateDir, cfg.DataDir, cfg.CacheDir, cfg.RunDir}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	c := mustLoad(t, Input{Host: testHost(t, "STOKER_DATA_DIR=/d")})
	if c.EngineDir("llamacpp") != "/d/engines/llamacpp" || c.ModelDir() != "/d/models" {
		t.Errorf("got %s and %s", c.EngineDir("llamacpp"), c.ModelDir())
	}
}

func TestNoHome(t *testing.T) {
	got := problems(t, Input{Host: Host{GOOS: "linux"}}, "")
	if len(got) != 3 || !strings.Contains(got[0], "state_dir: no home folder is known: set HOME, or this setting") {
		t.Errorf("got %q, want a problem for each of state_dir, data_dir, cache_dir", got)
	}
	c := mustLoad(t, Input{Host: Host{GOOS: "linux", Environ: []string{"STOKER_STATE_DIR=/s", "STOKER_DATA_DIR=/d", "STOKER_CACHE_DIR=/c"}}})
	if c.StateDir != "/s" || c.File != "" {
		t.Errorf("state %q, file %q", c.StateDir, c.File)
	}
}

func TestPathsStartWhereTheyStand(t *testing.T) {
	file := writeFile(t, "stoker.yaml", "data_dir: sub/data\nmodels: [{name: a, path: a.gguf}, {name: b, path: ~/b.gguf}, {name: c}]\n")
	c := mustLoad(t, Input{Host: testHost(t, "STOKER_CACHE_DIR=~/c"), Flags: []Setting{{"config", file}, {"state-dir", "s/../t"}}})
	dir := filepath.Dir(file)
	want := []string{filepath.Join(dir, "sub/data"), "/home-of-test/c", "/work-of-test/t", filepath.Join(dir, "a.gguf"), "/home-of-test/b.gguf", ""}
	got := []string{c.DataDir, c.CacheDir, c.StateDir, c.Models[0].Path, c.Models[1].Path, c.Models[2].Path}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestRunDirLength(t *testing.T) {
	fits := "/" + strings.Repeat("r", sunPath-SocketRoom-1)
	mustLoad(t, Input{Host: testHost(t, "STOKER_RUN_DIR="+fits)})
	got := problems(t, Input{Host: testHost(t, "STOKER_RUN_DIR="+fits+"r")}, "")
	if len(got) != 1 || !strings.Contains(got[0], "environment STOKER_RUN_DIR") || !strings.Contains(got[0], "at most 63") {
		t.Errorf("got %q", got)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		env  string
		want string // "" is a problem
	}{
		{"STOKER_CTX=32K", "32768"},
		{"STOKER_CTX=auto", "auto"},
		{"STOKER_CTX=16384k", "16777216"},
		{"STOKER_CTX=16385k", ""},
		{"STOKER_CTX=0", ""},
		{"STOKER_CTX=-1", ""},
		{"STOKER_CTX=k", ""},
		{"STOKER_CTX=1.5k", ""},
		{"STOKER_CTX=99999999999999999999k", ""},
		{"STOKER_CTX=Auto", ""},
		{"STOKER_MAX_BODY_BYTES=1048576", "1MiB"},
		{"STOKER_MAX_BODY_BYTES=1 GiB", "1GiB"},
		{"STOKER_MAX_BODY_BYTES=1025", "1025"},
		{"STOKER_MAX_BODY_BYTES=1MB", ""},
		{"STOKER_MAX_BODY_BYTES=1023", ""},
		{"STOKER_MAX_BODY_BYTES=5GiB", ""},
		{"STOKER_MAX_BODY_BYTES=9223372036854775807GiB", ""},
		{"STOKER_MAX_BODY_BYTES=-1KiB", ""},
		{"STOKER_HEARTBEAT=1m30s", "1m30s"},
		{"STOKER_HEARTBEAT=60m", "1h"},
		{"STOKER_HEARTBEAT=0s", ""},
		{"STOKER_HEARTBEAT=-5s", ""},
		{"STOKER_PORT=+80", "80"},
		{"STOKER_PORT=0x10", ""},
		{"STOKER_PORT= 80", ""},
		{"STOKER_LOG_LEVEL=INFO", ""},
	} {
		t.Run(c.env, func(t *testing.T) {
			name, _, _ := strings.Cut(c.env, "=")
			key := strings.ToLower(strings.TrimPrefix(name, envPrefix))
			cfg, err := Load(Input{Host: testHost(t, c.env)})
			switch {
			case c.want == "" && err == nil:
				t.Errorf("accepted as %v", valueOf(t, cfg, key))
			case c.want != "" && err != nil:
				t.Error(err)
			case c.want != "" && valueOf(t, cfg, key).Value != c.want:
				t.Errorf("got %s, want %s", valueOf(t, cfg, key).Value, c.want)
			}
		})
	}
}

func TestOffIsZero(t *testing.T) {
	c := mustLoad(t, Input{Host: testHost(t, "STOKER_QUEUE_LIMIT=none", "STOKER_QUEUE_WAIT=none", "STOKER_HEARTBEAT=none", "STOKER_LOAD_STALL=none")})
	if c.QueueLimit != 0 || c.QueueWait != 0 || c.Heartbeat != 0 || c.LoadStall != 0 {
		t.Errorf("got %d %v %v %v, want zeroes", c.QueueLimit, c.QueueWait, c.Heartbeat, c.LoadStall)
	}
}

func TestShowText(t *testing.T) {
	c := mustLoad(t, Input{Host: testHost(t, "STOKER_API_KEY=sk-hidden", "STOKER_CTX="), Flags: []Setting{{"port", "1"}}})
	var b strings.Builder
	if err := WriteShow(&b, c.Show()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for _, want := range []string{"port 1 --port", "api_key [redacted] environment STOKER_API_KEY", "ctx auto default (environment STOKER_CTX is empty)", "host 127.0.0.1 default"} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Join(strings.Fields(l), " ") == want }) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "hidden") {
		t.Error("the key is shown")
	}
}
