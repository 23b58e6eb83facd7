package openai

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
)

// fieldCase is one body and the path that its refusal must name; an unsupported one is marked.
type fieldCase struct {
	body, param string
	unsupported bool
}

func checkRefusals(t *testing.T, decode func([]byte) error, cases []fieldCase) {
	t.Helper()
	for _, c := range cases {
		want := infer.ErrInvalid
		if c.unsupported {
			want = infer.ErrUnsupported
		}
		err := decode([]byte(c.body))
		e, ok := errors.AsType[*infer.Error](err)
		if !ok || e.Kind != want || e.Param != c.param || e.Message == "" {
			t.Errorf("%s:\n got %v (%s, param %q)\nwant %s, param %q", c.body, err, infer.KindOf(err), paramOf(e), want, c.param)
		}
	}
}

func chatError(body []byte) error {
	_, err := DecodeChat(body)
	return err
}

func completionError(body []byte) error {
	_, err := DecodeCompletion(body)
	return err
}

// wrongValues are, for each honoured field, values of a wrong type or out of range, and the path that must be named.
var wrongValues = map[string][][2]string{
	"model":                 {{`1`, "model"}, {`["m"]`, "model"}},
	"messages":              {{`{}`, "messages"}, {`[1]`, "messages[0]"}, {`[null]`, "messages[0]"}},
	"prompt":                {{`1`, "prompt"}, {`true`, "prompt"}, {`[2147483648]`, "prompt[0]"}},
	"suffix":                {{`1`, "suffix"}},
	"tools":                 {{`{}`, "tools"}, {`["f"]`, "tools[0]"}, {`[{"type":1}]`, "tools[0].type"}},
	"parallel_tool_calls":   {{`"no"`, "parallel_tool_calls"}},
	"reasoning_effort":      {{`3`, "reasoning_effort"}},
	"reasoning":             {{`"low"`, "reasoning"}, {`{"effort":1}`, "reasoning.effort"}},
	"chat_template_kwargs":  {{`[]`, "chat_template_kwargs"}},
	"top_logprobs":          {{`true`, "top_logprobs"}, {`-1`, "top_logprobs"}, {`1.5`, "top_logprobs"}},
	"max_completion_tokens": {{`0`, "max_completion_tokens"}, {`1.5`, "max_completion_tokens"}, {`-2`, "max_completion_tokens"}, {`true`, "max_completion_tokens"}},
	"stream":                {{`1`, "stream"}},
	"stream_options":        {{`true`, "stream_options"}, {`{"include_usage":1}`, "stream_options.include_usage"}},
	"max_tokens":            {{`0`, "max_tokens"}, {`1e999`, "max_tokens"}, {`"5"`, "max_tokens"}},
	"temperature":           {{`-0.1`, "temperature"}, {`2.1`, "temperature"}, {`true`, "temperature"}},
	"top_p":                 {{`-0.1`, "top_p"}, {`"1"`, "top_p"}},
	"top_k":                 {{`-2`, "top_k"}, {`1.5`, "top_k"}, {`"1"`, "top_k"}},
	"min_p":                 {{`1.1`, "min_p"}},
	"frequency_penalty":     {{`2.1`, "frequency_penalty"}, {`-2.1`, "frequency_penalty"}},
	"presence_penalty":      {{`2.1`, "presence_penalty"}, {`[]`, "presence_penalty"}},
	"repetition_penalty":    {{`0`, "repetition_penalty"}, {`-1`, "repetition_penalty"}, {`101`, "repetition_penalty"}},
	"seed":                  {{`1.5`, "seed"}, {`"7"`, "seed"}, {`1e30`, "seed"}},
	"stop":                  {{`1`, "stop"}, {`["a",null]`, "stop[1]"}},
	"logit_bias":            {{`[]`, "logit_bias"}, {`{"5":"x"}`, "logit_bias.5"}, {`{"-1":1}`, "logit_bias.-1"}, {`{"5":101}`, "logit_bias.5"}},
	"ignore_eos":            {{`1`, "ignore_eos"}},
	"response_format":       {{`"json_object"`, "response_format"}, {`{"type":1}`, "response_format.type"}, {`{}`, "response_format.type"}},
}

