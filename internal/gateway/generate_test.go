package gateway_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/infer"
)

func hello() *scripted.Driver {
	return steps(scripted.Say("Hel"), scripted.Say("lo"), scripted.Finish(2))
}

func TestChat(t *testing.T) {
	b := start(t, plan{driver: hello()})
	got := b.chat()
	if got.status != 200 || got.err != nil {
		t.Fatalf("status %d, %v: %s", got.status, got.err, got.body)
	}
	var a struct {
		ID, Object, Model string
		Created           int64
		Choices           []struct {
			Message struct{ Role, Content string }
			Reason  string `json:"finish_reason"`
		}
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(got.body), &a); err != nil {
		t.Fatal(err)
	}
	if a.Object != "chat.completion" || a.Model != "m" || len(a.Choices) != 1 || a.Choices[0].Message.Content != "Hello" ||
		a.Choices[0].Reason != "stop" || a.Usage.Total != 5 || !strings.HasPrefix(a.ID, "chatcmpl-") {
		t.Errorf("got %+v", a)
	}
	if now := time.Now().Unix(); a.Created < now-60 || a.Created > now {
		t.Errorf("created %d", a.Created)
	}
	wantOrigin(t, got)
}

func wantOrigin(t *testing.T, r reply) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Stoker-Engine": "scripted", "X-Stoker-Mode": "exact", "X-Stoker-Window": "4096",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestChatStream(t *testing.T) {
	b := start(t, plan{driver: hello()})
	got := b.chat(streaming, `"stream_options":{"include_usage":true}`)
	if got.status != 200 || got.err != nil {
		t.Fatalf("status %d, %v", got.status, got.err)
	}
	if text := said(t, got.body); text != "Hello" {
		t.Errorf("text %q", text)
	}
	all := frames(got.body)
	if last := all[len(all)-1]; last != "[DONE]" {
		t.Errorf("last frame %q", last)
	}
	if !strings.Contains(all[len(all)-2], `"total_tokens":5`) {
		t.Errorf("no usage in %s", all[len(all)-2])
	}
	wantOrigin(t, got)
}

