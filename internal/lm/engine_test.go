package lm

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
)

func env(t testing.TB, name, asset string) string {
	t.Helper()
	p := os.Getenv(name)
	if p == "" {
		t.Fatalf("%s is not set: run `make test`, or set it to what `go run ./test/assets path %s` prints", name, asset)
	}
	return p
}

func open(t testing.TB, path string, o Options) *Engine {
	t.Helper()
	e, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if left := e.memory.Bytes(); len(left) > 0 {
			t.Errorf("memory that was not freed: %v", left)
		}
	})
	return e
}

func chatModel(t testing.TB) string { return env(t, "STOKER_TEST_MODEL_CHAT", "smollm2") }

func chat(text string, tokens int) *infer.Request {
	zero := 0.0
	return &infer.Request{
		Kind: infer.Chat, Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: text}}}}, MaxTokens: tokens,
		Sampling: infer.Sampling{Temperature: &zero},
	}
}

// answer is a whole answer.
type answer struct {
	text  string
	probs []infer.TokenLogprob
	done  infer.Done
	err   error
}

func read(ctx context.Context, s *Stream) answer {
	var a answer
	for {
		ev, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return a
		}
		if err != nil {
			a.err = err
			return a
		}
		switch ev := ev.(type) {
		case infer.Text:
			a.text += ev.Text
			a.probs = append(a.probs, ev.Logprobs...)
		case infer.Done:
			a.done = ev
		}
	}
}

func ask(t testing.TB, e *Engine, r *infer.Request) answer {
	t.Helper()
	s, err := e.Generate(t.Context(), r)
	if err != nil {
		return answer{err: err}
	}
	return read(t.Context(), s)
}

func TestAnswer(t *testing.T) {
	e := open(t, chatModel(t), Options{Window: 512, Parallel: 2})
	a := ask(t, e, chat("What is the capital of France?", 32))
	if a.err != nil || !strings.HasPrefix(a.text, "The capital of France is Paris.") {
		t.Errorf("%q, %v", a.text, a.err)
	}
	if a.done.Reason != infer.StopEnd || a.done.Usage.Prompt != 37 || a.done.Usage.Completion != 8 {
		t.Errorf("%+v, want the model's own end after 8 tokens", a.done)
	}
	again := ask(t, e, chat("What is the capital of France?", 32))
	if again.text != a.text || again.done.Usage.Cached != 36 {
		t.Errorf("with the prompt in the cache: %q, %+v", again.text, again.done)
	}
}

// TestSeedIsAllThatCounts asks alone, and then beside others that come and go.
func TestSeedIsAllThatCounts(t *testing.T) {
	e := open(t, chatModel(t), Options{Window: 512, Parallel: 4})
	seed := int64(7)
	r := chat("Write a line about the sea.", 24)
	r.Sampling = infer.Sampling{Seed: &seed}
	alone := ask(t, e, r)
	if alone.err != nil || alone.text == "" {
		t.Fatalf("%q, %v", alone.text, alone.err)
	}
	var others []*Stream
	for _, text := range []string{"One.", strings.Repeat("Two. ", 60), "Three."} {
		s, err := e.Generate(t.Context(), chat(text, 40))
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, s)
	}
	if got := ask(t, e, r); got.text != alone.text {
		t.Errorf("beside others %q, alone %q", got.text, alone.text)
	}
	for _, s := range others {
		if a := read(t.Context(), s); a.err != nil {
			t.Error(a.err)
		}
	}
	other := int64(8)
	r.Sampling.Seed = &other
	if got := ask(t, e, r); got.text == alone.text {
		t.Errorf("two seeds give the same %q", got.text)
	}
}

func TestRefusals(t *testing.T) {
	e := open(t, chatModel(t), Options{Window: 128})
	base := open(t, filepath.Join(env(t, "STOKER_TEST_TINY", "tiny"), "tiny-gemma3.gguf"), Options{Window: 128})
	with := func(f func(*infer.Request)) *infer.Request {
		r := chat("x", 4)
		f(r)
		return r
	}
	hot := 1e9
	tests := []struct {
		name  string
		e     *Engine
		r     *infer.Request
		kind  infer.ErrorKind
		param string
	}{
		{"tools", e, with(func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "f"}} }), infer.ErrUnsupported, "tools"},
		{"a schema", e, with(func(r *infer.Request) { r.Format.Kind = infer.FormatJSONSchema }), infer.ErrUnsupported, "response_format"},
		{"a suffix", e, with(func(r *infer.Request) { r.Suffix = "x" }), infer.ErrUnsupported, "suffix"},
		{"a picture", e, with(func(r *infer.Request) { r.Messages[0].Parts[0].Image = &infer.Image{Param: "messages[0]"} }), infer.ErrUnsupported, "messages[0]"},
		{"a temperature", e, with(func(r *infer.Request) { r.Sampling.Temperature = &hot }), infer.ErrInvalid, "temperature"},
		{"a chat without a template", base, chat("x", 4), infer.ErrUnsupported, "messages"},
		{"too long", e, chat(strings.Repeat("word ", 200), 4), infer.ErrContextLength, "messages"},
		{"no token of the vocabulary", e, &infer.Request{Kind: infer.Completion, PromptTokens: []int{1 << 20}}, infer.ErrInvalid, "prompt"},
		{"nothing", e, &infer.Request{Kind: infer.Completion}, infer.ErrInvalid, "prompt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, tt.e, tt.r)
			x, ok := errors.AsType[*infer.Error](a.err)
			if !ok || x.Kind != tt.kind || x.Param != tt.param || x.Message == "" {
				t.Errorf("got %#v, want %s about %q", a.err, tt.kind, tt.param)
			}
		})
	}
}

