package llamacpp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/models/gguf"
	"github.com/stoker-llm/stoker/test/kit"
)

// startReal starts the real engine with a real model.
func startReal(t *testing.T, path string, options ...engine.Option) *instance {
	t.Helper()
	real := kit.NeedReal(t)
	s := realSpec(t, path, 2048)
	s.Options = options
	in := begin(stdT{t}, realDriver(t, real), s)
	stopAfter(t, in)
	return in.(*instance)
}

// toolTemplate shows tools to the model and has a form for its calls, in the way of the Hermes family.
const toolTemplate = `{%- if tools %}{{- '<|im_start|>system\nTools:\n' }}{%- for tool in tools %}{{- tool | tojson }}{{- '\n' }}{%- endfor %}{{- 'Answer a call with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}{{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
{%- elif message.role == 'assistant' and message.tool_calls %}{{- '<|im_start|>assistant\n' + (message.content or '') }}{%- for call in message.tool_calls %}{{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}{{- call.function.arguments | tojson }}{{- '}\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\n' }}
{%- elif message.role == 'system' and not loop.first %}{{- raise_exception('the system message must be the first') }}
{%- else %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}`

var weather = infer.Tool{
	Name: "get_weather", Description: "Get the weather of a city",
	Parameters: json.RawMessage(`{"type":"object","$defs":{"unit":{"enum":["celsius","fahrenheit"]}},"properties":{"city":{"type":"string"},"unit":{"$ref":"#/$defs/unit"}},"required":["city","unit"]}`),
}

var clock = infer.Tool{Name: "get_time", Parameters: json.RawMessage(`{"type":"object","properties":{"zone":{"type":"string"}},"required":["zone"]}`)}

// TestRealForcedCalls: a model of 135M parameters, which answers "required" in prose when llama-server is left to it, makes
// exactly one call with arguments of the right shape; with a template that knows tools and with one that does not.
func TestRealForcedCalls(t *testing.T) {
	real := kit.NeedReal(t)
	template := filepath.Join(t.TempDir(), "tools.jinja")
	if err := os.WriteFile(template, []byte(toolTemplate), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		options []engine.Option
		tools   bool
	}{
		{"template without tools", nil, false},
		{"template with tools", []engine.Option{{Key: "chat-template-file", Value: template}}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := startReal(t, real.Chat, tt.options...)
			if got := in.Facts().Caps; got.Tools != tt.tools || !got.ForcedTools {
				t.Fatalf("capabilities = %+v, want tools %v and forced tools", got, tt.tools)
			}
			for _, choice := range []infer.ToolChoice{{Mode: infer.ToolRequired}, {Mode: infer.ToolNamed, Name: "get_weather"}, {Mode: infer.ToolNamed, Name: "get_time"}} {
				r := chat("How is the weather in Paris?", 200)
				r.Tools, r.ToolChoice, r.Stop = []infer.Tool{clock, weather}, choice, []string{"{", "Paris"}
				name, args, done := oneCall(t, in, r)
				if choice.Name != "" && name != choice.Name {
					t.Errorf("%v: called %q", choice, name)
				}
				if done.Reason != infer.StopTools {
					t.Errorf("%v: ended with %s", choice, done.Reason)
				}
				checkArguments(t, name, args)
				n, err := in.CountTokens(t.Context(), r)
				if err != nil || n != done.Usage.Prompt {
					t.Errorf("%v: counted %d tokens (%v), the engine read %d", choice, n, err, done.Usage.Prompt)
				}
			}
		})
	}
}

