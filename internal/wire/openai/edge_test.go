package openai

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/sse"
)

// completionChunk is what clients read of a completion chunk.
type completionChunk struct {
	Object  string `json:"object"`
	Choices []struct {
		Text     string `json:"text"`
		Logprobs *struct {
			Tokens []string             `json:"tokens"`
			Lps    []float64            `json:"token_logprobs"`
			Top    []map[string]float64 `json:"top_logprobs"`
			Offset []int                `json:"text_offset"`
		} `json:"logprobs"`
	} `json:"choices"`
}

func completionChunks(t *testing.T, out []byte) (list []completionChunk) {
	t.Helper()
	for r := sse.NewReader(strings.NewReader(string(out)), sse.Limits{}); ; {
		item, err := r.Next()
		if err != nil {
			return list
		}
		if item.Kind != sse.Event || string(item.Data) == "[DONE]" {
			continue
		}
		var c completionChunk
		if err := json.Unmarshal(item.Data, &c); err != nil {
			t.Fatalf("%v in %s", err, item.Data)
		}
		list = append(list, c)
	}
}

// TestReviewR18CompletionsAtEveryCut: completions hold characters back as chats do, in pieces of one byte too.
func TestReviewR18CompletionsAtEveryCut(t *testing.T) {
	check := func(pieces []string) {
		t.Helper()
		s := NewCompletionStream(head)
		var out []byte
		for _, p := range pieces {
			frame := s.Append(nil, infer.Text{Text: p})
			if !utf8.Valid(frame) {
				t.Fatalf("%q: a frame is no UTF-8: %q", pieces, frame)
			}
			out = append(out, frame...)
		}
		out = s.AppendEnd(s.Append(out, infer.Done{Reason: infer.StopEnd}))
		var got string
		for _, c := range completionChunks(t, out) {
			for _, ch := range c.Choices {
				got += ch.Text
			}
		}
		if got != mixed {
			t.Fatalf("%q became %q", pieces, got)
		}
	}
	check(strings.Split(mixed, "")) // whole characters
	for cut := range len(mixed) {
		check([]string{mixed[:cut], mixed[cut:]})
	}
	var bytewise []string
	for i := range len(mixed) {
		bytewise = append(bytewise, mixed[i:i+1])
	}
	check(bytewise)
}