// TestLeaving leaves in the middle of a long prompt, in the middle of an answer and in line, and wants the engine to be free within
// a step.
func TestLeaving(t *testing.T) {
	e := open(t, chatModel(t), Options{Window: 4096})
	long := chat("Go on.", 4000)
	long.IgnoreEOS = true
	writing, err := e.Generate(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	for {
		ev, err := writing.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.(infer.Text); ok {
			break
		}
	}
	queued, cancel := context.WithCancel(t.Context())
	waiting, err := e.Generate(queued, chat("You never get to read this.", 4))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if a := read(t.Context(), waiting); !errors.Is(a.err, context.Canceled) {
		t.Errorf("the one in line ended with %v", a.err)
	}
	steps := e.Stats().Steps
	writing.Close()
	idle(t, e)
	if n := e.Stats().Steps - steps; n > 20 {
		t.Errorf("%d steps after the client left", n)
	}
	reading, cancel := context.WithCancel(t.Context())
	s, err := e.Generate(reading, chat(strings.Repeat("Some words to read. ", 600), 4))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(t.Context()); err != nil { // the first progress
		t.Fatal(err)
	}
	cancel()
	idle(t, e)
	if n := e.Stats(); n.Prompt > 1500 {
		t.Errorf("%d prompt tokens were computed: it read on to the end", n.Prompt)
	}
	if a := ask(t, e, chat("Name a colour.", 4)); a.err != nil {
		t.Errorf("afterwards: %v", a.err)
	}
}

func idle(t *testing.T, e *Engine) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; {
		if s := e.Stats(); s.Active == 0 && s.Waiting == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("the engine does not become idle")
		}
		<-time.After(time.Millisecond)
	}
}

func TestCloseEndsAnswers(t *testing.T) {
	e, err := Open(t.Context(), chatModel(t), Options{Window: 2048})
	if err != nil {
		t.Fatal(err)
	}
	r := chat("Go on.", 0)
	r.IgnoreEOS = true
	a, err := e.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, s := range []*Stream{a, b} {
		if got := read(t.Context(), s); infer.KindOf(got.err) != infer.ErrEngineLost {
			t.Errorf("an answer ended with %v", got.err)
		}
	}
	if _, err := e.Generate(t.Context(), r); infer.KindOf(err) != infer.ErrUnavailable {
		t.Errorf("a closed engine says %v", err)
	}
}

func TestLogprobs(t *testing.T) {
	e := open(t, chatModel(t), Options{Window: 512})
	r := chat("What is the capital of France?", 6)
	r.Logprobs, r.TopLogprobs = true, 3
	a := ask(t, e, r)
	if a.err != nil || len(a.probs) != 6 {
		t.Fatalf("%d log probabilities of 6 tokens, %v", len(a.probs), a.err)
	}
	text := ""
	for _, p := range a.probs {
		text += string(p.Bytes)
		if len(p.Top) != 3 || p.Top[0].Logprob != p.Logprob || p.Top[1].Logprob > p.Logprob || p.Logprob > 0 {
			t.Errorf("a greedy token has %+v", p)
		}
	}
	if text != a.text {
		t.Errorf("the tokens say %q, the text %q", text, a.text)
	}
}

// TestTraceIsTheSameAsAnswering compares the logits of a trace in any pieces, and the answers beside it.
func TestTraceIsTheSameAsAnswering(t *testing.T) {
	e := open(t, chatModel(t), Options{Window: 512})
	tokens, err := e.prompt(chat("What is the capital of France?", 0))
	if err != nil {
		t.Fatal(err)
	}
	var first, second []float32
	err = e.Trace(t.Context(), tokens, Trace{Logits: func(pos int, x []float32) {
		if pos == len(tokens)-1 {
			first = append(first, x...)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	layers := map[string]int{}
	err = e.Trace(t.Context(), tokens, Trace{
		Splits: []int{1, 5}, Logits: func(pos int, x []float32) {
			if pos == len(tokens)-1 {
				second = append(second, x...)
			}
		},
		Tap: func(label string, _, rows, _ int, _ []float32) { layers[label] += rows },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range first {
		if first[i] != second[i] {
			t.Fatalf("logit %d is %v in one piece, %v in several", i, first[i], second[i])
		}
	}
	if layers["blk.29.out"] != len(tokens) || layers["output_norm"] != len(tokens) {
		t.Errorf("rows seen: %v, want %d", layers, len(tokens))
	}
}

func TestMeasure(t *testing.T) {
	n, err := Measure(chatModel(t), "exact")
	if err != nil {
		t.Fatal(err)
	}
	if n.Architecture != "llama" || n.Quantization != "Q4_1" || n.TrainedContext != 8192 || !n.HasTemplate {
		t.Errorf("%+v", n)
	}
	if n.KVPerToken != 30*3*64*2*4 || n.WeightBytes < 90<<20 || n.WeightBytes > 110<<20 {
		t.Errorf("%+v", n)
	}
	if _, err := Measure("no-such-file.gguf", ""); infer.KindOf(err) != infer.ErrInvalid {
		t.Errorf("a file that is not there: %v", err)
	}
}
