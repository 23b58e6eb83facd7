// Package chattmpl renders conversations through a model's own chat template, a Jinja text that comes with the model. It needs no
// engine and no tokenizer.
//
//	t, err := chattmpl.Parse(source, chattmpl.Tokens{BOS: "<s>", EOS: "</s>"})
//	text, err := t.Render(chattmpl.Prompt{Messages: messages, AddGenerationPrompt: true, Now: time.Now()})
//
// Variables and their shapes are those that Hugging Face's apply_chat_template hands over. A template is foreign: it may refuse a
// conversation with words of its own (an *infer.Error of kind ErrInvalid), and it gets a bounded time and output. A Template may be
// rendered concurrently.
package chattmpl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"

	"github.com/stoker-llm/stoker/internal/infer"
)

// Tokens are the texts of special tokens that templates write.
type Tokens struct{ BOS, EOS string }

// Template is a compiled chat template.
type Template struct {
	t      *jinja.Template
	source string
	tokens Tokens
}

// The bounds of a template. Real ones have up to 30 KB and render in a millisecond.
const (
	maxSource = 1 << 20
	maxOutput = 64 << 20
	maxRange  = 100_000
	maxTime   = 10 * time.Second
)

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
	c, err := jinja.Compile(source)
	if err != nil {
		return nil, fmt.Errorf("the chat template cannot be compiled: %w", err)
	}
	return &Template{t: c, source: source, tokens: tokens}, nil
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

// Render returns the text that the model reads. A template that refuses the conversation, or fails on it, gives an *infer.Error of
// kind ErrInvalid about "messages", with the template's own words.
func (t *Template) Render(p Prompt) (string, error) {
	vars, err := t.variables(p)
	if err != nil {
		return "", err
	}
	var raised string
	vars["raise_exception"] = jinja.NewCallable("raise_exception", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		raised = "no reason given"
		if len(args) > 0 && args[0].IsString() {
			raised = args[0].AsString()
		}
		return jinja.Undefined(), errors.New(raised)
	})
	out, err := bounded(func() (string, error) { return t.t.RenderValues(vars) })
	switch {
	case raised != "":
		return "", infer.Errorf(infer.ErrInvalid, "messages", "the model's chat template refuses this conversation: %s", raised)
	case err != nil:
		return "", &infer.Error{Kind: infer.ErrInvalid, Param: "messages", Message: "the model's chat template cannot render this conversation", Err: err}
	case len(out) > maxOutput:
		return "", infer.Errorf(infer.ErrInvalid, "messages", "the model's chat template made %d bytes of this conversation, at most %d are taken", len(out), maxOutput)
	}
	return out, nil
}

// bounded runs f for at most maxTime. A template that takes longer goes on in the background until it ends: the library offers no way
// to stop it.
func bounded(f func() (string, error)) (string, error) {
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- result{err: fmt.Errorf("the template failed: %v", v)}
			}
		}()
		out, err := f()
		done <- result{out, err}
	}()
	limit := time.NewTimer(maxTime)
	defer limit.Stop()
	select {
	case r := <-done:
		return r.out, r.err
	case <-limit.C:
		return "", fmt.Errorf("the template did not end within %s", maxTime)
	}
}

// variables makes what the template sees.
func (t *Template) variables(p Prompt) (map[string]jinja.Value, error) {
	vars := map[string]jinja.Value{
		"messages":              messages(p.Messages),
		"add_generation_prompt": jinja.NewBool(p.AddGenerationPrompt),
		"bos_token":             jinja.NewString(t.tokens.BOS),
		"eos_token":             jinja.NewString(t.tokens.EOS),
		"strftime_now":          clock(p.Now),
		"range":                 shortRange(),
	}
	if len(p.Tools) > 0 {
		tools, err := toolList(p.Tools)
		if err != nil {
			return nil, err
		}
		vars["tools"] = tools
	}
	for name, raw := range p.Args {
		v, err := fromJSON(raw)
		if err != nil {
			return nil, infer.Errorf(infer.ErrInvalid, "chat_template_kwargs."+name, "not JSON: %v", err)
		}
		vars[name] = v
	}
	return vars, nil
}

// UsesTools reports whether the template mentions tools. One that does not would drop them without a word.
func (t *Template) UsesTools() bool { return strings.Contains(t.source, "tools") }

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

// shortRange is range with a bound: the library's own would fill the memory.
func shortRange() jinja.Value {
	return jinja.NewCallable("range", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		var n [3]int64
		for i, a := range args {
			if i >= 3 || !a.IsInt() {
				return jinja.Undefined(), errors.New("range: want 1 to 3 whole numbers")
			}
			n[i] = a.AsInt()
		}
		start, stop, step := int64(0), n[0], int64(1)
		if len(args) > 1 {
			start, stop = n[0], n[1]
		}
		if len(args) > 2 {
			step = n[2]
		}
		if step == 0 || len(args) == 0 {
			return jinja.Undefined(), errors.New("range: no end")
		}
		var items []jinja.Value
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			if len(items) == maxRange {
				return jinja.Undefined(), fmt.Errorf("range: more than %d numbers", maxRange)
			}
			items = append(items, jinja.NewInt(i))
		}
		return jinja.NewList(items), nil
	})
}
