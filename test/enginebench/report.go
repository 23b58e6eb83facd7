package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteText writes the report for a person.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s, %d threads, medians of %d rounds in turns (%s)\n", r.Date, r.Machine, r.Threads, r.Rounds, r.Command)
	for _, m := range r.Models {
		fmt.Fprintf(&b, "\n%s, against %s\n", m.File, m.Peer)
		for _, mode := range m.Modes {
			fmt.Fprintf(&b, "  %s, kernels %s\n", mode.Mode, mode.Kernel)
			for _, p := range mode.Pairs {
				fmt.Fprintf(&b, "    %-12s %8.1f tokens/s, llama.cpp %8.1f: ratio %.2f%s\n", p.What, p.Own, p.Peer, p.Ratio, aim(m.File, mode.Mode, p))
			}
			fmt.Fprintf(&b, "    decode reads %.0f%% of the %.1f GB/s that the memory gives\n", 100*mode.ReadShare, mode.Read/1e9)
			fmt.Fprintf(&b, "    8 streams    %8.1f tokens/s together: %.2f times one stream (aim: at least 3: %s)\n", mode.Eight, mode.EightRatio, met(mode.EightRatio, 3))
		}
		for _, c := range m.Cold {
			fmt.Fprintf(&b, "  cold start of %s: first token after %s, %d MiB resident\n", c.Engine, c.First.Round(time.Millisecond), c.Resident>>20)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// aim is what was aimed at on processors with AVX2 only.
func aim(file, mode string, p Pair) string {
	least := 0.0
	switch {
	case mode == "exact" && p.What == "decode":
		least = 1.2
	case mode == "exact" && strings.HasPrefix(file, "SmolLM2"):
		least = 2
	case mode == "exact" && strings.HasPrefix(file, "gemma"):
		least = 1.5
	case mode == "fast" && p.What == "decode":
		least = 1.3
	}
	if least == 0 || strings.HasPrefix(file, "random") && mode == "exact" {
		return ""
	}
	return fmt.Sprintf(" (aim: at least %g: %s)", least, met(p.Ratio, least))
}

func met(got, want float64) string {
	if got >= want {
		return "met"
	}
	return "missed"
}
