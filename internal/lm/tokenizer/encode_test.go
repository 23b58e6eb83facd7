package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// naive is the definition of both kinds of merging, on strings and in quadratic time: of all neighbours that merge, those with the
// lowest rank, the leftmost first.
type naive struct {
	ranks map[[2]string]int
	// scores are used instead of ranks, if there are any: two neighbours merge to a token, the highest score first.
	scores map[string]float32
}

func (n *naive) merge(symbols []string) []string {
	for {
		at, best := -1, 0.0
		for i := range len(symbols) - 1 {
			rank, ok := n.rank(symbols[i], symbols[i+1])
			if ok && (at < 0 || rank < best) {
				at, best = i, rank
			}
		}
		if at < 0 {
			return symbols
		}
		symbols = slices.Replace(symbols, at, at+2, symbols[at]+symbols[at+1])
	}
}

func (n *naive) rank(a, b string) (float64, bool) {
	if n.scores != nil {
		score, ok := n.scores[a+b]
		return -float64(score), ok
	}
	rank, ok := n.ranks[[2]string{a, b}]
	return float64(rank), ok
}

// richBytes is tinyBytes with merges that get into each other's way.
func richBytes(pre string) map[string]any {
	values := tinyBytes()
	tokens, kinds := values[keyTokens].([]string), values[keyKinds].([]int32)
	var merges []string
	for _, m := range []string{
		"a a", "b a", "a b", "aa aa", "aaaa a", "aa b", "c c", "Ġ Ġ", "Ġ a", "ĠĠ ĠĠ",
		"ab ab", "b b", "aa a", "bb bb", "1 1", "Ã ©", "Ċ Ċ", "' s",
	} {
		left, right, _ := strings.Cut(m, " ")
		if !slices.Contains(tokens, left+right) {
			tokens, kinds = append(tokens, left+right), append(kinds, 1)
		}
		merges = append(merges, m)
	}
	values[keyPre], values[keyTokens], values[keyKinds], values[keyMerges] = pre, tokens, kinds, merges
	return values
}

// checkBytes checks the tokens of text by a tokenizer of richBytes.
func checkBytes(t *testing.T, tok *Tokenizer, n *naive, text string) {
	t.Helper()
	ids := tok.Encode(text, Options{})
	checkPlain(t, tok, text, ids)
	want := apply(tok.edits, text, true)
	if got := string(tok.Decode(ids)); got != want {
		t.Fatalf("%q is decoded to %q, want %q", text, got, want)
	}
	var spelt []string
	for i, fragment := range strings.Split(text, "<user>") {
		if i > 0 {
			spelt = append(spelt, "<user>")
		}
		var w words
		w.reset(tok.stages, apply(tok.edits, fragment, i == 0))
		for word, ok := w.next(); ok; word, ok = w.next() {
			var symbols []string
			for _, b := range []byte(word) {
				symbols = append(symbols, tok.symbols.letters.letter[b])
			}
			spelt = append(spelt, n.merge(symbols)...)
		}
	}
	if got := pieces(tok, ids); !slices.Equal(got, spelt) {
		t.Fatalf("%q:\n got %q\nwant %q", text, got, spelt)
	}
}

// checkMarks checks the tokens of text by the tokenizer of tinyMarks.
func checkMarks(t *testing.T, tok *Tokenizer, n *naive, text string) {
	t.Helper()
	ids := tok.Encode(text, Options{})
	checkPlain(t, tok, text, ids)
	var spelt []string
	var decoded strings.Builder
	for i, fragment := range strings.Split(text, "<tool>") {
		if i > 0 {
			spelt = append(spelt, "<tool>")
			decoded.WriteString("<tool>")
		}
		if fragment == "" {
			continue
		}
		if i > 0 {
			decoded.WriteByte(' ')
		}
		decoded.WriteString(strings.ReplaceAll(fragment, spaceMark, " "))
		spelt = append(spelt, spellMarks(tok, n, strings.ReplaceAll(" "+fragment, " ", spaceMark))...)
	}
	if got := pieces(tok, ids); !slices.Equal(got, spelt) {
		t.Fatalf("%q:\n got %q\nwant %q", text, got, spelt)
	}
	if got := string(tok.Decode(ids)); got != decoded.String() {
		t.Fatalf("%q is decoded to %q, want %q", text, got, decoded.String())
	}
}

