package catalog

import (
	"context"
	"path/filepath"

	"github.com/stoker-llm/stoker/test/assets/internal/report"
	"github.com/stoker-llm/stoker/test/assets/internal/tiny"
)

func tinyModels() asset {
	return asset{
		name:   "tiny",
		about:  "tiny models with random weights and real vocabularies: llama, qwen2, qwen3, gemma3",
		needs:  []string{"llama-src"},
		env:    "STOKER_TEST_TINY",
		recipe: map[string]int{"version": tiny.Version},
		build: func(_ context.Context, j *job) error {
			return j.step("writing the files", func(*report.Step) error {
				return tiny.WriteAll(tiny.Models(), filepath.Join(j.needs["llama-src"], "models"), j.Out)
			})
		},
	}
}

func largeModels() asset {
	return asset{
		name:   "random-1b",
		about:  "random weights shaped as Llama 3.2 1B, Q8_0 and Q4_0, for measurements (2 GB)",
		needs:  []string{"llama-src"},
		env:    "STOKER_TEST_RANDOM_1B",
		recipe: map[string]int{"version": 1},
		build: func(_ context.Context, j *job) error {
			return j.step("writing the files", func(*report.Step) error {
				return tiny.WriteAll(tiny.Large(), filepath.Join(j.needs["llama-src"], "models"), j.Out)
			})
		},
	}
}
