package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

const hi = `"messages":[{"role":"user","content":"hi"}]`

func TestDecodeChatTakes(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	i := func(v int) *int { return &v }
	seed := int64(7)
	no := false
	user := []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: "hi"}}}}
	tests := map[string]struct {
		body string
		want infer.Request
	}{
		"plain": {`{` + hi + `}`, infer.Request{Messages: user}},
		"nulls are absent": {
			`{` + hi + `,"max_tokens":null,"temperature":null,"tools":null,"stop":null,"model":null,"seed":null,"response_format":null,"n":null}`,
			infer.Request{Messages: user},
		},
		"unknown and habitual fields": {`{` + hi + `,"safeguards":[1],"user":"u","metadata":{},"store":true,"service_tier":"x"}`, infer.Request{Messages: user}},
		"sampling": {
			`{` + hi + `,"temperature":0,"top_p":0.5,"top_k":3,"min_p":0.1,"frequency_penalty":-1,"presence_penalty":1,"repetition_penalty":1.1,"seed":7,"logit_bias":{"5":-100}}`,
			infer.Request{Messages: user, Sampling: infer.Sampling{
				Temperature: f(0), TopP: f(0.5), TopK: i(3), MinP: f(0.1), FrequencyPenalty: f(-1), PresencePenalty: f(1), RepetitionPenalty: f(1.1),
				Seed: &seed, LogitBias: map[int]float64{5: -100},
			}},
		},
		"max_completion_tokens wins": {`{` + hi + `,"max_tokens":5,"max_completion_tokens":9}`, infer.Request{Messages: user, MaxTokens: 9}},
		"stop as a string":           {`{` + hi + `,"stop":"a"}`, infer.Request{Messages: user, Stop: []string{"a"}}},
		"stop as a list":             {`{` + hi + `,"stop":["a","b"]}`, infer.Request{Messages: user, Stop: []string{"a", "b"}}},
		"logprobs":                   {`{` + hi + `,"logprobs":true,"top_logprobs":3}`, infer.Request{Messages: user, Logprobs: true, TopLogprobs: 3}},
		"text format":                {`{` + hi + `,"response_format":{"type":"text"}}`, infer.Request{Messages: user}},
		"json_object":                {`{` + hi + `,"response_format":{"type":"json_object"}}`, infer.Request{Messages: user, Format: infer.Format{Kind: infer.FormatJSONObject}}},
		"json_schema": {
			`{` + hi + `,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object", "b":1,"a":2}}}}`,
			infer.Request{Messages: user, Format: infer.Format{Kind: infer.FormatJSONSchema, Name: "x", Strict: true, Schema: json.RawMessage(`{"type":"object", "b":1,"a":2}`)}},
		},
		"no tools, but a choice": {`{` + hi + `,"tools":[],"tool_choice":"auto"}`, infer.Request{Messages: user}},
		"tools": {
			`{` + hi + `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"z":1, "a":2}}}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false}`,
			infer.Request{
				Messages: user, Tools: []infer.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"z":1, "a":2}`)}},
				ToolChoice: infer.ToolChoice{Mode: infer.ToolNamed, Name: "f"}, ParallelTools: &no,
			},
		},
		"flat tools": {
			`{` + hi + `,"tools":[{"type":"function","name":"f","parameters":{}}],"tool_choice":"required"}`,
			infer.Request{Messages: user, Tools: []infer.Tool{{Name: "f", Parameters: json.RawMessage(`{}`)}}, ToolChoice: infer.ToolChoice{Mode: infer.ToolRequired}},
		},
		"history": {
			`{"messages":[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},` +
				`{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},` +
				`{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"out"}]}]}`,
			infer.Request{Messages: []infer.Message{
				{Role: infer.Developer, Parts: []infer.Part{{Text: "d"}}},
				{Role: infer.User, Parts: []infer.Part{{Text: "a"}, {Text: "b"}}},
				{Role: infer.Assistant, Reasoning: "r", ToolCalls: []infer.ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":1}`}}},
				{Role: infer.ToolRole, ToolCallID: "c1", Parts: []infer.Part{{Text: "out"}}},
			}},
		},
		"image": {
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}]}`,
			infer.Request{Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{
				Image: &infer.Image{URL: "data:image/png;base64,AA", Param: "messages[0].content[0].image_url"},
			}}}}},
		},
		"template": {
			`{` + hi + `,"chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low"}`,
			infer.Request{Messages: user, TemplateArgs: map[string]json.RawMessage{"enable_thinking": json.RawMessage("false")}, ReasoningEffort: "low"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeChat([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Kind = infer.Chat
			if d := cmp.Diff(&tt.want, got.Infer); d != "" {
				t.Errorf("request (-want +got):\n%s", d)
			}
		})
	}
}

func TestDecodeChatStream(t *testing.T) {
	for body, want := range map[string][2]bool{
		`{` + hi + `}`:               {false, false},
		`{` + hi + `,"stream":true}`: {true, false},
		`{` + hi + `,"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}}`: {true, true},
		`{` + hi + `,"stream_options":{"include_usage":true}}`:                                           {false, false},
	} {
		got, err := DecodeChat([]byte(body))
		if err != nil || got.Stream != want[0] || got.IncludeUsage != want[1] {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}

// TestDecodeRefuses: what is wrong is refused with the path of the field.
func TestDecodeRefuses(t *testing.T) {
	chat := map[string]struct {
		kind  infer.ErrorKind
		param string
	}{
		``:                               {infer.ErrInvalid, ""},
		`[]`:                             {infer.ErrInvalid, ""},
		`{"messages"`:                    {infer.ErrInvalid, ""},
		"{\"messages\":\"\xff\"}":        {infer.ErrInvalid, ""},
		`{"messages":"\ud800"}`:          {infer.ErrInvalid, ""},
		`{}`:                             {infer.ErrInvalid, "messages"},
		`{"messages":[]}`:                {infer.ErrInvalid, "messages"},
		`{"messages":"hi"}`:              {infer.ErrInvalid, "messages"},
		`{"messages":[{"role":"king"}]}`: {infer.ErrInvalid, "messages[0].role"},
		`{"messages":[{"role":"user","content":5}]}`:                                         {infer.ErrInvalid, "messages[0].content"},
		`{"messages":[{"role":"user","content":[{"type":"text","text":5}]}]}`:                {infer.ErrInvalid, "messages[0].content[0].text"},
		`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]}`: {infer.ErrUnsupported, "messages[0].content[0].input_audio"},
		`{` + hi + `,"temperature":3}`:                                                       {infer.ErrInvalid, "temperature"},
		`{` + hi + `,"temperature":"hot"}`:                                                   {infer.ErrInvalid, "temperature"},
		`{` + hi + `,"top_p":1.5}`:                                                           {infer.ErrInvalid, "top_p"},
		`{` + hi + `,"max_tokens":"many"}`:                                                   {infer.ErrInvalid, "max_tokens"},
		`{` + hi + `,"n":2}`:                                                                 {infer.ErrUnsupported, "n"},
		`{` + hi + `,"grammar":"root ::= x"}`:                                                {infer.ErrUnsupported, "grammar"},
		`{` + hi + `,"logit_bias":{"x":1}}`:                                                  {infer.ErrInvalid, "logit_bias.x"},
		`{` + hi + `,"top_logprobs":3}`:                                                      {infer.ErrInvalid, "top_logprobs"},
		`{` + hi + `,"logprobs":true,"top_logprobs":21}`:                                     {infer.ErrInvalid, "top_logprobs"},
		`{` + hi + `,"stop":[1]}`:                                                            {infer.ErrInvalid, "stop[0]"},
		`{` + hi + `,"response_format":{"type":"xml"}}`:                                      {infer.ErrInvalid, "response_format.type"},
		`{` + hi + `,"tools":[{"type":"function","function":{}}]}`:                           {infer.ErrInvalid, "tools[0].function.name"},
		`{` + hi + `,"stream":"yes"}`:                                                        {infer.ErrInvalid, "stream"},
		`{"messages":[` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `]}`:       {infer.ErrInvalid, ""},
	}
	for body, want := range chat {
		t.Run(body[:min(len(body), 60)], func(t *testing.T) {
			_, err := DecodeChat([]byte(body))
			e, ok := errors.AsType[*infer.Error](err)
			if !ok || e.Kind != want.kind || e.Param != want.param || e.Message == "" {
				t.Errorf("%v (%s, param %q), want %s, param %q", err, infer.KindOf(err), paramOf(e), want.kind, want.param)
			}
		})
	}
}

func paramOf(e *infer.Error) string {
	if e == nil {
		return ""
	}
	return e.Param
}

func TestDecodeCompletion(t *testing.T) {
	good := map[string]infer.Request{
		`{"prompt":"a"}`:                                       {Prompt: "a", MaxTokens: 16},
		`{"prompt":["a"],"max_tokens":3}`:                      {Prompt: "a", MaxTokens: 3},
		`{"prompt":[1,2],"logprobs":2}`:                        {PromptTokens: []int{1, 2}, MaxTokens: 16, Logprobs: true, TopLogprobs: 2},
		`{"prompt":"a","suffix":"b","echo":false,"best_of":1}`: {Prompt: "a", Suffix: "b", MaxTokens: 16},
		`{"prompt":[[1,2]]}`:                                   {PromptTokens: []int{1, 2}, MaxTokens: 16},
		`{"prompt":"","max_tokens":-1}`:                        {},
		`{"prompt":"a","logprobs":0}`:                          {Prompt: "a", MaxTokens: 16, Logprobs: true},
		`{"prompt":"a","logprobs":true}`:                       {Prompt: "a", MaxTokens: 16, Logprobs: true},
		`{"prompt":"a","logprobs":false}`:                      {Prompt: "a", MaxTokens: 16},
	}
	for body, want := range good {
		got, err := DecodeCompletion([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		want.Kind = infer.Completion
		if d := cmp.Diff(&want, got.Infer); d != "" {
			t.Errorf("%s (-want +got):\n%s", body, d)
		}
	}
	bad := map[string]string{
		`{}`: "prompt", `{"prompt":["a","b"]}`: "prompt", `{"prompt":"a","echo":true}`: "echo", `{"prompt":"a","best_of":2}`: "best_of", `{"prompt":{}}`: "prompt",
		`{"prompt":"a","n":2}`: "n", `{"prompt":[]}`: "prompt", `{"prompt":[[]]}`: "prompt[0]", `{"prompt":[[1],2]}`: "prompt", `{"prompt":[[1],[2]]}`: "prompt",
		`{"prompt":[1,"a"]}`: "prompt[1]", `{"prompt":[-1]}`: "prompt[0]", `{"prompt":[1.5]}`: "prompt[0]", `{"prompt":[null]}`: "prompt[0]",
		`{"prompt":"a","suffix":1}`: "suffix", `{"prompt":"a","logprobs":21}`: "logprobs", `{"prompt":"a","logprobs":"x"}`: "logprobs",
	}
	for body, param := range bad {
		_, err := DecodeCompletion([]byte(body))
		e, ok := errors.AsType[*infer.Error](err)
		if !ok || e.Param != param {
			t.Errorf("%s: %v (param %q), want param %q", body, err, paramOf(e), param)
		}
	}
}

// TestFieldTables: every field that is refused by name is refused, and every one that is ignored is ignored, whatever it holds.
func TestFieldTables(t *testing.T) {
	for _, f := range ChatFields() {
		if f.Use == Honoured {
			continue
		}
		_, err := DecodeChat([]byte(`{` + hi + `,"` + f.Name + `":[{"x":17}]}`))
		if e, ok := errors.AsType[*infer.Error](err); (f.Use == Refused) != (ok && strings.HasPrefix(e.Param, f.Name)) || f.Note == "" {
			t.Errorf("%s is %s, and gives %v (note %q)", f.Name, f.Use, err, f.Note)
		}
	}
	for _, f := range CompletionFields() {
		if f.Use == Honoured {
			continue
		}
		_, err := DecodeCompletion([]byte(`{"prompt":"a","` + f.Name + `":[{"x":17}]}`))
		if e, ok := errors.AsType[*infer.Error](err); (f.Use == Refused) != (ok && strings.HasPrefix(e.Param, f.Name)) {
			t.Errorf("%s is %s, and gives %v", f.Name, f.Use, err)
		}
	}
}

// TestClientSpeaksWhatTheServerReads: what our own client encodes, our own server decodes to the same request.
func TestClientSpeaksWhatTheServerReads(t *testing.T) {
	zero, seed := 0.0, int64(3)
	chat := &infer.Request{
		Kind: infer.Chat, MaxTokens: 5, Stop: []string{"a"}, Sampling: infer.Sampling{Temperature: &zero, Seed: &seed},
		Messages: []infer.Message{{Role: infer.System, Parts: []infer.Part{{Text: "s"}}}, {Role: infer.User, Parts: []infer.Part{{Text: "größe \"x\""}}}},
	}
	body, err := EncodeChat("m", chat)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeChat(body)
	if err != nil || got.Model != "m" || !got.Stream || !got.IncludeUsage {
		t.Fatalf("%+v, %v from %s", got, err, body)
	}
	if d := cmp.Diff(chat, got.Infer); d != "" {
		t.Errorf("chat (-sent +read):\n%s", d)
	}
	text := &infer.Request{Kind: infer.Completion, Prompt: "p", MaxTokens: 5}
	if body, err = EncodeCompletion("m", text); err != nil {
		t.Fatal(err)
	}
	read, err := DecodeCompletion(body)
	if err != nil {
		t.Fatalf("%v from %s", err, body)
	}
	if d := cmp.Diff(text, read.Infer); d != "" {
		t.Errorf("completion (-sent +read):\n%s", d)
	}
}

func seeds(f *testing.F) {
	for _, s := range []string{
		`{` + hi + `}`, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}]}`, `{"prompt":[1,2],"stop":"x"}`,
		`{` + hi + `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required","response_format":{"type":"json_schema","schema":{}}}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"data:,"}]}],"logit_bias":{"1":2}}`, "\xff", `{`,
	} {
		f.Add([]byte(s))
	}
}

func FuzzDecodeChat(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := DecodeChat(body)
		if e, ok := errors.AsType[*infer.Error](err); err != nil && (!ok || e.Message == "" || rowOf(e.Kind).status >= 500) {
			t.Errorf("%q is refused as %v", body, err)
		}
		if err == nil && len(got.Infer.Messages) == 0 {
			t.Errorf("%q is taken and has no message", body)
		}
	})
}

func FuzzDecodeCompletion(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := DecodeCompletion(body)
		if e, ok := errors.AsType[*infer.Error](err); err != nil && (!ok || rowOf(e.Kind).status >= 500) {
			t.Errorf("%q is refused as %v", body, err)
		}
	})
}

// FuzzAppendText holds the fast path's escaping to encoding/json: what it writes, that reads back, cut characters as U+FFFD.
func FuzzAppendText(f *testing.F) {
	f.Add("a\x00\"\\\u2028<", 3)
	f.Add("größe\xe6\x9d", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		cut = max(0, min(cut, len(text)))
		out := stream(NewChatStream(head), []infer.Event{infer.Text{Text: text[:cut]}, infer.Text{Text: text[cut:]}, infer.Done{Reason: infer.StopEnd}})
		var want string
		if err := json.Unmarshal(rawjson.AppendString(nil, text), &want); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := contents(t, out); got != want || !bytes.HasSuffix(out, []byte("data: [DONE]\n\n")) {
			t.Errorf("%q cut at %d became %q, want %q", text, cut, got, want)
		}
	})
}
