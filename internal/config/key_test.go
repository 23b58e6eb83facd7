package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeySources(t *testing.T) {
	keyFile := writeFile(t, "key", "sk-file\r\n")
	cfg := func(text string) Setting { return Setting{"config", writeFile(t, "stoker.yaml", text)} }
	for _, c := range []struct {
		name  string
		flags []Setting
		env   []string
		want  string
	}{
		{"none", nil, nil, ""},
		{"environment", nil, []string{"STOKER_API_KEY=sk-env"}, "sk-env"},
		{"file by environment", nil, []string{"STOKER_API_KEY_FILE=" + keyFile}, "sk-file"},
		{"file by flag", []Setting{{"api-key-file", keyFile}}, nil, "sk-file"},
		{"config", []Setting{cfg("api_key: sk-cfg\n")}, nil, "sk-cfg"},
		{"a number in the config", []Setting{cfg("api_key: 0123\n")}, nil, "0123"},
		{"flag over environment", []Setting{{"api-key-file", keyFile}}, []string{"STOKER_API_KEY=sk-env"}, "sk-file"},
		{"environment over config file's key file", []Setting{cfg("api_key_file: /nowhere\n")}, []string{"STOKER_API_KEY=sk-env"}, "sk-env"},
		{"environment's file over config's key", []Setting{cfg("api_key: sk-cfg\n")}, []string{"STOKER_API_KEY_FILE=" + keyFile}, "sk-file"},
		{"off in the environment", []Setting{cfg("api_key_file: " + keyFile + "\n")}, []string{"STOKER_API_KEY=none"}, ""},
		{"file off by flag", []Setting{{"api-key-file", "none"}}, []string{"STOKER_API_KEY=sk-env"}, ""},
		{"empty decides nothing about the other", []Setting{cfg("api_key_file: " + keyFile + "\n")}, []string{"STOKER_API_KEY="}, "sk-file"},
		{"key with the file off beside it", nil, []string{"STOKER_API_KEY=sk-env", "STOKER_API_KEY_FILE=none"}, "sk-env"},
		{"file with the key off beside it", nil, []string{"STOKER_API_KEY=none", "STOKER_API_KEY_FILE=" + keyFile}, "sk-file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mustLoad(t, Input{Host: testHost(t, c.env...), Flags: c.flags})
			if got.APIKey.Reveal() != c.want || got.APIKey.Set() != (c.want != "") {
				t.Errorf("got %q, want %q", got.APIKey.Reveal(), c.want)
			}
		})
	}
}

func TestKeyProblems(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "STOKER_API_KEY_FILE=" + path
	}
	good := write("good", "sk-1")
	for _, c := range []struct {
		name string
		env  []string
		want string
	}{
		{"both", []string{good, "STOKER_API_KEY=sk-secret"}, "api_key and api_key_file are both set (environment STOKER_API_KEY): keep one"},
		{"missing", []string{"STOKER_API_KEY_FILE=" + dir + "/nowhere"}, "nowhere: no such file"},
		{"a folder", []string{"STOKER_API_KEY_FILE=" + dir}, "is a directory"},
		{"empty", []string{write("empty", "\n")}, "is empty: put the key into it"},
		{"two lines", []string{write("two", "sk-secret\nsk-2\n")}, "does not hold a key"},
		{"too long", []string{write("long", strings.Repeat("x", maxKey+2))}, "is longer than 4097"},
		{"a space", []string{"STOKER_API_KEY=sk-secret x"}, "api_key: the value is not a key"},
		{"not ASCII", []string{"STOKER_API_KEY=sk-secrét"}, "api_key: the value is not a key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, Input{Host: testHost(t, append(c.env, "STOKER_HOST=0.0.0.0")...)}, dir)
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want one problem with %q", got, c.want)
			}
			if strings.Contains(got[0], "secr") {
				t.Errorf("%q tells the key", got[0])
			}
		})
	}
}

