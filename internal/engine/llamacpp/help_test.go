package llamacpp

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func recordedHelp(tb testing.TB) string {
	tb.Helper()
	b, err := os.ReadFile("testdata/help.txt")
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestParseHelp(t *testing.T) {
	fs := parseHelp(recordedHelp(t))
	tests := []struct {
		name  string
		names []string
		value string
		text  string
	}{
		{"--ctx-size", []string{"-c", "--ctx-size"}, "N", "size of the prompt context"},
		{"-h", []string{"-h", "--help", "--usage"}, "", "print usage and exit"},
		{"--no-kv-unified", []string{"-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified"}, "", "use single unified KV buffer"},
		{"--hf-repo-draft", []string{"--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft"}, "<user>/<model>[:quant]", "Same as --hf-repo"},
		{"--flash-attn", []string{"-fa", "--flash-attn"}, "[on|off|auto]", "set Flash Attention use"},
		{"--spec-type", []string{"--spec-type"}, "none,draft-simple,ngram-mod", "comma-separated list"},
		{"--offline", []string{"--offline"}, "", "Offline mode"},
		{"--no-webui", []string{"--ui", "--webui", "--no-ui", "--no-webui"}, "", "whether to enable the Web UI"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := fs.get(tt.name)
			if f == nil {
				t.Fatal("not listed")
			}
			if diff := cmp.Diff(tt.names, f.names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if f.value != tt.value {
				t.Errorf("value = %q, want %q", f.value, tt.value)
			}
			if !strings.HasPrefix(f.text, tt.text) {
				t.Errorf("text = %q, want it to begin with %q", f.text, tt.text)
			}
		})
	}
}

func TestParseHelpRemoved(t *testing.T) {
	fs := parseHelp(recordedHelp(t))
	if fs.get("--draft-max") != nil {
		t.Error("--draft-max is listed as a setting; the build only knows it to refuse it")
	}
	if why := fs.removed["--draft-max"]; !strings.Contains(why, "--spec-draft-n-max") {
		t.Errorf("removed[--draft-max] = %q, want what replaces it", why)
	}
}

func TestUnixSocketIsReadFromHelp(t *testing.T) {
	if fs := parseHelp(recordedHelp(t)); !fs.unixSocket() {
		t.Error("the build says that --host takes .sock paths, and unixSocket is false")
	}
	if fs := parseHelp("--host HOST                ip address to listen (default: 127.0.0.1)\n"); fs.unixSocket() {
		t.Error("unixSocket is true for a build that takes addresses only")
	}
}

func FuzzParseHelp(f *testing.F) {
	f.Add(recordedHelp(f))
	f.Add("-")
	f.Add("-a,")
	f.Add("-a, b c")
	f.Add("--x  \n   y\r\n-----\n- z")
	f.Fuzz(func(t *testing.T, out string) {
		fs := parseHelp(out)
		for name, fl := range fs.byName {
			if !strings.HasPrefix(name, "-") {
				t.Errorf("spelling %q does not begin with a dash", name)
			}
			_, _, _ = fl.long(), fl.negative(), fl.positive()
		}
	})
}
