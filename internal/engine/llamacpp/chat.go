package llamacpp

import (
	"encoding/json"
	"maps"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/openai"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

const (
	// chatPath renders the model's template, and takes thinking and tool calls out of the text.
	chatPath = "/v1/chat/completions"
	// templatePath renders only, and answers {"prompt": ...}.
	templatePath = "/apply-template"
	// tokenizePath answers {"tokens": [...]}.
	tokenizePath = "/tokenize"
)

// chatParts are what a chat's prompt and grammar are made of.
type chatParts struct {
	messages []infer.Message
	// tools are shown to the model; calls says whether it may call them.
	tools []infer.Tool
	calls bool
	// noThinking switches thinking off where the template can.
	noThinking bool
	// format constrains the text.
	format infer.Format
}

// promptBody returns the request whose rendering is the prompt of r: what /apply-template takes.
func promptBody(r *infer.Request, p chatParts) ([]byte, error) {
	q := p.request(r)
	q.Sampling, q.Stop, q.Logprobs, q.MaxTokens, q.IgnoreEOS = infer.Sampling{}, nil, false, 0, false
	return openai.EncodeChat(Name, q)
}

// chatBody returns the request for an answer: the dialect's own fields, and behind them those that only llama-server knows.
func chatBody(r *infer.Request, p chatParts, maxTokens int) ([]byte, error) {
	q := p.request(r)
	q.MaxTokens = maxTokens
	// With 0 alternatives the engine would give no probabilities at all; the one too many is taken out again.
	q.TopLogprobs = max(1, r.TopLogprobs)
	q.Sampling.RepetitionPenalty = nil // another name here
	if s := r.Sampling.Seed; s != nil {
		seed := int64(engineSeed(*s))
		q.Sampling.Seed = &seed
	}
	b, err := openai.EncodeChat(Name, q)
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-1], `,"return_progress":true,"cache_prompt":true`...)
	if v := r.Sampling.RepetitionPenalty; v != nil {
		b = rawjson.AppendFloat(append(b, `,"repeat_penalty":`...), *v)
	}
	if len(r.Stop) > 0 {
		b = append(b, `,"verbose":true`...) // the final event then says which stop text came
	}
	return append(b, '}'), nil
}

// request is r with these parts.
func (p chatParts) request(r *infer.Request) *infer.Request {
	q := *r
	q.Messages, q.Tools, q.Format = p.messages, p.tools, p.format
	q.ToolChoice = infer.ToolChoice{Mode: infer.ToolNone}
	if p.calls {
		q.ToolChoice.Mode = infer.ToolAuto
	}
	if p.format.Kind == infer.FormatJSONSchema {
		q.Format.Schema = schemaOf(p.format)
	}
	if p.noThinking || r.ReasoningEffort == "none" {
		q.TemplateArgs = maps.Clone(r.TemplateArgs)
		if q.TemplateArgs == nil {
			q.TemplateArgs = map[string]json.RawMessage{}
		}
		q.TemplateArgs["enable_thinking"] = json.RawMessage("false")
	}
	return &q
}

// schemaOf returns the schema of a format, which is "any object" when it names none.
func schemaOf(f infer.Format) json.RawMessage {
	if f.Kind != infer.FormatJSONSchema || len(f.Schema) == 0 || string(f.Schema) == "null" {
		return json.RawMessage(`{"type":"object"}`)
	}
	return f.Schema
}
