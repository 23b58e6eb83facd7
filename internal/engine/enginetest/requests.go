package enginetest

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// requestChecks are about what is refused, and how.
func requestChecks() []check {
	return []check{
		{name: "abilities agree with interfaces", run: checkInterfaces},
		{name: "what it cannot do is refused by name", run: checkRefusals},
		{name: "over the window", run: checkWindow},
		{name: "at the window", run: checkEdge},
		{name: "counts agree", run: checkCounts},
		{name: "text to continue", run: checkCompletion},
	}
}

func checkInterfaces(t T, s *suite) {
	if _, counts := s.in.(engine.TokenCounter); counts != s.caps.CountTokens {
		t.Errorf("CountTokens is declared %v, the interface is there: %v", s.caps.CountTokens, counts)
	}
	f := s.in.Facts()
	if f.Engine == "" || f.Mode == "" || f.Window < 1 || f.Parallel < 1 {
		t.Errorf("facts %+v", f)
	}
	if !f.Caps.Chat && !f.Caps.Completion {
		t.Errorf("it can neither chat nor continue text")
	}
	if st := s.in.State(); st.Exit != nil {
		t.Errorf("a running instance has the exit %+v", st.Exit)
	}
}

// checkRefusals sends what the instance says it cannot do.
func checkRefusals(t T, s *suite) {
	seed := int64(1)
	tests := []struct {
		can   bool
		param string
		make  func(r *infer.Request)
	}{
		{s.caps.Chat, "messages", func(r *infer.Request) {
			r.Kind, r.Messages = infer.Chat, []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: "Hello."}}}}
		}},
		{s.caps.Suffix, "suffix", func(r *infer.Request) { r.Kind, r.Prompt, r.Messages, r.Suffix = infer.Completion, "a", nil, "b" }},
		{s.caps.Tools || !s.caps.Chat, "tools", func(r *infer.Request) { r.Tools = weatherTools() }},
		{s.caps.Images || !s.caps.Chat, "messages[0].content[1]", func(r *infer.Request) {
			r.Messages[0].Parts = append(r.Messages[0].Parts, infer.Part{Image: &infer.Image{URL: "data:image/png;base64,AAAA", Param: "messages[0].content[1]"}})
		}},
		{s.caps.Logprobs, "logprobs", func(r *infer.Request) { r.Logprobs = true }},
		{s.caps.Seed, "seed", func(r *infer.Request) { r.Sampling.Seed = &seed }},
		{s.caps.LogitBias, "logit_bias", func(r *infer.Request) { r.Sampling.LogitBias = map[int]float64{1: 1} }},
		{s.caps.JSONSchema, "response_format", func(r *infer.Request) {
			r.Format = infer.Format{Kind: infer.FormatJSONSchema, Name: "place", Schema: json.RawMessage(placeSchema)}
		}},
		{s.caps.ForcedTools || !s.caps.Tools, "tool_choice", func(r *infer.Request) {
			r.Tools, r.ToolChoice = weatherTools(), infer.ToolChoice{Mode: infer.ToolRequired}
		}},
		{s.caps.Tokens, "prompt", func(r *infer.Request) {
			r.Kind, r.Messages, r.Prompt, r.PromptTokens = infer.Completion, nil, "", []int{1, 2}
		}},
		{s.caps.Completion, "prompt", func(r *infer.Request) { r.Kind, r.Messages, r.Prompt = infer.Completion, nil, "a" }},
	}
	before := s.count(t)
	for _, tt := range tests {
		if tt.can {
			continue
		}
		r := s.ask("Hello.")
		tt.make(r)
		st, err := s.in.Generate(t.Context(), r)
		if err == nil {
			st.Close()
			t.Errorf("%s is not declared, and is taken", tt.param)
			continue
		}
		e, ok := errors.AsType[*infer.Error](err)
		if !ok || e.Kind != infer.ErrUnsupported || e.Param != tt.param {
			t.Errorf("%s is refused as %v (%s, param %q), want unsupported with its name", tt.param, err, infer.KindOf(err), param(e))
		}
	}
	if after := s.count(t); after.Requests != before.Requests {
		t.Errorf("the engine received %d requests that had to be refused before", after.Requests-before.Requests)
	}
}

