// Package arch is the table of architectures that the embedded engine knows. Each has a package of its own, over the shared parts
// in block: what its files say ([Arch.Config]) and which steps it takes ([Arch.Build]). docs/checklists/architecture.md says how to
// add one.
//
// All functions are pure and may be called concurrently.
package arch

import (
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/arch/gemma3"
	"github.com/stoker-llm/stoker/internal/lm/arch/llama"
	"github.com/stoker-llm/stoker/internal/lm/arch/qwen2"
	"github.com/stoker-llm/stoker/internal/lm/arch/qwen3"
)

// Arch is one architecture.
type Arch struct {
	// Name is general.architecture of GGUF files, and Types are the model_type words of config.json.
	Name  string
	Types []string
	// Config turns what a file says into a checked shape, and Build lists the steps for it.
	Config func(block.Meta) (block.Config, error)
	Build  func(*block.Builder)
}

func table() []Arch {
	return []Arch{
		{"llama", []string{"llama", "mistral"}, llama.Config, llama.Build},
		{"qwen2", []string{"qwen2"}, qwen2.Config, qwen2.Build},
		{"qwen3", []string{"qwen3"}, qwen3.Config, qwen3.Build},
		{"gemma3", []string{"gemma3_text", "gemma3"}, gemma3.Config, gemma3.Build},
	}
}

// Known returns the names of all architectures.
func Known() []string {
	var names []string
	for _, a := range table() {
		names = append(names, a.Name)
	}
	return names
}

// Lookup returns the architecture that GGUF files call name.
func Lookup(name string) (Arch, error) {
	for _, a := range table() {
		if a.Name == name {
			return a, nil
		}
	}
	return Arch{}, unknown(name)
}

// ByType returns the architecture for a model_type of config.json.
func ByType(modelType string) (Arch, error) {
	for _, a := range table() {
		for _, t := range a.Types {
			if t == modelType {
				return a, nil
			}
		}
	}
	return Arch{}, unknown(modelType)
}

func unknown(name string) error {
	return infer.Errorf(infer.ErrUnsupported, "model", "the embedded engine does not know the architecture %q; it knows %s",
		name, strings.Join(Known(), ", "))
}
