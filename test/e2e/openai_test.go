package e2e

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stoker-llm/stoker/test/kit"
)

// TestOpenAI is the straight line with everything real: a client, stoker, llama-server, a chat model.
func TestOpenAI(t *testing.T) {
	real := kit.NeedReal(t)
	s := serve(t, real, real.Chat, "--served-model-name", "smollm2", "--parallel", "2", "--ctx", "2048")

	t.Run("stream", func(t *testing.T) {
		r := s.post("/v1/chat/completions", ask("smollm2", "Explain in two sentences what a steam engine does.",
			obj{"stream": true, "stream_options": obj{"include_usage": true}}))
		ev := events(r.body)
		if r.status != 200 || r.err != nil || len(ev) < 5 || ev[len(ev)-1] != "[DONE]" {
			t.Fatalf("status %d, %v, %s", r.status, r.err, r.body)
		}
		if text := content(t, r.body); !strings.Contains(text, "steam engine") {
			t.Errorf("the answer is %q", text)
		}
		for name, want := range map[string]string{
			"X-Stoker-Engine": "llamacpp", "X-Stoker-Mode": "engine's own", "X-Stoker-Window": "2048", "Content-Type": "text/event-stream; charset=utf-8",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("header %s is %q, want %q", name, got, want)
			}
		}
		if r.header.Get("X-Request-Id") == "" {
			t.Error("no request id")
		}
		usage := ev[len(ev)-2]
		if n, ok := dig(t, []byte(usage), "usage", "completion_tokens").(float64); !ok || n < 1 || n > 24 {
			t.Errorf("usage %s", usage)
		}
	})
	t.Run("whole, and the same as the stream", func(t *testing.T) {
		body := ask("smollm2", "What does a locomotive do?", nil)
		whole := s.post("/v1/chat/completions", body)
		body["stream"] = true
		streamed := s.post("/v1/chat/completions", body)
		text, _ := dig(t, whole.body, "choices", 0, "message", "content").(string)
		if got := content(t, streamed.body); got != text || text == "" {
			t.Errorf("whole %q, streamed %q", text, got)
		}
		if m := dig(t, whole.body, "model"); m != "smollm2" {
			t.Errorf("model %v", m)
		}
		if n, ok := dig(t, whole.body, "usage", "prompt_tokens").(float64); !ok || n < 5 {
			t.Errorf("usage in %s", whole.body)
		}
	})
	t.Run("seed", func(t *testing.T) {
		body := ask("smollm2", "Tell me something.", obj{"temperature": 1.2, "seed": 7})
		first, second := s.post("/v1/chat/completions", body), s.post("/v1/chat/completions", body)
		a, b := dig(t, first.body, "choices", 0, "message", "content"), dig(t, second.body, "choices", 0, "message", "content")
		if a != b {
			t.Errorf("one seed, two answers: %q and %q", a, b)
		}
	})
	t.Run("stop", func(t *testing.T) {
		r := s.post("/v1/chat/completions", ask("smollm2", "What does a steam engine do?", obj{"stop": []string{"steam"}}))
		text, _ := dig(t, r.body, "choices", 0, "message", "content").(string)
		if reason := dig(t, r.body, "choices", 0, "finish_reason"); reason != "stop" || strings.Contains(text, "steam") {
			t.Errorf("%v, %q", reason, text)
		}
	})
	t.Run("length", func(t *testing.T) {
		r := s.post("/v1/chat/completions", ask("smollm2", "Count to one hundred.", obj{"max_tokens": 3}))
		if reason := dig(t, r.body, "choices", 0, "finish_reason"); reason != "length" || dig(t, r.body, "usage", "completion_tokens") != 3.0 {
			t.Errorf("%s", r.body)
		}
	})
	t.Run("logprobs", func(t *testing.T) {
		r := s.post("/v1/chat/completions", ask("smollm2", "Say yes.", obj{"logprobs": true, "top_logprobs": 3, "max_tokens": 4}))
		list, ok := dig(t, r.body, "choices", 0, "logprobs", "content").([]any)
		if !ok || len(list) == 0 {
			t.Fatalf("%s", r.body)
		}
		for _, e := range list {
			m, _ := e.(map[string]any)
			p, ok := m["logprob"].(float64)
			top, _ := m["top_logprobs"].([]any)
			if !ok || p > 0 || math.IsInf(p, 0) || len(top) != 3 || m["bytes"] == nil {
				t.Errorf("%v", e)
			}
		}
	})
	t.Run("schema", func(t *testing.T) { schema(t, s) })
	t.Run("tools", func(t *testing.T) { tools(t, s) })
	t.Run("completions", func(t *testing.T) {
		r := s.post("/v1/completions", obj{"model": "smollm2", "prompt": "The sea is", "max_tokens": 5, "temperature": 0})
		if text, _ := dig(t, r.body, "choices", 0, "text").(string); r.status != 200 || text == "" {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
	t.Run("two at once", func(t *testing.T) {
		var wg sync.WaitGroup
		want := s.post("/v1/chat/completions", ask("smollm2", "Name a colour.", nil))
		text, _ := dig(t, want.body, "choices", 0, "message", "content").(string)
		if text == "" {
			t.Fatalf("%s", want.body)
		}
		for range 6 { // more than run at once: the rest waits
			wg.Go(func() {
				if r := s.post("/v1/chat/completions", ask("smollm2", "Name a colour.", obj{"stream": true})); r.status != 200 || r.err != nil {
					t.Errorf("%d %v", r.status, r.err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("over the window", func(t *testing.T) { overWindow(t, s) })
	t.Run("names", func(t *testing.T) { names(t, s, real.Chat) })
	t.Run("models and health", func(t *testing.T) { cards(t, s) })
}

func schema(t *testing.T, s *server) {
	text := `{"type":"object","properties":{"city":{"type":"string","maxLength":12},"people":{"type":"integer"}},"required":["city","people"],"additionalProperties":false}`
	format := obj{"type": "json_schema", "json_schema": obj{"name": "place", "strict": true, "schema": json.RawMessage(text)}}
	r := s.post("/v1/chat/completions", ask("smollm2", "Describe Rome.", obj{"response_format": format, "max_tokens": 60}))
	answer, _ := dig(t, r.body, "choices", 0, "message", "content").(string)
	valid(t, text, answer)
	bad := obj{"type": "json_schema", "json_schema": obj{"name": "x", "schema": obj{"type": "string", "pattern": "^(?=a)b$"}}}
	r = s.post("/v1/chat/completions", ask("smollm2", "x", obj{"response_format": bad}))
	if r.status != 400 || dig(t, r.body, "error", "param") != "response_format" {
		t.Errorf("a schema that cannot be compiled gives %d %s", r.status, r.body)
	}
}

// valid checks JSON text against a schema's text.
func valid(t *testing.T, schema, text string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:s", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("mem:s")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%q is no JSON: %v", text, err)
	}
	if err := compiled.Validate(v); err != nil {
		t.Errorf("%s: %v", text, err)
	}
}

func tools(t *testing.T, s *server) {
	parameters := `{"type":"object","properties":{"city":{"type":"string","enum":["Rome","Paris"]}},"required":["city"]}`
	tool := []obj{{"type": "function", "function": obj{"name": "get_weather", "description": "The weather in a city.", "parameters": json.RawMessage(parameters)}}}
	for _, choice := range []any{"required", obj{"type": "function", "function": obj{"name": "get_weather"}}} {
		r := s.post("/v1/chat/completions", ask("smollm2", "How is the weather in Rome?", obj{"tools": tool, "tool_choice": choice, "max_tokens": 60}))
		if r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if dig(t, r.body, "choices", 0, "finish_reason") != "tool_calls" || dig(t, r.body, "choices", 0, "message", "tool_calls", 0, "function", "name") != "get_weather" {
			t.Errorf("%s", r.body)
		}
		args, _ := dig(t, r.body, "choices", 0, "message", "tool_calls", 0, "function", "arguments").(string)
		valid(t, parameters, args)
	}
	r := s.post("/v1/chat/completions", ask("smollm2", "How is the weather in Rome?", obj{"tools": tool}))
	if r.status != 400 || dig(t, r.body, "error", "param") != "tools" {
		t.Errorf("tools that the template does not know give %d %s: want a refusal by name", r.status, r.body)
	}
}

func overWindow(t *testing.T, s *server) {
	for _, stream := range []bool{false, true} {
		r := s.post("/v1/chat/completions", ask("smollm2", strings.Repeat("many words here ", 1500), obj{"stream": stream}))
		if r.status != 400 || dig(t, r.body, "error", "code") != "context_length_exceeded" {
			t.Fatalf("%d %s", r.status, r.body)
		}
		msg, _ := dig(t, r.body, "error", "message").(string)
		n, _ := dig(t, r.body, "error", "n_prompt_tokens").(float64)
		if !strings.Contains(msg, "maximum context length is 2048 tokens") || n < 2048 || dig(t, r.body, "error", "n_ctx") != 2048.0 {
			t.Errorf("both numbers are wanted in %s", r.body)
		}
	}
}

func names(t *testing.T, s *server, path string) {
	for _, name := range []string{path, "smolm2", "gpt-4o"} {
		r := s.post("/v1/chat/completions", ask(name, "x", nil))
		if r.status != 404 || dig(t, r.body, "error", "code") != "model_not_found" || !strings.Contains(string(r.body), "smollm2") {
			t.Errorf("%s gives %d %s", name, r.status, r.body)
		}
		if name != path && strings.Contains(string(r.body), path) {
			t.Errorf("the path is disclosed in %s", r.body)
		}
	}
}

func cards(t *testing.T, s *server) {
	var list struct {
		Data []obj `json:"data"`
	}
	if status := s.get("/v1/models", &list); status != 200 || len(list.Data) != 1 || list.Data[0]["id"] != "smollm2" || list.Data[0]["context_length"] != 2048.0 {
		t.Errorf("%d %+v", status, list)
	}
	var one, health, version obj
	if status := s.get("/v1/models/smollm2", &one); status != 200 || one["max_model_len"] != 2048.0 {
		t.Errorf("%d %v", status, one)
	}
	if status := s.get("/v1/models/nobody", &one); status != 404 {
		t.Errorf("an unknown model gives %d", status)
	}
	if status := s.get("/health", &health); status != 200 || health["status"] != "ok" || health["product"] != "stoker" {
		t.Errorf("%d %v", status, health)
	}
	if status := s.get("/version", &version); status != 200 || version["product"] != "stoker" {
		t.Errorf("%d %v", status, version)
	}
	resp, err := http.Get(s.url + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || len(b) == 0 {
		t.Errorf("GET / gives %d %q %v", resp.StatusCode, b, err)
	}
}

// TestBaseModel: a model without a chat template is refused by name for chats, and continues text.
func TestBaseModel(t *testing.T) {
	real := kit.NeedReal(t)
	s := serve(t, real, real.Base, "--served-model-name", "gemma", "--ctx", "2k")
	r := s.post("/v1/chat/completions", ask("gemma", "Hello.", nil))
	if msg, _ := dig(t, r.body, "error", "message").(string); r.status != 400 || !strings.Contains(msg, "gemma") || !strings.Contains(msg, "no chat template") {
		t.Errorf("%d %s", r.status, r.body)
	}
	r = s.post("/v1/completions", obj{"model": "gemma", "prompt": "The capital of Italy is", "max_tokens": 8, "temperature": 0, "stream": true})
	if text := content(t, r.body); r.status != 200 || !strings.Contains(text, "Ital") {
		t.Errorf("%d %q", r.status, text)
	}
}
