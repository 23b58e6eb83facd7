package native

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/stoker-llm/stoker/internal/infer"
)

// request is an infer.Request in JSON. Slices and pointers that are nil are left out; empty ones are not. The keys of TemplateArgs are
// packed texts: JSON's own rule for the keys of a map asks no method of theirs.
type request struct {
	ID       text      `json:"id,omitempty"`
	Kind     text      `json:"kind"`
	Messages []message `json:"messages,omitzero"`
	Tools    []tool    `json:"tools,omitzero"`
	Choice   choice    `json:"tool_choice,omitzero"`
	Parallel *bool     `json:"parallel_tools,omitzero"`

	TemplateArgs map[string]*text `json:"template_args,omitzero"`
	Effort       text             `json:"reasoning_effort,omitempty"`
	Prompt       text             `json:"prompt,omitempty"`
	PromptTokens []int            `json:"prompt_tokens,omitzero"`
	Suffix       text             `json:"suffix,omitempty"`
	Format       format           `json:"format,omitzero"`
	Sampling     sampling         `json:"sampling,omitzero"`
	MaxTokens    int              `json:"max_tokens,omitempty"`
	Stop         []text           `json:"stop,omitzero"`
	Logprobs     bool             `json:"logprobs,omitempty"`
	TopLogprobs  int              `json:"top_logprobs,omitempty"`
	IgnoreEOS    bool             `json:"ignore_eos,omitempty"`
}

type message struct {
	Role       text       `json:"role"`
	Name       text       `json:"name,omitempty"`
	Parts      []part     `json:"parts,omitzero"`
	Reasoning  text       `json:"reasoning,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitzero"`
	ToolCallID text       `json:"tool_call_id,omitempty"`
}

type part struct {
	Text  text   `json:"text,omitempty"`
	Image *image `json:"image,omitzero"`
}

type image struct {
	URL   text `json:"url"`
	Param text `json:"param"`
}

type tool struct {
	Name        text  `json:"name"`
	Description text  `json:"description,omitempty"`
	Parameters  *text `json:"parameters,omitzero"`
	Strict      bool  `json:"strict,omitempty"`
}

type toolCall struct {
	ID        text `json:"id"`
	Name      text `json:"name"`
	Arguments text `json:"arguments"`
}

type choice struct {
	Mode text `json:"mode"`
	Name text `json:"name,omitempty"`
}

type format struct {
	Kind   text  `json:"kind"`
	Name   text  `json:"name,omitempty"`
	Schema *text `json:"schema,omitzero"`
	Strict bool  `json:"strict,omitempty"`
}

type sampling struct {
	Temperature       *float64        `json:"temperature,omitzero"`
	TopP              *float64        `json:"top_p,omitzero"`
	TopK              *int            `json:"top_k,omitzero"`
	MinP              *float64        `json:"min_p,omitzero"`
	FrequencyPenalty  *float64        `json:"frequency_penalty,omitzero"`
	PresencePenalty   *float64        `json:"presence_penalty,omitzero"`
	RepetitionPenalty *float64        `json:"repetition_penalty,omitzero"`
	Seed              *int64          `json:"seed,omitzero"`
	LogitBias         map[int]float64 `json:"logit_bias,omitzero"`
}

// EncodeRequest writes a request as JSON. The error is a number that JSON lacks.
func EncodeRequest(r *infer.Request) ([]byte, error) {
	out := request{
		ID: text(r.ID), Kind: text(r.Kind), Messages: each(r.Messages, encodeMessage), Tools: each(r.Tools, encodeTool),
		Choice: choice{text(r.ToolChoice.Mode), text(r.ToolChoice.Name)}, Parallel: r.ParallelTools, Effort: text(r.ReasoningEffort),
		Prompt: text(r.Prompt), PromptTokens: r.PromptTokens, Suffix: text(r.Suffix),
		Format:   format{text(r.Format.Kind), text(r.Format.Name), rawText(r.Format.Schema), r.Format.Strict},
		Sampling: sampling(r.Sampling), MaxTokens: r.MaxTokens, Stop: texts(r.Stop), Logprobs: r.Logprobs, TopLogprobs: r.TopLogprobs,
		IgnoreEOS: r.IgnoreEOS,
	}
	if r.TemplateArgs != nil {
		out.TemplateArgs = map[string]*text{}
		for k, v := range r.TemplateArgs {
			out.TemplateArgs[text(k).pack()] = rawText(v)
		}
	}
	return json.Marshal(out)
}