// count is what the engine says it did, if it can be asked.
func (s *suite) count(t T) Count {
	if s.Count == nil {
		t.Logf("partly left out: this driver's tests cannot ask the engine what it did")
		return Count{}
	}
	return s.Count(t, s.in)
}

func param(e *infer.Error) string {
	if e == nil {
		return ""
	}
	return e.Param
}

func checkWindow(t T, s *suite) {
	window := s.in.Facts().Window
	a := s.generate(t, s.ask(s.Words(window+10)))
	e, ok := errors.AsType[*infer.Error](a.err)
	if !ok || e.Kind != infer.ErrContextLength {
		t.Fatalf("a prompt of more than %d tokens gives %q, %v; want %s", window, a.text, a.err, infer.ErrContextLength)
	}
	if e.Window != window || e.PromptTokens < window {
		t.Errorf("the numbers are %d of %d, want at least %d of %d", e.PromptTokens, e.Window, window, window)
	}
	if a := s.generate(t, s.ask("Name a colour.")); a.err != nil {
		t.Errorf("a request afterwards: %v", a.err)
	}
}

// checkEdge goes to the window's last token: a prompt that leaves room for one gets its answer, one that leaves none is refused.
func checkEdge(t T, s *suite) {
	c, ok := s.in.(engine.TokenCounter)
	if !ok {
		t.Logf("left out: this instance cannot count, so no prompt is known to fit exactly")
		return
	}
	window := s.in.Facts().Window
	last, full := s.exactly(t, c, window-1), s.exactly(t, c, window)
	if last == nil || full == nil {
		return
	}
	a := s.must(t, last)
	if u := a.done.Usage; u.Prompt != window-1 || u.Completion < 1 || u.Completion > 2 {
		t.Errorf("%d tokens of %d: usage %+v, ended by %q", window-1, window, u, a.done.Reason)
	}
	e, ok := errors.AsType[*infer.Error](s.generate(t, full).err)
	if !ok || e.Kind != infer.ErrContextLength || e.PromptTokens != window || e.Window != window {
		t.Errorf("a prompt of all %d tokens is answered with %+v, want %s with both numbers", window, e, infer.ErrContextLength)
	}
}

// exactly makes a request whose prompt has n tokens, nil if none is found.
func (s *suite) exactly(t T, c engine.TokenCounter, n int) *infer.Request {
	t.Helper()
	words := n / 2
	for range 12 {
		r := s.ask(s.Words(words))
		got, err := c.CountTokens(t.Context(), r)
		switch {
		case err != nil:
			t.Errorf("CountTokens of %d words: %v", words, err)
			return nil
		case got == n:
			return r
		}
		words += n - got
	}
	t.Errorf("no text of exactly %d tokens was found", n)
	return nil
}

func checkCounts(t T, s *suite) {
	c, ok := s.in.(engine.TokenCounter)
	if !ok {
		t.Logf("not declared by this instance")
		return
	}
	for _, text := range []string{"Name a colour.", s.Words(100), "größe 東京 🚂"} {
		r := s.ask(text)
		n, err := c.CountTokens(t.Context(), r)
		if err != nil {
			t.Errorf("CountTokens: %v", err)
			continue
		}
		if got := s.must(t, r).done.Usage.Prompt; got != n {
			t.Errorf("%.20q: counted %d tokens, the engine read %d", text, n, got)
		}
	}
}

func checkCompletion(t T, s *suite) {
	if !s.caps.Completion {
		t.Logf("not declared by this instance")
		return
	}
	zero := 0.0
	r := &infer.Request{Kind: infer.Completion, Prompt: "One, two, three,", MaxTokens: 4, Sampling: infer.Sampling{Temperature: &zero}}
	a := s.must(t, r)
	if strings.TrimSpace(a.text) == "" || a.done.Usage.Prompt < 3 {
		t.Errorf("%q after %d tokens", a.text, a.done.Usage.Prompt)
	}
	if s.caps.Tokens {
		r.Prompt, r.PromptTokens = "", []int{10, 11, 12}
		if got := s.must(t, r).done.Usage.Prompt; got < 3 || got > 4 {
			t.Errorf("3 token ids were read as %d tokens", got)
		}
	}
}