// TestWholeAnswersJoinCharacters: a whole answer is joined from bytes, so no cut shows in it.
func TestWholeAnswersJoinCharacters(t *testing.T) {
	chat, text := NewChatAnswer(head), NewCompletionAnswer(head)
	for i := range len(mixed) {
		chat.Add(infer.Text{Text: mixed[i : i+1]})
		text.Add(infer.Text{Text: mixed[i : i+1]})
	}
	for name, a := range map[string]interface {
		Add(infer.Event)
		Body() ([]byte, error)
	}{"chat": chat, "completion": text} {
		a.Add(infer.Done{Reason: infer.StopEnd})
		a.Add(infer.Text{Text: "late"})
		body, err := a.Body()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Choices []struct {
				Text    string `json:"text"`
				Message struct {
					Content string `json:"content"`
				} `json:"message"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		if c := got.Choices[0]; c.Text+c.Message.Content != mixed {
			t.Errorf("%s: %q", name, c.Text+c.Message.Content)
		}
	}
}

// TestLegacyLogprobs: tokens that are parts of a character have names that differ, and the offsets count characters of the
// text as the client joins it.
func TestLegacyLogprobs(t *testing.T) {
	tok := func(b string, lp float64) infer.TokenLogprob {
		return infer.TokenLogprob{Token: strings.ToValidUTF8(b, "\ufffd"), Logprob: lp, Bytes: []byte(b)}
	}
	a, half, rest, end := tok("aß", -1), tok("\xe2\x82", -2), tok("\xac", -3), tok("z", -4)
	half.Top = []infer.TokenLogprob{tok("\xe2\x82", -2), tok("\xe2\x81", -2.5)}
	events := []infer.Event{
		infer.Text{Text: "aß\xe2\x82", Logprobs: []infer.TokenLogprob{a, half}},
		infer.Text{Text: "\xac", Logprobs: []infer.TokenLogprob{rest}},
		infer.Text{Text: "z", Logprobs: []infer.TokenLogprob{end}},
		infer.Done{Reason: infer.StopEnd},
	}
	var tokens, text []string
	var offsets []int
	var tops []map[string]float64
	for _, c := range completionChunks(t, stream(NewCompletionStream(head), events)) {
		for _, ch := range c.Choices {
			text = append(text, ch.Text)
			if ch.Logprobs != nil {
				tokens = append(tokens, ch.Logprobs.Tokens...)
				offsets = append(offsets, ch.Logprobs.Offset...)
				tops = append(tops, ch.Logprobs.Top...)
			}
		}
	}
	if got := strings.Join(text, ""); got != "aß€z" {
		t.Errorf("text %q", got)
	}
	if d := cmp.Diff([]string{"aß", `bytes:\xe2\x82`, `bytes:\xac`, "z"}, tokens); d != "" {
		t.Errorf("tokens (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]int{0, 2, 3, 3}, offsets); d != "" {
		t.Errorf("offsets (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]float64{`bytes:\xe2\x82`: -2, `bytes:\xe2\x81`: -2.5}, tops[1]); d != "" {
		t.Errorf("alternatives (-want +got):\n%s", d)
	}
}

// TestFailedStreamGolden holds the bytes of a stream that fails in the middle of a character, and of the heartbeats before.
func TestFailedStreamGolden(t *testing.T) {
	failure := infer.Errorf(infer.ErrEngineLost, "", "the engine stopped in the middle of the answer; please try again")
	failure.Err = errors.New("signal: killed")
	chat := NewChatStream(head)
	out := chat.AppendHeartbeat(nil)
	out = chat.Append(out, infer.Text{Text: "a\xe2\x82"})
	out = chat.AppendError(chat.AppendHeartbeat(out), failure)
	golden(t, "failed.chat.stream", chat.AppendEnd(chat.Append(out, infer.Text{Text: "late"})))

	text := NewCompletionStream(head)
	out = text.AppendHeartbeat(nil)
	out = text.Append(out, infer.Text{Text: "a\xe2\x82"})
	out = text.AppendError(out, failure)
	golden(t, "failed.completion.stream", text.AppendEnd(text.Append(out, infer.Text{Text: "late"})))
}

// TestNothingIsSaidForNothing: events that say nothing make no frame, but a token without text keeps its logprobs.
func TestNothingIsSaidForNothing(t *testing.T) {
	chat, text := NewChatStream(head), NewCompletionStream(head)
	chat.Append(nil, infer.Text{Text: "a"})
	for _, ev := range []infer.Event{
		infer.Text{}, infer.Reasoning{}, infer.Progress{Done: 1, Total: 2}, infer.Text{Text: "\xe2"}, infer.ToolArgs{Index: 4, Text: "x"},
	} {
		if out := text.Append(nil, ev); len(out) != 0 {
			t.Errorf("completion: %#v gives %s", ev, out)
		}
		if out := chat.Append(nil, ev); len(out) != 0 {
			t.Errorf("chat: %#v gives %s", ev, out)
		}
	}
	lp := []infer.TokenLogprob{{Token: "", Logprob: -1, Bytes: []byte{}}}
	for name, out := range map[string][]byte{
		"chat":       chat.Append(nil, infer.Text{Logprobs: lp}),
		"completion": text.Append(nil, infer.Text{Logprobs: lp}),
	} {
		if !strings.Contains(string(out), `logprobs":{`) {
			t.Errorf("%s: the logprobs of a token without text are lost: %s", name, out)
		}
	}
}

func TestCompletionTextPathAllocatesNothing(t *testing.T) {
	s := NewCompletionStream(head)
	buf := make([]byte, 0, 1<<12)
	var ev infer.Event = infer.Text{Text: " tok\"€"}
	if n := testing.AllocsPerRun(1000, func() { buf = s.Append(buf[:0], ev) }); n > 0 {
		t.Errorf("%g allocations for a token", n)
	}
}

// TestCardsWithoutAWindow: what is not known yet is absent, not zero; clients take 0 for a window of nothing.
func TestCardsWithoutAWindow(t *testing.T) {
	body, err := json.Marshal(ModelCard{ID: "a<b", Created: 0, OwnedBy: "stoker", DisplayName: "A"})
	if err != nil {
		t.Fatal(err)
	}
	var card map[string]any
	if err := json.Unmarshal(body, &card); err != nil {
		t.Fatal(err)
	}
	for name, v := range card {
		if v == 0.0 && name != "created" {
			t.Errorf("%s is 0 in %s", name, body)
		}
	}
	if card["id"] != "a<b" || card["display_name"] != "A" || card["created_at"] != "1970-01-01T00:00:00Z" || card["meta"] != nil {
		t.Errorf("%s", body)
	}
	if list, ok := card["capabilities"].([]any); !ok || len(list) != 0 {
		t.Errorf("capabilities are %v, want an empty list", card["capabilities"])
	}
}