// DecodeRequest reads what EncodeRequest wrote, up to the end of r.
func DecodeRequest(r io.Reader) (*infer.Request, error) {
	var in request
	if err := strict(r, &in); err != nil {
		return nil, fmt.Errorf("the request is not what this version of stoker writes: %w", err)
	}
	out := &infer.Request{
		ID: string(in.ID), Kind: infer.Kind(in.Kind), Messages: each(in.Messages, message.infer), Tools: each(in.Tools, tool.infer),
		ToolChoice: infer.ToolChoice{Mode: infer.ToolMode(in.Choice.Mode), Name: string(in.Choice.Name)}, ParallelTools: in.Parallel,
		ReasoningEffort: string(in.Effort), Prompt: string(in.Prompt), PromptTokens: in.PromptTokens, Suffix: string(in.Suffix),
		Format: infer.Format{
			Kind: infer.FormatKind(in.Format.Kind), Name: string(in.Format.Name), Schema: in.Format.Schema.raw(), Strict: in.Format.Strict,
		},
		Sampling: infer.Sampling(in.Sampling), MaxTokens: in.MaxTokens, Stop: plain(in.Stop), Logprobs: in.Logprobs, TopLogprobs: in.TopLogprobs,
		IgnoreEOS: in.IgnoreEOS,
	}
	if in.TemplateArgs != nil {
		out.TemplateArgs = map[string]json.RawMessage{}
		for k, v := range in.TemplateArgs {
			name, err := unpack(k)
			if err != nil {
				return nil, err
			}
			out.TemplateArgs[string(name)] = v.raw()
		}
	}
	return out, nil
}

// each is f of every element. nil stays nil.
func each[A, B any](list []A, f func(A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

func encodeMessage(m infer.Message) message {
	return message{
		Role: text(m.Role), Name: text(m.Name), Parts: each(m.Parts, encodePart), Reasoning: text(m.Reasoning),
		ToolCalls: each(m.ToolCalls, encodeCall), ToolCallID: text(m.ToolCallID),
	}
}

func (m message) infer() infer.Message {
	return infer.Message{
		Role: infer.Role(m.Role), Name: string(m.Name), Parts: each(m.Parts, part.infer), Reasoning: string(m.Reasoning),
		ToolCalls: each(m.ToolCalls, toolCall.infer), ToolCallID: string(m.ToolCallID),
	}
}

func encodePart(p infer.Part) part {
	out := part{Text: text(p.Text)}
	if p.Image != nil {
		out.Image = &image{text(p.Image.URL), text(p.Image.Param)}
	}
	return out
}

func (p part) infer() infer.Part {
	out := infer.Part{Text: string(p.Text)}
	if p.Image != nil {
		out.Image = &infer.Image{URL: string(p.Image.URL), Param: string(p.Image.Param)}
	}
	return out
}

func encodeCall(c infer.ToolCall) toolCall {
	return toolCall{text(c.ID), text(c.Name), text(c.Arguments)}
}

func (c toolCall) infer() infer.ToolCall {
	return infer.ToolCall{ID: string(c.ID), Name: string(c.Name), Arguments: string(c.Arguments)}
}

func encodeTool(t infer.Tool) tool {
	return tool{text(t.Name), text(t.Description), rawText(t.Parameters), t.Strict}
}

func (t tool) infer() infer.Tool {
	return infer.Tool{Name: string(t.Name), Description: string(t.Description), Parameters: t.Parameters.raw(), Strict: t.Strict}
}
