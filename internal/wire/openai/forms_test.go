package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// The forms that clients send the same thing in, and the edges of the encoders.

// refusal is an expected *infer.Error; its zero value expects none.
type refusal struct {
	kind  infer.ErrorKind
	param string
}

func checkRefusal(t *testing.T, err error, want refusal) {
	t.Helper()
	e, _ := errors.AsType[*infer.Error](err)
	if err != nil && e == nil {
		t.Fatalf("not an *infer.Error: %v", err)
	}
	got := refusal{}
	if e != nil {
		got = refusal{e.Kind, e.Param}
	}
	if got != want {
		t.Fatalf("refused as %+v (%v), want %+v", got, err, want)
	}
}

const twoTools = `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`

func TestToolChoiceForms(t *testing.T) {
	tests := []struct {
		name, choice string
		want         infer.ToolChoice
		tools        string
		refused      refusal
	}{
		{name: "absent", choice: `null`, tools: "f g"},
		{name: "auto", choice: `"auto"`, want: infer.ToolChoice{Mode: infer.ToolAuto}, tools: "f g"},
		{name: "none", choice: `"none"`, want: infer.ToolChoice{Mode: infer.ToolNone}, tools: "f g"},
		{name: "required", choice: `"required"`, want: infer.ToolChoice{Mode: infer.ToolRequired}, tools: "f g"},
		{name: "any", choice: `"any"`, want: infer.ToolChoice{Mode: infer.ToolRequired}, tools: "f g"},
		{name: "word as object", choice: `{"type":"auto"}`, want: infer.ToolChoice{Mode: infer.ToolAuto}, tools: "f g"},
		{
			name: "named", choice: `{"type":"function","function":{"name":"g"}}`,
			want: infer.ToolChoice{Mode: infer.ToolNamed, Name: "g"}, tools: "f g",
		},
		{
			name: "named, flat", choice: `{"type":"function","name":"g"}`,
			want: infer.ToolChoice{Mode: infer.ToolNamed, Name: "g"}, tools: "f g",
		},
		{
			name: "allowed", choice: `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}}`,
			want: infer.ToolChoice{Mode: infer.ToolRequired}, tools: "g",
		},
		{
			name: "allowed, flat", choice: `{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}`,
			want: infer.ToolChoice{Mode: infer.ToolAuto}, tools: "f",
		},
		{name: "unknown word", choice: `"maybe"`, refused: refusal{infer.ErrInvalid, "tool_choice"}},
		{name: "wrong type", choice: `5`, refused: refusal{infer.ErrInvalid, "tool_choice"}},
		{name: "unknown type", choice: `{"type":"x"}`, refused: refusal{infer.ErrInvalid, "tool_choice.type"}},
		{name: "custom", choice: `{"type":"custom","custom":{"name":"f"}}`, refused: refusal{infer.ErrUnsupported, "tool_choice"}},
		{name: "no name", choice: `{"type":"function","function":{}}`, refused: refusal{infer.ErrInvalid, "tool_choice.function.name"}},
		{name: "unknown tool", choice: `{"type":"function","name":"h"}`, refused: refusal{infer.ErrInvalid, "tool_choice.name"}},
		{
			name: "allowed, unknown tool", choice: `{"type":"allowed_tools","mode":"auto","tools":[{"name":"f"},{"name":"h"}]}`,
			refused: refusal{infer.ErrInvalid, "tool_choice.tools[1].name"},
		},
		{
			name: "allowed, no mode", choice: `{"type":"allowed_tools","tools":[{"name":"f"}]}`,
			refused: refusal{infer.ErrInvalid, "tool_choice.mode"},
		},
		{
			name: "allowed, none", choice: `{"type":"allowed_tools","mode":"auto","tools":[]}`,
			refused: refusal{infer.ErrInvalid, "tool_choice.tools"},
		},
		{
			name: "allowed, missing", choice: `{"type":"allowed_tools","allowed_tools":{"mode":"auto"}}`,
			refused: refusal{infer.ErrInvalid, "tool_choice.allowed_tools.tools"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeChat([]byte(`{` + hi + `,` + twoTools + `,"tool_choice":` + tt.choice + `}`))
			checkRefusal(t, err, tt.refused)
			if err != nil {
				return
			}
			var names []string
			for _, tool := range got.Infer.Tools {
				names = append(names, tool.Name)
			}
			if strings.Join(names, " ") != tt.tools || got.Infer.ToolChoice != tt.want {
				t.Errorf("tools %v, choice %+v; want %s, %+v", names, got.Infer.ToolChoice, tt.tools, tt.want)
			}
		})
	}
}

