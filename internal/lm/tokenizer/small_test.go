package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// smallCase is a tiny tokenizer.json, with Hugging Face's tokens of some texts.
type smallCase struct {
	Name      string          `json:"name"`
	Tokenizer json.RawMessage `json:"tokenizer"`
	Texts     []smallText     `json:"texts"`
}

type smallText struct {
	Text string `json:"text"`
	// Plain and Special are the tokens without and with Options.Special.
	Plain   []int32 `json:"plain"`
	Special []int32 `json:"special"`
	// Decoded is the text of Special, with U+FFFD for what is no UTF-8, or nil.
	Decoded *string `json:"decoded"`
}

func smallCases(t testing.TB) []smallCase {
	t.Helper()
	var out []smallCase
	if err := json.Unmarshal(unpack(t, "testdata/small.json.gz"), &out); err != nil || len(out) < 20 {
		t.Fatalf("%d cases, %v", len(out), err)
	}
	return out
}

// TestSmall holds us to Hugging Face's tokenizer in every part of tokenizer.json that we read.
func TestSmall(t *testing.T) {
	for _, c := range smallCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			tok, err := FromJSON(c.Tokenizer, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range c.Texts {
				checkSmall(t, tok, text)
			}
		})
	}
}

func checkSmall(t *testing.T, tok *Tokenizer, text smallText) {
	t.Helper()
	if got := tok.Encode(text.Text, Options{}); !slices.Equal(got, text.Plain) {
		t.Errorf("%q: got %v, want %v", text.Text, pieces(tok, got), pieces(tok, text.Plain))
	}
	if got := tok.Encode(text.Text, Options{Special: true}); !slices.Equal(got, text.Special) {
		t.Errorf("%q, special: got %v, want %v", text.Text, pieces(tok, got), pieces(tok, text.Special))
	}
	if text.Decoded == nil {
		return
	}
	if got := strings.ToValidUTF8(string(tok.Decode(text.Special)), "\ufffd"); got != strings.ToValidUTF8(*text.Decoded, "\ufffd") {
		t.Errorf("%q is decoded to %q, want %q", text.Text, got, *text.Decoded)
	}
}

// pieces spells tokens out.
func pieces(tok *Tokenizer, ids []int32) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = tok.Piece(id)
	}
	return out
}
