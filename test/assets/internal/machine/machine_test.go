package machine

import (
	"strings"
	"testing"
)

const amd = `processor	: 0
model name	: AMD EPYC 7B13
microcode	: 0xffffffff
cpu MHz		: 2450.000
flags		: fpu sse2 avx2

processor	: 1
model name	: AMD EPYC 7B13
cpu MHz		: 3000.000
flags		: fpu sse2 avx2
`

func TestParseCPUInfo(t *testing.T) {
	base := parseCPUInfo(amd)
	if want := "AMD EPYC 7B13 | avx2 fpu sse2"; base != want {
		t.Fatalf("got %q, want %q", base, want)
	}
	tests := []struct {
		name, old, new string
		same           bool
	}{
		{"clock", "2450.000", "1500.000", true},
		{"microcode", "0xffffffff", "0x1", true},
		{"order of flags", "fpu sse2 avx2", "avx2 sse2 fpu", true},
		{"more instructions", "avx2", "avx2 avx512f", false},
		{"other model", "7B13", "9B14", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parseCPUInfo(strings.ReplaceAll(amd, tt.old, tt.new))
			if (got == base) != tt.same {
				t.Errorf("got %q beside %q, want the same: %v", got, base, tt.same)
			}
		})
	}
}

func TestParseCPUInfoOfARMNamesEachKindOfCore(t *testing.T) {
	const arm = `processor	: 0
Features	: fp asimd dotprod
CPU implementer	: 0x41
CPU part	: 0xd05

processor	: 1
Features	: fp asimd dotprod
CPU implementer	: 0x41
CPU part	: 0xd0b

Hardware	: none
`
	if got, want := parseCPUInfo(arm), "asimd dotprod fp | 0x41 | 0xd05; asimd dotprod fp | 0x41 | 0xd0b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCPUOfThisMachine(t *testing.T) {
	got, err := CPU(t.Context())
	if err != nil || got == "" {
		t.Errorf("got %q, %v", got, err)
	}
}
