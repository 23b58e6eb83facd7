package llamacpp

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/engine"
)

func TestParseVersion(t *testing.T) {
	tests := []struct{ name, out, version, build string }{
		{"new form", "version: 0.2.0-dev (build 10587, commit 3f545becc)\nbuilt with GNU 12.2.0 for Linux x86_64\n", "0.2.0-dev", "b10587-3f545becc"},
		{"old form", "version: 8765 (0651e954f)\nbuilt with Apple clang\n", "8765", "b8765-0651e954f"},
		{"source package", "version: 0.6.0-dev (build 0, commit unknown)\n", "0.6.0-dev", "b0-unknown"},
		{"behind log lines", "ggml_cuda_init: found 1 CUDA devices\nversion: 8765 (0651e954f)\n", "8765", "b8765-0651e954f"},
		{"another program", "GNU bash, version 5.2\n", "", ""},
		{"nothing", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if v, b := parseVersion(tt.out); v != tt.version || b != tt.build {
				t.Errorf("parseVersion = %q, %q, want %q, %q", v, b, tt.version, tt.build)
			}
		})
	}
}

func TestParseDevices(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name, out string
		want      []engine.Device
	}{
		{"none", "Available devices:\n  (none)\n", nil},
		{
			"two", "Available devices:\n  CUDA0: NVIDIA H200 (143167 MiB, 142000 MiB free)\n  MTL0: Apple M3 (Pro) (27648 MiB, 27648 MiB free)\n",
			[]engine.Device{
				{Name: "CUDA0", Description: "NVIDIA H200", TotalBytes: 143167 * mib, FreeBytes: 142000 * mib},
				{Name: "MTL0", Description: "Apple M3 (Pro)", TotalBytes: 27648 * mib, FreeBytes: 27648 * mib},
			},
		},
		{"absurd size", "  X: Y (99999999999999999999 MiB, 0 MiB free)\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseDevices(tt.out)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseVersionAndDevices(f *testing.F) {
	f.Add("version: 8765 (0651e954f)\n")
	f.Add("  CUDA0: NVIDIA H200 (143167 MiB, 142000 MiB free)\n")
	f.Fuzz(func(t *testing.T, out string) {
		parseVersion(out)
		for _, d := range parseDevices(out) {
			if d.Name == "" || d.TotalBytes < 0 || d.FreeBytes < 0 {
				t.Errorf("device %+v", d)
			}
		}
	})
}
