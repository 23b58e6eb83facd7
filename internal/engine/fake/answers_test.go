package fake

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// chatOf is a chat request with more members.
func chatOf(text, more string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	if more != "" {
		more = "," + more
	}
	return `{"temperature":0,"messages":[{"role":"user","content":` + string(b) + `}]` + more + `}`
}

// wholeOf asks for an answer in one piece.
func wholeOf(t *testing.T, url, body string) (a struct {
	Choices []struct {
		Finish  *string `json:"finish_reason"`
		Text    string
		Message struct {
			Content   string
			Reasoning string
			ToolCalls []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Logprobs *struct {
			Content []struct {
				Token   string
				Logprob float64
				Top     []any `json:"top_logprobs"`
			}
		}
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
},
) {
	t.Helper()
	status, b := post(t, url, body)
	if err := json.Unmarshal([]byte(b), &a); status != 200 || err != nil || len(a.Choices) != 1 {
		t.Fatalf("%d %s (%v)", status, b, err)
	}
	return a
}

// TestLimitsAndReasons: an answer ends by itself, by the request's limit, or by the window, and says which.
func TestLimitsAndReasons(t *testing.T) {
	_, url := serve(t, Config{Window: 60})
	tests := []struct {
		name, text, more string
		tokens           int
		reason           string
	}{
		{"by itself", "a b", "", defaultTokens, "stop"},
		{"by the limit", "a b", `"max_tokens":5`, 5, "length"},
		{"a limit of none is one", "a b", `"max_tokens":0`, 1, "length"},
		{"the newer name", "a b", `"max_completion_tokens":3`, 3, "length"},
		{"beyond its end", "a b", `"max_tokens":50`, defaultTokens, "stop"},
		{"not ended by itself", "a b", `"max_tokens":50,"ignore_eos":true`, 50, "length"},
		{"by the window", "a b", `"ignore_eos":true`, 60 - 9, "length"},
		{"a script's end", "a b @fault{tokens: 2}", "", 2, "stop"},
		{"a long scripted text", "@fault{answer: '" + strings.Repeat("x ", 45) + "'}", "", 46, "stop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Contains(tt.name, "long") {
				_, url = serve(t, Config{Window: 1000})
			}
			a := wholeOf(t, url+"/v1/chat/completions", chatOf(tt.text, tt.more))
			if a.Usage.Completion != tt.tokens || *a.Choices[0].Finish != tt.reason || len(Tokenize(a.Choices[0].Message.Content)) != tt.tokens {
				t.Errorf("%d tokens, ended by %s, want %d by %s: %q", a.Usage.Completion, *a.Choices[0].Finish, tt.tokens, tt.reason,
					a.Choices[0].Message.Content)
			}
		})
	}
}

func TestSeeds(t *testing.T) {
	_, url := serve(t, Config{})
	ask := func(more string) string {
		body := strings.Replace(chatOf("a b", more), `"temperature":0`, `"temperature":1`, 1)
		return wholeOf(t, url+"/v1/chat/completions", body).Choices[0].Message.Content
	}
	if one, again, two := ask(`"seed":1`), ask(`"seed":1`), ask(`"seed":2`); one != again || one == two {
		t.Errorf("seed 1 gives %q and %q, seed 2 %q", one, again, two)
	}
}

func TestLogprobsAreOnePerToken(t *testing.T) {
	_, llama := serve(t, Config{})
	_, mlx := serve(t, Config{As: MLX})
	for name, url := range map[string]string{"llama-server": llama, "mlx-lm": mlx} {
		a := wholeOf(t, url+"/v1/chat/completions", chatOf("a b", `"max_tokens":3,"logprobs":true,"top_logprobs":1`))
		l := a.Choices[0].Logprobs
		if l == nil || len(l.Content) != 3 || l.Content[1].Token != " a" || l.Content[1].Logprob >= 0 || len(l.Content[1].Top) != 1 {
			t.Errorf("%s: %+v", name, l)
		}
		if a := wholeOf(t, url+"/v1/chat/completions", chatOf("a b", "")); a.Choices[0].Logprobs != nil {
			t.Errorf("%s: log probabilities that nobody asked for", name)
		}
	}
	if _, b := post(t, llama+"/v1/completions", `{"prompt":"a b","max_tokens":2,"logprobs":1,"stream":true,"temperature":0}`); strings.Count(b, `"logprob":-0.25`) != 4 ||
		!strings.Contains(b, `"usage":{"completion_tokens":2,"prompt_tokens":2`) {
		t.Errorf("completions: %s", b)
	}
}

