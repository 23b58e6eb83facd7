package lm

import (
	"fmt"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/chattmpl"
	"github.com/stoker-llm/stoker/internal/lm/tokenizer"
)

// prompt refuses what this engine cannot do, by name, and returns the request's tokens.
func (e *Engine) prompt(r *infer.Request) ([]int32, error) {
	if err := unsupported(r); err != nil {
		return nil, err
	}
	switch r.Kind {
	case infer.Chat:
		return e.chat(r)
	case infer.Completion:
		return e.completion(r)
	}
	return nil, infer.Errorf(infer.ErrInvalid, "", "a request of kind %q is not known", r.Kind)
}

// unsupported names the first thing that the engine cannot do.
func unsupported(r *infer.Request) error {
	no := func(param, what string) error {
		return infer.Errorf(infer.ErrUnsupported, param, "the embedded engine cannot do %s: leave it out, or serve the model with --engine llamacpp", what)
	}
	switch {
	case len(r.Tools) > 0 && r.ToolChoice.Mode != infer.ToolNone:
		return no("tools", "tool calls")
	case r.ToolChoice.Mode == infer.ToolRequired || r.ToolChoice.Mode == infer.ToolNamed:
		return no("tool_choice", "forced tool calls")
	case r.Format.Kind != infer.FormatText:
		return no("response_format", "constrained output")
	case r.Suffix != "":
		return no("suffix", "text before a suffix")
	}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Image != nil {
				return no(p.Image.Param, "images")
			}
		}
	}
	return nil
}

func (e *Engine) chat(r *infer.Request) ([]int32, error) {
	if e.template == nil {
		return nil, infer.Errorf(infer.ErrUnsupported, "messages",
			"this model has no chat template, so it cannot chat: use /v1/completions, or a model that was tuned for chats")
	}
	text, err := e.template.Render(chattmpl.Prompt{
		Messages: r.Messages, AddGenerationPrompt: true, Args: r.TemplateArgs, Now: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	// A template that writes the beginning token itself must not get a second one.
	o := tokenizer.Options{Special: true, BOS: true}
	if bos, ok := e.tok.BOS(); ok && strings.HasPrefix(text, e.tok.Piece(bos)) {
		o.BOS = false
	}
	return e.tok.Encode(text, o), nil
}

func (e *Engine) completion(r *infer.Request) ([]int32, error) {
	var tokens []int32
	if r.PromptTokens == nil {
		tokens = e.tok.Encode(r.Prompt, tokenizer.Options{Special: true, BOS: true})
	}
	for _, t := range r.PromptTokens {
		if t < 0 || t >= e.cfg.Vocab {
			return nil, infer.Errorf(infer.ErrInvalid, "prompt", "token %d is not in the vocabulary: ids go from 0 to %d", t, e.cfg.Vocab-1)
		}
		tokens = append(tokens, int32(t))
	}
	if len(tokens) == 0 {
		return nil, infer.Errorf(infer.ErrInvalid, "prompt", "the prompt is empty: this model needs at least one token to go on from")
	}
	return tokens, nil
}

// fits checks that at least one token can follow n in the window.
func (e *Engine) fits(r *infer.Request, n int) error {
	if n < e.o.Window {
		return nil
	}
	param := "messages"
	if r.Kind == infer.Completion {
		param = "prompt"
	}
	return &infer.Error{
		Kind: infer.ErrContextLength, Param: param, PromptTokens: n, Window: e.o.Window,
		Message: fmt.Sprintf("the prompt has %d tokens and leaves no room for an answer in the window of %d: shorten it, or serve the model with a larger --ctx",
			n, e.o.Window),
	}
}

// CountTokens returns how many tokens Generate would read for r.
func (e *Engine) CountTokens(r *infer.Request) (int, error) {
	tokens, err := e.prompt(r)
	return len(tokens), err
}
