package fake

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
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
	good := []string{"", "info: hang\nnoise-to: both", "silent-at: bind", "close-at: after:2\nclose-how: cut", "load: 2s\ntokens: 5", "die-at: after:3\ndie-how: exit:7", "lies: after:2", "omit: [done, usage]", "close-at: prefill\nclose-how: reset"}
	for _, s := range good {
		if _, err := ParseScript([]byte(s)); err != nil {
			t.Errorf("%q is refused: %v", s, err)
		}
	}
	bad := map[string]string{
		"dye-at: load": "dye-at", "die-at: lunch": "die-at", "die-how: slowly": "die-how", "lies: often": "lies", "omit: [all]": "omit",
		"close-at: bind": "close-at", "error-at: load": "error-at", "info: maybe": "info", "noise-to: printer": "noise-to",
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
		base := func(last string) (Script, bool, string) { return Script{}, true, last }
		for _, chat := range []bool{true, false} {
			q, err := r.question(setting{base: base, chat: chat, max: 100})
			if err != nil || len(body) > 300 {
				continue
			}
			if a := q.reply(); a.reason == "" || len(a.tokens)+a.callTokens() > 100 {
				t.Errorf("%d tokens, ended by %q, to %s", len(a.tokens)+a.callTokens(), a.reason, body)
			}
		}
	})
}

// tokenRule is the rule of a token as an expression, which the code follows by hand.
var tokenRule = regexp.MustCompile(`\s?[\p{L}\p{N}_]+|\s?[^\s\p{L}\p{N}_]|\s`)

func FuzzTokenize(f *testing.F) {
	for _, s := range []string{"", "a b", "1 größe, 東京!\n\n  x", "🚂🚂", " ", "a \xe2\x82 b", " ,", "\u00a0x \v"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Tokenize(s)
		if strings.Join(got, "") != s {
			t.Errorf("%q became %q", s, got)
		}
		if want := tokenRule.FindAllString(s, -1); !slices.Equal(got, want) {
			t.Errorf("%q: tokens %q, want %q", s, got, want)
		}
	})
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
	call := chatOf(`@call get_weather {"city": "Rome"}`, `"stream":true,"tools":[{"type":"function"}]`)
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
		{"close-at: after:2, close-how: cut", 200, `" a"`, "[DONE]"},
		{"close-at: after:4", 200, `" b"`, "finish_reason\":\"length"},
		{"error-at: final", 200, `" b"`, "[DONE]"},
		{"die-at: after:2", 200, `" a"`, "[DONE]"},
		{"bad-json-at: after:2", 200, `{"choices":[{` + "\n", ""},
		{"error-at: after:2", 200, `" a"`, "[DONE]"},
		{"omit: [done]", 200, `"finish_reason":"length"`, "[DONE]"},
		{"omit: [finish]", 200, "[DONE]", `"finish_reason":"length"`},
		{"omit: [usage]", 200, "[DONE]", `"usage"`},
		{"omit: [usage, finish, done]", 200, `" b"`, `"finish_reason":"length"`},
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
	until(t, func() bool { st := s.State(); return st.Active == 1 && st.Tokens == 1 })
	if got := s.Requests()[0]; got.Outcome != Active || !got.Ended.IsZero() {
		t.Errorf("while it is answered the request is %+v", got)
	}
	cancel()
	until(t, func() bool { st := s.State(); return st.Active == 0 && st.Cancelled == 1 })
	if got := s.Requests(); len(got) != 1 || got[0].Path != "/v1/chat/completions" || got[0].Outcome != Cancelled || got[0].Tokens != 1 ||
		got[0].Ended.Before(got[0].At) || got[0].Ended != s.State().LastCancel {
		t.Errorf("requests %+v", got)
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
	for body, says := range map[string]string{
		`{"messages":[],"temperature":null}`:  "temperature must be of type ('float', 'int')",
		`{"messages":[],"xtc_probability":0}`: "xtc_probability must be of type float",
		`{"messages":[],"max_tokens":"7"}`:    "max_tokens must be of type int",
		`{"messages":[],"model":null}`:        "requested_model must be of type str",
		`{}`:                                  "Request did not contain messages",
		`[]`:                                  "Request should be a JSON dictionary",
		`{bad`:                                "Invalid JSON in request body",
	} {
		if status, b := post(t, url+"/v1/chat/completions", body); status != 400 || !strings.Contains(b, `{"error":"`+says) {
			t.Errorf("%s: %d %s, want 400 with %s", body, status, b, says)
		}
	}
	noMember := strings.Replace(hello, `"stream_options":{"include_usage":true}`, `"stream_options":{}`, 1) + `"}]}`
	if status, b := post(t, url+"/v1/chat/completions", noMember); status != 200 || !strings.Contains(b, `"finish_reason":"length"`) || strings.Contains(b, "[DONE]") {
		t.Errorf("stream_options without its member: %d %s, want an end behind the reason", status, b)
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
	if resp.ProtoMajor != 1 || resp.ProtoMinor != 0 || !resp.Close {
		t.Errorf("it answers in %s, want HTTP/1.0 and a closed connection", resp.Proto)
	}
	if status, b := post(t, url+"/nothing", "{}"); status != 404 || b != "Not Found" {
		t.Errorf("an unknown path gives %d %s", status, b)
	}
}