func TestToolForms(t *testing.T) {
	tests := []struct {
		name, tool string
		want       []infer.Tool
		dropped    []string
		refused    refusal
	}{
		{name: "strict", tool: `{"type":"function","function":{"name":"f","strict":true}}`, want: []infer.Tool{{Name: "f", Strict: true}}},
		{name: "no type", tool: `{"function":{"name":"f","parameters":null}}`, want: []infer.Tool{{Name: "f"}}},
		{name: "hosted", tool: `{"type":"web_search"}`, dropped: []string{"tools[0] (web_search)"}},
		{name: "custom", tool: `{"type":"custom","custom":{"name":"f"}}`, refused: refusal{infer.ErrUnsupported, "tools[0].type"}},
		{name: "no object", tool: `"f"`, refused: refusal{infer.ErrInvalid, "tools[0]"}},
		{name: "type is no string", tool: `{"type":1}`, refused: refusal{infer.ErrInvalid, "tools[0].type"}},
		{
			name: "schema is a string", tool: `{"type":"function","function":{"name":"f","parameters":"{}"}}`,
			refused: refusal{infer.ErrInvalid, "tools[0].function.parameters"},
		},
		{name: "flat, no name", tool: `{"type":"function"}`, refused: refusal{infer.ErrInvalid, "tools[0].name"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeChat([]byte(`{` + hi + `,"tools":[` + tt.tool + `]}`))
			checkRefusal(t, err, tt.refused)
			if err != nil {
				return
			}
			if d := cmp.Diff(tt.want, got.Infer.Tools); d != "" {
				t.Errorf("tools (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.dropped, got.Dropped); d != "" {
				t.Errorf("dropped (-want +got):\n%s", d)
			}
		})
	}
}

func TestMessageForms(t *testing.T) {
	text := func(s string) []infer.Part { return []infer.Part{{Text: s}} }
	tests := []struct {
		name, message string
		want          infer.Message
		refused       refusal
	}{
		{name: "name", message: `{"role":"user","name":"ann","content":"a"}`, want: infer.Message{Role: infer.User, Name: "ann", Parts: text("a")}},
		{name: "empty content", message: `{"role":"user","content":""}`, want: infer.Message{Role: infer.User}},
		{
			name: "parts of the Responses API", message: `{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:,"}]}`,
			want: infer.Message{Role: infer.User, Parts: []infer.Part{
				{Text: "a"}, {Image: &infer.Image{URL: "data:,", Param: "messages[0].content[1].image_url"}},
			}},
		},
		{name: "empty part", message: `{"role":"user","content":[{"type":"text","text":""}]}`, want: infer.Message{Role: infer.User}},
		{name: "old tool result", message: `{"role":"function","name":"f","content":"x"}`, want: infer.Message{Role: infer.ToolRole, Name: "f", Parts: text("x")}},
		{name: "tool without content", message: `{"role":"tool","tool_call_id":"c"}`, want: infer.Message{Role: infer.ToolRole, ToolCallID: "c"}},
		{name: "bare assistant", message: `{"role":"assistant"}`, want: infer.Message{Role: infer.Assistant}},
		{name: "refusal", message: `{"role":"assistant","content":null,"refusal":"no"}`, want: infer.Message{Role: infer.Assistant, Parts: text("no")}},
		{name: "refusal part", message: `{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`, want: infer.Message{Role: infer.Assistant, Parts: text("no")}},
		{name: "reasoning", message: `{"role":"assistant","content":"a","reasoning":"r"}`, want: infer.Message{Role: infer.Assistant, Parts: text("a"), Reasoning: "r"}},
		{name: "reasoning as an object", message: `{"role":"assistant","content":"a","reasoning":{"x":1}}`, want: infer.Message{Role: infer.Assistant, Parts: text("a")}},
		{
			name: "arguments as an object", message: `{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"z": 1,"a":2}}}]}`,
			want: infer.Message{Role: infer.Assistant, ToolCalls: []infer.ToolCall{{ID: "c", Name: "f", Arguments: `{"z": 1,"a":2}`}}},
		},
		{
			name: "old call", message: `{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`,
			want: infer.Message{Role: infer.Assistant, ToolCalls: []infer.ToolCall{{ID: "call_0_0", Name: "f", Arguments: `{}`}}},
		},
		{name: "last of a name counts", message: `{"role":"king","role":"user","content":5,"content":"a"}`, want: infer.Message{Role: infer.User, Parts: text("a")}},
		{name: "names are exact", message: `{"role":"user","Role":"king","content":"a","CONTENT":5}`, want: infer.Message{Role: infer.User, Parts: text("a")}},
		{name: "no content", message: `{"role":"user"}`, refused: refusal{infer.ErrInvalid, "messages[0].content"}},
		{name: "null content", message: `{"role":"system","content":null}`, refused: refusal{infer.ErrInvalid, "messages[0].content"}},
		{name: "no role", message: `{"content":"a"}`, refused: refusal{infer.ErrInvalid, "messages[0].role"}},
		{name: "role is no string", message: `{"role":1,"content":"a"}`, refused: refusal{infer.ErrInvalid, "messages[0].role"}},
		{name: "part without type", message: `{"role":"user","content":[{"text":"a"}]}`, refused: refusal{infer.ErrInvalid, "messages[0].content[0].type"}},
		{name: "part without text", message: `{"role":"user","content":[{"type":"text"}]}`, refused: refusal{infer.ErrInvalid, "messages[0].content[0].text"}},
		{name: "unknown part", message: `{"role":"user","content":[{"type":"smell"}]}`, refused: refusal{infer.ErrUnsupported, "messages[0].content[0].type"}},
		{name: "file", message: `{"role":"user","content":[{"type":"file","file":{}}]}`, refused: refusal{infer.ErrUnsupported, "messages[0].content[0].file"}},
		{name: "image without address", message: `{"role":"user","content":[{"type":"image_url","image_url":{}}]}`, refused: refusal{infer.ErrInvalid, "messages[0].content[0].image_url"}},
		{name: "empty address", message: `{"role":"user","content":[{"type":"image_url","image_url":""}]}`, refused: refusal{infer.ErrInvalid, "messages[0].content[0].image_url"}},
		{name: "custom call", message: `{"role":"assistant","tool_calls":[{"type":"custom"}]}`, refused: refusal{infer.ErrUnsupported, "messages[0].tool_calls[0].type"}},
		{name: "call without function", message: `{"role":"assistant","tool_calls":[{"id":"c"}]}`, refused: refusal{infer.ErrInvalid, "messages[0].tool_calls[0].function"}},
		{name: "call without name", message: `{"role":"assistant","tool_calls":[{"function":{}}]}`, refused: refusal{infer.ErrInvalid, "messages[0].tool_calls[0].function.name"}},
		{
			name: "arguments as a number", message: `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":1}}]}`,
			refused: refusal{infer.ErrInvalid, "messages[0].tool_calls[0].function.arguments"},
		},
		{name: "message of commas", message: `{` + strings.Repeat(`"a":1,`, 2000) + `"role":"user"}`, refused: refusal{infer.ErrInvalid, "messages[0]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeChat([]byte(`{"messages":[` + tt.message + `]}`))
			checkRefusal(t, err, tt.refused)
			if err != nil {
				return
			}
			if d := cmp.Diff([]infer.Message{tt.want}, got.Infer.Messages); d != "" {
				t.Errorf("message (-want +got):\n%s", d)
			}
		})
	}
}

// TestCaseC33CallsWithoutID: identifiers that are missing are made, the same for a call and its result.
func TestCaseC33CallsWithoutID(t *testing.T) {
	got, err := DecodeChat([]byte(`{"messages":[{"role":"user","content":"q"},` +
		`{"role":"assistant","tool_calls":[{"id":null,"function":{"name":"f"}},{"id":"own","function":{"name":"g"}},{"function":{"name":"h"}}]},` +
		`{"role":"tool","content":"1"},{"role":"tool","tool_call_id":"own","content":"2"},{"role":"tool","tool_call_id":null,"content":"3"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := got.Infer.Messages
	calls := []string{m[1].ToolCalls[0].ID, m[1].ToolCalls[1].ID, m[1].ToolCalls[2].ID}
	results := []string{m[2].ToolCallID, m[3].ToolCallID, m[4].ToolCallID}
	if d := cmp.Diff([]string{"call_1_0", "own", "call_1_2"}, calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if d := cmp.Diff(calls, results); d != "" {
		t.Errorf("results (-call +result):\n%s", d)
	}
}

func TestOtherFields(t *testing.T) {
	tests := []struct {
		name, fields string
		check        func(r *infer.Request) bool
		refused      refusal
	}{
		{name: "no bound", fields: `"max_tokens":-1`, check: func(r *infer.Request) bool { return r.MaxTokens == 0 }},
		{name: "whole float", fields: `"max_tokens":16.0`, check: func(r *infer.Request) bool { return r.MaxTokens == 16 }},
		{name: "huge bound", fields: `"max_tokens":1e30`, check: func(r *infer.Request) bool { return r.MaxTokens == math.MaxInt32 }},
		{name: "zero tokens", fields: `"max_tokens":0`, refused: refusal{infer.ErrInvalid, "max_tokens"}},
		{name: "half a token", fields: `"max_completion_tokens":1.5`, refused: refusal{infer.ErrInvalid, "max_completion_tokens"}},
		{name: "top_k off", fields: `"top_k":-1`, check: func(r *infer.Request) bool { return *r.Sampling.TopK == 0 }},
		{name: "repetition zero", fields: `"repetition_penalty":0`, refused: refusal{infer.ErrInvalid, "repetition_penalty"}},
		{name: "number too large", fields: `"temperature":1e999`, refused: refusal{infer.ErrInvalid, "temperature"}},
		{name: "seed as a float", fields: `"seed":1.5`, refused: refusal{infer.ErrInvalid, "seed"}},
		{name: "empty stops", fields: `"stop":["","a"]`, check: func(r *infer.Request) bool { return len(r.Stop) == 1 && r.Stop[0] == "a" }},
		{name: "ignore_eos", fields: `"ignore_eos":true`, check: func(r *infer.Request) bool { return r.IgnoreEOS }},
		{name: "effort inside", fields: `"reasoning":{"effort":"low"}`, check: func(r *infer.Request) bool { return r.ReasoningEffort == "low" }},
		{
			name: "effort twice", fields: `"reasoning":{"effort":"low"},"reasoning_effort":"high"`,
			check: func(r *infer.Request) bool { return r.ReasoningEffort == "high" },
		},
		{name: "last of a field counts", fields: `"seed":"x","seed":4`, check: func(r *infer.Request) bool { return *r.Sampling.Seed == 4 }},
		{name: "text modality", fields: `"modalities":["text"]`, check: func(*infer.Request) bool { return true }},
		{name: "no functions", fields: `"functions":[],"function_call":"auto","n":1`, check: func(*infer.Request) bool { return true }},
		{
			name: "schema beside the type", fields: `"response_format":{"type":"json_object","schema":{"type":"array"}}`,
			check: func(r *infer.Request) bool {
				return r.Format.Kind == infer.FormatJSONSchema && string(r.Format.Schema) == `{"type":"array"}`
			},
		},
		{name: "schema missing", fields: `"response_format":{"type":"json_schema","json_schema":{"name":"x"}}`, refused: refusal{infer.ErrInvalid, "response_format.json_schema.schema"}},
		{name: "schema is a list", fields: `"response_format":{"type":"json_schema","schema":[]}`, refused: refusal{infer.ErrInvalid, "response_format.schema"}},
		{name: "bias too strong", fields: `"logit_bias":{"5":101}`, refused: refusal{infer.ErrInvalid, "logit_bias.5"}},
		{name: "audio modality", fields: `"modalities":["text","audio"]`, refused: refusal{infer.ErrUnsupported, "modalities"}},
		{name: "stream options", fields: `"stream_options":{"include_usage":1}`, refused: refusal{infer.ErrInvalid, "stream_options.include_usage"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeChat([]byte(" {" + hi + "," + tt.fields + "}\n"))
			checkRefusal(t, err, tt.refused)
			if err == nil && !tt.check(got.Infer) {
				t.Errorf("%s became %+v", tt.fields, got.Infer)
			}
		})
	}
}

// TestErrorsRepeatLittle: a value of the client's is repeated in part, not whole, and never cut inside a character.
func TestErrorsRepeatLittle(t *testing.T) {
	_, err := DecodeChat([]byte(`{"messages":[{"role":"` + strings.Repeat("\u20ac", 100000) + `"}]}`))
	if err == nil || len(err.Error()) > 300 || strings.ContainsRune(err.Error(), '\ufffd') {
		t.Errorf("%d bytes: %.200v", len(fmt.Sprint(err)), err)
	}
}

// TestEncodeChatGolden pins the whole of a request to an engine, byte for byte.
func TestEncodeChatGolden(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	k, seed, no := 40, int64(-7), false
	body, err := EncodeChat("m", &infer.Request{
		Kind: infer.Chat,
		Messages: []infer.Message{
			{Role: infer.System, Parts: []infer.Part{{Text: "a"}, {Text: "b"}}},
			{Role: infer.User, Name: "ann", Parts: []infer.Part{{Text: "see"}, {Image: &infer.Image{URL: "data:,x"}}}},
			{Role: infer.Assistant, Reasoning: "r", ToolCalls: []infer.ToolCall{
				{ID: "c0", Name: "f", Arguments: `{"z": 1}`}, {ID: "c1", Name: "f"}, {ID: "c2", Name: "f", Arguments: `{"cut`},
			}},
			{Role: infer.ToolRole, ToolCallID: "c0", Parts: []infer.Part{{Text: "out"}}},
		},
		Tools: []infer.Tool{
			{Name: "f", Description: "d", Parameters: json.RawMessage(`{"z":1, "a":2}`), Strict: true}, {Name: "g"},
		},
		ToolChoice: infer.ToolChoice{Mode: infer.ToolNamed, Name: "g"}, ParallelTools: &no,
		TemplateArgs:    map[string]json.RawMessage{"b": json.RawMessage("1"), "a": json.RawMessage("true")},
		ReasoningEffort: "low",
		Format:          infer.Format{Kind: infer.FormatJSONSchema, Schema: json.RawMessage(`{"type":"object"}`), Strict: true},
		Sampling: infer.Sampling{
			Temperature: f(0), TopP: f(0.9), TopK: &k, MinP: f(0.05), FrequencyPenalty: f(-1), PresencePenalty: f(1),
			RepetitionPenalty: f(1.1), Seed: &seed, LogitBias: map[int]float64{9: 1, 2: -100},
		},
		MaxTokens: 5, Stop: []string{"\n", "x"}, Logprobs: true, TopLogprobs: 2, IgnoreEOS: true,
	})
	if err != nil || rawjson.Check(body) != nil {
		t.Fatalf("%v, %v in %s", err, rawjson.Check(body), body)
	}
	golden(t, "full.request.json", append(body, '\n'))
}