// oneCall reads an answer that must be exactly one tool call.
func oneCall(t *testing.T, in *instance, r *infer.Request) (name, args string, done infer.Done) {
	t.Helper()
	st, err := in.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for {
		ev, err := st.Next(t.Context())
		switch ev := ev.(type) {
		case infer.ToolStart:
			if name != "" || ev.Index != 0 {
				t.Errorf("a second call: %+v", ev)
			}
			name = ev.Name
		case infer.ToolArgs:
			args += ev.Text
		case infer.Text:
			t.Errorf("text beside the call: %q", ev.Text)
		case infer.Done:
			done = ev
		}
		if errors.Is(err, io.EOF) {
			return name, args, done
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkArguments checks the arguments against the tools' schemas.
func checkArguments(t *testing.T, name, args string) {
	t.Helper()
	var got struct{ City, Unit, Zone *string }
	if err := json.Unmarshal([]byte(args), &got); err != nil {
		t.Fatalf("arguments %q: %v", args, err)
	}
	switch name {
	case "get_weather":
		if got.City == nil || got.Unit == nil || *got.Unit != "celsius" && *got.Unit != "fahrenheit" {
			t.Errorf("arguments %s do not fit", args)
		}
	case "get_time":
		if got.Zone == nil {
			t.Errorf("arguments %s do not fit", args)
		}
	default:
		t.Errorf("called %q, which is no tool", name)
	}
}

// TestRealRefusals: what the engine answers with 400 or 500 comes back with the client's field and the engine's own words.
func TestRealRefusals(t *testing.T) {
	real := kit.NeedReal(t)
	template := filepath.Join(t.TempDir(), "tools.jinja")
	if err := os.WriteFile(template, []byte(toolTemplate), 0o600); err != nil {
		t.Fatal(err)
	}
	in := startReal(t, real.Chat, engine.Option{Key: "chat-template-file", Value: template})
	with := func(change func(r *infer.Request)) *infer.Request {
		r := chat("Say hi", 8)
		change(r)
		return r
	}
	text := func(role infer.Role, s string) infer.Message {
		return infer.Message{Role: role, Parts: []infer.Part{{Text: s}}}
	}
	nonsense := json.RawMessage(`{"type":"nonsense"}`)
	tests := []struct {
		name  string
		r     *infer.Request
		kind  infer.ErrorKind
		param string
		words string
	}{
		{"template exception", with(func(r *infer.Request) { r.Messages = append(r.Messages, text(infer.System, "late")) }), infer.ErrInvalid, "messages", "must be the first"},
		{"schema", with(func(r *infer.Request) { r.Format = infer.Format{Kind: infer.FormatJSONSchema, Schema: nonsense} }), infer.ErrInvalid, "response_format", "nonsense"},
		{"look-ahead", with(func(r *infer.Request) {
			r.Format = infer.Format{Kind: infer.FormatJSONSchema, Schema: json.RawMessage(`{"type":"string","pattern":"(?=a)b"}`)}
		}), infer.ErrInvalid, "response_format", "looks ahead"},
		{"tool schema", with(func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "f", Parameters: nonsense}} }), infer.ErrInvalid, "tools", "nonsense"},
		{"forced tool schema", with(func(r *infer.Request) {
			r.Tools, r.ToolChoice.Mode = []infer.Tool{{Name: "f", Parameters: nonsense}}, infer.ToolRequired
		}), infer.ErrInvalid, "tools", "nonsense"},
		{"thinking as text", with(func(r *infer.Request) {
			r.TemplateArgs = map[string]json.RawMessage{"enable_thinking": json.RawMessage(`"no"`)}
		}), infer.ErrInvalid, "chat_template_kwargs.enable_thinking", "true or false"},
		{"image", with(func(r *infer.Request) {
			r.Messages[0].Parts = append(r.Messages[0].Parts, infer.Part{Image: &infer.Image{URL: "data:image/png;base64,AAAA", Param: "messages[0].content[1].image_url"}})
		}), infer.ErrUnsupported, "messages[0].content[1].image_url", "cannot see"},
		{"schema for a completion", &infer.Request{Kind: infer.Completion, Prompt: "x", MaxTokens: 4, Format: infer.Format{Kind: infer.FormatJSONSchema, Schema: nonsense}}, infer.ErrInvalid, "response_format", "nonsense"},
		{"token ids beyond the vocabulary", &infer.Request{Kind: infer.Completion, PromptTokens: []int{1, 999999999}, MaxTokens: 4}, infer.ErrInvalid, "prompt", "invalid tokens"},
		{"over the window", completion(strings.Repeat(" word", 3000), 4), infer.ErrContextLength, "prompt", "2048"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st, err := in.Generate(t.Context(), tt.r)
			if err == nil {
				st.Close()
				t.Fatal("it was accepted")
			}
			e, ok := errors.AsType[*infer.Error](err)
			if !ok || e.Kind != tt.kind || e.Param != tt.param {
				t.Errorf("error %v: kind %s, param %q, want %s, %q", err, infer.KindOf(err), e.Param, tt.kind, tt.param)
			}
			if !strings.Contains(err.Error(), tt.words) {
				t.Errorf("error %q, want %q in it", err, tt.words)
			}
		})
	}
}

