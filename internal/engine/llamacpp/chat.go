package llamacpp

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/stoker-llm/stoker/internal/infer"
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

// chatParts are what a chat body is made of beyond the request itself.
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

// promptBody returns the request whose rendering is the prompt: what /apply-template takes.
func promptBody(r *infer.Request, p chatParts) []byte {
	return append(appendPrompt(nil, r, p), '}')
}

// chatBody returns the request for an answer.
func chatBody(r *infer.Request, p chatParts, maxTokens int) []byte {
	b := appendPrompt(nil, r, p)
	b = append(b, `,"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"cache_prompt":true,"max_tokens":`...)
	b = strconv.AppendInt(b, int64(maxTokens), 10)
	if r.Logprobs {
		// With 0 the engine would give none at all; the one alternative too many is taken out again.
		b = strconv.AppendInt(append(b, `,"logprobs":true,"top_logprobs":`...), int64(max(1, r.TopLogprobs)), 10)
	}
	b = appendSampling(b, r.Sampling)
	if r.IgnoreEOS {
		b = append(b, `,"ignore_eos":true`...)
	}
	if len(r.Stop) > 0 {
		b = append(b, `,"verbose":true`...) // the final event then says which stop text came
	}
	return appendStops(append(b, '}'), r.Stop)
}

// appendPrompt appends the members that decide the prompt and the grammar, without the closing brace.
func appendPrompt(b []byte, r *infer.Request, p chatParts) []byte {
	b = append(b, `{"messages":[`...)
	for i, m := range p.messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessage(b, m)
	}
	b = append(b, ']')
	if len(p.tools) > 0 {
		b = appendTools(b, p.tools)
		if p.calls {
			b = append(b, `,"tool_choice":"auto"`...)
		} else {
			b = append(b, `,"tool_choice":"none"`...)
		}
		if r.ParallelTools != nil {
			b = strconv.AppendBool(append(b, `,"parallel_tool_calls":`...), *r.ParallelTools)
		}
	}
	b = appendTemplateArgs(b, r, p.noThinking)
	switch p.format.Kind {
	case infer.FormatJSONObject:
		b = append(b, `,"response_format":{"type":"json_object"}`...)
	case infer.FormatJSONSchema:
		b = append(b, `,"response_format":{"type":"json_schema","json_schema":{"schema":`...)
		b = append(append(b, schemaOf(p.format)...), `}}`...)
	}
	return b
}

// schemaOf returns the schema of a format, which is "any object" when it names none.
func schemaOf(f infer.Format) json.RawMessage {
	if f.Kind != infer.FormatJSONSchema || len(f.Schema) == 0 || string(f.Schema) == "null" {
		return json.RawMessage(`{"type":"object"}`)
	}
	return f.Schema
}

// appendTemplateArgs appends the variables for the template, in order, so that equal requests have equal bytes.
func appendTemplateArgs(b []byte, r *infer.Request, noThinking bool) []byte {
	args := maps.Clone(r.TemplateArgs)
	if noThinking || r.ReasoningEffort == "none" {
		if args == nil {
			args = map[string]json.RawMessage{}
		}
		args["enable_thinking"] = json.RawMessage("false")
	}
	if len(args) > 0 {
		b = append(b, `,"chat_template_kwargs":{`...)
		for i, name := range slices.Sorted(maps.Keys(args)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(rawjson.AppendString(b, name), ':'), args[name]...)
		}
		b = append(b, '}')
	}
	if r.ReasoningEffort != "" {
		b = rawjson.AppendString(append(b, `,"reasoning_effort":`...), r.ReasoningEffort)
	}
	return b
}

// appendMessage appends one turn.
func appendMessage(b []byte, m infer.Message) []byte {
	b = rawjson.AppendString(append(b, `{"role":`...), string(m.Role))
	if m.Name != "" {
		b = rawjson.AppendString(append(b, `,"name":`...), m.Name)
	}
	if len(m.Parts) > 0 || len(m.ToolCalls) == 0 {
		b = appendContent(append(b, `,"content":`...), m)
	}
	if m.Reasoning != "" {
		b = rawjson.AppendString(append(b, `,"reasoning_content":`...), m.Reasoning)
	}
	if m.ToolCallID != "" {
		b = rawjson.AppendString(append(b, `,"tool_call_id":`...), m.ToolCallID)
	}
	if len(m.ToolCalls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		for i, c := range m.ToolCalls {
			if i > 0 {
				b = append(b, ',')
			}
			b = rawjson.AppendString(append(b, `{"id":`...), c.ID)
			b = rawjson.AppendString(append(b, `,"type":"function","function":{"name":`...), c.Name)
			b = rawjson.AppendString(append(b, `,"arguments":`...), c.Arguments)
			b = append(b, `}}`...)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendContent appends a turn's content: plain text, or a list of parts when there are images. Text parts are joined here,
// because the engine would put a line end between them.
func appendContent(b []byte, m infer.Message) []byte {
	if !hasImage(m) {
		return rawjson.AppendString(b, m.Text())
	}
	b = append(b, '[')
	for i, p := range m.Parts {
		if i > 0 {
			b = append(b, ',')
		}
		if p.Image != nil {
			b = rawjson.AppendString(append(b, `{"type":"image_url","image_url":{"url":`...), p.Image.URL)
			b = append(b, `}}`...)
			continue
		}
		b = rawjson.AppendString(append(b, `{"type":"text","text":`...), p.Text)
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendTools appends the tools as the client described them.
func appendTools(b []byte, tools []infer.Tool) []byte {
	b = append(b, `,"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":"function","function":`...)
		b = append(appendTool(b, t), '}')
	}
	return append(b, ']')
}

// appendTool appends the description of one tool.
func appendTool(b []byte, t infer.Tool) []byte {
	b = rawjson.AppendString(append(b, `{"name":`...), t.Name)
	if t.Description != "" {
		b = rawjson.AppendString(append(b, `,"description":`...), t.Description)
	}
	b = append(append(b, `,"parameters":`...), parameters(t)...)
	return append(b, '}')
}
