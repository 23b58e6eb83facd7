// Package chattmpl renders conversations through a model's own chat template, a Jinja text that comes with the model. It needs no
// engine and no tokenizer.
//
//	t, err := chattmpl.Parse(source, chattmpl.Tokens{BOS: "<s>", EOS: "</s>"})
//	text, err := t.Render(chattmpl.Prompt{Messages: messages, AddGenerationPrompt: true, Now: time.Now()})
//
// Variables and their shapes are those that Hugging Face's apply_chat_template hands over, and so is the text: the tests compare it with
// jinja2's, on real templates. The expressions are evaluated by github.com/ardanlabs/jinja; the borders of tags and the white space
// around them are settled here (scan.go), by jinja2's rules.
//
// A template is a stranger's program. It may refuse a conversation with words of its own, which make an *infer.Error of kind ErrInvalid,
// and it may try to run forever or to take all memory. So Parse writes it anew with a meter in it (guard.go, meter.go), and a render
// ends with an error when it passes the meter's bounds. A Template may be rendered concurrently.
package chattmpl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ardanlabs/jinja"

	"github.com/stoker-llm/stoker/internal/infer"
)

// Tokens are the texts of special tokens that templates write.
type Tokens struct{ BOS, EOS string }

// Template is a compiled chat template.
type Template struct {
	t      *jinja.Template
	tokens Tokens
	limits limits
	uses   func() uses
}

// Parse compiles a template.
func Parse(source string, tokens Tokens) (t *Template, err error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("the chat template has %d bytes, at most %d are read", len(source), maxSource)
	}
	defer func() {
		if v := recover(); v != nil {
			t, err = nil, fmt.Errorf("the chat template cannot be compiled: %v", v)
		}
	}()
	pieces, err := scan(source)
	if err != nil {
		return nil, fmt.Errorf("the chat template cannot be compiled: %w", err)
	}
	guarded, err := guard(pieces)
	if err != nil {
		return nil, fmt.Errorf("the chat template cannot be compiled: %w", err)
	}
	c, err := jinja.Compile(guarded)
	if err != nil {
		return nil, fmt.Errorf("the chat template cannot be compiled: %w", err)
	}
	t = &Template{t: c, tokens: tokens, limits: usual()}
	t.uses = sync.OnceValue(t.probe)
	return t, nil
}

// Prompt is what a template renders.
type Prompt struct {
	Messages []infer.Message
	Tools    []infer.Tool
	// AddGenerationPrompt ends the text with the beginning of the assistant's turn.
	AddGenerationPrompt bool
	// Args are extra variables, such as enable_thinking.
	Args map[string]json.RawMessage
	// Now is the time that strftime_now tells.
	Now time.Time
}

// Render returns the text that the model reads. A template that refuses the conversation, fails on it, or does more than its bounds
// allow, gives an *infer.Error of kind ErrInvalid about "messages", with the template's own words if it has any.
func (t *Template) Render(p Prompt) (string, error) {
	var raised string
	vars, err := t.variables(p, &raised)
	if err != nil {
		return "", err
	}
	out, err := t.run(vars)
	switch {
	case err != nil && raised != "":
		return "", infer.Errorf(infer.ErrInvalid, "messages", "the model's chat template refuses this conversation: %s", raised)
	case err != nil:
		return "", &infer.Error{
			Kind: infer.ErrInvalid, Param: "messages", Message: "the model's chat template cannot render this conversation", Err: err,
		}
	}
	return out, nil
}

// run renders with a meter running.
func (t *Template) run(vars map[string]jinja.Value) (out string, err error) {
	defer func() {
		if v := recover(); v != nil {
			out, err = "", fmt.Errorf("the template failed: %v", v)
		}
	}()
	m := &meter{limits: t.limits, deadline: time.Now().Add(t.limits.time), kept: map[place]int64{}}
	for _, v := range vars {
		n, err := m.measure(v, jinja.None())
		if err != nil {
			return "", err
		}
		m.given += n
	}
	maps.Copy(vars, m.functions())
	out, err = t.t.RenderValues(vars)
	if err == nil && len(out) > maxOutput {
		err = much("a prompt of %d bytes", len(out))
	}
	return out, err
}

