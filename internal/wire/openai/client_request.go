package openai

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// EncodeChat writes r, whose kind is [infer.Chat], as the body of a chat request to a server that knows the model by that
// name. It always asks for a stream with usage, because only a stream shows that an engine is alive and can be cancelled
// everywhere. Fields that r does not set are left out: engines have defaults, and some take null for a wrong type.
func EncodeChat(model string, r *infer.Request) ([]byte, error) {
	if r.Kind != infer.Chat {
		return nil, infer.Errorf(infer.ErrInternal, "", "a %s request cannot be sent as a chat", r.Kind)
	}
	w := newBody(model)
	w.messages(r.Messages)
	w.tools(r)
	if r.ParallelTools != nil && len(r.Tools) > 0 {
		w.bool("parallel_tool_calls", *r.ParallelTools)
	}
	if len(r.TemplateArgs) > 0 {
		w.templateArgs(r.TemplateArgs)
	}
	if r.ReasoningEffort != "" {
		w.string("reasoning_effort", r.ReasoningEffort)
	}
	if r.Logprobs {
		w.bool("logprobs", true)
		w.int("top_logprobs", int64(r.TopLogprobs))
	}
	w.common(r)
	return w.end(), nil
}

// EncodeCompletion writes r, whose kind is [infer.Completion], as the body of a completion request. See [EncodeChat].
func EncodeCompletion(model string, r *infer.Request) ([]byte, error) {
	if r.Kind != infer.Completion {
		return nil, infer.Errorf(infer.ErrInternal, "", "a %s request cannot be sent as a completion", r.Kind)
	}
	w := newBody(model)
	if r.PromptTokens != nil {
		w.name("prompt")
		w.list(len(r.PromptTokens), func(i int) { w.b = strconv.AppendInt(w.b, int64(r.PromptTokens[i]), 10) })
	} else {
		w.string("prompt", r.Prompt)
	}
	if r.Suffix != "" {
		w.string("suffix", r.Suffix)
	}
	if r.Logprobs {
		w.int("logprobs", int64(r.TopLogprobs))
	}
	w.common(r)
	return w.end(), nil
}

// body is a request body being written.
type body struct{ b []byte }

func newBody(model string) *body {
	w := &body{b: []byte{'{'}}
	w.string("model", model)
	return w
}

// end appends what every request has.
func (w *body) end() []byte {
	w.bool("stream", true)
	w.raw("stream_options", `{"include_usage":true}`)
	return append(w.b, '}')
}

// name starts a member of the object that is open.
func (w *body) name(n string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(rawjson.AppendString(w.b, n), ':')
}

func (w *body) raw(name, v string) {
	w.name(name)
	w.b = append(w.b, v...)
}

func (w *body) string(name, v string) {
	w.name(name)
	w.b = rawjson.AppendString(w.b, v)
}

func (w *body) bool(name string, v bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, v)
}

func (w *body) int(name string, v int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *body) float(name string, v *float64) {
	if v != nil {
		w.name(name)
		w.b = rawjson.AppendFloat(w.b, *v)
	}
}

// list writes an array of n elements.
func (w *body) list(n int, element func(i int)) {
	w.b = append(w.b, '[')
	for i := range n {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		element(i)
	}
	w.b = append(w.b, ']')
}

// common writes the fields of both dialects.
func (w *body) common(r *infer.Request) {
	if r.MaxTokens > 0 {
		w.int("max_tokens", int64(r.MaxTokens))
	}
	w.sampling(r.Sampling)
	if len(r.Stop) > 0 {
		w.name("stop")
		w.list(len(r.Stop), func(i int) { w.b = rawjson.AppendString(w.b, r.Stop[i]) })
	}
	w.format(r.Format)
	if r.IgnoreEOS {
		w.bool("ignore_eos", true)
	}
}

func (w *body) sampling(s infer.Sampling) {
	w.float("temperature", s.Temperature)
	w.float("top_p", s.TopP)
	if s.TopK != nil {
		w.int("top_k", int64(*s.TopK))
	}
	w.float("min_p", s.MinP)
	w.float("frequency_penalty", s.FrequencyPenalty)
	w.float("presence_penalty", s.PresencePenalty)
	w.float("repetition_penalty", s.RepetitionPenalty)
	if s.Seed != nil {
		w.int("seed", *s.Seed)
	}
	if len(s.LogitBias) > 0 {
		w.name("logit_bias")
		w.b = append(w.b, '{')
		for _, id := range slices.Sorted(maps.Keys(s.LogitBias)) {
			bias := s.LogitBias[id]
			w.float(strconv.Itoa(id), &bias)
		}
		w.b = append(w.b, '}')
	}
}

