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
				return tiny.WriteAll(filepath.Join(j.needs["llama-src"], "models"), j.Out)
			})
		},
	}
}
