package openai

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
)

// fullChat has every field of a chat that can be set.
func fullChat() *infer.Request {
	f := func(v float64) *float64 { return &v }
	k, seed, no := 40, int64(-7), false
	return &infer.Request{
		Kind: infer.Chat,
		Messages: []infer.Message{
			{Role: infer.System, Parts: []infer.Part{{Text: "be\nbrief"}}},
			{Role: infer.User, Name: "Ann", Parts: []infer.Part{{Text: "what is "}, {Image: &infer.Image{URL: "data:image/png;base64,AA", Param: "messages[1].content[1].image_url"}}}},
			{Role: infer.Assistant, Reasoning: "hm", ToolCalls: []infer.ToolCall{{ID: "c1", Name: "f", Arguments: `{"z":1, "a":2}`}}},
			{Role: infer.ToolRole, ToolCallID: "c1", Parts: []infer.Part{{Text: "größe"}}},
		},
		Tools: []infer.Tool{
			{Name: "f", Description: "does f", Parameters: json.RawMessage(`{"type":"object", "properties":{"z":{},"a":{}}}`), Strict: true},
			{Name: "g", Parameters: json.RawMessage(noParameters)},
		},
		ToolChoice:      infer.ToolChoice{Mode: infer.ToolNamed, Name: "f"},
		ParallelTools:   &no,
		TemplateArgs:    map[string]json.RawMessage{"enable_thinking": json.RawMessage("false"), "a": json.RawMessage(`"b"`)},
		ReasoningEffort: "low",
		Format:          infer.Format{Kind: infer.FormatJSONSchema, Name: "x", Schema: json.RawMessage(`{"type":"object"}`), Strict: true},
		Sampling: infer.Sampling{
			Temperature: f(0), TopP: f(0.5), TopK: &k, MinP: f(0.1), FrequencyPenalty: f(-1), PresencePenalty: f(1),
			RepetitionPenalty: f(1.1), Seed: &seed, LogitBias: map[int]float64{9: 1.5, 5: -100},
		},
		MaxTokens: 50, Stop: []string{"a", "\n"}, Logprobs: true, TopLogprobs: 3, IgnoreEOS: true,
	}
}

func fullCompletion() *infer.Request {
	r := fullChat()
	return &infer.Request{
		Kind: infer.Completion, Prompt: "def f(", Suffix: "return 1", Format: infer.Format{Kind: infer.FormatJSONObject},
		Sampling: r.Sampling, MaxTokens: 50, Stop: r.Stop, Logprobs: true, TopLogprobs: 2, IgnoreEOS: true,
	}
}

// TestEverythingSentIsRead: our own decoders read from an encoded request all that was in it.
func TestEverythingSentIsRead(t *testing.T) {
	body, err := EncodeChat("org/m", fullChat())
	if err != nil {
		t.Fatal(err)
	}
	chat, err := DecodeChat(body)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fullChat(), chat.Infer); d != "" {
		t.Errorf("chat (-sent +read):\n%s", d)
	}

	if body, err = EncodeCompletion("org/m", fullCompletion()); err != nil {
		t.Fatal(err)
	}
	text, err := DecodeCompletion(body)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fullCompletion(), text.Infer); d != "" {
		t.Errorf("completion (-sent +read):\n%s", d)
	}
}

func TestEncodedForms(t *testing.T) {
	hello := []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: "hi"}}}}
	call := func(args string) *infer.Request {
		return &infer.Request{Messages: []infer.Message{{Role: infer.Assistant, ToolCalls: []infer.ToolCall{{ID: "c", Name: "f", Arguments: args}}}}}
	}
	nan := math.NaN()
	tests := map[string]struct {
		r           *infer.Request
		field, want string
	}{
		"text in parts is one string": {
			&infer.Request{Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: "a"}, {Text: "b"}}}}},
			"messages", `[{"role":"user","content":"ab"}]`,
		},
		"arguments are repeated": {call(`{"a": 1}`), "messages", `[{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]}]`},
		"no arguments":           {call(``), "messages", `[{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]`},
		"cut arguments are kept as text": {
			call(`{"a`), "messages",
			`[{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"_raw\":\"{\\\"a\"}"}}]}]`,
		},
		"a tool without parameters": {
			&infer.Request{Messages: hello, Tools: []infer.Tool{{Name: "f"}}}, "tools",
			`[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]`,
		},
		"a mode":                  {&infer.Request{Messages: hello, Tools: []infer.Tool{{Name: "f"}}, ToolChoice: infer.ToolChoice{Mode: infer.ToolRequired}}, "tool_choice", `"required"`},
		"a choice without tools":  {&infer.Request{Messages: hello, ToolChoice: infer.ToolChoice{Mode: infer.ToolAuto}}, "tool_choice", ``},
		"parallel without tools":  {&infer.Request{Messages: hello, ParallelTools: new(bool)}, "parallel_tool_calls", ``},
		"any JSON":                {&infer.Request{Messages: hello, Format: infer.Format{Kind: infer.FormatJSONObject}}, "response_format", `{"type":"json_object"}`},
		"a schema without a name": {&infer.Request{Messages: hello, Format: infer.Format{Kind: infer.FormatJSONSchema, Schema: json.RawMessage(`{}`)}}, "response_format", `{"type":"json_schema","json_schema":{"name":"answer","schema":{}}}`},
		"no number is no JSON":    {&infer.Request{Messages: hello, Sampling: infer.Sampling{Temperature: &nan}}, "temperature", `null`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.r.Kind = infer.Chat
			body, err := EncodeChat("m", tt.r)
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(body, &fields); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
			if got := string(fields[tt.field]); got != tt.want {
				t.Errorf("%s is\n     %s\nwant %s", tt.field, got, tt.want)
			}
		})
	}
}

// FuzzEncodeChat: whatever text is in a request, the body is JSON that our own decoder reads back.
func FuzzEncodeChat(f *testing.F) {
	f.Add("text", "f", `{"a":1}`, "c")
	f.Add("\u2028\"\\\x00", "größe", `{"a`, "")
	f.Add("\xff", "f", "\xe6\x9d", "x")
	f.Fuzz(func(t *testing.T, text, name, args, id string) {
		if name == "" {
			return // a call without a name is refused on the way in
		}
		body, err := EncodeChat(name, &infer.Request{Kind: infer.Chat, Stop: []string{text + "x"}, Messages: []infer.Message{
			{Role: infer.User, Name: name, Parts: []infer.Part{{Text: text}}},
			{Role: infer.Assistant, Reasoning: text, ToolCalls: []infer.ToolCall{{ID: id, Name: name, Arguments: args}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeChat(body)
		if err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		if a := got.Infer.Messages[1].ToolCalls[0].Arguments; !json.Valid([]byte(a)) {
			t.Errorf("arguments %q were sent as %q, which is no JSON", args, a)
		}
		if want := string([]rune(text)); got.Infer.Messages[0].Text() != want {
			t.Errorf("text %q was read back as %q", text, got.Infer.Messages[0].Text())
		}
	})
}
