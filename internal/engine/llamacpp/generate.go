package llamacpp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// job is one answer to be asked for: where, with which bytes, and how to read what comes back.
type job struct {
	path string
	body []byte
	dec  decoder
	// blame tells which field is at fault when the engine refuses without saying.
	blame func(ctx context.Context) (param string, client bool)
}

// Generate starts one answer. It returns with the engine's first sign of life for this answer, which is a progress report
// if the prompt takes long.
func (in *instance) Generate(ctx context.Context, r *infer.Request) (engine.Stream, error) {
	if err := in.gone(); err != nil {
		return nil, err
	}
	if err := in.check(r); err != nil {
		return nil, err
	}
	ctx, cancel := in.lifetime(ctx)
	s, err := in.start(ctx, cancel, r)
	if err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

// start sends the request. The stream it returns owns cancel.
func (in *instance) start(ctx context.Context, cancel context.CancelFunc, r *infer.Request) (engine.Stream, error) {
	j, err := in.jobFor(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := in.conn.do(ctx, j.path, j.body)
	if err != nil {
		return nil, in.failed(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return newStream(ctx, cancel, in, resp, j.dec), nil
	}
	defer resp.Body.Close()
	answer := readAnswerError(resp)
	if ctx.Err() != nil {
		return nil, in.failed(ctx, answer)
	}
	e := refusal(answer, func() (string, bool) { return j.blame(ctx) })
	if e.Kind == infer.ErrContextLength && r.Kind == infer.Completion {
		e.Param = "prompt"
	}
	return nil, e
}

// jobFor chooses the route for a request.
func (in *instance) jobFor(ctx context.Context, r *infer.Request) (job, error) {
	switch {
	case r.Kind == infer.Completion:
		return in.completionJob(r), nil
	case forced(r):
		return in.callJob(ctx, r)
	}
	return in.chatJob(r)
}

// forced reports whether the answer must be a tool call.
func forced(r *infer.Request) bool {
	return r.ToolChoice.Mode == infer.ToolRequired || r.ToolChoice.Mode == infer.ToolNamed
}

// parts is what the prompt of a chat shows.
func (in *instance) parts(r *infer.Request) chatParts {
	if forced(r) {
		return in.callParts(r)
	}
	p := chatParts{messages: r.Messages, format: r.Format}
	if in.props.tools() {
		p.tools, p.calls = r.Tools, r.ToolChoice.Mode != infer.ToolNone
	}
	return p
}

func (in *instance) completionJob(r *infer.Request) job {
	var schema []byte
	if r.Format.Kind != infer.FormatText {
		schema = schemaOf(r.Format)
	}
	body := nativeBody(r, r.Prompt, r.PromptTokens, schema, in.maxTokens(r))
	return job{
		path: completionPath, body: appendStops(body, r.Stop), dec: &nativeDecoder{top: r.TopLogprobs},
		blame: func(context.Context) (string, bool) {
			if schema != nil {
				return "response_format", false
			}
			if r.PromptTokens != nil {
				return "prompt", false // ids beyond the vocabulary
			}
			return "", false
		},
	}
}

func (in *instance) chatJob(r *infer.Request) (job, error) {
	p := in.parts(r)
	body, err := chatBody(r, p, in.maxTokens(r))
	return job{
		path: chatPath, body: body,
		dec: &chatDecoder{
			stops: r.Stop, top: r.TopLogprobs,
			oneCall: r.ParallelTools != nil && !*r.ParallelTools,
		},
		blame: func(ctx context.Context) (string, bool) { return in.blameChat(ctx, r, p) },
	}, err
}

// maxTokens is the bound on the answer's length: never more than a window, so that no answer is without one.
func (in *instance) maxTokens(r *infer.Request) int {
	if r.MaxTokens <= 0 || r.MaxTokens > in.facts.Window {
		return in.facts.Window
	}
	return r.MaxTokens
}

// blameChat finds the field that the engine cannot work with, by having it render the prompt with and without the parts
// that need a grammar. It reports whether the client is at fault whatever status the engine gave: a template that rejects
// the messages comes back as the engine's own failure.
func (in *instance) blameChat(ctx context.Context, r *infer.Request, p chatParts) (string, bool) {
	renders := func(p chatParts) bool {
		_, err := in.prompt(ctx, r, p)
		return err == nil
	}
	plain := chatParts{messages: p.messages, noThinking: p.noThinking}
	if !renders(plain) {
		// A dead engine renders nothing either; that is not the client's doing.
		return "messages", in.gone() == nil && ctx.Err() == nil
	}
	if withTools := (chatParts{messages: p.messages, tools: p.tools, calls: p.calls}); len(p.tools) > 0 && !renders(withTools) {
		return "tools", true
	}
	if p.format.Kind != infer.FormatText {
		return "response_format", !renders(p)
	}
	return "", false
}

// check refuses what this model or engine cannot do, before anything is sent.
func (in *instance) check(r *infer.Request) error {
	if err := checkFormat(r.Format); err != nil {
		return err
	}
	if r.Kind == infer.Completion {
		if r.Suffix != "" {
			return infer.Errorf(infer.ErrUnsupported, "suffix", "llama-server does not fill in the middle on this route; leave suffix out")
		}
		if r.Prompt == "" && len(r.PromptTokens) == 0 && !in.props.hasBOS {
			return infer.Errorf(infer.ErrInvalid, "prompt", "the prompt is empty, and this model has no token to begin a text with")
		}
		return nil
	}
	if !in.facts.Caps.Chat {
		return infer.Errorf(infer.ErrUnsupported, "messages", "%s has no chat template, so it cannot answer chats; completions work", in.spec.Model.Name)
	}
	if err := in.checkTools(r); err != nil {
		return err
	}
	if v, ok := r.TemplateArgs["enable_thinking"]; ok && rawjson.KindOf(bytes.TrimSpace(v)) != rawjson.Boolean {
		return infer.Errorf(infer.ErrInvalid, "chat_template_kwargs.enable_thinking", "enable_thinking must be true or false")
	}
	return in.checkImages(r)
}

func checkFormat(f infer.Format) error {
	if f.Kind != infer.FormatJSONSchema {
		return nil
	}
	return checkPatterns(f.Schema)
}

func (in *instance) checkTools(r *infer.Request) error {
	name := in.spec.Model.Name
	switch r.ToolChoice.Mode {
	case infer.ToolNone:
		return nil
	case infer.ToolNamed:
		if !slices.ContainsFunc(r.Tools, func(t infer.Tool) bool { return t.Name == r.ToolChoice.Name }) {
			return infer.Errorf(infer.ErrInvalid, "tool_choice", "tool_choice names %q, which is not among the tools", r.ToolChoice.Name)
		}
	case infer.ToolRequired:
		if len(r.Tools) == 0 {
			return infer.Errorf(infer.ErrInvalid, "tool_choice", "tool_choice is required, and there are no tools")
		}
	default:
		if len(r.Tools) > 0 && !in.props.tools() {
			return infer.Errorf(infer.ErrUnsupported, "tools",
				"the chat template of %s does not know tools; use tool_choice \"required\" or a named tool, or leave tools out", name)
		}
		if len(r.Tools) > 0 && r.Logprobs {
			return infer.Errorf(infer.ErrUnsupported, "logprobs", "llama-server gives no logprobs while the model may call tools")
		}
	}
	return nil
}

func (in *instance) checkImages(r *infer.Request) error {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			switch {
			case p.Image == nil:
			case !in.facts.Caps.Images:
				return infer.Errorf(infer.ErrUnsupported, p.Image.Param, "%s cannot see images", in.spec.Model.Name)
			case !strings.HasPrefix(p.Image.URL, "data:"):
				return infer.Errorf(infer.ErrUnsupported, p.Image.Param, "images are not fetched; send the picture itself as a data: URL")
			case forced(r):
				return infer.Errorf(infer.ErrUnsupported, "tool_choice", "a forced tool call cannot be made from images; use tool_choice \"auto\"")
			}
		}
	}
	return nil
}

// failed turns the failure of a request, before its answer began, into an error of ours.
func (in *instance) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil && !in.stopping() {
		return canceled(ctx)
	}
	if answer, ok := errors.AsType[*answerError](err); ok {
		return refusal(answer, func() (string, bool) { return "", false })
	}
	return in.lostError(err)
}
