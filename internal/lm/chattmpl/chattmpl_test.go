package chattmpl

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
)

func say(role infer.Role, text string) infer.Message {
	return infer.Message{Role: role, Parts: []infer.Part{{Text: text}}}
}

func TestRender(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	call := infer.Message{Role: infer.Assistant, ToolCalls: []infer.ToolCall{{ID: "x", Name: "f", Arguments: `{"b":1,"a":[true,null,"é"]}`}}}
	tools := []infer.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object","properties":{"b":{},"a":{}}}`)}}
	tests := []struct {
		name, source string
		p            Prompt
		want         string
	}{
		{
			"ChatML", "{% for m in messages %}<|{{m.role}}|>{{m['content']}}{{eos_token}}{% endfor %}{% if add_generation_prompt %}>{% endif %}",
			Prompt{Messages: []infer.Message{say(infer.System, "s"), say(infer.User, "u")}, AddGenerationPrompt: true},
			"<|system|>s</s><|user|>u</s>>",
		},
		{"no prompt for an answer", "{{ bos_token }}{% if add_generation_prompt %}>{% endif %}", Prompt{}, "<s>"},
		{
			"keys stay in order", "{{ messages[0].tool_calls[0].function.arguments | tojson }}",
			Prompt{Messages: []infer.Message{call}},
			`{"b": 1, "a": [true, null, "é"]}`,
		},
		{
			"tools stay in order", "{{ tools | tojson }}",
			Prompt{Tools: tools},
			`[{"type": "function", "function": {"name": "f", "description": "d", ` +
				`"parameters": {"type": "object", "properties": {"b": {}, "a": {}}}}}]`,
		},
		{"tools that are not given", "{{ tools is defined }}", Prompt{}, "False"},
		{
			"extra variables", "{{ enable_thinking }}",
			Prompt{Args: map[string]json.RawMessage{"enable_thinking": json.RawMessage("false")}},
			"False",
		},
		{"the time", "{{ strftime_now('%d %b %Y, %H:%M %-d %q') }}", Prompt{Now: now}, "04 Mar 2026, 05:06 4 %q"},
		{"a short range", "{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(5, 1, -2) %}{{ i }}{% endfor %}", Prompt{}, "01253"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl, err := Parse(tt.source, Tokens{"<s>", "</s>"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := tmpl.Render(tt.p)
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	tests := []struct{ name, source, want string }{
		{"the template's own words", "{{ raise_exception('roles must alternate') }}", "roles must alternate"},
		{"an unknown filter", "{{ messages | no_such_filter }}", "cannot render"},
		{"a range without end", "{% for i in range(10000000000) %}{% endfor %}", "range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl, err := Parse(tt.source, Tokens{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = tmpl.Render(Prompt{Messages: []infer.Message{say(infer.User, "x")}})
			if infer.KindOf(err) != infer.ErrInvalid || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in an error of kind %s", err, tt.want, infer.ErrInvalid)
			}
		})
	}
	if _, err := Parse("{% if %}", Tokens{}); err == nil {
		t.Error("half a template compiles")
	}
}

func TestArgsKeepToThemselves(t *testing.T) {
	tmpl, err := Parse("{{ x }}", Tokens{})
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]string{
		"messages": "[]", "tools": "[]", "range": "1", "__out": "1", "x": "{", "y": "[1] 2", "z": strings.Repeat("[", 1000),
	}
	for name, raw := range args {
		_, err := tmpl.Render(Prompt{Args: map[string]json.RawMessage{name: json.RawMessage(raw)}})
		if e, ok := errors.AsType[*infer.Error](err); !ok || e.Kind != infer.ErrInvalid || e.Param != "chat_template_kwargs."+name {
			t.Errorf("%s: got %v, want an error of kind %s about it", name, err, infer.ErrInvalid)
		}
	}
}
