package llamacpp

import (
	"context"
	"slices"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// countPath counts a chat's tokens, images included, and answers {"input_tokens": n}.
const countPath = chatPath + "/input_tokens"

var _ engine.TokenCounter = (*instance)(nil)

// CountTokens returns the tokens of the prompt that Generate would send: the same template, rendered by the engine, and
// the engine's own vocabulary.
func (in *instance) CountTokens(ctx context.Context, r *infer.Request) (int, error) {
	if err := in.gone(); err != nil {
		return 0, err
	}
	if err := in.check(r); err != nil {
		return 0, err
	}
	ctx, cancel := in.lifetime(ctx)
	defer cancel()
	n, err := in.count(ctx, r)
	if err != nil {
		return 0, in.failed(ctx, err)
	}
	return n, nil
}

func (in *instance) count(ctx context.Context, r *infer.Request) (int, error) {
	if r.Kind == infer.Completion {
		if r.PromptTokens != nil {
			return len(r.PromptTokens), nil
		}
		return in.tokenize(ctx, r.Prompt)
	}
	if slices.ContainsFunc(r.Messages, hasImage) {
		body, err := promptBody(r, in.parts(r))
		if err != nil {
			return 0, err
		}
		var out struct {
			Tokens int `json:"input_tokens"`
		}
		err = in.conn.fetch(ctx, countPath, body, &out)
		return out.Tokens, err
	}
	prompt, err := in.prompt(ctx, r, in.parts(r))
	if err != nil {
		return 0, err
	}
	return in.tokenize(ctx, prompt)
}

// tokenize counts the tokens of a prompt, with the special ones that the engine puts around it or reads in it.
func (in *instance) tokenize(ctx context.Context, prompt string) (int, error) {
	body := rawjson.AppendString([]byte(`{"add_special":true,"parse_special":true,"content":`), prompt)
	var out struct {
		Tokens []int `json:"tokens"`
	}
	err := in.conn.fetch(ctx, tokenizePath, append(body, '}'), &out)
	return len(out.Tokens), err
}

func hasImage(m infer.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p infer.Part) bool { return p.Image != nil })
}