// TestToolCallIsCutByTheLimit: a call that does not fit ends broken, by length, as real ones do.
func TestToolCallIsCutByTheLimit(t *testing.T) {
	_, url := serve(t, Config{})
	tools := `"tools":[{"type":"function"}]`
	a := wholeOf(t, url+"/v1/chat/completions", chatOf(`@call f {"city": "Rome"}`, tools))
	if c := a.Choices[0]; *c.Finish != "tool_calls" || c.Message.ToolCalls[0].Function.Arguments != `{"city": "Rome"}` || a.Usage.Completion != 10 {
		t.Errorf("a whole call: %+v, %+v", c, a.Usage)
	}
	a = wholeOf(t, url+"/v1/chat/completions", chatOf(`@call f {"city": "Rome"}`, tools+`,"max_tokens":4`))
	if c := a.Choices[0]; *c.Finish != "length" || c.Message.ToolCalls[0].Function.Arguments != `{"city` || a.Usage.Completion != 4 {
		t.Errorf("a cut call: %+v, %+v", c, a.Usage)
	}
	if a := wholeOf(t, url+"/v1/chat/completions", chatOf(`@call f {"city": "Rome"}`, "")); a.Choices[0].Message.ToolCalls != nil {
		t.Error("a call without tools")
	}
}

// TestFaultsOfWholeAnswers: the faults of a stream have their counterparts where nothing is streamed.
func TestFaultsOfWholeAnswers(t *testing.T) {
	tests := []struct {
		fault  string
		status int
		body   string
	}{
		{"error-at: after:2", 500, `{"error":{"code":500,"message":"scripted failure"`},
		{"bad-json-at: final", 200, `{"choices":[{"finish_reason"`},
		{"bad-json-at: start", 200, `{"choices":[{"finish_reason"`},
		{"close-at: final, close-how: half-line", 200, `{"choices":[{"finish_reason"`},
		{"omit: [finish, usage]", 200, `"finish_reason":null`},
		{"status: 429", 429, `"scripted failure"`},
	}
	_, url := serve(t, Config{})
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			status, b := post(t, url+"/v1/chat/completions", chatOf("a b @fault{"+tt.fault+"}", `"max_tokens":4`))
			broken := strings.HasPrefix(tt.fault, "bad-json") || strings.HasPrefix(tt.fault, "close-at")
			if status != tt.status || !strings.Contains(b, tt.body) || json.Valid([]byte(b)) == broken {
				t.Errorf("%d %s", status, b)
			}
		})
	}
	for _, fault := range []string{"close-at: start", "close-at: after:2", "close-at: final, close-how: reset", "die-at: prefill", "close-at: after:1, close-how: cut"} {
		if resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chatOf("a b @fault{"+fault+"}", ""))); err == nil {
			resp.Body.Close()
			t.Errorf("%s: status %d, want no reply", fault, resp.StatusCode)
		}
	}
}

