package tokenizer

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// folders are checked by TestTokenizerFiles. They hold large files that are not in the repository: testdata/make_reference.py says how
// to get them.
var folders = flag.String("tokenizers", "", "folders with tokenizer.json and stoker_reference.bin.gz, with spaces between them")

// reference is testdata/reference.json.
type reference struct {
	MadeBy     string          `json:"made_by"`
	Strings    int             `json:"strings"`
	StringHash uint32          `json:"string_hash"`
	Cases      []referenceCase `json:"cases"`
}

// referenceCase is a vocabulary and the way of a text through it.
type referenceCase struct {
	Name         string          `json:"name"`
	GGUF         string          `json:"gguf"`
	Pre          string          `json:"pre"`
	Normalizer   json.RawMessage `json:"normalizer"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Decoder      json.RawMessage `json:"decoder"`
	IgnoreMerges bool            `json:"ignore_merges"`
	// plain and special are the hashes of each string's tokens, without and with Options.Special; words are 16 bits of those of the places
	// where its words end, of byte-level vocabularies.
	plain, special, words []uint32
}

func readReference(t testing.TB) *reference {
	t.Helper()
	text, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	columns := readColumns(t, "testdata/reference.bin.gz", 3*len(r.Cases), r.Strings)
	for i := range r.Cases {
		r.Cases[i].plain, r.Cases[i].special, r.Cases[i].words = columns[3*i], columns[3*i+1], columns[3*i+2]
	}
	return &r
}

// unpack reads a compressed file.
func unpack(t testing.TB, path string) []byte {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return raw
}

func readColumns(t testing.TB, path string, n, length int) [][]uint32 {
	t.Helper()
	raw := unpack(t, path)
	if len(raw) != 4*n*length {
		t.Fatalf("%s: %d bytes; want %d columns of %d", path, len(raw), n, length)
	}
	out := make([][]uint32, n)
	for i := range out {
		for j := range length {
			out[i] = append(out[i], binary.LittleEndian.Uint32(raw[4*(i*length+j):]))
		}
	}
	return out
}

// random is splitmix64, as in make_reference.py.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) below(n int) int { return int(r.next() >> 11 % uint64(n)) }

// blocks are those of make_reference.py.
func blocks() [][2]int {
	return [][2]int{
		{0x20, 0x7E},
		{0x00, 0xFF},
		{0x100, 0x24F},
		{0x250, 0x36F},
		{0x370, 0x52F},
		{0x530, 0x6FF},
		{0x700, 0xDFF},
		{0xE00, 0x13FF},
		{0x1400, 0x1CFF},
		{0x1D00, 0x20CF},
		{0x20D0, 0x2BFF},
		{0x2C00, 0x2FFF},
		{0x3000, 0x33FF},
		{0x4E00, 0x9FFF},
		{0xA000, 0xABFF},
		{0xAC00, 0xD7FF},
		{0xE000, 0xFFFF},
		{0x10000, 0x11FFF},
		{0x12000, 0x1CFFF},
		{0x1D000, 0x1FFFF},
		{0x20000, 0x323AF},
		{0xE0000, 0xE01EF},
	}
}

func (r *random) char(block [2]int) string {
	return string(rune(block[0] + r.below(block[1]-block[0]+1)))
}

func (r *random) block() [2]int { return blocks()[r.below(len(blocks()))] }

// testStrings makes the strings of the reference.
func testStrings(t testing.TB, n int) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/fragments.json")
	if err != nil {
		t.Fatal(err)
	}
	var fragments []string
	if err := json.Unmarshal(text, &fragments); err != nil {
		t.Fatal(err)
	}
	out := make([]string, n)
	for i := range out {
		out[i] = testString(fragments, i)
	}
	return out
}

func testString(fragments []string, i int) string {
	r := random(i)
	var b strings.Builder
	fragment := func() string { return fragments[r.below(len(fragments))] }
	switch kind := r.below(10); {
	case kind < 6:
		for range 1 + r.below(12) {
			if r.below(3) == 0 {
				b.WriteByte(' ')
			}
			b.WriteString(fragment())
		}
	case kind < 8:
		for range 1 + r.below(10) {
			if r.below(2) != 0 {
				b.WriteString(r.char(r.block()))
			} else {
				b.WriteString(fragment())
			}
		}
	case kind < 9:
		block := r.block()
		wild := r.below(4) == 0
		for range 1 + r.below(30) {
			if wild {
				b.WriteString(r.char(r.block()))
			} else {
				b.WriteString(r.char(block))
			}
		}
	default:
		f := fragment()
		b.WriteString(strings.Repeat(f, 1+r.below(40)))
		b.WriteString(fragment())
	}
	return b.String()
}

// hashIDs is FNV-1a of the ids as little-endian numbers of 32 bits.
func hashIDs(ids []int32) uint32 {
	h := fnv.New32a()
	var b [4]byte
	for _, id := range ids {
		binary.LittleEndian.PutUint32(b[:], uint32(id))
		h.Write(b[:])
	}
	return h.Sum32()
}

// TestTestStrings shows that the generator makes the strings that the reference was made with.
func TestTestStrings(t *testing.T) {
	r := readReference(t)
	var all []int32
	for _, s := range testStrings(t, r.Strings) {
		for _, b := range []byte(s) {
			all = append(all, int32(b))
		}
	}
	if got := hashIDs(all); got != r.StringHash {
		t.Fatalf("the strings have the hash %08x, want %08x", got, r.StringHash)
	}
}

// ggufPath is the file that a case names.
func (c *referenceCase) ggufPath(t testing.TB) string {
	t.Helper()
	if name, ok := strings.CutPrefix(c.GGUF, "vocab:"); ok {
		return filepath.Join(llamaVocabs(t), "ggml-vocab-"+name+".gguf")
	}
	return realPath(t, c.GGUF)
}

// TestReferenceGGUF holds tokenizers from GGUF files to Hugging Face's.
func TestReferenceGGUF(t *testing.T) {
	r := readReference(t)
	texts := testStrings(t, r.Strings)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			tok := load(t, c.ggufPath(t))
			f, ok := findFamily(c.Pre)
			if tok.symbols.byteLevel {
				if !ok {
					t.Fatalf("no family %q", c.Pre)
				}
				tok.stages, tok.edits, tok.whole = f.stages(), f.edits(), f.whole
			}
			compare(t, tok, texts, c.plain, Options{})
			compare(t, tok, texts, c.special, Options{Special: true})
		})
	}
}

// TestReferenceJSON holds tokenizers from tokenizer.json to Hugging Face's. The files are too large to keep, so they are made from GGUF
// files, as make_reference.py makes them. That takes long for large vocabularies: of most of them only the way of a text is read
// from JSON.
func TestReferenceJSON(t *testing.T) {
	r := readReference(t)
	texts := testStrings(t, r.Strings)
	large := []string{"llama3", "qwen35", "o200k", "tekken", "deepseek3", "deepseek-llm", "command-r", "gemma3", "gemma4"}
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			var tok *Tokenizer
			var err error
			if slices.Contains(large, c.Name) {
				tok, err = c.wayFromJSON(t)
			} else {
				tok, err = FromJSON(c.tokenizerJSON(t), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			compare(t, tok, texts, c.plain, Options{})
			compare(t, tok, texts, c.special, Options{Special: true})
		})
	}
}

// wayFromJSON is a tokenizer of the case's GGUF file in which the way of a text is the one of the case's JSON.
func (c *referenceCase) wayFromJSON(t testing.TB) (*Tokenizer, error) {
	t.Helper()
	tok := load(t, c.ggufPath(t))
	s := &spec{vocab: tok.vocab}
	file := jsonFile{Normalizer: c.Normalizer, PreTokenizer: c.PreTokenizer, Decoder: c.Decoder}
	for _, step := range []func(*spec) error{file.normalizer, file.preTokenizer, file.decoder} {
		if err := step(s); err != nil {
			return nil, err
		}
	}
	if !s.byteLevel {
		s.stages = append(s.stages, tok.stages[len(tok.stages)-1])
	}
	tok.edits, tok.prep, tok.stages, tok.strips, tok.whole = s.edits, s.prep, s.stages, s.strips, c.IgnoreMerges
	return tok, nil
}

// tokenizerJSON makes a tokenizer.json from the case's GGUF file.
func (c *referenceCase) tokenizerJSON(t testing.TB) []byte {
	t.Helper()
	v := load(t, c.ggufPath(t)).vocab
	f, err := gguf.Open(c.ggufPath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	marks := strings.Contains(string(c.Decoder), "ByteFallback")
	last := 0
	for i, k := range v.kinds {
		if k == normalKind || k == byteKind {
			last = i
		}
	}
	vocab, added := map[string]int{}, []jsonAdded{}
	for i, p := range v.pieces {
		if marks || i <= last {
			vocab[p] = i
		}
		if k := v.kinds[i]; k.special() || k == userKind {
			rstrip := c.Name == "phi3" && p != "<unk>" && p != "<s>" && p != "<|endoftext|>"
			added = append(added, jsonAdded{ID: int64(i), Content: p, Special: k.special(), RStrip: rstrip})
		}
	}
	text, err := json.Marshal(map[string]any{
		"added_tokens": added, "normalizer": c.Normalizer, "pre_tokenizer": c.PreTokenizer, "decoder": c.Decoder,
		"model": map[string]any{
			"type": "BPE", "unk_token": nil, "byte_fallback": marks, "fuse_unk": marks, "ignore_merges": c.IgnoreMerges, "vocab": vocab,
			"merges": jsonMerges(t, f, v),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// jsonMerges lists the merges of a GGUF file, or makes them from its scores.
func jsonMerges(t testing.TB, f *gguf.File, v *vocab) [][2]string {
	t.Helper()
	var out [][2]string
	if list, err := f.Strings(keyMerges); err == nil {
		for _, m := range list {
			left, right, _ := cutMerge(m)
			out = append(out, [2]string{left, right})
		}
		return out
	}
	scores, err := f.Floats(keyScores)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int, len(scores))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, id := range ids {
		p := v.pieces[id]
		for b := 1; b < len(p) && v.mergeable(int32(id)); b++ {
			l, okLeft := v.index.find(p[:b])
			r, okRight := v.index.find(p[b:])
			if okLeft && okRight && v.mergeable(l) && v.mergeable(r) {
				out = append(out, [2]string{p[:b], p[b:]})
			}
		}
	}
	return out
}

// unlikeClasses returns the characters of which Hugging Face's tokenizer knows another class than Go does: in its regular expressions, and
// in its step Punctuation, which has older tables.
func unlikeClasses(t testing.TB) (inPatterns, inPunctuation map[rune]bool) {
	t.Helper()
	const n = unicode.MaxRune + 1
	theirs := unpack(t, "testdata/classes.bin.gz")
	if len(theirs) != 2*n {
		t.Fatalf("%d classes", len(theirs))
	}
	inPatterns, inPunctuation = map[rune]bool{}, map[rune]bool{}
	isPunct := punctuation(true)
	for r := rune(0); r < n; r++ {
		if utf8.ValidRune(r) && class(theirs[r]) != classes().of(r) {
			inPatterns[r] = true
		}
		if utf8.ValidRune(r) && (theirs[n+r] == 1) != (isPunct(string(r)) > 0) {
			inPunctuation[r] = true
		}
	}
	return inPatterns, inPunctuation
}

// TestClasses: the character classes are those of the patterns' own engine, but for characters that are newer than it. With Go 1.27,
// which has Unicode 17, these are the ones that were assigned in it, and a letter that lost its case.
func TestClasses(t *testing.T) {
	unlike, _ := unlikeClasses(t)
	theirs := unpack(t, "testdata/classes.bin.gz")
	var runs []string
	for _, r := range slices.Sorted(maps.Keys(unlike)) {
		if theirs[r] != 0 && r != 'ʕ' {
			t.Errorf("%U: %08b, and %08b for Hugging Face", r, classes().of(r), theirs[r])
		}
		if !unlike[r-1] {
			runs = append(runs, fmt.Sprintf("%U", r))
		}
	}
	t.Logf("%d characters are newer than the reference, in runs from %s", len(unlike), strings.Join(runs, ", "))
	if len(unlike) > 10000 {
		t.Error("these are too many: make the references anew")
	}
}

// TestWords holds each family's way to cut texts into words to Hugging Face's. Tokens show less of it than one would think. Strings with
// characters of another class there are named and left out.
func TestWords(t *testing.T) {
	r := readReference(t)
	texts := testStrings(t, r.Strings)
	inPatterns, inPunctuation := unlikeClasses(t)
	compared := 0
	for _, c := range r.Cases {
		if strings.Contains(string(c.Decoder), "ByteFallback") {
			continue
		}
		compared++
		t.Run(c.Name, func(t *testing.T) {
			f, ok := findFamily(c.Pre)
			if !ok {
				t.Fatalf("no family %q", c.Pre)
			}
			checkWords(t, f.stages(), texts, c.words, func(r rune) bool {
				return inPatterns[r] || c.Name == "falcon" && inPunctuation[r]
			})
		})
	}
	if compared < 15 {
		t.Errorf("only %d families", compared)
	}
}

func checkWords(t *testing.T, stages []stage, texts []string, want []uint32, unlike func(rune) bool) {
	t.Helper()
	var left []int
	for i, text := range texts {
		ends := wordEnds(stages, text)
		if hashIDs(ends)&0xffff == want[i] {
			continue
		}
		if strings.ContainsFunc(text, unlike) {
			left = append(left, i)
			continue
		}
		t.Errorf("string %d, %+q, is cut at %v", i, text, ends)
	}
	t.Logf("%d strings are cut in another way because a character is newer than the reference: %v", len(left), left)
	if len(left) > len(texts)/100 {
		t.Error("these are too many")
	}
}

// wordEnds returns the places in characters where the words of a text end.
func wordEnds(stages []stage, text string) []int32 {
	var ends []int32
	var w words
	w.reset(stages, text)
	end := int32(0)
	for word, ok := w.next(); ok; word, ok = w.next() {
		end += int32(utf8.RuneCountInString(word))
		ends = append(ends, end)
	}
	return ends
}

// compare encodes texts and compares with hashes.
func compare(t *testing.T, tok *Tokenizer, texts []string, want []uint32, o Options) {
	t.Helper()
	wrong := 0
	for i, s := range texts {
		if got := tok.Encode(s, o); hashIDs(got) != want[i] {
			if wrong++; wrong <= 10 {
				t.Errorf("%+v string %d: %+q\n%v", o, i, s, got)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%+v: %d of %d are wrong", o, wrong, len(texts))
	}
}

// TestTokenizerFiles holds tokenizers from real tokenizer.json files to Hugging Face's, as far as files are named.
func TestTokenizerFiles(t *testing.T) {
	n := readReference(t).Strings
	texts := testStrings(t, n)
	for _, folder := range strings.Fields(*folders) {
		t.Run(filepath.Base(filepath.Dir(folder)), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(folder, "tokenizer.json"))
			if err != nil {
				t.Fatal(err)
			}
			config, err := os.ReadFile(filepath.Join(folder, "tokenizer_config.json"))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			tok, err := FromJSON(text, config)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d tokens, read in %v, ends %v, adds BOS %v", tok.Size(), time.Since(start), tok.Ends(), tok.AddsBOS())
			columns := readColumns(t, filepath.Join(folder, "stoker_reference.bin.gz"), 2, n)
			compare(t, tok, texts, columns[0], Options{})
			compare(t, tok, texts, columns[1], Options{Special: true})
		})
	}
}