// TestWrongValuesOfEveryField walks the tables: each honoured field refuses what it cannot mean with its own path, and counts
// null as absent.
func TestWrongValuesOfEveryField(t *testing.T) {
	for _, f := range ChatFields() {
		if f.Use != Honoured || f.Name == "tool_choice" { // which means nothing without tools: see below
			continue
		}
		values := wrongValues[f.Name]
		if f.Name == "logprobs" { // the two dialects differ
			values = [][2]string{{`1`, "logprobs"}, {`"x"`, "logprobs"}}
		}
		checkField(t, chatError, `{`+hi, f.Name, "messages", values)
	}
	for _, f := range CompletionFields() {
		if f.Use != Honoured {
			continue
		}
		values := wrongValues[f.Name]
		if f.Name == "logprobs" {
			values = [][2]string{{`-1`, "logprobs"}, {`21`, "logprobs"}, {`"x"`, "logprobs"}}
		}
		checkField(t, completionError, `{"prompt":"a"`, f.Name, "prompt", values)
	}
}

func checkField(t *testing.T, decode func([]byte) error, start, name, required string, values [][2]string) {
	t.Helper()
	if len(values) == 0 {
		t.Errorf("no wrong values for %s; add a row", name)
	}
	for _, v := range values {
		checkRefusals(t, decode, []fieldCase{{body: start + `,"` + name + `":` + v[0] + `}`, param: v[1]}})
	}
	err := decode([]byte(start + `,"` + name + `":null}`))
	if (err != nil) != (name == required) {
		t.Errorf("%s is null: %v", name, err)
	}
}

func TestRefusedMessages(t *testing.T) {
	user := func(part string) string { return `{"messages":[{"role":"user","content":[` + part + `]}]}` }
	calls := func(call string) string { return `{"messages":[{"role":"assistant","tool_calls":[` + call + `]}]}` }
	const part, call = "messages[0].content[0]", "messages[0].tool_calls[0]"
	checkRefusals(t, chatError, []fieldCase{
		{body: `{"messages":[{"role":"user","content":"x","name":5}]}`, param: "messages[0].name"},
		{body: `{"messages":[{"role":"tool","content":"x","tool_call_id":5}]}`, param: "messages[0].tool_call_id"},
		{body: `{` + hi + `,"messages":[{"role":"user","content":{}}]}`, param: "messages[0].content"},
		{body: user(`5`), param: part},
		{body: user(`{"type":5}`), param: part + ".type"},
		{body: user(`{"type":"image_url"}`), param: part + ".image_url"},
		{body: user(`{"type":"image_url","image_url":{"url":""}}`), param: part + ".image_url"},
		{body: user(`{"type":"image_url","image_url":{"url":5}}`), param: part + ".image_url.url"},
		{body: `{"messages":[{"role":"assistant","refusal":5}]}`, param: "messages[0].refusal"},
		{body: `{"messages":[{"role":"assistant","reasoning_content":5}]}`, param: "messages[0].reasoning_content"},
		{body: `{"messages":[{"role":"assistant","tool_calls":{}}]}`, param: "messages[0].tool_calls"},
		{body: `{"messages":[{"role":"assistant","function_call":{}}]}`, param: "messages[0].function_call.name"},
		{body: calls(`5`), param: call},
		{body: calls(`{"type":5}`), param: call + ".type"},
		{body: calls(`{"function":5}`), param: call + ".function"},
		{body: calls(`{"function":{"name":5}}`), param: call + ".function.name"},
		{body: calls(`{"id":5,"function":{"name":"f"}}`), param: call + ".id"},
	})
}

