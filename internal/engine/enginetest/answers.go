package enginetest

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stoker-llm/stoker/internal/infer"
)

// answerChecks are about whole answers.
func answerChecks() []check {
	return []check{
		{name: "text, then Done, then EOF", run: checkEnd},
		{name: "usage", run: checkUsage},
		{name: "max tokens", run: checkMaxTokens},
		{name: "stop texts", run: checkStops},
		{name: "greedy answers repeat", run: checkGreedy},
		{name: "seeds repeat", run: checkSeed},
		{name: "log probabilities", run: checkLogprobs},
		{name: "text is UTF-8", run: checkUTF8},
		{name: "JSON schema", run: checkSchema},
		{name: "forced tool calls", run: checkForcedCalls},
		{name: "answers at once do not mix", run: checkParallel},
	}
}

func checkEnd(t T, s *suite) {
	st, err := s.in.Generate(t.Context(), s.ask("Write a few words about the sea."))
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	a := answer{}
	for a.done == nil {
		ev, err := st.Next(t.Context())
		if err != nil {
			t.Fatalf("the stream ended before Done: %v", err)
		}
		a.add(t, ev)
	}
	if a.text == "" && a.think == "" {
		t.Errorf("an answer without a word")
	}
	for range 2 {
		if ev, err := st.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("after Done Next gives %v, %v; want io.EOF", ev, err)
		}
	}
	for range 2 {
		if err := st.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func checkUsage(t T, s *suite) {
	a := s.must(t, s.ask("Name three colours."))
	u := a.done.Usage
	if u.Prompt < 1 || u.Completion < 1 || u.Completion > s.MaxTokens || u.Cached > u.Prompt || u.Cached < 0 {
		t.Errorf("usage %+v of an answer of at most %d tokens", u, s.MaxTokens)
	}
	longer := s.must(t, s.ask("Name three colours. "+s.Words(50)))
	if more := longer.done.Usage.Prompt; more < u.Prompt+25 {
		t.Errorf("50 more words took the prompt from %d to %d tokens", u.Prompt, more)
	}
}

func checkMaxTokens(t T, s *suite) {
	r := s.ask("Write a long story about the sea.")
	r.MaxTokens = 3
	a := s.must(t, r)
	if a.done.Reason != infer.StopLength || a.done.Usage.Completion != 3 {
		t.Errorf("at most 3 tokens gave %d, ended by %q", a.done.Usage.Completion, a.done.Reason)
	}
}

// checkStops takes stop texts out of an answer that comes anyway: one in the middle of a word, and one that spans words.
func checkStops(t T, s *suite) {
	whole := s.must(t, s.ask("Write a few words about the sea.")).text
	if len(whole) < 12 || !utf8.ValidString(whole) {
		t.Fatalf("the answer %q is too short to take a stop text out of it", whole)
	}
	runes := []rune(whole)
	for _, span := range [][2]int{{3, 5}, {4, 10}} {
		stop := string(runes[span[0]:span[1]])
		r := s.ask("Write a few words about the sea.")
		r.Stop = []string{"\x00never\x00", stop}
		a := s.must(t, r)
		want := whole[:strings.Index(whole, stop)]
		if a.text != want {
			t.Errorf("stop %q gave %q, want %q", stop, a.text, want)
		}
		if a.done.Reason != infer.StopString && a.done.Reason != infer.StopEnd {
			t.Errorf("stop %q ended by %q", stop, a.done.Reason)
		}
		if a.done.StopString != "" && a.done.StopString != stop {
			t.Errorf("stop %q is reported as %q", stop, a.done.StopString)
		}
	}
}

func checkGreedy(t T, s *suite) {
	r := s.ask("Write a few words about a mill.")
	if a, b := s.must(t, r).text, s.must(t, r).text; a != b {
		t.Errorf("at temperature 0: %q, then %q", a, b)
	}
}

func checkSeed(t T, s *suite) {
	if !s.caps.Seed {
		t.Logf("not declared by this instance")
		return
	}
	hot, one, two := 1.5, int64(11), int64(12)
	r := s.ask("Write a few words about a forest.")
	r.Sampling = infer.Sampling{Temperature: &hot, Seed: &one}
	first, again := s.must(t, r).text, s.must(t, r).text
	if first != again {
		t.Errorf("one seed: %q, then %q", first, again)
	}
	r.Sampling.Seed = &two
	if other := s.must(t, r).text; other == first {
		t.Errorf("two seeds give the same %q", other)
	}
}

func checkLogprobs(t T, s *suite) {
	if !s.caps.Logprobs {
		t.Logf("not declared by this instance")
		return
	}
	r := s.ask("Name a colour.")
	r.MaxTokens, r.Logprobs, r.TopLogprobs = 4, true, 2
	a := s.must(t, r)
	// The token that ends an answer may be counted, and has no place in the text.
	if n := len(a.probs); n != a.done.Usage.Completion && (a.done.Reason == infer.StopLength || n != a.done.Usage.Completion-1) {
		t.Fatalf("%d log probabilities of an answer of %d tokens, ended by %q", n, a.done.Usage.Completion, a.done.Reason)
	}
	text := ""
	for _, p := range a.probs {
		if math.IsNaN(p.Logprob) || math.IsInf(p.Logprob, 0) || p.Logprob > 0 {
			t.Errorf("log probability %g of %q", p.Logprob, p.Token)
		}
		if len(p.Top) != 2 {
			t.Errorf("%d alternatives for %q, want 2", len(p.Top), p.Token)
		}
		text += string(p.Bytes)
	}
	if !strings.HasPrefix(text, a.text) {
		t.Errorf("the tokens' bytes are %q, the text is %q", text, a.text)
	}
}

func checkUTF8(t T, s *suite) {
	a := s.must(t, s.ask("Schreibe über Größe: 東京の天気は？ Ответь кратко. 🚂"))
	// A model may end within a character; only the last one may be cut.
	text := a.text
	for cut := 0; cut < utf8.UTFMax && !utf8.ValidString(text) && text != ""; cut++ {
		text = text[:len(text)-1]
	}
	if !utf8.ValidString(text) {
		t.Errorf("the joined text is no UTF-8: %q", a.text)
	}
}

const placeSchema = `{"type":"object","properties":{"city":{"type":"string","maxLength":8},"people":{"type":"integer"}},"required":["city","people"],"additionalProperties":false}`

func checkSchema(t T, s *suite) {
	if !s.caps.JSONSchema {
		t.Logf("not declared by this instance")
		return
	}
	r := s.ask("Describe a town.")
	r.MaxTokens = 200
	r.Format = infer.Format{Kind: infer.FormatJSONSchema, Name: "place", Schema: json.RawMessage(placeSchema), Strict: true}
	a := s.must(t, r)
	valid(t, placeSchema, a.text)
}

// valid checks JSON text against a schema.
func valid(t T, schema, text string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatalf("schema: %v", err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:schema", doc); err != nil {
		t.Fatalf("schema: %v", err)
	}
	compiled, err := c.Compile("mem:schema")
	if err != nil {
		t.Fatalf("schema: %v", err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Errorf("%q is no JSON: %v", text, err)
		return
	}
	if err := compiled.Validate(v); err != nil {
		t.Errorf("%s: %v", text, err)
	}
}

const citySchema = `{"type":"object","properties":{"city":{"type":"string","enum":["Rome","Paris"]}},"required":["city"],"additionalProperties":false}`

func weatherTools() []infer.Tool {
	return []infer.Tool{
		{Name: "get_time", Description: "The time in a city.", Parameters: json.RawMessage(citySchema)},
		{Name: "get_weather", Description: "The weather in a city.", Parameters: json.RawMessage(citySchema)},
	}
}

func checkForcedCalls(t T, s *suite) {
	if !s.caps.ForcedTools {
		t.Logf("not declared by this instance")
		return
	}
	for _, choice := range []infer.ToolChoice{{Mode: infer.ToolRequired}, {Mode: infer.ToolNamed, Name: "get_weather"}} {
		r := s.ask("How is the weather in Rome?")
		r.MaxTokens, r.Tools, r.ToolChoice = 200, weatherTools(), choice
		a := s.must(t, r)
		if len(a.calls) != 1 || a.done.Reason != infer.StopTools || choice.Name != "" && a.calls[0].Name != choice.Name {
			t.Errorf("%s %s gave %+v, ended by %q", choice.Mode, choice.Name, a.calls, a.done.Reason)
			continue
		}
		valid(t, citySchema, a.calls[0].Arguments)
	}
}

// checkParallel asks as many different questions at once as may run, and wants the answers that each gets alone.
func checkParallel(t T, s *suite) {
	n := s.in.Facts().Parallel
	prompts := []string{"Name a colour.", "Name an animal.", "Name a country.", "Name a fruit."}
	alone := map[string]string{}
	for _, p := range prompts {
		alone[p] = s.must(t, s.ask(p)).text
	}
	var wg sync.WaitGroup
	for i := range min(n, len(prompts)) {
		p := prompts[i]
		wg.Go(func() {
			a := s.generate(t, s.ask(p))
			for q, text := range alone {
				if q != p && a.text == text && alone[p] != text {
					t.Errorf("%q got the answer to %q", p, q)
				}
			}
			if a.err != nil || a.text == "" {
				t.Errorf("%q beside others: %q, %v", p, a.text, a.err)
			}
		})
	}
	wg.Wait()
}
