package openai

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/sse"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var head = Head{ID: "chatcmpl-1", Model: "m", Created: 1700000000, IncludeUsage: true}

// golden compares got with a file under testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

var usage = infer.Usage{Prompt: 12, Cached: 4, Completion: 7, Reasoning: 2}

// answers are whole answers as engines tell them.
var answers = map[string][]infer.Event{
	"text":      {infer.Progress{Done: 1, Total: 2}, infer.Text{Text: "Größe \"a\""}, infer.Text{Text: "\n<b>"}, infer.Done{Reason: infer.StopEnd, Usage: usage}},
	"empty":     {infer.Done{Reason: infer.StopEnd, Usage: usage}},
	"reasoning": {infer.Reasoning{Text: "let me see"}, infer.Text{Text: "yes"}, infer.Done{Reason: infer.StopLength, Usage: usage}},
	"tools": {
		infer.Text{Text: "I look. "},
		infer.ToolStart{Index: 0, ID: "x1", Name: "get_weather"},
		infer.ToolArgs{Index: 0, Text: `{"city":`},
		infer.ToolArgs{Index: 0, Text: `"Rome"}`},
		infer.ToolStart{Index: 1, Name: "get_time"},
		infer.ToolArgs{Index: 1, Text: `{}`},
		infer.Done{Reason: infer.StopTools, Usage: usage},
	},
	"cut tool": {
		infer.ToolStart{Index: 0, ID: "x1", Name: "f"}, infer.ToolArgs{Index: 0, Text: `{"a`}, infer.Done{Reason: infer.StopLength, Usage: usage},
	},
	"logprobs": {
		infer.Text{Text: "a", Logprobs: []infer.TokenLogprob{{Token: "a", Logprob: -0.5, Bytes: []byte("a"), Top: []infer.TokenLogprob{
			{Token: "a", Logprob: -0.5, Bytes: []byte("a")}, {Token: "ä", Logprob: -1.5, Bytes: []byte("ä")},
		}}}}, infer.Done{Reason: infer.StopString, StopString: "b", Usage: usage},
	},
}

func stream(s interface {
	Append([]byte, infer.Event) []byte
	AppendEnd([]byte) []byte
}, events []infer.Event,
) []byte {
	var out []byte
	for _, ev := range events {
		out = s.Append(out, ev)
	}
	return s.AppendEnd(out)
}

func TestGoldenAnswers(t *testing.T) {
	for name, events := range answers {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".chat.stream", stream(NewChatStream(head), events))
			whole := NewChatAnswer(head)
			for _, ev := range events {
				whole.Add(ev)
			}
			body, err := whole.Body()
			if err != nil || !json.Valid(body) {
				t.Fatalf("%v in %s", err, body)
			}
			golden(t, name+".chat.json", append(body, '\n'))
			if strings.Contains(name, "tool") || name == "reasoning" {
				return // completions have neither
			}
			golden(t, name+".completion.stream", stream(NewCompletionStream(head), events))
			text := NewCompletionAnswer(head)
			for _, ev := range events {
				text.Add(ev)
			}
			if body, err = text.Body(); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".completion.json", append(body, '\n'))
		})
	}
}

// chunk is what clients read of a chat chunk.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Role      *string `json:"role"`
			Content   *string `json:"content"`
			Reasoning *string `json:"reasoning_content"`
			ToolCalls []struct {
				Index    *int    `json:"index"`
				ID       *string `json:"id"`
				Function struct {
					Name      *string `json:"name"`
					Arguments *string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt int `json:"prompt_tokens"`
	} `json:"usage"`
}