func TestEncodeSmall(t *testing.T) {
	const rest = `,"stream":true,"stream_options":{"include_usage":true}}`
	tests := []struct {
		name   string
		encode func(string, *infer.Request) ([]byte, error)
		req    infer.Request
		want   string
	}{
		{
			"tokens", EncodeCompletion,
			infer.Request{Kind: infer.Completion, PromptTokens: []int{1, 2}, Suffix: "s", Logprobs: true},
			`{"model":"m","prompt":[1,2],"suffix":"s","logprobs":0` + rest,
		},
		{
			"json_object", EncodeCompletion,
			infer.Request{Kind: infer.Completion, Prompt: "p", Format: infer.Format{Kind: infer.FormatJSONObject}},
			`{"model":"m","prompt":"p","response_format":{"type":"json_object"}` + rest,
		},
		{
			"choice by a word", EncodeChat,
			infer.Request{Kind: infer.Chat, Tools: []infer.Tool{{Name: "f"}}, ToolChoice: infer.ToolChoice{Mode: infer.ToolRequired}},
			`{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],"tool_choice":"required"` + rest,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.encode("m", &tt.req)
			if err != nil || string(got) != tt.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, tt.want)
			}
		})
	}
	if _, err := EncodeChat("m", &infer.Request{Kind: infer.Completion}); infer.KindOf(err) != infer.ErrInternal {
		t.Errorf("a completion as a chat: %v", err)
	}
	if _, err := EncodeCompletion("m", &infer.Request{Kind: infer.Chat}); infer.KindOf(err) != infer.ErrInternal {
		t.Errorf("a chat as a completion: %v", err)
	}
}