// variables makes what the template sees. The words of raise_exception go to raised.
func (t *Template) variables(p Prompt, raised *string) (map[string]jinja.Value, error) {
	vars := map[string]jinja.Value{
		"messages":              messages(p.Messages),
		"add_generation_prompt": jinja.NewBool(p.AddGenerationPrompt),
		"bos_token":             jinja.NewString(t.tokens.BOS),
		"eos_token":             jinja.NewString(t.tokens.EOS),
		"strftime_now":          clock(p.Now),
		"raise_exception":       raise(raised),
		"range":                 jinja.None(), // the meter's own
	}
	if len(p.Tools) > 0 {
		tools, err := toolList(p.Tools)
		if err != nil {
			return nil, err
		}
		vars["tools"] = tools
	}
	for name, raw := range p.Args {
		param := "chat_template_kwargs." + name
		if _, taken := vars[name]; taken || name == "tools" || strings.HasPrefix(name, "__") || slices.Contains(keywords, name) {
			return nil, infer.Errorf(infer.ErrInvalid, param, "%s cannot be set: it is one of the template's own variables", name)
		}
		v, err := fromJSON(raw)
		if err != nil {
			return nil, infer.Errorf(infer.ErrInvalid, param, "%s is not JSON: %v", name, err)
		}
		vars[name] = v
	}
	return vars, nil
}

func raise(raised *string) jinja.Value {
	return jinja.NewCallable("raise_exception", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		*raised = "no reason given"
		if len(args) > 0 && args[0].IsString() {
			*raised = args[0].AsString()
		}
		return jinja.Undefined(), errors.New(*raised)
	})
}

func messages(list []infer.Message) jinja.Value {
	var out []jinja.Value
	for _, m := range list {
		d := jinja.NewDict()
		set := d.AsDict().Set
		set("role", jinja.NewString(string(m.Role)))
		set("content", jinja.NewString(m.Text()))
		if m.Name != "" {
			set("name", jinja.NewString(m.Name))
		}
		if m.Reasoning != "" {
			set("reasoning_content", jinja.NewString(m.Reasoning))
		}
		if len(m.ToolCalls) > 0 {
			set("tool_calls", calls(m.ToolCalls))
		}
		if m.ToolCallID != "" {
			set("tool_call_id", jinja.NewString(m.ToolCallID))
		}
		out = append(out, d)
	}
	return jinja.NewList(out)
}

// calls are an assistant's tool calls. Arguments are an object where the model wrote one, else the text that it wrote.
func calls(list []infer.ToolCall) jinja.Value {
	var out []jinja.Value
	for _, c := range list {
		f := jinja.NewDict()
		f.AsDict().Set("name", jinja.NewString(c.Name))
		args, err := fromJSON([]byte(c.Arguments))
		if err != nil || !args.IsDict() {
			args = jinja.NewString(c.Arguments)
		}
		f.AsDict().Set("arguments", args)
		d := jinja.NewDict()
		d.AsDict().Set("type", jinja.NewString("function"))
		if c.ID != "" {
			d.AsDict().Set("id", jinja.NewString(c.ID))
		}
		d.AsDict().Set("function", f)
		out = append(out, d)
	}
	return jinja.NewList(out)
}

func toolList(list []infer.Tool) (jinja.Value, error) {
	var out []jinja.Value
	for i, tool := range list {
		f := jinja.NewDict()
		set := f.AsDict().Set
		set("name", jinja.NewString(tool.Name))
		if tool.Description != "" {
			set("description", jinja.NewString(tool.Description))
		}
		if len(tool.Parameters) > 0 {
			v, err := fromJSON(tool.Parameters)
			if err != nil {
				return v, infer.Errorf(infer.ErrInvalid, fmt.Sprintf("tools[%d].function.parameters", i), "not JSON: %v", err)
			}
			set("parameters", v)
		}
		d := jinja.NewDict()
		d.AsDict().Set("type", jinja.NewString("function"))
		d.AsDict().Set("function", f)
		out = append(out, d)
	}
	return jinja.NewList(out), nil
}

// fromJSON decodes a value with its keys in their order: templates write them out, and the order is part of the prompt.
func fromJSON(raw []byte) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return v, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("something follows the value")
	}
	return v, nil
}

// maxDepth is the deepest nesting of JSON that is read.
const maxDepth = 200

func value(d *json.Decoder, depth int) (jinja.Value, error) {
	t, err := d.Token()
	if err != nil {
		return jinja.Undefined(), err
	}
	if depth > maxDepth {
		return jinja.Undefined(), fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return list(d, depth)
		}
		return dict(d, depth)
	case string:
		return jinja.NewString(t), nil
	case bool:
		return jinja.NewBool(t), nil
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return jinja.NewInt(n), nil
		}
		f, err := t.Float64()
		return jinja.NewFloat(f), err
	}
	return jinja.None(), nil
}

func list(d *json.Decoder, depth int) (jinja.Value, error) {
	var items []jinja.Value
	for d.More() {
		v, err := value(d, depth+1)
		if err != nil {
			return v, err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return jinja.NewList(items), err
}

func dict(d *json.Decoder, depth int) (jinja.Value, error) {
	out := jinja.NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return out, err
		}
		v, err := value(d, depth+1)
		if err != nil {
			return out, err
		}
		out.AsDict().Set(key.(string), v) //nolint:forcetypeassert // the decoder accepts nothing else as a key
	}
	_, err := d.Token()
	return out, err
}