// spellMarks spells the tokens of a text in one piece.
func spellMarks(tok *Tokenizer, n *naive, text string) []string {
	var symbols []string
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRuneInString(text[i:])
		symbols = append(symbols, text[i:i+size])
		i += size
	}
	var out []string
	for _, s := range n.merge(symbols) {
		if id, ok := tok.Lookup(s); ok && tok.vocab.mergeable(id) {
			out = append(out, s)
			continue
		}
		for _, b := range []byte(s) {
			out = append(out, bytePiece(b))
		}
	}
	return out
}

// checkPlain: no control token in plain text, whatever it is.
func checkPlain(t *testing.T, tok *Tokenizer, text string, ids []int32) {
	t.Helper()
	if i := slices.IndexFunc(ids, tok.Control); i >= 0 {
		t.Fatalf("%q has the control token %q", text, tok.Piece(ids[i]))
	}
}

// encodeSeeds are texts that once were, or easily could be, wrong.
func encodeSeeds() []string {
	return []string{
		"", "a", "ab abc", "aaaaaaaaa", "aabaab ababab", "a <user> b", "<user><user>", "  a   b ", "'s 'S don't", "11111 1a1",
		"\n\n\n a", "é e\u0301", "<s><|im_end|>",
		"\xff\xfe a\xc3", "\xc3\xa9\xe2\x96", "▁a▁▁ab", "c ab c  ab", "<tool>a<tool> b",
		"</s>", "xyx", "漢字 かな", "\u00a0\u3000\u2003x", "\x00\x1f", "'\u017fs",
		strings.Repeat("a", 100), strings.Repeat("ab", 60) + "b", strings.Repeat("aab ", 40),
		strings.Repeat("\u0301", 40), strings.Repeat("c ", 50), strings.Repeat("🙂", 30),
	}
}

func naives(t testing.TB) (bytes, marks *naive) {
	t.Helper()
	bytes = &naive{ranks: map[[2]string]int{}}
	for i, m := range richBytes("gpt-2")[keyMerges].([]string) {
		left, right, _ := strings.Cut(m, " ")
		bytes.ranks[[2]string{left, right}] = i
	}
	values := tinyMarks()
	marks = &naive{scores: map[string]float32{}}
	for i, p := range values[keyTokens].([]string) {
		if k := values[keyKinds].([]int32)[i]; k == 1 || k == 4 {
			marks.scores[p] = values[keyScores].([]float32)[i]
		}
	}
	return bytes, marks
}

// pres names one member of each family.
func pres() []string {
	var out []string
	for _, f := range families() {
		out = append(out, f.names[0])
	}
	return out
}

// FuzzEncode: any bytes are cut by every family without losing one, merged as the definition says, and decoded to what they were.
func FuzzEncode(f *testing.F) {
	for _, s := range encodeSeeds() {
		f.Add(s)
	}
	byBytes, byMarks := naives(f)
	toks := make([]*Tokenizer, 0, len(families()))
	for _, pre := range pres() {
		toks = append(toks, fromValues(f, richBytes(pre)))
	}
	marks := fromValues(f, tinyMarks())
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<9 {
			// The definition takes quadratic time.
			return
		}
		for _, tok := range toks {
			if !tok.whole {
				checkBytes(t, tok, byBytes, text)
			}
			checkPlain(t, tok, text, tok.Encode(text, Options{}))
			tok.Encode(text, Options{Special: true, BOS: true})
		}
		checkMarks(t, marks, byMarks, text)
	})
}

// TestHeapAndShort: the two ways to merge are one.
func TestHeapAndShort(t *testing.T) {
	tok := fromValues(t, richBytes("gpt-2"))
	r := random(1)
	for range 3000 {
		ids := make([]int32, 1+r.below(maxShort))
		for i := range ids {
			ids[i] = tok.symbols.bytes["aaabbc 1"[r.below(8)]]
		}
		short := tok.pairs.mergeShort(slices.Clone(ids))
		var h mergeHeap
		if got := h.merge(tok.pairs, slices.Clone(ids)); !slices.Equal(got, short) {
			t.Fatalf("%v: heap %v, short %v", ids, got, short)
		}
	}
}

