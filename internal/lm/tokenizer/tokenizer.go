package tokenizer

import (
	"slices"
	"sync"
	"unicode/utf8"
)

// Tokenizer turns text into tokens and back. It is immutable but for a cache; all its methods may be called concurrently.
type Tokenizer struct {
	vocab *vocab
	pairs *pairs
	cache *wordCache

	// The way of a text: cut out added tokens, edit what is left, cut out the added tokens of edited text, prepare, cut into words.
	raw, edited *finder
	edits, prep []edit
	stages      []stage
	symbols     symbols
	// whole: a word that is a token is that token, whatever the merges say.
	whole bool
	// strips: a space at the beginning of a decoded text is not the text's own.
	strips bool

	bos, eos         int32
	addsBOS, addsEOS bool
	ends             []int32
	encoders         sync.Pool
}

// none is the id of a token that the model does not have.
const none = -1

// Options says how to read a text.
type Options struct {
	// Special: special tokens that are written in the text, such as "<|im_end|>", become those tokens. Set it for what a chat template
	// made. Without it their spelling is ordinary text, as it must be in what users write. Tokens that a model wants to be found in any
	// text are found either way.
	Special bool
	// BOS: the beginning token comes first, if the model wants one (see AddsBOS).
	BOS bool
}

// Encode returns the tokens of text. Any bytes are taken, also such that are no UTF-8: byte-level vocabularies and those with byte
// fallback have tokens for them; with another vocabulary a byte or character without a token becomes the unknown token, or nothing if
// the model has none.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	e := t.encoders.Get().(*encoder)
	e.out = make([]int32, 0, len(text)/4+4)
	if o.BOS && t.addsBOS {
		e.out = append(e.out, t.bos)
	}
	e.text(text, o.Special)
	out := e.out
	e.release()
	return out
}

// Size is the number of tokens: ids are below it.
func (t *Tokenizer) Size() int { return len(t.vocab.pieces) }

// Bytes returns the bytes that a token stands for in a text, nil for a control token and an id that does not exist. They may be a part
// of a character. The caller must not change them.
func (t *Tokenizer) Bytes(id int32) []byte {
	b, ok := t.vocab.bytes(id)
	if !ok || t.vocab.kinds[id].special() {
		return nil
	}
	return b
}

// Piece returns the vocabulary's own spelling of a token, "" for an id that does not exist. It is not text: a space may be spelled
// "Ġ" or "▁".
func (t *Tokenizer) Piece(id int32) string {
	if id < 0 || int(id) >= len(t.vocab.pieces) {
		return ""
	}
	return t.vocab.pieces[id]
}

// Lookup returns the token with the given spelling.
func (t *Tokenizer) Lookup(piece string) (int32, bool) {
	id, ok := t.vocab.index.find(piece)
	return id, ok
}

// Control reports whether a token is not shown in text: control tokens, and the unknown token.
func (t *Tokenizer) Control(id int32) bool {
	return id >= 0 && int(id) < len(t.vocab.kinds) && t.vocab.kinds[id].special()
}

// BOS returns the token that begins a text.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos != none }

// EOS returns the token that ends a text.
func (t *Tokenizer) EOS() (int32, bool) { return t.eos, t.eos != none }

// AddsBOS reports whether the model wants its beginning token before a text that has none.
func (t *Tokenizer) AddsBOS() bool { return t.addsBOS }

// AddsEOS reports whether the model was made to have its end token after each text. Encode never adds it: a prompt goes on.
func (t *Tokenizer) AddsEOS() bool { return t.addsEOS }

// Ends returns all tokens after which generation ends, ascending: the end of the text, of a turn, of a message.
func (t *Tokenizer) Ends() []int32 { return slices.Clone(t.ends) }

// symbols are what a word is made of before anything is merged.
type symbols struct {
	// byteLevel: each byte is a symbol. Otherwise each character is one.
	byteLevel bool
	// bytes are the tokens of single bytes, none where there is none.
	bytes [256]int32
	// ascii and runes are the symbols of characters, if not byteLevel.
	ascii [utf8.RuneSelf]int32
	runes map[rune]int32
	// pseudo are the characters that are no tokens and can still be merged to one. Their symbols begin at the size of the vocabulary.
	pseudo []string
	// unknown is the token for what has none; fuse makes one of several in a row.
	unknown int32
	fuse    bool
	letters *letterTable
}