// TestSlotsQueue: more requests than slots wait without a word, and one whose client leaves frees its place.
func TestSlotsQueue(t *testing.T) {
	s, url := serve(t, Config{Slots: 2, Metrics: true})
	var leave []context.CancelFunc
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leave = append(leave, cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(chatOf("x @fault{silent-at: start}", "")))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body) //nolint:errcheck // it is cut off
				resp.Body.Close()
			}
		}()
	}
	until(t, func() bool { st := s.State(); return st.Active == 2 && st.Waiting == 1 && st.Received == 3 })
	_, slots := get(t, url+"/slots")
	if strings.Count(slots, `"is_processing":true`) != 2 {
		t.Errorf("slots %s", slots)
	}
	if status, _ := get(t, url+"/slots?fail_on_no_slot=1"); status != 503 {
		t.Errorf("no slot gives %d, want 503", status)
	}
	if _, m := get(t, url+"/metrics"); !strings.Contains(m, "llamacpp:requests_processing 2\n") || !strings.Contains(m, "llamacpp:requests_deferred 1\n") {
		t.Errorf("metrics %s", m)
	}
	for _, f := range leave {
		f()
	}
	until(t, func() bool { st := s.State(); return st.Active == 0 && st.Waiting == 0 && st.Cancelled == 3 })
	if a := wholeOf(t, url+"/v1/chat/completions", chatOf("a", `"max_tokens":2`)); a.Usage.Completion != 2 {
		t.Errorf("afterwards: %+v", a)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestInfoEvades(t *testing.T) {
	s, url := serve(t, Config{})
	if status, b := get(t, url+"/props"); status != 200 || !strings.Contains(b, `"total_slots":1`) {
		t.Errorf("props %d %s", status, b)
	}
	if status, b := get(t, url+"/metrics"); status != 501 || !strings.Contains(b, "not_supported_error") {
		t.Errorf("metrics that are not switched on: %d %s", status, b)
	}
	for how, want := range map[string]string{"empty": "{}\n", "wrong": `"total_slots":"many"`, "html": "<html>"} {
		s.SetScript(Script{Info: how})
		for _, path := range []string{"/props", "/slots", "/metrics", "/v1/models"} {
			if status, b := get(t, url+path); status != 200 || !strings.Contains(b, want) {
				t.Errorf("%s, %s: %d %s", how, path, status, b)
			}
		}
	}
	s.SetScript(Script{Info: "hang"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/props", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Errorf("it answers with %d", resp.StatusCode)
	}
}

// TestMLXLoadsWhileItIsWell: mlx_lm.server says that it is well and lets requests wait for the model; then it answers them.
func TestMLXLoadsWhileItIsWell(t *testing.T) {
	s, url := serve(t, Config{As: MLX, Script: Script{Load: time.Hour}})
	if status, _ := get(t, url+"/health"); status != 200 {
		t.Errorf("health %d", status)
	}
	answered := make(chan string, 1)
	go func() {
		resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chatOf("a b", `"max_tokens":2`)))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			b = []byte(err.Error())
		}
		answered <- string(b)
	}()
	until(t, func() bool { return s.State().Waiting == 1 })
	s.SetScript(Script{})
	if b := <-answered; !strings.Contains(b, `"content":"1 a"`) {
		t.Errorf("after loading: %s", b)
	}
}

// TestRefusedRequestsAreFollowedToo: what never had a slot is in the list with its outcome.
func TestRefusedRequestsAreFollowedToo(t *testing.T) {
	for _, as := range []Surface{LlamaServer, MLX} {
		s, url := serve(t, Config{As: as})
		for _, body := range []string{"{bad", `{"messages":[]}`} {
			post(t, url+"/v1/chat/completions", body)
		}
		got := s.Requests()
		if len(got) != 2 || got[0].Raw != "{bad" || got[0].Outcome != Refused || got[1].Outcome != Refused || got[1].ID != 2 || s.State().Refused != 2 {
			t.Errorf("%s: %+v, %+v", as, got, s.State())
		}
	}
}

// TestScriptInAPromptIsBounded: a prompt may come from anybody.
func TestScriptInAPromptIsBounded(t *testing.T) {
	_, url := serve(t, Config{Window: 1 << 20})
	status, b := post(t, url+"/v1/chat/completions", chatOf(marker+strings.Repeat("[", 1<<16)+"}", ""))
	if status != 400 || !strings.Contains(b, "closing brace") {
		t.Errorf("%d %.200s", status, b)
	}
}
