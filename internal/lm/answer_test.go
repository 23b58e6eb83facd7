package lm

import (
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/infer"
)

// TestStopTexts cuts the same text into tokens in every way and wants the same answer each time.
func TestStopTexts(t *testing.T) {
	tests := []struct {
		name, text  string
		stops       []string
		want, which string
	}{
		{"none given", "abcdef", nil, "abcdef", ""},
		{"none comes", "abcdef", []string{"xyz"}, "abcdef", ""},
		{"in the middle", "abcdef", []string{"cd"}, "ab", "cd"},
		{"at the beginning", "abcdef", []string{"ab"}, "", "ab"},
		{"at the end", "abcdef", []string{"ef"}, "abcd", "ef"},
		{"begun and not ended", "abcde", []string{"dex"}, "abcde", ""},
		{"begun twice", "aabaac", []string{"aac"}, "aab", "aac"},
		{"the first that is whole", "abcdef", []string{"cdef", "d"}, "abc", "d"},
		{"the earliest of two", "abcdef", []string{"ef", "bc"}, "a", "bc"},
		{"empty stop texts stop nothing", "abc", []string{""}, "abc", ""},
		{"bytes of a character", "aé€b", []string{"€"}, "aé", "€"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for cuts := range 1 << (len(tt.text) - 1) {
				checkStop(t, tt.text, tt.stops, cuts, tt.want, tt.which)
			}
		})
	}
}

// checkStop cuts text behind byte i where bit i of cuts is set.
func checkStop(t *testing.T, text string, stops []string, cuts int, want, which string) {
	t.Helper()
	var got strings.Builder
	probs := 0
	w := writer{stops: stops, probs: true, emit: func(ev infer.Event) {
		x := ev.(infer.Text)
		got.WriteString(x.Text)
		probs += len(x.Logprobs)
	}}
	from, tokens, stop, stopped := 0, 0, "", false
	for i := range len(text) {
		if i == len(text)-1 || cuts>>i&1 == 1 {
			tokens++
			if stop, stopped = w.add([]byte(text[from:i+1]), infer.TokenLogprob{}); stopped {
				break
			}
			from = i + 1
		}
	}
	if !stopped {
		w.flush()
	}
	if got.String() != want || stop != which || stopped != (which != "") {
		t.Fatalf("cuts %b: %q ended by %q (%t), want %q and %q", cuts, got.String(), stop, stopped, want, which)
	}
	if !stopped && probs != tokens {
		t.Fatalf("cuts %b: log probabilities of %d of %d tokens", cuts, probs, tokens)
	}
}