func TestRefusedTools(t *testing.T) {
	tools := func(tool string) string { return `{` + hi + `,"tools":[` + tool + `]}` }
	choice := func(c string) string {
		return `{` + hi + `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":` + c + `}`
	}
	checkRefusals(t, chatError, []fieldCase{
		{body: tools(`{"type":"function","function":5}`), param: "tools[0].function"},
		{body: tools(`{"type":"function","function":{"name":5}}`), param: "tools[0].function.name"},
		{body: tools(`{"type":"function","name":"f","description":5}`), param: "tools[0].description"},
		{body: tools(`{"type":"function","name":"f","parameters":"{}"}`), param: "tools[0].parameters"},
		{body: tools(`{"type":"function","name":"f","strict":1}`), param: "tools[0].strict"},
		{body: choice(`{"type":5}`), param: "tool_choice.type"},
		{body: choice(`{"type":"web_search"}`), param: "tool_choice.type"},
		{body: choice(`{"type":"function"}`), param: "tool_choice.name"},
		{body: choice(`{"type":"function","function":5}`), param: "tool_choice.function"},
		{body: choice(`{"type":"function","function":{"name":5}}`), param: "tool_choice.function.name"},
		{body: choice(`{"type":"allowed_tools","allowed_tools":5}`), param: "tool_choice.allowed_tools"},
		{body: choice(`{"type":"allowed_tools","mode":5}`), param: "tool_choice.mode"},
		{body: choice(`{"type":"allowed_tools","mode":"none"}`), param: "tool_choice.mode"},
		{body: choice(`{"type":"allowed_tools","mode":"auto"}`), param: "tool_choice.tools"},
		{body: choice(`{"type":"allowed_tools","mode":"auto","tools":[5]}`), param: "tool_choice.tools[0]"},
		{body: choice(`{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]}`), param: "tool_choice.tools"},
	})
}

func TestRefusedFormats(t *testing.T) {
	format := func(f string) string { return `{` + hi + `,"response_format":` + f + `}` }
	checkRefusals(t, chatError, []fieldCase{
		{body: format(`{"type":"json_schema"}`), param: "response_format.schema"},
		{body: format(`{"type":"json_schema","json_schema":5}`), param: "response_format.json_schema"},
		{body: format(`{"type":"json_schema","json_schema":{}}`), param: "response_format.json_schema.schema"},
		{body: format(`{"type":"json_schema","json_schema":{"schema":true}}`), param: "response_format.json_schema.schema"},
		{body: format(`{"type":"json_schema","json_schema":{"schema":{},"name":5}}`), param: "response_format.json_schema.name"},
		{body: format(`{"type":"json_schema","json_schema":{"schema":{},"strict":5}}`), param: "response_format.json_schema.strict"},
		{body: `{` + hi + `,"modalities":["text","audio"]}`, param: "modalities", unsupported: true},
		{body: `{` + hi + `,"modalities":[5]}`, param: "modalities[0]"},
		{body: `{` + hi + `,"functions":[{"name":"f"}]}`, param: "functions", unsupported: true},
		{body: `{` + hi + `,"input":"hi"}`, param: "input", unsupported: true},
	})
	for _, ok := range []string{`"modalities":["text"]`, `"functions":[]`, `"function_call":"auto"`, `"n":1`, `"grammar":""`, `"audio":null`} {
		if err := chatError([]byte(`{` + hi + `,` + ok + `}`)); err != nil {
			t.Errorf("%s is the default and refused: %v", ok, err)
		}
	}
}

func TestFormatForms(t *testing.T) {
	schema := infer.Format{Kind: infer.FormatJSONSchema, Schema: json.RawMessage(`{"type":"array"}`)}
	for body, want := range map[string]infer.Format{
		`{"type":"text"}`:                                                     {},
		`{"type":"json_object"}`:                                              {Kind: infer.FormatJSONObject},
		`{"type":"json_object","schema":{"type":"array"}}`:                    schema,
		`{"type":"json_schema","schema":{"type":"array"}}`:                    schema,
		`{"type":"json_schema","json_schema":{"schema":{"type":"array"}}}`:    schema,
		`{"type":"json_schema","json_schema":null,"schema":{"type":"array"}}`: schema,
	} {
		got, err := DecodeChat([]byte(`{` + hi + `,"response_format":` + body + `}`))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if d := cmp.Diff(want, got.Infer.Format); d != "" {
			t.Errorf("%s (-want +got):\n%s", body, d)
		}
	}
}