func TestKeyFileModes(t *testing.T) {
	for _, c := range []struct {
		mode     os.FileMode
		problem  bool
		warnings int
	}{{0o400, false, 0}, {0o600, false, 0}, {0o640, false, 1}, {0o444, false, 1}, {0o664, false, 1}, {0o602, true, 0}, {0o666, true, 0}} {
		t.Run(c.mode.String(), func(t *testing.T) {
			path := writeFile(t, "key", "sk-1")
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			cfg, err := Load(Input{Host: testHost(t, "STOKER_API_KEY_FILE="+path)})
			if (err != nil) != c.problem {
				t.Fatalf("problem: %v, want one: %v", err, c.problem)
			}
			if err != nil && !strings.Contains(err.Error(), "chmod 600") {
				t.Errorf("%q names no way out", err)
			}
			if err == nil && len(cfg.Warnings) != c.warnings {
				t.Errorf("warnings %q, want %d", cfg.Warnings, c.warnings)
			}
		})
	}
}

func TestKeyInReadableConfigWarns(t *testing.T) {
	for text, want := range map[string]int{"api_key: sk-1\n": 1, "api_key: none\n": 0, "port: 1\n": 0} {
		path := writeFile(t, "stoker.yaml", text)
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		c := mustLoad(t, Input{Host: testHost(t), Flags: []Setting{{"config", path}}})
		if len(c.Warnings) != want {
			t.Errorf("%q: warnings %q, want %d", text, c.Warnings, want)
		}
	}
}

func TestBindRule(t *testing.T) {
	for _, c := range []struct {
		host     string
		loopback bool
	}{
		{"127.0.0.1", true},
		{"127.8.9.1", true},
		{"::1", true},
		{"[::1]", true},
		{"localhost", true},
		{"LocalHost", true},
		{"::ffff:127.0.0.1", true},
		{"0.0.0.0", false},
		{"::", false},
		{"[::]", false},
		{"192.168.1.2", false},
		{"::ffff:10.0.0.1", false},
		{"fe80::1%eth0", false},
		{"localhost.example.org", false},
		{"my-machine", false},
		{"128.0.0.1", false},
	} {
		t.Run(c.host, func(t *testing.T) {
			in := Input{Host: testHost(t), Flags: []Setting{{"host", c.host}}}
			cfg, err := Load(in)
			if (err == nil) != c.loopback {
				t.Fatalf("without a key: %v, want loopback %v", err, c.loopback)
			}
			if err != nil {
				for _, word := range []string{"--host", "STOKER_API_KEY", "127.0.0.1", strings.Trim(c.host, "[]")} {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%q does not name %s", err, word)
					}
				}
			} else if !cfg.Loopback() {
				t.Error("Loopback says no")
			}
			in.NoListen = true
			mustLoad(t, in)
			in.NoListen, in.Host.Environ = false, []string{"STOKER_API_KEY=sk-1"}
			mustLoad(t, in)
			in.Host.Environ = []string{"STOKER_API_KEY_FILE=" + writeFile(t, "key", "sk-1")}
			mustLoad(t, in)
		})
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	s := NewSecret("sk-hidden")
	type outer struct {
		S      Secret
		hidden Secret
		P      *Secret
	}
	o := outer{s, s, &s}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "s", s, "o", o, "p", &s, "c", Config{APIKey: s})
	}
	body, err := json.Marshal(map[string]any{"s": s, "o": o, "c": &Config{APIKey: s}})
	if err != nil {
		t.Fatal(err)
	}
	printed := log.String() + string(body)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		printed += fmt.Sprintf(verb+" "+verb+" "+verb+"\n", s, &s, o) + fmt.Sprintf(verb, Config{APIKey: s})
	}
	for _, word := range []string{"hidden\"", "sk-", "736b2d", "736B2D", "115 107 45"} {
		if strings.Contains(printed, word) {
			t.Errorf("%q is printed:\n%s", word, printed)
		}
	}
	if !strings.Contains(printed, "[redacted]") {
		t.Error("nothing says that there is a secret")
	}
	if s.Reveal() != "sk-hidden" || !s.Equal(NewSecret("sk-hidden")) || NewSecret("").Set() {
		t.Error("the secret does not hold its value")
	}
}
