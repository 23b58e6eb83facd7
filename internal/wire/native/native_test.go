package native

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
)

func events() []infer.Event {
	return []infer.Event{
		infer.Progress{Done: 5, Total: 9, Cached: 2},
		infer.Text{Text: "größe\n\"<&>"},
		infer.Text{Text: "\xe2\x82"},
		infer.Text{Text: "\xac", Logprobs: []infer.TokenLogprob{
			{Token: "\xac", Bytes: []byte("\xac"), Logprob: -0.5, Top: []infer.TokenLogprob{{Token: "a", Bytes: []byte("a"), Logprob: -1.25}}},
		}},
		infer.Reasoning{Text: "hm"},
		infer.ToolStart{Index: 1, ID: "x", Name: "f"},
		infer.ToolArgs{Index: 1, Text: "{}"},
		infer.Done{Reason: infer.StopString, StopString: "END", Usage: infer.Usage{Prompt: 9, Cached: 2, Completion: 4, Reasoning: 1}},
	}
}

func written(t testing.TB, evs []infer.Event) []byte {
	t.Helper()
	var b []byte
	for _, ev := range evs {
		var err error
		if b, err = AppendEvent(b, ev); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func readAll(r io.Reader) ([]infer.Event, error) {
	var out []infer.Event
	for n := NewReader(r); ; {
		ev, err := n.Next()
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
}

func TestEventsSurvive(t *testing.T) {
	b := written(t, events())
	for name, r := range map[string]io.Reader{"at once": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b))} {
		got, err := readAll(r)
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: ended with %v", name, err)
		}
		if diff := cmp.Diff(events(), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestCutIsNotWhole cuts an answer at every byte.
func TestCutIsNotWhole(t *testing.T) {
	b := written(t, events())
	for n := range len(b) {
		evs, err := readAll(bytes.NewReader(b[:n]))
		if errors.Is(err, io.EOF) || err == nil {
			t.Fatalf("%d of %d bytes count as whole", n, len(b))
		}
		for _, ev := range evs {
			if _, done := ev.(infer.Done); done {
				t.Fatalf("%d of %d bytes have a final event", n, len(b))
			}
		}
	}
}

func TestErrorsSurvive(t *testing.T) {
	want := &infer.Error{Kind: infer.ErrContextLength, Message: "too long", Param: "messages", PromptTokens: 9, Window: 4, RetryAfter: time.Second}
	b, err := AppendError(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	_, err = readAll(bytes.NewReader(b))
	got, ok := errors.AsType[*infer.Error](err)
	if !ok || cmp.Diff(want, got) != "" {
		t.Errorf("got %#v, want %#v", err, want)
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"no JSON": "hello\n", "an unknown kind": `{"kind":"song"}` + "\n", "done without content": `{"kind":"done"}` + "\n",
		"error without content": `{"kind":"error"}` + "\n", "a line without end": strings.Repeat("x", maxLine+1<<16),
	} {
		evs, err := readAll(strings.NewReader(s))
		if err == nil || errors.Is(err, io.EOF) || len(evs) > 0 {
			t.Errorf("%s: %v, %v", name, evs, err)
		}
	}
}

// TestRequestSurvives keeps apart what is unset and what is zero.
func TestRequestSurvives(t *testing.T) {
	zero, no, seed := 0.0, false, int64(-5)
	want := &infer.Request{
		ID: "r1", Kind: infer.Chat, Messages: []infer.Message{{Role: infer.User, Parts: []infer.Part{{Text: "hé\n"}, {Image: &infer.Image{URL: "data:x", Param: "p"}}}}},
		Tools:         []infer.Tool{{Name: "f", Parameters: json.RawMessage(`{"b":1,"a":2}`)}},
		ParallelTools: &no, TemplateArgs: map[string]json.RawMessage{"x": json.RawMessage(`true`)},
		PromptTokens: []int{}, Sampling: infer.Sampling{Temperature: &zero, Seed: &seed, LogitBias: map[int]float64{3: -1.5}},
		MaxTokens: 7, Stop: []string{"a", ""}, Logprobs: true, IgnoreEOS: true,
	}
	b, err := EncodeRequest(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeRequest(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := DecodeRequest(strings.NewReader(`{"Kind":"chat","Colour":1}`)); err == nil {
		t.Error("an unknown field is accepted")
	}
}

func FuzzReader(f *testing.F) {
	f.Add(written(f, events()))
	f.Add([]byte(`{"kind":"error","error":{"kind":"engine","message":"x"}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := readAll(bytes.NewReader(b)); err == nil {
			t.Error("reading ended without an error")
		}
	})
}
