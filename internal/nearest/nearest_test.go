package nearest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOf(t *testing.T) {
	flags := []string{"--port", "--host", "--parallel", "--ctx", "--config", "--engine", "--engine-arg"}
	tests := []struct {
		name       string
		word       string
		candidates []string
		want       []string
	}{
		{"one letter missing", "--prt", flags, []string{"--port"}},
		{"neighbours swapped", "--hots", flags, []string{"--host"}},
		{"the closest comes first", "--engin", flags, []string{"--engine", "--engine-arg"}},
		{"equal comes first", "--engine", flags, []string{"--engine", "--engine-arg"}},
		{"case does not matter", "SMOLLM", []string{"smollm", "gemma"}, []string{"smollm"}},
		{"a beginning is near", "smollm2", []string{"gemma-3", "SmolLM2-135M-Instruct.Q4_1"}, []string{"SmolLM2-135M-Instruct.Q4_1"}},
		{"a longer word than the name", "qwen3:latest", []string{"qwen3", "gemma"}, []string{"qwen3"}},
		{"nothing near", "banana", flags, nil},
		{"one letter is near no other letter", "x", []string{"y", "z"}, nil},
		{"empty word", "", flags, nil},
		{"no candidates", "x", nil, nil},
		{"the same candidate once", "ab", []string{"ac", "ac"}, []string{"ac"}},
		{"three at most", "aab", []string{"aaa", "aac", "aad", "aae"}, []string{"aaa", "aac", "aad"}},
		{"letters beyond ASCII count once", "größe", []string{"grösse", "große"}, []string{"große"}},
		{"absurdly long names are not compared", strings.Repeat("a", 1e6), []string{strings.Repeat("a", 1e6)}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Of(tt.word, tt.candidates)); diff != "" {
				t.Errorf("Of(%.40q) (-want +got):\n%s", tt.word, diff)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"abc", "abc", 0},
		{"abc", "abd", 1},
		{"abc", "acb", 1},
		{"abcd", "badc", 2},
		{"kitten", "sitting", 3},
		{"ab", "b", 1},
	}
	for _, tt := range tests {
		if got := distance([]rune(tt.a), []rune(tt.b)); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
