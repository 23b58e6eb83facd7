package llamacpp

import (
	"context"
	"errors"
	"slices"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// A forced call (tool_choice "required" or a named tool) cannot be left to llama-server: there, "required" binds the model
// only once it has begun a call, and a named tool is not read at all, so small models answer in prose. The driver renders
// the prompt with the template and continues it under a grammar that has no other way out than a call. The prompt is the
// same as for a free choice, so the prefix cache holds.

// callJob makes the request for a forced call.
func (in *instance) callJob(ctx context.Context, r *infer.Request) (job, error) {
	p := in.parts(r)
	blame := func(ctx context.Context) (string, bool) {
		param, client := in.blameChat(ctx, r, p)
		if param == "" {
			param = "tools" // the grammar is made from them and from nothing else
		}
		return param, client
	}
	prompt, err := in.prompt(ctx, r, p)
	if answer, ok := errors.AsType[*answerError](err); ok && ctx.Err() == nil {
		return job{}, refusal(answer, func() (string, bool) { return blame(ctx) })
	}
	if err != nil {
		return job{}, in.failed(ctx, err)
	}
	tools := r.Tools
	if r.ToolChoice.Mode == infer.ToolNamed {
		i := slices.IndexFunc(tools, func(t infer.Tool) bool { return t.Name == r.ToolChoice.Name })
		tools = tools[i : i+1]
	}
	// Stop texts and log probabilities are about the answer's text, and a call has none.
	plain := *r
	plain.Logprobs, plain.IgnoreEOS = false, false
	body := nativeBody(&plain, prompt, nil, callSchema(tools), in.maxTokens(r))
	return job{path: completionPath, body: body, dec: &callDecoder{}, blame: blame}, nil
}

// callParts is what the prompt of a forced call shows. Thinking is off, because the grammar begins with the call.
func (in *instance) callParts(r *infer.Request) chatParts {
	p := chatParts{messages: r.Messages, noThinking: true}
	if in.props.tools() {
		p.tools, p.calls = r.Tools, true
	} else {
		p.messages = withToolText(r.Messages, r.Tools)
	}
	return p
}

// prompt has the engine render a chat.
func (in *instance) prompt(ctx context.Context, r *infer.Request, p chatParts) (string, error) {
	body, err := promptBody(r, p)
	if err != nil {
		return "", err
	}
	var out struct {
		Prompt string `json:"prompt"`
	}
	err = in.conn.fetch(ctx, templatePath, body, &out)
	return out.Prompt, err
}

// withToolText returns messages with a description of the tools in the system text, for templates that have no place for
// them.
func withToolText(messages []infer.Message, tools []infer.Tool) []infer.Message {
	b := []byte("You can call these functions. A call is one JSON object with \"name\" and \"arguments\" and nothing else.\n")
	for _, t := range tools {
		b = append(appendTool(append(b, '\n'), t), '\n')
	}
	text := string(b)
	if len(messages) > 0 && (messages[0].Role == infer.System || messages[0].Role == infer.Developer) {
		first := messages[0]
		first.Parts = append(slices.Clone(first.Parts), infer.Part{Text: "\n\n" + text})
		return append([]infer.Message{first}, messages[1:]...)
	}
	system := infer.Message{Role: infer.System, Parts: []infer.Part{{Text: text}}}
	return append([]infer.Message{system}, messages...)
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
