package tokenizer

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

// tinyJSON is a tokenizer.json of which a test changes one thing.
func tinyJSON(t testing.TB, change func(file map[string]any)) []byte {
	t.Helper()
	const text = `{
		"added_tokens": [
			{"id": 6, "content": "<s>", "special": true}, {"id": 7, "content": "<|im_end|>", "special": true},
			{"id": 8, "content": "<tool>"}
		],
		"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
		"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {
			"type": "TemplateProcessing",
			"single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
			"special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}}]},
		"decoder": {"type": "ByteLevel"},
		"model": {
			"type": "BPE", "unk_token": null, "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120ab": 4, "\"": 5},
			"merges": ["a b", ["\u0120", "ab"]]
		}
	}`
	var file map[string]any
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(file)
	}
	out, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTinyJSON looks at all that a tokenizer says of itself.
func TestTinyJSON(t *testing.T) {
	config := []byte(`{"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "<|im_end|>"}, "add_eos_token": true, "x": 1}`)
	tok, err := FromJSON(tinyJSON(t, nil), config)
	if err != nil {
		t.Fatal(err)
	}
	bos, _ := tok.BOS()
	eos, _ := tok.EOS()
	if bos != 6 || eos != 7 || !tok.AddsBOS() || !tok.AddsEOS() || tok.Size() != 9 || !slices.Equal(tok.Ends(), []int32{7}) {
		t.Errorf("BOS %d %v, EOS %d %v, size %d, ends %v", bos, tok.AddsBOS(), eos, tok.AddsEOS(), tok.Size(), tok.Ends())
	}
	if got, want := tok.Encode(`ab ab"<tool><s>`, Options{Special: true, BOS: true}), []int32{6, 2, 4, 5, 8, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := string(tok.Decode([]int32{6, 2, 4, 5, 8, 7})); got != `ab ab"<tool>` {
		t.Errorf("decoded to %q", got)
	}
}

// TestJSONConfig: the configuration goes before the post-processor, and may be missing.
func TestJSONConfig(t *testing.T) {
	for _, c := range []struct {
		name, config string
		bos, eos     int32
		adds         bool
	}{
		{"none", "", 6, none, true},
		{"empty", "{}", 6, none, true},
		{"null", `{"bos_token": null, "eos_token": null}`, 6, none, true},
		{"not added", `{"add_bos_token": false}`, 6, none, false},
		{"another", `{"bos_token": "<tool>", "eos_token": "<s>"}`, 8, 6, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var config []byte
			if c.config != "" {
				config = []byte(c.config)
			}
			tok, err := FromJSON(tinyJSON(t, nil), config)
			if err != nil {
				t.Fatal(err)
			}
			bos, _ := tok.BOS()
			eos, _ := tok.EOS()
			if bos != c.bos || eos != c.eos || tok.AddsBOS() != c.adds {
				t.Errorf("BOS %d %v, EOS %d", bos, tok.AddsBOS(), eos)
			}
		})
	}
}

// field sets a value at a path of tinyJSON.
func field(value string, path ...string) func(map[string]any) {
	return func(file map[string]any) {
		var v any
		if err := json.Unmarshal([]byte(value), &v); err != nil {
			panic(err)
		}
		for _, p := range path[:len(path)-1] {
			file = file[p].(map[string]any)
		}
		file[path[len(path)-1]] = v
	}
}

