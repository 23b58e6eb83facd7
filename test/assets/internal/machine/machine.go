// Package machine describes the processor of this machine, for assets that are
// compiled for exactly this one: [CPU] gives a text that differs whenever the set
// of instructions may differ. It does no more than read one file or run one
// program, and may be called at any time.
package machine

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/stoker-llm/stoker/test/assets/internal/command"
)

// CPU returns the model and the instruction sets of this machine's processor.
func CPU(ctx context.Context) (string, error) {
	if runtime.GOOS == "darwin" {
		name, err := command.Output(ctx, "sysctl", "-n", "machdep.cpu.brand_string")
		if err != nil {
			return "", fmt.Errorf("cannot tell the processor: %w", err)
		}
		return name, nil
	}
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("cannot tell the processor: %w", err)
	}
	return parseCPUInfo(string(b)), nil
}

// identity are the keys of Linux's cpuinfo that say what a program compiled for
// this processor may use: on x86 its flags, on ARM its features and its part
// numbers. Clock rates, cache sizes and microcode change without a reason to
// build anew.
var identity = []string{
	"model name", "flags",
	"Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part",
}

// parseCPUInfo keeps the identity of each different core (ARM machines mix
// them), with the flags sorted: their order is the kernel's business.
func parseCPUInfo(text string) string {
	var cores []string
	for core := range strings.SplitSeq(text, "\n\n") {
		if id := coreIdentity(core); id != "" && !slices.Contains(cores, id) {
			cores = append(cores, id)
		}
	}
	return strings.Join(cores, "; ")
}

func coreIdentity(core string) string {
	var parts []string
	for line := range strings.Lines(core) {
		key, value, _ := strings.Cut(line, ":")
		if !slices.Contains(identity, strings.TrimSpace(key)) {
			continue
		}
		words := strings.Fields(value)
		if key := strings.TrimSpace(key); key == "flags" || key == "Features" {
			slices.Sort(words)
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return strings.Join(parts, " | ")
}
