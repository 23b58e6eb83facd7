package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, c Config) (*Server, string) {
	t.Helper()
	s := NewServer(c)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, string(b) + " (cut off)"
	}
	return resp.StatusCode, string(b)
}

const hello = `{"stream":true,"temperature":0,"max_tokens":4,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"a b`

func TestParseScript(t *testing.T) {
	good := []string{"", "load: 2s\ntokens: 5", "die-at: after:3\ndie-how: exit:7", "lies: after:2", "omit: [done, usage]", "close-at: prefill\nclose-how: reset"}
	for _, s := range good {
		if _, err := ParseScript([]byte(s)); err != nil {
			t.Errorf("%q is refused: %v", s, err)
		}
	}
	bad := map[string]string{
		"dye-at: load": "dye-at", "die-at: lunch": "die-at", "die-how: slowly": "die-how", "lies: often": "lies", "omit: [all]": "omit",
		"status-body: xml": "status-body", "port-lost: 1": "state-file", "tokens: many": "tokens", "close-how: softly": "close-how",
	}
	for s, says := range bad {
		if _, err := ParseScript([]byte(s)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q gives %v, want an error that names %s", s, err, says)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	for _, s := range []string{"load: 2s", "die-at: after:3", "omit: [done]", "{", "a: &a [*a]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 200 {
			return // the YAML parser's memory grows with the square of the nesting
		}
		s, err := ParseScript(text)
		if err == nil && s.check() != nil {
			t.Errorf("%q is taken and does not pass its own check", text)
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(hello + `"}]}`))
	f.Add([]byte(`{"prompt":[1,2],"stop":["a"],"json_schema":{"anyOf":[{"type":"array","minItems":2}]}}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"text":"x @fault{tokens: 3}"}]}],"tools":[{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r request
		if json.Unmarshal(body, &r) != nil {
			return
		}
		base := func(last string) (Script, string) { return Script{}, last }
		for _, chat := range []bool{true, false} {
			if q, err := r.question(base, chat); err == nil && q.script.Tokens < 1000 && len(body) < 300 {
				if a := q.reply(); a.reason == "" {
					t.Errorf("an answer without a reason to %s", body)
				}
			}
		}
	})
}

func TestTokensJoinToTheText(t *testing.T) {
	for _, s := range []string{"", "a b", "1 größe, 東京!\n\n  x", "🚂🚂"} {
		if got := strings.Join(Tokenize(s), ""); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestHelpNamesEveryKey(t *testing.T) {
	h := Help()
	for _, k := range keys() {
		if name := k.Tag.Get("yaml"); !strings.Contains(h, "  "+name+" ") || k.Tag.Get("help") == "" {
			t.Errorf("%s is not in the help, or has none", name)
		}
	}
}

func TestGoodAnswers(t *testing.T) {
	_, url := serve(t, Config{Window: 100})
	status, body := post(t, url+"/v1/chat/completions", hello+`"}]}`)
	for _, want := range []string{`"content":"1"`, `"content":" b"`, `"finish_reason":"length"`, `"completion_tokens":4`, "data: [DONE]"} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("status %d, no %s in %s", status, want, body)
		}
	}
	if _, b := post(t, url+"/completion", `{"prompt":"a b","n_predict":3,"temperature":0,"stream":true,"stop":["a"]}`); !strings.Contains(b, `"stop_type":"word"`) ||
		!strings.Contains(b, `"stopping_word":"a"`) || strings.Contains(b, `"content":" a"`) {
		t.Errorf("a stop text gives %s", b)
	}
	call := strings.Replace(hello, "a b", `@call get_weather {\"city\": \"Rome\"}`, 1) + `"}],"tools":[{"type":"function"}]}`
	if _, b := post(t, url+"/v1/chat/completions", call); !strings.Contains(b, `"name":"get_weather"`) || !strings.Contains(b, `"finish_reason":"tool_calls"`) {
		t.Errorf("a tool call gives %s", b)
	}
	schema := `"}],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","properties":{"z":{"type":"integer"},"a":{"enum":["q"]}}}}}}`
	if _, b := post(t, url+"/v1/chat/completions", strings.Replace(hello, `"max_tokens":4,"stream":true`, "", 1)+schema); !strings.Contains(b, "data: ") {
		t.Errorf("a schema gives %s", b)
	}
	if got := string(appendInstance(nil, json.RawMessage(`{"type":"object","properties":{"z":{"type":"integer"},"a":{"enum":["q"]}}}`))); got != `{"z":7,"a":"q"}` {
		t.Errorf("instance %s", got)
	}
	long := strings.Repeat("word ", 100)
	status, body = post(t, url+"/v1/chat/completions", hello+long+`"}]}`)
	if status != 400 || !strings.Contains(body, `"exceed_context_size_error"`) || !strings.Contains(body, `"n_ctx":100`) {
		t.Errorf("over the window: %d %s", status, body)
	}
}

// TestFaults gives each fault of an answer to both surfaces and looks for its mark in what a client sees.
func TestFaults(t *testing.T) {
	tests := []struct {
		fault  string
		status int
		has    string
		not    string
	}{
		{"status: 503", 503, `"error"`, "data:"},
		{"status: 500, status-body: html", 500, "<html>", ""},
		{"status: 500, status-body: empty", 500, "", "{"},
		{"status: 500, status-body: string", 500, `{"error":"scripted failure"}`, ""},
		{"close-at: after:2", 200, `" a"`, "[DONE]"},
		{"close-at: after:2, close-how: half-line", 200, `" a"`, "[DONE]"},
		{"die-at: after:2", 200, `" a"`, "[DONE]"},
		{"bad-json-at: after:2", 200, `{"choices":[{` + "\n", ""},
		{"error-at: after:2", 200, `"scripted failure"`, "[DONE]"},
		{"omit: [done]", 200, `"finish_reason":"length"`, "[DONE]"},
		{"omit: [finish]", 200, "[DONE]", `"finish_reason":"length"`},
		{"omit: [usage]", 200, "[DONE]", `"usage"`},
		{"think: 'let me see'", 200, `let"`, ""},
		{"answer: 'fixed'", 200, `"fixed"`, ""},
		{"tokens: 2", 200, `" a"`, `" b"`},
		{"token-delay: 1ms, chunk: 1, chunk-delay: 1ms", 200, "[DONE]", ""},
		{"answer: 'zürich', cut-utf8: events", 200, "[DONE]", ""},
		{"answer: 'zürich', cut-utf8: writes", 200, "zürich", ""},
		{"grow: 1", 200, "[DONE]", ""},
	}
	for _, as := range []Surface{LlamaServer, MLX} {
		_, url := serve(t, Config{As: as})
		for _, tt := range tests {
			t.Run(string(as)+" "+tt.fault, func(t *testing.T) {
				status, body := post(t, url+"/v1/chat/completions", hello+" @fault{"+tt.fault+`}"}]}`)
				if status != tt.status || !strings.Contains(body, tt.has) || tt.not != "" && strings.Contains(body, tt.not) {
					t.Errorf("status %d, want %d; %q wanted, %q not, in %s", status, tt.status, tt.has, tt.not, body)
				}
			})
		}
	}
}

func TestMixedUpAnswersAndLies(t *testing.T) {
	s, url := serve(t, Config{Script: Script{OtherAnswer: true}})
	post(t, url+"/v1/chat/completions", strings.Replace(hello, "a b", "first", 1)+`"}]}`)
	if _, b := post(t, url+"/v1/chat/completions", strings.Replace(hello, "a b", "second", 1)+`"}]}`); !strings.Contains(b, " first") || strings.Contains(b, "second") {
		t.Errorf("not the other request's answer: %s", b)
	}
	s.SetScript(Script{DropToolCall: true})
	call := strings.Replace(hello, "a b", `@call f {}`, 1) + `"}],"tools":[{"type":"function"}]}`
	if _, b := post(t, url+"/v1/chat/completions", call); strings.Contains(b, `"name":"f"`) || !strings.Contains(b, `"finish_reason":"tool_calls"`) {
		t.Errorf("the call is not dropped: %s", b)
	}
	_, url = serve(t, Config{Script: Script{Lies: "after:1"}})
	first, _ := post(t, url+"/v1/chat/completions", hello+`"}]}`)
	second, _ := post(t, url+"/v1/chat/completions", hello+`"}]}`)
	if first != 200 || second != 500 {
		t.Errorf("statuses %d and %d, want 200 and then 500", first, second)
	}
}

func TestStateSeesTheClientLeave(t *testing.T) {
	s, url := serve(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	body := strings.NewReader(hello + ` @fault{silent-at: after:1}"}]}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if resp, err := http.DefaultClient.Do(req); err == nil {
			io.Copy(io.Discard, resp.Body) //nolint:errcheck // it is cut off
			resp.Body.Close()
		}
	}()
	until(t, func() bool { return s.State().Active == 1 })
	cancel()
	until(t, func() bool { st := s.State(); return st.Active == 0 && st.Cancelled == 1 })
	if got := s.Received(); len(got) != 1 || got[0].Path != "/v1/chat/completions" {
		t.Errorf("received %+v", got)
	}
}

func until(t *testing.T, is func() bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for !is() {
		select {
		case <-limit:
			t.Fatal("did not happen within 10 s")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestLoadingAndScriptsAtRunTime(t *testing.T) {
	_, url := serve(t, Config{Script: Script{Load: time.Hour}})
	get := func() int {
		resp, err := http.Get(url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := get(); got != 503 {
		t.Errorf("health %d while loading, want 503", got)
	}
	if status, b := post(t, url+"/fake/script", "lod: 1s"); status != 400 || !strings.Contains(b, "lod") {
		t.Errorf("a bad script gives %d %s", status, b)
	}
	if status, _ := post(t, url+"/fake/script", "tokens: 3"); status != 204 {
		t.Errorf("a script gives %d", status)
	}
	if got := get(); got != 200 {
		t.Errorf("health %d afterwards, want 200", got)
	}
}

// TestMLXWays: what makes mlx_lm.server awkward is played.
func TestMLXWays(t *testing.T) {
	_, url := serve(t, Config{As: MLX, Script: Script{Load: 0, Think: "hm"}})
	status, body := post(t, url+"/v1/chat/completions", `{"model":"some/model",`+hello[1:]+`"}]}`)
	for _, want := range []string{": keepalive ", `"reasoning":"hm"`, `"object":"chat.completion"`, `"model":"some/model"`, `"role":"assistant"`} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("status %d, no %s in %s", status, want, body)
		}
	}
	for _, b := range []string{`{"messages":[],"temperature":null}`, `{"stream_options":{}}`, `{"xtc_probability":0}`} {
		if resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(b)); err == nil {
			resp.Body.Close()
			t.Errorf("%s is answered with %d, want a closed connection", b, resp.StatusCode)
		}
	}
	if status, b := post(t, url+"/v1/chat/completions", `{"messages":[]}`); status != 404 || !strings.Contains(b, `{"error":"`) {
		t.Errorf("no messages: %d %s, want 404 with a string", status, b)
	}
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", io.MultiReader(strings.NewReader(hello), strings.NewReader(`"}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusLengthRequired {
		t.Errorf("a body without a length gives %d, want 411", resp.StatusCode)
	}
}

func TestMainSpeaksTheEnginesLanguage(t *testing.T) {
	script := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(script, []byte("die-at: bind\ndie-how: exit:9\nlast-words: bye\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		exit int
		says string
	}{
		{[]string{"--help"}, 0, "Usage: stoker engine fake"},
		{[]string{"--", "--help"}, 0, "-c,    --ctx-size N"},
		{[]string{"--", "--version"}, 0, "version: 0.0.0-fake"},
		{[]string{"--", "--list-devices"}, 0, "Available devices"},
		{[]string{"--", "--nonsense"}, 1, "error: invalid argument: --nonsense"},
		{[]string{"--as", "mlx-lm", "--", "--ctx-size", "1"}, 1, "error: invalid argument: --ctx-size"},
		{[]string{"--", "-c"}, 1, "expected value for argument: -c"},
		{[]string{"--as", "vllm"}, 2, "vllm"},
		{[]string{"--script", "/nowhere.yaml"}, 2, "nowhere.yaml"},
		{[]string{"--port", "1"}, 2, "go behind --"},
		{[]string{"--script", script}, 9, "bye"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var out bytes.Buffer
			if got := Main(tt.args, nil, &out, &out); got != tt.exit || !strings.Contains(out.String(), tt.says) {
				t.Errorf("exit %d with %q, want %d with %q", got, out.String(), tt.exit, tt.says)
			}
		})
	}
}