// TestCaseC24StreamAndWholeAgree: what a client joins from the chunks is what it gets as a whole, calls included.
func TestCaseC24StreamAndWholeAgree(t *testing.T) {
	for name, events := range answers {
		content, reasoning, args := contents(t, stream(NewChatStream(head), events))
		a := NewChatAnswer(head)
		for _, ev := range events {
			a.Add(ev)
		}
		body, err := a.Body()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Choices []struct {
				Message struct {
					Content   string `json:"content"`
					Reasoning string `json:"reasoning_content"`
					ToolCalls []struct {
						Function struct{ Arguments string } `json:"function"`
					} `json:"tool_calls"`
				} `json:"message"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		m := got.Choices[0].Message
		var joined string
		for _, c := range m.ToolCalls {
			joined += c.Function.Arguments
		}
		if m.Content != content || m.Reasoning != reasoning || joined != args {
			t.Errorf("%s: stream %q, %q, %q; whole %q, %q, %q", name, content, reasoning, args, m.Content, m.Reasoning, joined)
		}
	}
}

func TestEncoderEdges(t *testing.T) {
	t.Run("a call without an identifier", func(t *testing.T) {
		s := NewChatStream(head)
		out := string(s.Append(nil, infer.ToolStart{Name: "f"}))
		if !strings.Contains(out, `"id":"call_1_0"`) {
			t.Errorf("no identifier from the answer's own: %s", out)
		}
		a := NewChatAnswer(head)
		a.Add(infer.ToolStart{Name: "f"})
		a.Add(infer.Done{Reason: infer.StopTools})
		if body, err := a.Body(); err != nil || !strings.Contains(string(body), `"id":"call_1_0"`) {
			t.Errorf("the whole answer differs: %v, %s", err, body)
		}
	})
	t.Run("what comes out of order is left out", func(t *testing.T) {
		s := NewChatStream(head)
		if out := s.Append(nil, infer.ToolArgs{Index: 3, Text: "{"}); len(out) != 0 {
			t.Errorf("arguments of a call that was not opened: %s", out)
		}
		if out := s.Append(nil, infer.Progress{Done: 1, Total: 2}); len(out) != 0 {
			t.Errorf("progress is not part of the answer: %s", out)
		}
		if out := s.Append(nil, infer.Text{}); len(out) != 0 {
			t.Errorf("an empty piece gives a frame: %s", out)
		}
	})
	t.Run("half a character where the field changes", func(t *testing.T) {
		out := stream(NewChatStream(head), []infer.Event{
			infer.Reasoning{Text: "r\xe2\x82"},
			infer.Text{Text: "t\xf0"},
			infer.ToolStart{Name: "f"},
			infer.ToolArgs{Text: "{\xe2"},
			infer.Done{Reason: infer.StopLength},
		})
		content, reasoning, args := contents(t, out)
		if reasoning != "r\ufffd\ufffd" || content != "t\ufffd" || args != "{\ufffd" {
			t.Errorf("got %q, %q, %q", reasoning, content, args)
		}
	})
	t.Run("no logarithm of zero", func(t *testing.T) {
		lp := []infer.TokenLogprob{{Token: "\xe2", Bytes: []byte{0xe2}, Logprob: math.Inf(-1), Top: []infer.TokenLogprob{{Token: "a", Logprob: math.NaN()}}}}
		chat := string(NewChatStream(head).Append(nil, infer.Text{Text: "\xe2", Logprobs: lp}))
		text := string(NewCompletionStream(head).Append(nil, infer.Text{Text: "\xe2", Logprobs: lp}))
		if strings.Count(chat, "-9999") != 2 || !strings.Contains(chat, `"bytes":[226]`) {
			t.Errorf("chat: %s", chat)
		}
		if strings.Count(text, "-9999") != 2 || !strings.Contains(text, `"bytes:\\xe2"`) {
			t.Errorf("completion: %s", text)
		}
	})
	t.Run("completion", func(t *testing.T) {
		s := NewCompletionStream(head)
		out := s.AppendHeartbeat(s.Append(nil, infer.Reasoning{Text: "raw"}))
		out = s.AppendEnd(s.AppendError(out, errors.New("x")))
		if got := string(out); !strings.Contains(got, `"text":"raw"`) || !strings.Contains(got, ": keepalive\n\n") ||
			!strings.Contains(got, `"code":"internal_error"`) || strings.Contains(got, "[DONE]") {
			t.Errorf("%s", got)
		}
		a := NewCompletionAnswer(head)
		a.Add(infer.Reasoning{Text: "raw"})
		a.Add(infer.Done{Reason: infer.StopFilter})
		a.Add(infer.Text{Text: "late"})
		if body, err := a.Body(); err != nil || !strings.Contains(string(body), `"text":"raw","logprobs":null,"finish_reason":"content_filter"`) {
			t.Errorf("%v, %s", err, body)
		}
	})
}

func TestErrorCodesThatClientsActOn(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"bad JSON has no code", infer.Errorf(infer.ErrInvalid, "", "m"), `"param":null,"code":null`},
		{"bad image", infer.Errorf(infer.ErrInvalid, "messages[0].content[1].image_url", "m"), `"code":"invalid_image"`},
		{"image to a text model", infer.Errorf(infer.ErrUnsupported, "messages[0].content[1].image_url", "m"), `"code":"unsupported_content"`},
		{"long prompt", &infer.Error{Kind: infer.ErrContextLength, Param: "prompt", PromptTokens: 9, Window: 8}, "your prompt resulted in 9 tokens"},
		{"long, window unknown", infer.Errorf(infer.ErrContextLength, "", "too long"), `"message":"too long"`},
		{"client gone", fmt.Errorf("read: %w", context.Canceled), `"code":"canceled"`},
		{"wrapped", fmt.Errorf("path /secret: %w", infer.Errorf(infer.ErrEngine, "", "m")), `"message":"m","type":"server_error"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, body := ErrorBody(tt.err); !strings.Contains(string(body), tt.want) || strings.Contains(string(body), "secret") {
				t.Errorf("no %s in %s", tt.want, body)
			}
		})
	}
}

// TestEventPathAllocatesNothing: the other pieces of the relay are as cheap as text, cut characters included.
func TestEventPathAllocatesNothing(t *testing.T) {
	for name, evs := range map[string][]infer.Event{
		"reasoning":      {infer.Reasoning{Text: " thought"}},
		"arguments":      {infer.ToolArgs{Text: `{"a":"\u00e9"}`}},
		"cut characters": {infer.Text{Text: "a\xe6\x9d"}, infer.Text{Text: "\xb1b"}},
	} {
		s := NewChatStream(head)
		buf := s.Append(make([]byte, 0, 1<<14), infer.ToolStart{Name: "f"})
		if n := testing.AllocsPerRun(1000, func() {
			buf = buf[:0]
			for _, ev := range evs {
				buf = s.Append(buf, ev)
			}
		}); n > 0 {
			t.Errorf("%s: %g allocations for an event", name, n)
		}
	}
}