// Behind nginx a stream arrives in one lump without the third of these headers.
func TestCaseC29StreamHeaders(t *testing.T) {
	got := start(t, plan{driver: hello()}).chat(streaming)
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		"Content-Encoding": "",
	} {
		if v := got.header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	b := start(t, plan{driver: hello()})
	got := b.do("POST", "/v1/completions", `{"model":"m","prompt":"x"}`)
	if got.status != 200 || !strings.Contains(got.body, `"text":"Hello"`) || !strings.Contains(got.body, `"id":"cmpl-`) {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	got = b.do("POST", "/v1/completions", `{"model":"m","prompt":"x","stream":true}`)
	if all := frames(got.body); got.err != nil || all[len(all)-1] != "[DONE]" || !strings.Contains(all[0], `"text":"Hel"`) {
		t.Errorf("%v: %s", got.err, got.body)
	}
}

// Names: what reaches the model, what the replies say, and that the engine never hears a client's name.
func TestReviewR7ServedModelName(t *testing.T) {
	calls := make(chan *scripted.Call, 100)
	b := start(t, plan{driver: &scripted.Driver{Calls: calls}, repo: "org/repo-GGUF", alias: []string{"exact", "gpt-*"}})
	for _, c := range []struct {
		model string // as JSON
		ok    bool
	}{
		{`"m"`, true},
		{`"org/repo-GGUF"`, true},
		{`"exact"`, true},
		{`"gpt-4o"`, true},
		{`null`, true}, // the only model: nothing to guess
		{`""`, true},
		{`"m/"`, false},
		{`"./m"`, false},
		{`"/secret/place/m.gguf"`, false},
		{`"m.gguf"`, false},
		{`"unknown"`, false},
	} {
		for _, mode := range []string{streaming, `"stream":false`} {
			t.Run(c.model+" "+mode, func(t *testing.T) {
				before := len(calls)
				got := b.do("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"model":`+c.model+","+mode+"}")
				heard := len(calls) - before
				if !c.ok {
					if got.status != 404 || !strings.Contains(got.body, "model_not_found") || !strings.Contains(got.body, `served: \"m\"`) {
						t.Errorf("status %d: %s", got.status, got.body)
					}
					if heard != 0 {
						t.Error("the engine heard of it")
					}
					return
				}
				if got.status != 200 || heard != 1 {
					t.Fatalf("status %d, engine heard %d: %s", got.status, heard, got.body)
				}
				if !strings.Contains(got.body, `"model":"m"`) || strings.Contains(got.body, "secret") {
					t.Errorf("model in the reply: %s", got.body)
				}
			})
		}
	}
}

func TestEmptyModelWithSeveral(t *testing.T) {
	b := start(t, plan{more: []fleet.ModelSpec{{Name: "n", Driver: &scripted.Driver{}, Start: engine.StartSpec{Parallel: 1}}}})
	got := b.do("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`)
	got.wantError(t, 400, "invalid_value", `"m", "n"`)
	if !strings.Contains(got.body, `"param":"model"`) {
		t.Errorf("no param: %s", got.body)
	}
}

// Each kind of error that comes before the first byte is its status, for streams as well.
func TestReviewR4EveryErrorBeforeTheFirstByteIsAStatus(t *testing.T) {
	for _, c := range []struct {
		err    *infer.Error
		status int
		code   string
		retry  string
	}{
		{infer.Errorf(infer.ErrInvalid, "messages", "bad"), 400, "invalid_value", ""},
		{&infer.Error{Kind: infer.ErrContextLength, Param: "messages", PromptTokens: 9000, Window: 4096}, 400, "context_length_exceeded", ""},
		{infer.Errorf(infer.ErrUnsupported, "tools", "no tools"), 400, "unsupported_parameter", ""},
		{infer.Errorf(infer.ErrModelTooLarge, "", "too large"), 400, "model_too_large", ""},
		{infer.Errorf(infer.ErrEngine, "", "compute error"), 502, "engine_error", ""},
		{infer.Errorf(infer.ErrEngineLost, "", "gone"), 502, "engine_error", ""},
		{&infer.Error{Kind: infer.ErrLoading, Message: "soon", RetryAfter: 1500 * time.Millisecond}, 503, "server_is_overloaded", "2"},
		{infer.Errorf(infer.ErrUnavailable, "", "down"), 503, "server_is_overloaded", ""},
		{&infer.Error{Kind: infer.ErrQueueFull, Message: "full", RetryAfter: time.Millisecond}, 429, "rate_limit_exceeded", "1"},
		{infer.Errorf(infer.ErrInternal, "", "bug"), 500, "internal_error", ""},
	} {
		for _, when := range []string{"accepting", "before the first event", "after progress"} {
			for _, mode := range []string{streaming, `"stream":false`} {
				t.Run(string(c.err.Kind)+" "+when+" "+mode, func(t *testing.T) {
					d := steps(scripted.Fail(c.err))
					if when != "accepting" {
						d = steps(scripted.Send(infer.Progress{Done: 1, Total: 2}), scripted.Fail(c.err))
					}
					got := start(t, plan{driver: d}).chat(mode)
					got.wantError(t, c.status, c.code)
					if got.err != nil {
						t.Errorf("body ended with %v", got.err)
					}
					if v := got.header.Get("Retry-After"); v != c.retry {
						t.Errorf("Retry-After %q, want %q", v, c.retry)
					}
				})
			}
		}
	}
}

func TestCaseC27OverTheWindowInWordsThatAgentsKnow(t *testing.T) {
	d := steps(scripted.Fail(&infer.Error{Kind: infer.ErrContextLength, Param: "messages", PromptTokens: 9000, Window: 4096}))
	for _, mode := range []string{streaming, `"stream":false`} {
		got := start(t, plan{driver: d}).chat(mode)
		got.wantError(t, 400, "context_length_exceeded", "maximum context length is 4096 tokens", "9000 tokens")
		if !strings.Contains(got.body, `"n_prompt_tokens":9000,"n_ctx":4096`) {
			t.Errorf("no numbers: %s", got.body)
		}
	}
}

// After the first byte: the error event, an aborted connection, no [DONE] and no clean end of the chunked body.
func TestCaseC9EngineDeathInTheMiddle(t *testing.T) {
	three := func(last scripted.Step) *scripted.Driver {
		return steps(scripted.Say("a"), scripted.Say("b"), scripted.Say("c"), last)
	}
	for _, c := range []struct {
		name string
		last scripted.Step
		says string
	}{
		{"the engine dies", scripted.Crash(engine.Exit{Reason: engine.ExitCrashed, Code: 134, Detail: "cannot read /secret/place/m.gguf"}), "crashed"},
		{"the engine says error", scripted.Fail(infer.Errorf(infer.ErrEngine, "", "compute error")), "compute error"},
		{"the engine's stream is cut", scripted.Cut(), "closed the connection"},
		{"the engine's stream ends early", scripted.Fail(io.EOF), "final event"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, plan{driver: three(c.last)})
			for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
				body := chatBody(streaming)
				if path == "/v1/completions" {
					body = `{"model":"m","prompt":"x","stream":true}`
				}
				if b.fleet.Status()[0].State != fleet.Serving {
					continue // the engine that died is not started again here
				}
				all, err := io.ReadAll(b.raw(path, body)) // to the end of the connection, however it comes
				if err != nil {
					t.Logf("connection ended with %v", err)
				}
				got := string(all)
				if !strings.HasPrefix(got, "HTTP/1.1 200 ") {
					t.Fatalf("got %s", got)
				}
				if strings.Contains(got, "[DONE]") || strings.HasSuffix(got, "0\r\n\r\n") || strings.Contains(got, `"finish_reason":"`) {
					t.Errorf("the stream ends as if it were whole: %q", got)
				}
				events := frames(got)
				wantEnvelope(t, strings.TrimSuffix(events[len(events)-1], "\r"), "engine_error", c.says)
			}
		})
	}
}