// TestHeapOrder: candidates come out of the queue in the order of their keys.
func TestHeapOrder(t *testing.T) {
	r := random(3)
	for range 200 {
		var h mergeHeap
		var want []uint64
		for range 1 + r.below(100) {
			if len(want) > 0 && r.below(3) == 0 {
				if c := h.pop(); c.key != want[0] {
					t.Fatalf("%x comes out before %x", c.key, want[0])
				}
				want = want[1:]
				continue
			}
			key := uint64(r.below(4))<<32 | uint64(r.below(1000))
			h.add(candidate{key: key})
			at, _ := slices.BinarySearch(want, key)
			want = slices.Insert(want, at, key)
		}
		for _, key := range want {
			if c := h.pop(); c.key != key {
				t.Fatalf("%x comes out before %x", c.key, key)
			}
		}
	}
}

// TestLongTexts: no text takes quadratic time. The test ends in a few seconds, or hardly at all.
func TestLongTexts(t *testing.T) {
	const n = 1 << 15
	long := map[string]string{
		"one word":             strings.Repeat("a", n),
		"spaces":               strings.Repeat(" ", n),
		"newlines":             strings.Repeat("\n", n),
		"digits":               strings.Repeat("1", n),
		"marks":                strings.Repeat("\u0301", n/2),
		"signs":                strings.Repeat("'", n),
		"invalid":              strings.Repeat("\xff", n),
		"spaces and a word":    strings.Repeat(" ", n) + "a",
		"capitals":             strings.Repeat("A", n),
		"letters without case": strings.Repeat("ʰ", n/2),
		"unassigned":           strings.Repeat("\u0378", n/2),
		"lines":                strings.Repeat(" \n", n/2),
		"beginnings of tokens": strings.Repeat("<user<s><|im_en", n/16),
		"space marks":          strings.Repeat(spaceMark, n/4),
		"words of marks":       strings.Repeat("c"+spaceMark, n/4),
	}
	for _, pre := range append(pres(), "marks") {
		values := richBytes(pre)
		if pre == "marks" {
			values = tinyMarks()
		}
		tok := fromValues(t, values)
		for name, text := range long {
			if ids := tok.Encode(text, Options{Special: true}); len(ids) == 0 {
				t.Errorf("%s, %s: no tokens", pre, name)
			}
		}
	}
}

// TestLongSpecial: an added token of any length is found in time in proportion to its length.
func TestLongSpecial(t *testing.T) {
	values := tinyBytes()
	long := strings.Repeat("z", maxAdded)
	values[keyTokens].([]string)[259] = long
	tok := fromValues(t, values)
	if got := tok.Encode(strings.Repeat("z", 1<<16)+"y", Options{Special: true}); len(got) != 1<<6+1 || got[0] != 259 {
		t.Fatalf("%d tokens", len(got))
	}
}

// TestDecodeInParts: the bytes of tokens one by one are the bytes of all, from wherever one begins.
func TestDecodeInParts(t *testing.T) {
	for name, values := range map[string]map[string]any{"bytes": richBytes("gpt-2"), "marks": tinyMarks()} {
		tok := fromValues(t, values)
		for _, text := range encodeSeeds() {
			ids := tok.Encode(text, Options{})
			whole := tok.Decode(ids)
			for k := range len(ids) + 1 {
				parts := tok.Decode(ids[:k])
				d := tok.Decoder()
				if len(parts) > 0 {
					d.Continue()
				}
				for _, id := range ids[k:] {
					parts = append(parts, d.Next(id)...)
				}
				if !bytes.Equal(parts, whole) && k > 1 {
					t.Fatalf("%s: %q cut at %d: %q, want %q", name, text, k, parts, whole)
				}
			}
		}
	}
}

