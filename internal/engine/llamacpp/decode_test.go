package llamacpp

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
)

// decodeAll feeds recorded events to a decoder.
func decodeAll(t *testing.T, d decoder, events []string) ([]infer.Event, error) {
	t.Helper()
	var all []infer.Event
	for _, e := range events {
		evs, err := d.decode([]byte(e))
		all = append(all, evs...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// Events recorded from b11434, with what does not matter left out.
const (
	chatRole     = `{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"object":"chat.completion.chunk"}`
	chatProgress = `{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":32,"cache":8,"processed":20,"time_ms":9}}`
	chatStop     = `{"choices":[{"finish_reason":"stop","index":0,"delta":{}}]}`
	chatUsage    = `{"choices":[],"usage":{"completion_tokens":3,"prompt_tokens":32,"total_tokens":35,"prompt_tokens_details":{"cached_tokens":8}},"timings":{"cache_n":8}}`
)

func TestChatDecoder(t *testing.T) {
	usage := infer.Usage{Prompt: 32, Cached: 8, Completion: 3}
	tests := []struct {
		name   string
		dec    chatDecoder
		events []string
		want   []infer.Event
	}{
		{
			"text with progress",
			chatDecoder{},
			[]string{chatProgress, chatRole, `{"choices":[{"index":0,"delta":{"content":"Hé"}}]}`, `{"choices":[{"index":0,"delta":{"content":"\"llo"}}]}`, chatStop, chatUsage},
			[]infer.Event{infer.Progress{Done: 20, Total: 32, Cached: 8}, infer.Text{Text: "Hé"}, infer.Text{Text: `"llo`}, infer.Done{Reason: infer.StopEnd, Usage: usage}},
		},
		{
			"thinking apart",
			chatDecoder{},
			[]string{`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`, `{"choices":[{"index":0,"delta":{"content":"yes"}}]}`, chatStop, chatUsage},
			[]infer.Event{infer.Reasoning{Text: "hm"}, infer.Text{Text: "yes"}, infer.Done{Reason: infer.StopEnd, Usage: usage}},
		},
		{
			"two tool calls",
			chatDecoder{},
			[]string{
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"abc","type":"function","function":{"name":"f","arguments":"{"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"def","type":"function","function":{"name":"g","arguments":"{}"}}]}}]}`,
				`{"choices":[{"finish_reason":"tool_calls","index":0,"delta":{}}]}`, chatUsage,
			},
			[]infer.Event{
				infer.ToolStart{ID: "abc", Name: "f"},
				infer.ToolArgs{Text: "{"},
				infer.ToolArgs{Text: "}"},
				infer.ToolStart{Index: 1, ID: "def", Name: "g"},
				infer.ToolArgs{Index: 1, Text: "{}"},
				infer.Done{Reason: infer.StopTools, Usage: usage},
			},
		},
		{
			"second call dropped",
			chatDecoder{oneCall: true},
			[]string{
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"abc","function":{"name":"f","arguments":"{}"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"def","function":{"name":"g","arguments":"{}"}}]}}]}`,
				`{"choices":[{"finish_reason":"tool_calls","index":0,"delta":{}}]}`, chatUsage,
			},
			[]infer.Event{infer.ToolStart{ID: "abc", Name: "f"}, infer.ToolArgs{Text: "{}"}, infer.Done{Reason: infer.StopTools, Usage: usage}},
		},
		{
			"stop text of the client",
			chatDecoder{stops: []string{"END"}},
			[]string{`{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"__verbose":{"stop":true,"stop_type":"word","stopping_word":"END","prompt":"x"}}`, chatUsage},
			[]infer.Event{infer.Done{Reason: infer.StopString, StopString: "END", Usage: usage}},
		},
		{
			"stop text of the template",
			chatDecoder{stops: []string{"END"}},
			[]string{`{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"__verbose":{"stop":true,"stop_type":"word","stopping_word":"<|eot|>"}}`, chatUsage},
			[]infer.Event{infer.Done{Reason: infer.StopEnd, Usage: usage}},
		},
		{
			"length",
			chatDecoder{},
			[]string{`{"choices":[{"finish_reason":"length","index":0,"delta":{}}]}`, chatUsage},
			[]infer.Event{infer.Done{Reason: infer.StopLength, Usage: usage}},
		},
		{
			"no usage from an old build",
			chatDecoder{},
			[]string{chatStop, "[DONE]"},
			[]infer.Event{infer.Done{Reason: infer.StopEnd, Usage: infer.Usage{Estimated: true}}},
		},
		{
			"logprobs trimmed to what was asked",
			chatDecoder{top: 0},
			[]string{`{"choices":[{"index":0,"delta":{"content":"!"},"logprobs":{"content":[{"id":17,"token":"!","bytes":[33],"logprob":-1.5,"top_logprobs":[{"id":6,"token":" t","bytes":[32,116],"logprob":-0.7}]}]}}]}`, chatStop, chatUsage},
			[]infer.Event{
				infer.Text{Text: "!", Logprobs: []infer.TokenLogprob{{Token: "!", Logprob: -1.5, Bytes: []byte("!"), Top: []infer.TokenLogprob{}}}},
				infer.Done{Reason: infer.StopEnd, Usage: usage},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeAll(t, &tt.dec, tt.events)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodersRefuse(t *testing.T) {
	tests := []struct {
		name   string
		dec    decoder
		events []string
	}{
		{"error object in a chat", &chatDecoder{}, []string{chatRole, `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`}},
		{"end without a reason", &chatDecoder{}, []string{chatRole, "[DONE]"}},
		{"usage without a reason", &chatDecoder{}, []string{chatUsage}},
		{"tool calls as the reason, and none came", &chatDecoder{}, []string{chatRole, `{"choices":[{"finish_reason":"tool_calls","index":0,"delta":{}}]}`, chatUsage}},
		{"half an event", &chatDecoder{}, []string{`{"choices":[{"index":0,"del`}},
		{"no JSON", &nativeDecoder{}, []string{`<html>`}},
		{"error object", &nativeDecoder{}, []string{`{"error":{"code":500,"message":"x","type":"server_error"}}`}},
		{"unknown stop type", &nativeDecoder{}, []string{`{"content":"","stop":true,"stop_type":"none"}`}},
		{"prose in place of a call", &callDecoder{}, []string{`{"content":"Sure","stop":false}`}},
		{"call that ends early", &callDecoder{}, []string{`{"content":"{\"name\":","stop":false}`, `{"content":"","stop":true,"stop_type":"eos"}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			evs, err := decodeAll(t, tt.dec, tt.events)
			if kind := infer.KindOf(err); kind != infer.ErrEngine {
				t.Fatalf("kind = %q (%v), want %q", kind, err, infer.ErrEngine)
			}
			for _, ev := range evs {
				if _, done := ev.(infer.Done); done {
					t.Error("a failed answer has a final event")
				}
			}
		})
	}
}

func TestNativeDecoder(t *testing.T) {
	end := func(stop, word string) string {
		return `{"index":0,"content":"","stop":true,"tokens_predicted":2,"tokens_evaluated":7,"generation_settings":{"stop":["x"]},"stop_type":"` + stop +
			`","stopping_word":"` + word + `","timings":{"cache_n":4,"prompt_n":3}}`
	}
	usage := infer.Usage{Prompt: 7, Cached: 4, Completion: 2}
	tests := []struct {
		name, end string
		want      infer.Done
	}{
		{"end token", end("eos", ""), infer.Done{Reason: infer.StopEnd, Usage: usage}},
		{"stop text", end("word", "END"), infer.Done{Reason: infer.StopString, StopString: "END", Usage: usage}},
		{"length", end("limit", ""), infer.Done{Reason: infer.StopLength, Usage: usage}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeAll(t, &nativeDecoder{}, []string{`{"index":0,"content":" of","tokens":[282],"stop":false,"tokens_predicted":1}`, tt.end})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]infer.Event{infer.Text{Text: " of"}, tt.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallDecoderCutByLength(t *testing.T) {
	got, err := decodeAll(t, &callDecoder{}, []string{
		`{"content":"{\"name\":\"f\",\"arguments\":{\"a\"","stop":false}`,
		`{"content":"","stop":true,"stop_type":"limit","tokens_predicted":9,"tokens_evaluated":5}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []infer.Event{
		infer.ToolStart{Name: "f"},
		infer.ToolArgs{Text: `{"a"`},
		infer.Done{Reason: infer.StopLength, Usage: infer.Usage{Prompt: 5, Completion: 9}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzDecoders(f *testing.F) {
	for _, s := range []string{chatRole, chatProgress, chatStop, chatUsage, "[DONE]", `{"content":"a","stop":true,"stop_type":"eos"}`, `{"choices":[{"delta":{"tool_calls":[{"index":-1,"function":{"name":"f"}}]}}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range []decoder{&chatDecoder{}, &nativeDecoder{}, &callDecoder{}} {
			evs, err := d.decode(data)
			if err != nil && infer.KindOf(err) != infer.ErrEngine {
				t.Fatalf("%T: error of kind %q", d, infer.KindOf(err))
			}
			for i, ev := range evs {
				if _, done := ev.(infer.Done); done && i != len(evs)-1 {
					t.Fatalf("%T: an event follows the final one", d)
				}
			}
		}
	})
}