// The same failures without a stream: never half an answer with status 200.
func TestWholeAnswersAreWholeOrAnError(t *testing.T) {
	for name, last := range map[string]scripted.Step{
		"dies": scripted.Crash(engine.Exit{Reason: engine.ExitCrashed}), "cut": scripted.Cut(), "ends": scripted.Fail(io.EOF),
		"error": scripted.Fail(errors.New("odd")),
	} {
		t.Run(name, func(t *testing.T) {
			got := start(t, plan{driver: steps(scripted.Say("half"), last)}).chat()
			got.wantError(t, 502, "engine_error")
			if strings.Contains(got.body, "half") || strings.Contains(got.body, "odd") {
				t.Errorf("body %s", got.body)
			}
		})
	}
}

func TestCaseC23CharactersAreWholeWhereverTheEngineCuts(t *testing.T) {
	const text = "a é 漢 👍🏽 z"
	for cut := range len(text) + 1 {
		got := start(t, plan{driver: steps(scripted.Say(text[:cut]), scripted.Say(text[cut:]), scripted.Finish(2))}).chat(streaming)
		if s := said(t, got.body); s != text {
			t.Errorf("cut at %d: %q", cut, s)
		}
	}
	var bytewise []scripted.Step
	for i := range len(text) {
		bytewise = append(bytewise, scripted.Say(text[i:i+1]))
	}
	got := start(t, plan{driver: steps(append(bytewise, scripted.Finish(9))...)}).chat(streaming)
	if s := said(t, got.body); s != text {
		t.Errorf("byte by byte: %q", s)
	}
}

// The same answer, streamed or not, says the same.
func TestCaseC24StreamAndWholeAgree(t *testing.T) {
	d := steps(scripted.Say("let me see"), scripted.Send(infer.ToolStart{Name: "f"}), scripted.Send(infer.ToolArgs{Text: `{"a":`}),
		scripted.Send(infer.ToolArgs{Text: `1}`}), scripted.Send(infer.Done{Reason: infer.StopTools}))
	b := start(t, plan{driver: d})
	tools := `"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]`
	whole, stream := b.chat(tools), b.chat(tools, streaming)
	if !strings.Contains(whole.body, `"arguments":"{\"a\":1}"`) || !strings.Contains(whole.body, `"finish_reason":"tool_calls"`) {
		t.Errorf("whole: %s", whole.body)
	}
	var args strings.Builder
	for _, f := range frames(stream.body) {
		if f == "[DONE]" {
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct {
					Calls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte(f), &c); err != nil {
			t.Fatal(err)
		}
		for _, ch := range c.Choices {
			for _, tc := range ch.Delta.Calls {
				args.WriteString(tc.Function.Arguments)
			}
		}
	}
	if args.String() != `{"a":1}` || !strings.Contains(stream.body, `"finish_reason":"tool_calls"`) {
		t.Errorf("stream: arguments %q in %s", args.String(), stream.body)
	}
}

func TestQueueFullIs429(t *testing.T) {
	release := make(chan struct{})
	calls := make(chan *scripted.Call, 3)
	d := steps(scripted.Wait(release), scripted.Finish(1))
	d.Calls = calls
	b := start(t, plan{driver: d, queue: 0})
	c := b.raw("/v1/chat/completions", chatBody())
	<-calls
	for _, mode := range []string{streaming, `"stream":false`} {
		got := b.chat(mode)
		got.wantError(t, 429, "rate_limit_exceeded", "busy")
		if got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	close(release)
	readUntil(t, c, "HTTP/1.1 200")
}

func TestLogTellsTheRequestAndNotTheText(t *testing.T) {
	b := start(t, plan{driver: steps(scripted.Say("the-answer"), scripted.Finish(2))})
	id := b.chat(streaming).header.Get("X-Request-Id")
	b.chat(`"temperature":-5`)
	line := ""
	for l := range strings.SplitSeq(b.log.String(), "\n") {
		if strings.Contains(l, "id="+id) {
			line += l
		}
	}
	for _, want := range []string{
		"level=INFO", "route=/chat/completions", "status=200", "outcome=ok", "model=m", "engine=scripted", "took=", "ttft=",
		"prompt_tokens=3", "completion_tokens=2",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %q", want, line)
		}
	}
	if got := strings.Count(b.log.String(), "msg=request"); got != 2 {
		t.Errorf("%d lines for 2 requests", got)
	}
	if strings.Contains(b.log.String(), "tell-me-a-secret") || strings.Contains(b.log.String(), "the-answer") {
		t.Error("the log repeats what was said")
	}
	if !strings.Contains(b.log.String(), "outcome=invalid") {
		t.Errorf("the refused request is not in the log: %s", b.log.String())
	}
}