// chunks parses a stream, and reports whether its end mark came.
func chunks(t *testing.T, text []byte) (list []chunk, done bool) {
	t.Helper()
	for r := sse.NewReader(strings.NewReader(string(text)), sse.Limits{}); ; {
		item, err := r.Next()
		if err != nil {
			return list, done
		}
		if item.Kind != sse.Event {
			continue
		}
		if string(item.Data) == "[DONE]" {
			done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal(item.Data, &c); err != nil {
			t.Fatalf("%v in %s", err, item.Data)
		}
		list = append(list, c)
	}
}

func TestCaseC1ParallelCallsHaveTheirOwnIndex(t *testing.T) {
	list, _ := chunks(t, stream(NewChatStream(head), answers["tools"]))
	args := map[int]string{}
	for _, c := range list {
		for _, ch := range c.Choices {
			for _, k := range ch.Delta.ToolCalls {
				if k.Index == nil {
					t.Fatal("a call without its index")
				}
				if k.Function.Arguments != nil {
					args[*k.Index] += *k.Function.Arguments
				}
			}
		}
	}
	if d := cmp.Diff(map[int]string{0: `{"city":"Rome"}`, 1: `{}`}, args); d != "" {
		t.Errorf("arguments (-want +got):\n%s", d)
	}
}

func TestCaseC2C4FinishReasons(t *testing.T) {
	for name, want := range map[string]string{"tools": "tool_calls", "cut tool": "length", "text": "stop", "reasoning": "length", "logprobs": "stop"} {
		list, done := chunks(t, stream(NewChatStream(head), answers[name]))
		got := ""
		for _, c := range list {
			for _, ch := range c.Choices {
				if ch.FinishReason != nil {
					got += *ch.FinishReason
				}
			}
		}
		if got != want || !done {
			t.Errorf("%s: %q, end mark %v; want %q", name, got, done, want)
		}
	}
}

// TestCaseC3C5C6ToolChunks: the opening chunk of a call has id, name and empty arguments; what follows has neither id nor name.
func TestCaseC3C5C6ToolChunks(t *testing.T) {
	list, _ := chunks(t, stream(NewChatStream(head), answers["tools"]))
	seen := map[int]bool{}
	for _, c := range list {
		for _, ch := range c.Choices {
			for _, k := range ch.Delta.ToolCalls {
				opening := !seen[*k.Index]
				seen[*k.Index] = true
				switch {
				case opening && (k.ID == nil || *k.ID == "" || k.Function.Name == nil || k.Function.Arguments == nil || *k.Function.Arguments != ""):
					t.Errorf("call %d opens without id, name and empty arguments", *k.Index)
				case !opening && (k.ID != nil || k.Function.Name != nil):
					t.Errorf("call %d goes on with an id or a name", *k.Index)
				}
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("%d calls, want 2", len(seen))
	}
}

func TestCaseC7FirstDelta(t *testing.T) {
	for name := range answers {
		list, _ := chunks(t, stream(NewChatStream(head), answers[name]))
		d := list[0].Choices[0].Delta
		if d.Role == nil || *d.Role != "assistant" || d.Content == nil || *d.Content != "" {
			t.Errorf("%s: the first delta is %+v, want the role and empty content", name, d)
		}
	}
}

func TestCaseC8UsageOnlyWhenAsked(t *testing.T) {
	quiet := head
	quiet.IncludeUsage = false
	text := string(stream(NewChatStream(quiet), answers["text"]))
	if strings.Contains(text, "usage") {
		t.Errorf("usage that nobody asked for: %s", text)
	}
	list, _ := chunks(t, stream(NewChatStream(head), answers["text"]))
	last := list[len(list)-1]
	if last.Choices == nil || len(last.Choices) != 0 || last.Usage == nil || last.Usage.Prompt != 12 {
		t.Errorf("the usage chunk is %+v, want empty choices and the counts", last)
	}
}

func TestFailedStreamHasNoEndMark(t *testing.T) {
	s := NewChatStream(head)
	out := s.Append(nil, infer.Text{Text: "a"})
	out = s.AppendError(out, infer.Errorf(infer.ErrEngineLost, "", "the engine is gone"))
	out = s.Append(out, infer.Done{Reason: infer.StopEnd})
	out = s.AppendEnd(out)
	if text := string(out); strings.Contains(text, "[DONE]") || strings.Contains(text, `"finish_reason":"stop"`) || !strings.Contains(text, `"error":{"message":"the engine is gone"`) {
		t.Errorf("%s", text)
	}
	if end := NewChatStream(head).AppendEnd(nil); len(end) != 0 {
		t.Errorf("an answer without Done ends with %s", end)
	}
	text := NewCompletionStream(head)
	if end := text.AppendEnd(text.Append(nil, infer.Text{Text: "a"})); strings.Contains(string(end), "[DONE]") {
		t.Errorf("a completion without Done ends with %s", end)
	}
	if end := text.Append(text.Append(nil, infer.Done{}), infer.Text{Text: "late"}); strings.Contains(string(end), "late") {
		t.Errorf("a completion goes on after Done: %s", end)
	}
	if _, err := NewChatAnswer(head).Body(); err == nil {
		t.Error("a whole answer without Done is no error")
	}
	if _, err := NewCompletionAnswer(head).Body(); err == nil {
		t.Error("a whole completion without Done is no error")
	}
}

// contents joins what a client shows.
func contents(t *testing.T, text []byte) (content, reasoning, args string) {
	list, _ := chunks(t, text)
	for _, c := range list {
		for _, ch := range c.Choices {
			if ch.Delta.Content != nil {
				content += *ch.Delta.Content
			}
			if ch.Delta.Reasoning != nil {
				reasoning += *ch.Delta.Reasoning
			}
			for _, k := range ch.Delta.ToolCalls {
				if k.Function.Arguments != nil {
					args += *k.Function.Arguments
				}
			}
		}
	}
	return content, reasoning, args
}

const mixed = "aß→🚂\"\\\n</x>\u2028 東京\x00é"

// TestReviewR18RewritingAtEveryCut: wherever the engine cuts its text, also within characters, the client gets the same text,
// and every frame on the way is valid UTF-8.
func TestReviewR18RewritingAtEveryCut(t *testing.T) {
	for cut := 0; cut <= len(mixed); cut++ {
		for second := cut; second <= len(mixed); second++ {
			pieces := []string{mixed[:cut], mixed[cut:second], mixed[second:]}
			var events []infer.Event
			for _, p := range pieces {
				events = append(events, infer.Reasoning{Text: p})
			}
			for _, p := range pieces {
				events = append(events, infer.Text{Text: p})
			}
			events = append(events, infer.ToolStart{Name: "f"})
			for _, p := range pieces {
				events = append(events, infer.ToolArgs{Text: p})
			}
			events = append(events, infer.Done{Reason: infer.StopTools})
			s := NewChatStream(head)
			var out []byte
			for _, ev := range events {
				frame := s.Append(nil, ev)
				if !utf8.Valid(frame) {
					t.Fatalf("cuts %d and %d: a frame is no UTF-8: %q", cut, second, frame)
				}
				out = append(out, frame...)
			}
			content, reasoning, args := contents(t, out)
			if content != mixed || reasoning != mixed || args != mixed {
				t.Fatalf("cuts %d and %d: %q, %q, %q", cut, second, content, reasoning, args)
			}
		}
	}
}

// TestReviewR18EventStreamAtEveryCut: the event stream itself may be cut anywhere too, in its lines, line ends and characters.
func TestReviewR18EventStreamAtEveryCut(t *testing.T) {
	text := strings.ReplaceAll(string(stream(NewChatStream(head), answers["tools"])), "\n", "\r\n")
	want, _ := chunks(t, []byte(text))
	for cut := range len(text) {
		r := sse.NewReader(&pieces{[]string{text[:cut], text[cut:]}}, sse.Limits{})
		n := 0
		for {
			item, err := r.Next()
			if err != nil {
				break
			}
			if item.Kind == sse.Event && string(item.Data) != "[DONE]" {
				var c chunk
				if err := json.Unmarshal(item.Data, &c); err != nil {
					t.Fatalf("cut %d: %v", cut, err)
				}
				if d := cmp.Diff(want[n], c); d != "" {
					t.Fatalf("cut %d, event %d:\n%s", cut, n, d)
				}
				n++
			}
		}
		if n != len(want) {
			t.Fatalf("cut %d: %d events, want %d", cut, n, len(want))
		}
	}
}

// pieces is a reader that gives one piece at a time.
type pieces struct{ left []string }

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.left) > 0 && p.left[0] == "" {
		p.left = p.left[1:]
	}
	if len(p.left) == 0 {
		return 0, errors.New("no more pieces")
	}
	n := copy(b, p.left[0])
	p.left[0] = p.left[0][n:]
	return n, nil
}

func TestHalfACharacterAtTheEnd(t *testing.T) {
	content, _, _ := contents(t, stream(NewChatStream(head), []infer.Event{infer.Text{Text: "a\xe6\x9d"}, infer.Done{Reason: infer.StopLength}}))
	if content != "a\ufffd\ufffd" {
		t.Errorf("%q, want U+FFFD for each byte of the rest, as encoding/json has it", content)
	}
}

func TestTextPathAllocatesNothing(t *testing.T) {
	s := NewChatStream(head)
	buf := s.Append(make([]byte, 0, 1<<12), infer.Text{Text: "first"})
	var ev infer.Event = infer.Text{Text: " token"}
	if n := testing.AllocsPerRun(1000, func() { buf = s.Append(buf[:0], ev) }); n > 0 {
		t.Errorf("%g allocations for a token", n)
	}
}

func TestErrorBodies(t *testing.T) {
	tests := map[infer.ErrorKind]struct {
		status int
		typ    string
		code   any
	}{
		infer.ErrInvalid:       {400, "invalid_request_error", "invalid_value"},
		infer.ErrContextLength: {400, "invalid_request_error", "context_length_exceeded"},
		infer.ErrUnsupported:   {400, "invalid_request_error", "unsupported_parameter"},
		infer.ErrModelTooLarge: {400, "invalid_request_error", "model_too_large"},
		infer.ErrUnauthorized:  {401, "invalid_request_error", "invalid_api_key"},
		infer.ErrForbidden:     {403, "invalid_request_error", "forbidden"},
		infer.ErrModelNotFound: {404, "invalid_request_error", "model_not_found"},
		infer.ErrNotFound:      {404, "invalid_request_error", "unknown_url"},
		infer.ErrMethod:        {405, "invalid_request_error", "method_not_allowed"},
		infer.ErrTooLarge:      {413, "invalid_request_error", "request_too_large"},
		infer.ErrQueueFull:     {429, "rate_limit_error", "rate_limit_exceeded"},
		infer.ErrCanceled:      {499, "invalid_request_error", "canceled"},
		infer.ErrInternal:      {500, "server_error", "internal_error"},
		infer.ErrEngine:        {502, "server_error", "engine_error"},
		infer.ErrEngineLost:    {502, "server_error", "engine_error"},
		infer.ErrLoading:       {503, "server_error", "server_is_overloaded"},
		infer.ErrUnavailable:   {503, "server_error", "server_is_overloaded"},
	}
	for kind, want := range tests {
		status, body := ErrorBody(&infer.Error{Kind: kind, Param: "p", Message: "what \"it\" is", PromptTokens: 9, Window: 8, Err: errors.New("a secret cause")})
		var got struct {
			Error map[string]any `json:"error"`
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if status != want.status || got.Error["type"] != want.typ || got.Error["code"] != want.code || got.Error["param"] != "p" || got.Error["message"] == "" {
			t.Errorf("%s: %d %s", kind, status, body)
		}
		if strings.Contains(string(body), "secret") {
			t.Errorf("%s: the cause is told: %s", kind, body)
		}
	}
	_, body := ErrorBody(&infer.Error{Kind: infer.ErrContextLength, PromptTokens: 3000, Window: 2048})
	for _, want := range []string{"maximum context length is 2048 tokens", "resulted in 3000 tokens", `"n_prompt_tokens":3000`, `"n_ctx":2048`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
	if status, body := ErrorBody(errors.New("a secret cause")); status != 500 || strings.Contains(string(body), "secret") {
		t.Errorf("a foreign error gives %d %s", status, body)
	}
}

func TestModelCards(t *testing.T) {
	list, err := ModelList([]ModelCard{{ID: "org/m", Created: 1, OwnedBy: "stoker", Window: 2048, Capabilities: []string{"chat"}}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "models.json", append(list, '\n'))
	if strings.Contains(string(list), `"max_tokens"`) {
		t.Error("a card must not have max_tokens: clients take it for the window")
	}
	if empty, err := ModelList(nil); err != nil || !strings.Contains(string(empty), `"data":[]`) {
		t.Errorf("%s, %v", empty, err)
	}
}