// TestRealStopText: the engine's stop texts are told from its own ends.
func TestRealStopText(t *testing.T) {
	real := kit.NeedReal(t)
	in := startReal(t, real.Chat)
	for _, r := range []*infer.Request{chat("Count from 1 to 9.", 60), completion("1, 2, 3, 4,", 40)} {
		r.Stop = []string{"zebra", "5"}
		st, err := in.Generate(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		text, done, err := answer(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		if done.Reason != infer.StopString || done.StopString != "5" || strings.Contains(text, "5") {
			t.Errorf("%s: %q ended with %s %q, want the stop text 5", r.Kind, text, done.Reason, done.StopString)
		}
	}
}

// TestRealClientGoneInPrefill: an engine whose client leaves while a long prompt is read is free for the next one. The aim is a
// second; with the engine's default batch it takes longer than this bound.
func TestRealClientGoneInPrefill(t *testing.T) {
	real := kit.NeedReal(t)
	in := startReal(t, real.Chat)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	st, err := in.Generate(ctx, completion(strings.Repeat(" word", 1900), 4))
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := st.Next(ctx); err != nil {
		t.Fatal(err)
	} else if p, ok := ev.(infer.Progress); !ok || p.Done >= p.Total {
		t.Fatalf("the first event is %#v, want progress before the end of the prompt", ev)
	}
	cancel()
	left := time.Now()
	if _, err := st.Next(ctx); infer.KindOf(err) != infer.ErrCanceled {
		t.Errorf("Next = %v, want canceled", err)
	}
	idle(t, in)
	t.Logf("idle %s after the client left (with 200 ms to see it)", time.Since(left).Round(time.Millisecond))
}

// TestRealUnknownArchitecture: a file that this build cannot load is refused by name, with the build and the engine's own words.
func TestRealUnknownArchitecture(t *testing.T) {
	real := kit.NeedReal(t)
	path := filepath.Join(t.TempDir(), "strange.gguf")
	w := gguf.NewWriter()
	if err := errors.Join(w.Set("general.architecture", "nonesuch"), w.Set("nonesuch.context_length", uint32(512)), w.Add(gguf.TensorSpec{
		Name: "token_embd.weight", Type: gguf.F32, Dims: []int64{32}, Write: func(w io.Writer) error { _, err := w.Write(make([]byte, 128)); return err },
	})); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	d, s := realDriver(t, real), realSpec(t, path, 512)
	_, err = d.Start(t.Context(), s)
	build := d.Fingerprint(t.Context()).Build
	for _, want := range []string{"nonesuch", build, "unknown model architecture"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start = %v, want %q in it", err, want)
		}
	}
	if left := mine(t, s.RunDir); left != "" {
		t.Errorf("processes are left: %s", left)
	}
}

// TestRealStopWithOpenStreams: a stop does not wait for answers that are being written.
func TestRealStopWithOpenStreams(t *testing.T) {
	real := kit.NeedReal(t)
	in := startReal(t, real.Chat)
	st, err := in.Generate(t.Context(), completion("Once upon a time", 1500))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %s", time.Since(began).Round(time.Millisecond))
	if e := in.State().Exit; e == nil || e.Reason != engine.ExitStopped || e.Signal != "" || e.Code != 0 {
		t.Errorf("exit = %+v, want an end by itself", e)
	}
	if _, _, err := answer(t.Context(), st); infer.KindOf(err) != infer.ErrEngineLost {
		t.Errorf("the open answer ended with %v, want engine_lost", err)
	}
}