// TestDecoderSpace: the space that a SentencePiece vocabulary puts before a text is left out, and only that one.
func TestDecoderSpace(t *testing.T) {
	tok := fromValues(t, tinyMarks())
	ab, _ := tok.Lookup("▁ab")
	bos, _ := tok.BOS()
	for _, c := range []struct {
		name string
		d    *Decoder
		ids  []int32
		want string
	}{
		{"the beginning", tok.Decoder(), []int32{ab, ab}, "ab ab"},
		{"after a control token", tok.Decoder(), []int32{bos, ab}, "ab"},
		{"going on", tok.Decoder().Continue(), []int32{ab}, " ab"},
	} {
		var got []byte
		for _, id := range c.ids {
			got = append(got, c.d.Next(id)...)
		}
		if string(got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	values := tinyMarks()
	values["tokenizer.ggml.add_space_prefix"] = false
	if got := fromValues(t, values).Decode([]int32{ab}); string(got) != " ab" {
		t.Errorf("without a prefix: %q", got)
	}
}

// TestRoundTripReal: real byte-level vocabularies give back any bytes for which they have tokens. Some have none for bytes that stand in no
// UTF-8 text, and one leaves out a few control characters.
func TestRoundTripReal(t *testing.T) {
	texts := testStrings(t, 1000)
	r := random(7)
	for range 200 {
		var b []byte
		for range r.below(60) {
			b = append(b, byte(r.next()))
		}
		texts = append(texts, string(b))
	}
	for name, lacking := range map[string]string{
		"gpt-2": "", "llama-bpe": "", "qwen2": "",
		"falcon":         "\x03\x04\x05\v\x11\x13\x14\x15\x16\x17\x19\x1c\x1d\x1e\xc0\xc1\xf2\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff",
		"starcoder":      "\xc0\xc1\xf1\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff",
		"refact":         "\xc0\xc1\xf1\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff",
		"deepseek-coder": "\xc0\xc1\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff",
		"deepseek-llm":   "\xc0\xc1\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff",
		"mpt":            "\xc0\xc1\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff",
	} {
		t.Run(name, func(t *testing.T) {
			tok := loadVocab(t, name)
			var missing []byte
			for b, id := range tok.symbols.bytes {
				if id == none {
					missing = append(missing, byte(b))
				}
			}
			if string(missing) != lacking {
				t.Errorf("%q have no token, want %q", missing, lacking)
			}
			for _, s := range texts {
				kept := slices.DeleteFunc([]byte(apply(tok.edits, s, true)), func(b byte) bool { return bytes.IndexByte(missing, b) >= 0 })
				want := string(kept)
				if got := string(tok.Decode(tok.Encode(s, Options{}))); got != want {
					t.Fatalf("%q is decoded to %q", want, got)
				}
			}
		})
	}
}

// TestNormalizeLong holds the normalisation by the letter to the library's, where that is right.
func TestNormalizeLong(t *testing.T) {
	forms := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}
	texts := append(testStrings(t, 4000), encodeSeeds()...)
	for name, form := range forms {
		compared := 0
		for _, s := range texts {
			want := form.String(s)
			if strings.Count(want, "\u034f") != strings.Count(s, "\u034f") {
				continue
			}
			compared++
			if got := normalizeLong(form, s); got != want {
				t.Fatalf("%s of %+q: %+q, want %+q", name, s, got, want)
			}
		}
		if compared < 3000 {
			t.Errorf("%s: only %d texts", name, compared)
		}
	}
	long := "e" + strings.Repeat("\u0316\u0301", 40)
	if got, want := normalize(norm.NFC, long), "é"+strings.Repeat("\u0316", 40)+strings.Repeat("\u0301", 39); got != want {
		t.Errorf("%+q, want %+q", got, want)
	}
}

// TestCacheIsBounded: more words than places push each other out, and stay right.
func TestCacheIsBounded(t *testing.T) {
	tok := fromValues(t, richBytes("gpt-2"))
	var text strings.Builder
	for i := range 2 * cacheSlots {
		fmt.Fprintf(&text, " %x", i*7919)
	}
	s := text.String()
	first := tok.Encode(s, Options{})
	if !slices.Equal(first, tok.Encode(s, Options{})) || string(tok.Decode(first)) != s {
		t.Error("words are mixed up")
	}
	if len(tok.cache.slots) != cacheSlots {
		t.Errorf("%d places", len(tok.cache.slots))
	}
}