// TestHostileJSON: what we do not read, or what contradicts itself, is refused, and the error names the field.
func TestHostileJSON(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(map[string]any)
		where  string
		kind   error
		want   string
	}{
		{"Unigram", field(`"Unigram"`, "model", "type"), "model.type", ErrUnsupported, `"Unigram"`},
		{"no model", field(`{}`, "model"), "model.type", ErrUnsupported, `""`},
		{"dropout", field(`0.1`, "model", "dropout"), "model.dropout", ErrUnsupported, "0.1"},
		{"suffix", field(`"</w>"`, "model", "end_of_word_suffix"), "model", ErrUnsupported, "</w>"},
		{"vocabulary of pairs", field(`[["a", -1.5]]`, "model", "vocab"), "model.vocab", ErrInvalid, "expected"},
		{"no vocabulary", field(`{}`, "model", "vocab"), "model.merges", ErrInvalid, "not both tokens"},
		{"half an id", field(`{"a": 0.5}`, "model", "vocab"), "model.vocab", ErrInvalid, "expected"},
		{"large id", field(`{"a": 1000000000}`, "model", "vocab"), "model.vocab", ErrInvalid, "1000000000"},
		{"huge id", field(`{"a": 100000000000000000000000}`, "model", "vocab"), "model.vocab", ErrInvalid, "expected"},
		{"negative id", field(`{"a": -1}`, "model", "vocab"), "model.vocab", ErrInvalid, "-1"},
		{"id twice", field(`{"a": 1, "b": 1}`, "model", "vocab"), "model.vocab", ErrInvalid, "both token 1"},
		{"merge of one", field(`["ab"]`, "model", "merges"), "model.merges", ErrInvalid, "not two tokens"},
		{"merge of three", field(`[["a", "b", "a"]]`, "model", "merges"), "model.merges", ErrInvalid, "3 tokens"},
		{"merge of numbers", field(`[[1, 2]]`, "model", "merges"), "model.merges", ErrInvalid, "expected"},
		{"merge of strangers", field(`["a x"]`, "model", "merges"), "model.merges", ErrInvalid, "not both tokens"},
		{"merge to a stranger", field(`["b a"]`, "model", "merges"), "model.merges", ErrInvalid, "is no token"},
		{"no merges", field(`{}`, "model", "merges"), "model.merges", ErrInvalid, "expected"},
		{"unknown unknown", field(`"?"`, "model", "unk_token"), "model.unk_token", ErrInvalid, `"?"`},
		{"added in place of another", field(`[{"id": 0, "content": "x"}]`, "added_tokens"), "added_tokens", ErrInvalid, "both token 0"},
		{"added far off", field(`[{"id": 2000000000, "content": "x"}]`, "added_tokens"), "added_tokens", ErrInvalid, "2000000000"},
		{
			"added twice", field(`[{"id": 7, "content": "<s>"}, {"id": 8, "content": "<s>"}]`, "added_tokens"),
			"model.vocab", ErrInvalid, "both",
		},
		{"added below nothing", field(`[{"id": -5, "content": "x"}]`, "added_tokens"), "added_tokens", ErrInvalid, "-5"},
		{"normalizer", field(`{"type": "Lowercase"}`, "normalizer"), "normalizer", ErrUnsupported, `"Lowercase"`},
		{"normalizer that is none", field(`7`, "normalizer"), "normalizer", ErrInvalid, ""},
		{
			"replacement of a pattern", field(`{"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}`, "normalizer"),
			"normalizer", ErrUnsupported, "a+",
		},
		{"pre-tokenizer", field(`{"type": "Whitespace"}`, "pre_tokenizer"), "pre_tokenizer", ErrUnsupported, `"Whitespace"`},
		{
			"pattern", field(`{"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated"}`, "pre_tokenizer"),
			"pre_tokenizer", ErrUnsupported, `"\\w+"; known are those of`,
		},
		{
			"removed", field(`{"type": "Split", "pattern": {"String": "x"}, "behavior": "Removed"}`, "pre_tokenizer"),
			"pre_tokenizer", ErrUnsupported, "Removed",
		},
		{
			"inverted", field(`{"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Removed", "invert": true}`, "pre_tokenizer"),
			"pre_tokenizer", ErrUnsupported, "invert true",
		},
		{
			"punctuation", field(`{"type": "Punctuation", "behavior": "Isolated"}`, "pre_tokenizer"),
			"pre_tokenizer", ErrUnsupported, "Isolated",
		},
		{"other marks", field(`{"type": "Metaspace", "replacement": "_"}`, "pre_tokenizer"), "pre_tokenizer", ErrUnsupported, `"_"`},
		{
			"other scheme", field(`{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "last"}`, "pre_tokenizer"),
			"pre_tokenizer", ErrUnsupported, `"last"`,
		},
		{
			"digits of byte letters",
			field(`{"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]}`, "pre_tokenizer"),
			"pre_tokenizer", ErrUnsupported, "after ByteLevel",
		},
		{
			"many steps",
			field(`{"type": "Sequence", "pretokenizers": [`+strings.Repeat(`{"type": "Digits"},`, 8)+
				`{"type": "Digits"}]}`, "pre_tokenizer"),
			"pre_tokenizer", ErrUnsupported, "9 steps",
		},
		{"decoder", field(`{"type": "CTC"}`, "decoder"), "decoder", ErrUnsupported, `"CTC"`},
		{"stripping letters", field(`{"type": "Strip", "content": "a", "start": 1}`, "decoder"), "decoder", ErrUnsupported, `"a"`},
		{
			"other replacement", field(`{"type": "Replace", "pattern": {"String": "_"}, "content": " "}`, "decoder"),
			"decoder", ErrUnsupported, `"_"`,
		},
		{"post-processor", field(`{"type": "BertProcessing"}`, "post_processor"), "post_processor", ErrUnsupported, "BertProcessing"},
		{
			"empty template", field(`{"type": "TemplateProcessing", "single": []}`, "post_processor"),
			"post_processor", ErrUnsupported, "0 pieces",
		},
		{
			"template of a stranger",
			field(`{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>"}}, {"Sequence": {}}]}`, "post_processor"),
			"post_processor", ErrInvalid, `"<x>"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := FromJSON(tinyJSON(t, c.change), nil)
			var e *Error
			if !errors.As(err, &e) || e.Where != c.where || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %s: %s (%v)", err, c.where, c.want, c.kind)
			}
		})
	}
}

// TestHostileText: what is no JSON at all.
func TestHostileText(t *testing.T) {
	good := tinyJSON(t, nil)
	for _, c := range []struct{ name, text, config, where string }{
		{"nothing", "", "{}", "tokenizer.json"},
		{"cut off", string(good[:len(good)/2]), "{}", "tokenizer.json"},
		{"a list", "[]", "{}", "tokenizer.json"},
		{"config of nothing", string(good), "x", "tokenizer_config.json"},
		{"config of numbers", string(good), `{"bos_token": 5}`, "tokenizer_config.json"},
		{"config of a stranger", string(good), `{"eos_token": "<x>"}`, "tokenizer_config.json eos_token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := FromJSON([]byte(c.text), []byte(c.config))
			var e *Error
			if !errors.As(err, &e) || e.Where != c.where || !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v, want %s", err, c.where)
			}
		})
	}
}

// FuzzFromJSON: any text gives a tokenizer that takes any text, or an error of ours.
func FuzzFromJSON(f *testing.F) {
	f.Add(tinyJSON(f, nil), []byte(`{"bos_token": "<s>"}`), "ab <s>")
	f.Add([]byte(`{"model": {"merges": []}}`), []byte(nil), "")
	for _, c := range smallCases(f) {
		f.Add([]byte(c.Tokenizer), []byte("{}"), c.Texts[len(c.Texts)-1].Text)
	}
	f.Fuzz(func(t *testing.T, text, config []byte, s string) {
		tok, err := FromJSON(text, config)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Where == "" || e.Message == "" {
				t.Fatalf("%#v is not of our kind", err)
			}
			return
		}
		for _, o := range []Options{{}, {Special: true, BOS: true}} {
			ids := tok.Encode(s, o)
			for _, id := range ids {
				if id < 0 || int(id) >= tok.Size() {
					t.Fatalf("%q has token %d of %d", s, id, tok.Size())
				}
			}
			tok.Decode(ids)
		}
		for _, id := range tok.Ends() {
			if id < 0 || int(id) >= tok.Size() {
				t.Fatalf("end %d of %d", id, tok.Size())
			}
		}
	})
}