// TestOddButLegal: forms that clients do send, and what they mean.
func TestOddButLegal(t *testing.T) {
	tests := map[string]struct {
		body string
		ok   func(*ChatRequest) bool
	}{
		"the newer bound wins":     {`"max_completion_tokens":-1,"max_tokens":5`, func(r *ChatRequest) bool { return r.Infer.MaxTokens == 0 }},
		"more than four stops":     {`"stop":["a","b","c","d","e"]`, func(r *ChatRequest) bool { return len(r.Infer.Stop) == 5 }},
		"no bias":                  {`"logit_bias":{}`, func(r *ChatRequest) bool { return r.Infer.Sampling.LogitBias == nil }},
		"no template variables":    {`"chat_template_kwargs":{}`, func(r *ChatRequest) bool { return r.Infer.TemplateArgs == nil }},
		"top_logprobs 0":           {`"top_logprobs":0`, func(r *ChatRequest) bool { return !r.Infer.Logprobs }},
		"a null after a value":     {`"seed":1,"seed":null`, func(r *ChatRequest) bool { return r.Infer.Sampling.Seed == nil }},
		"an escaped name":          {`"s\u0065ed":3`, func(r *ChatRequest) bool { return *r.Infer.Sampling.Seed == 3 }},
		"names differ by case":     {`"Seed":3,"MODEL":5`, func(r *ChatRequest) bool { return r.Infer.Sampling.Seed == nil && r.Model == "" }},
		"the largest seed, exact":  {`"seed":9223372036854775807`, func(r *ChatRequest) bool { return *r.Infer.Sampling.Seed == 1<<63-1 }},
		"bounds of the ranges":     {`"temperature":2,"top_p":1,"min_p":0,"frequency_penalty":-2,"presence_penalty":2,"top_logprobs":20,"logprobs":true`, func(r *ChatRequest) bool { return r.Infer.TopLogprobs == 20 }},
		"a surrogate pair":         {`"model":"\ud83d\ude82"`, func(r *ChatRequest) bool { return r.Model == "🚂" }},
		"space around the members": {"\"model\" : \"m\" \r\n\t", func(r *ChatRequest) bool { return r.Model == "m" }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeChat([]byte(" \n{" + hi + "," + tt.body + "}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if !tt.ok(got) {
				t.Errorf("%s became %+v, %+v", tt.body, got, got.Infer)
			}
		})
	}
}

// TestBodiesAreRefusedWhole: what no engine could read is refused before any field is looked at, without a field's name, and
// with what is wrong.
func TestBodiesAreRefusedWhole(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200)
	for body, want := range map[string]string{
		"":                                    "empty",
		"null":                                "must be a JSON object",
		" [1]":                                "must be a JSON object",
		`{"a":1}{"b":2}`:                      "not JSON",
		`{"temperature":NaN}`:                 "not JSON",
		"{\"user\":\"\xc3\"}":                 "send UTF-8",
		`{"user":"\udc00"}`:                   "send UTF-8",
		`{"user":{"\ud800":1}}`:               "send UTF-8",
		`{"metadata":` + deep + `}`:           "nested deeper than",
		"{\"user\":\"\xed\xa0\x80 encoded\"}": "send UTF-8",
	} {
		for _, decode := range []func([]byte) error{chatError, completionError} {
			err := decode([]byte(body))
			e, ok := errors.AsType[*infer.Error](err)
			if !ok || e.Kind != infer.ErrInvalid || e.Param != "" || !strings.Contains(e.Message, want) {
				t.Errorf("%.40q: %v, want %q", body, err, want)
			}
		}
	}
}

// TestHostedToolsAreDropped: agents list tools that only a hosted service has, also among the allowed ones. They are left out
// and named for the log.
func TestHostedToolsAreDropped(t *testing.T) {
	got, err := DecodeChat([]byte(`{` + hi + `,"tools":[{"type":"function","name":"f"},{"type":"web_search"},{"type":"function","name":"g"}],` +
		`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"},{"type":"function","name":"g"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]infer.Tool{{Name: "g"}}, got.Infer.Tools); d != "" {
		t.Errorf("tools (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"tools[1] (web_search)"}, got.Dropped); d != "" {
		t.Errorf("dropped (-want +got):\n%s", d)
	}
}
