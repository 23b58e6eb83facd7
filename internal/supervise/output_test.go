package supervise

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", lineMax)
	tests := []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"lines", "a\nb\n", []string{"a", "b"}},
		{"windows line ends", "a\r\nb\r\n", []string{"a", "b"}},
		{"empty lines", "\n\na\n", []string{"", "", "a"}},
		{"no newline at the end", "a\nlast words", []string{"a", "last words"}},
		{"as long as allowed", long[1:] + "\nb\n", []string{long[1:], "b"}},
		{"too long", long + "y\nb\n", []string{long + cutMark, "b"}},
		{"too long without an end", long + long, []string{long + cutMark}},
		{"a character cut at the end", "caf\xc3", []string{"caf\xc3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			readLines(strings.NewReader(tt.in), func(line string) { got = append(got, line) })
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("lines (-want +got):\n%s", d)
			}
		})
	}
}

// However the system cuts the bytes, the lines are the same, none is longer than allowed, and no byte of a short line is lost.
func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nlast"))
	f.Add([]byte(strings.Repeat("x", lineMax+1) + "\nb\n"))
	f.Add([]byte(strings.Repeat("x", 2*lineMax)))
	f.Add([]byte("\xff\xc3\n\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var whole, cut []string
		readLines(bytes.NewReader(in), func(line string) { whole = append(whole, line) })
		readLines(iotest.HalfReader(bytes.NewReader(in)), func(line string) { cut = append(cut, line) })
		if !slices.Equal(whole, cut) {
			t.Fatalf("lines depend on how the bytes arrive: %q and %q", whole, cut)
		}
		var want []string
		for line := range bytes.Lines(in) {
			if len(line) > lineMax || len(line) == lineMax && line[lineMax-1] != '\n' {
				return // cut: the table test says how
			}
			want = append(want, string(bytes.TrimRight(line, "\r\n")))
		}
		if !slices.Equal(whole, want) {
			t.Fatalf("lines = %q, want %q", whole, want)
		}
	})
}

func TestTailKeepsTheLastLines(t *testing.T) {
	tests := []struct {
		name string
		in   []string
		want []string
	}{
		{"none", nil, []string{}},
		{"room left", []string{"a", "b"}, []string{"a", "b"}},
		{"full", []string{"a", "b", "c", "d", "e"}, []string{"c", "d", "e"}},
		{"a long line", []string{strings.Repeat("x", tailLineMax+1)}, []string{strings.Repeat("x", tailLineMax) + cutMark}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kept := newTail(3)
			for _, line := range tt.in {
				kept.add(line)
			}
			if d := cmp.Diff(tt.want, kept.all()); d != "" {
				t.Errorf("tail (-want +got):\n%s", d)
			}
		})
	}
}