func (w *body) format(f infer.Format) {
	switch f.Kind {
	case infer.FormatJSONObject:
		w.raw("response_format", `{"type":"json_object"}`)
	case infer.FormatJSONSchema:
		name := f.Name
		if name == "" {
			name = "answer"
		}
		w.raw("response_format", `{"type":"json_schema","json_schema":{`)
		w.string("name", name)
		if f.Strict {
			w.bool("strict", true)
		}
		w.raw("schema", string(f.Schema))
		w.b = append(w.b, "}}"...)
	}
}

func (w *body) templateArgs(args map[string]json.RawMessage) {
	w.name("chat_template_kwargs")
	w.b = append(w.b, '{')
	for _, k := range slices.Sorted(maps.Keys(args)) {
		w.raw(k, string(args[k]))
	}
	w.b = append(w.b, '}')
}

// noParameters is the schema of a function without any. Templates read the member without asking whether it is there.
const noParameters = `{"type":"object","properties":{}}`

func (w *body) tools(r *infer.Request) {
	if len(r.Tools) == 0 {
		return
	}
	w.name("tools")
	w.list(len(r.Tools), func(i int) {
		t := r.Tools[i]
		w.b = append(w.b, `{"type":"function","function":{`...)
		w.string("name", t.Name)
		if t.Description != "" {
			w.string("description", t.Description)
		}
		if len(t.Parameters) > 0 {
			w.raw("parameters", string(t.Parameters))
		} else {
			w.raw("parameters", noParameters)
		}
		if t.Strict {
			w.bool("strict", true)
		}
		w.b = append(w.b, "}}"...)
	})
	switch c := r.ToolChoice; c.Mode {
	case "":
	case infer.ToolNamed:
		w.raw("tool_choice", `{"type":"function","function":{`)
		w.string("name", c.Name)
		w.b = append(w.b, "}}"...)
	default:
		w.string("tool_choice", string(c.Mode))
	}
}

func (w *body) messages(list []infer.Message) {
	w.name("messages")
	w.list(len(list), func(i int) { w.message(&list[i]) })
}

func (w *body) message(m *infer.Message) {
	w.b = append(w.b, '{')
	w.string("role", string(m.Role))
	if m.Name != "" {
		w.string("name", m.Name)
	}
	if m.ToolCallID != "" {
		w.string("tool_call_id", m.ToolCallID)
	}
	w.content(m)
	if m.Reasoning != "" {
		w.string("reasoning_content", m.Reasoning)
	}
	if len(m.ToolCalls) > 0 {
		w.name("tool_calls")
		w.list(len(m.ToolCalls), func(i int) {
			c := m.ToolCalls[i]
			w.b = appendToolCall(w.b, c.ID, c.Name, validArguments(c.Arguments))
		})
	}
	w.b = append(w.b, '}')
}

// content writes text as one string, which every template can render, and "" where there is none, because some templates
// fail on null. Only images need a list of parts.
func (w *body) content(m *infer.Message) {
	if !slices.ContainsFunc(m.Parts, func(p infer.Part) bool { return p.Image != nil }) {
		w.string("content", m.Text())
		return
	}
	w.name("content")
	w.list(len(m.Parts), func(i int) {
		if img := m.Parts[i].Image; img != nil {
			w.b = append(w.b, `{"type":"image_url","image_url":{`...)
			w.string("url", img.URL)
			w.b = append(w.b, "}}"...)
			return
		}
		w.b = append(w.b, `{"type":"text",`...)
		w.b = append(w.b, `"text":`...)
		w.b = append(rawjson.AppendString(w.b, m.Parts[i].Text), '}')
	})
}

// validArguments returns the arguments of an earlier call as JSON that parses. Engines and templates parse them and fail
// on what a model, cut off in the middle, has left (mlx_lm.server drops the connection).
func validArguments(args string) string {
	switch {
	case args == "":
		return "{}"
	case rawjson.Check([]byte(args)) == nil:
		return args
	default:
		return string(append(rawjson.AppendString([]byte(`{"_raw":`), args), '}'))
	}
}
