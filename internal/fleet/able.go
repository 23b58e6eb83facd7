package fleet

import (
	"fmt"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// able refuses, by name, what the engine of a model cannot do, so that all engines refuse alike and before anybody waits.
func able(name string, f engine.Facts, r *infer.Request) error {
	for _, need := range needs(f.Caps, r) {
		if need.want && !need.can {
			return infer.Errorf(infer.ErrUnsupported, need.param, "model %q on engine %s cannot do this: %s", name, f.Engine, need.what)
		}
	}
	return nil
}

type need struct {
	want, can   bool
	param, what string
}

func needs(c engine.Capabilities, r *infer.Request) []need {
	forced := r.ToolChoice.Mode == infer.ToolRequired || r.ToolChoice.Mode == infer.ToolNamed
	image := firstImage(r)
	return []need{
		{r.Kind == infer.Chat, c.Chat, "messages", "it has no chat template; use /v1/completions"},
		{r.Kind == infer.Completion, c.Completion, "prompt", "plain completions; use /v1/chat/completions"},
		{len(r.Tools) > 0 && r.ToolChoice.Mode != infer.ToolNone && !forced, c.Tools, "tools", "call tools of its own accord; tool_choice \"required\" or a named tool may work"},
		{len(r.Tools) > 0 && forced, c.ForcedTools, "tool_choice", fmt.Sprintf("force a tool call (%q)", r.ToolChoice.Mode)},
		{r.Format.Kind != infer.FormatText, c.JSONSchema, "response_format", "hold an answer to a JSON format"},
		{r.Logprobs, c.Logprobs, "logprobs", "give log probabilities"},
		{r.Sampling.Seed != nil, c.Seed, "seed", "repeat an answer by its seed"},
		{len(r.Sampling.LogitBias) > 0, c.LogitBias, "logit_bias", "bias single tokens"},
		{r.Suffix != "", c.Suffix, "suffix", "fill in the middle"},
		{r.PromptTokens != nil, c.Tokens, "prompt", "take token ids"},
		{image != "", c.Images, image, "see images"},
	}
}

// firstImage returns the field of the first image in the conversation, or "".
func firstImage(r *infer.Request) string {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Image != nil {
				return p.Image.Param
			}
		}
	}
	return ""
}
