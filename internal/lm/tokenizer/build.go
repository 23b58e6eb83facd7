package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// spec is what a source, GGUF or tokenizer.json, says of a tokenizer.
type spec struct {
	vocab     *vocab
	byteLevel bool
	// pairs are the merges, and pseudo the characters that they name without being tokens.
	pairs  *pairs
	pseudo []string
	// where names the list of tokens in errors.
	where string

	raw, edited []addedToken
	edits, prep []edit
	stages      []stage
	whole       bool
	strips      bool
	unknown     int32
	fuse        bool

	bos, eos         int32
	addsBOS, addsEOS bool
	ends             []int32
}

// build makes the tokenizer.
func (s *spec) build() (*Tokenizer, error) {
	raw, err := newFinder(s.raw)
	if err != nil {
		return nil, invalid(s.where, "%v", err)
	}
	edited, err := newFinder(s.edited)
	if err != nil {
		return nil, invalid(s.where, "%v", err)
	}
	s.vocab.decode(s.byteLevel)
	t := &Tokenizer{
		vocab: s.vocab, pairs: s.pairs, cache: newWordCache(),
		raw: raw, edited: edited, edits: s.edits, prep: s.prep, stages: s.stages,
		symbols: s.symbols(), whole: s.whole, strips: s.strips,
		bos: s.bos, eos: s.eos, addsBOS: s.addsBOS && s.bos != none, addsEOS: s.addsEOS && s.eos != none,
		ends: slices.Clone(s.ends),
	}
	if !s.byteLevel {
		t.stages = append(t.stages, spaceWords(s.glued()))
	}
	slices.Sort(t.ends)
	t.encoders.New = func() any { return &encoder{t: t} }
	return t, nil
}

// mergeable reports whether token id can come from a text by merging.
func (v *vocab) mergeable(id int32) bool { return v.kinds[id] == normalKind || v.kinds[id] == userKind }

// symbols makes the tables of what a word begins as.
func (s *spec) symbols() symbols {
	y := symbols{byteLevel: s.byteLevel, unknown: s.unknown, fuse: s.fuse, letters: byteLetters(), pseudo: s.pseudo}
	for b := range 256 {
		y.bytes[b] = s.byteToken(y.letters, byte(b))
	}
	if s.byteLevel {
		return y
	}
	for i := range y.ascii {
		y.ascii[i] = none
	}
	y.runes = map[rune]int32{}
	set := func(piece string, id int32) {
		r, n := utf8.DecodeRuneInString(piece)
		if n != len(piece) || r == utf8.RuneError && n == 1 {
			return
		}
		y.runes[r] = id
		if r < utf8.RuneSelf {
			y.ascii[r] = id
		}
	}
	for i, p := range s.vocab.pieces {
		if p != "" && s.vocab.mergeable(int32(i)) {
			set(p, int32(i))
		}
	}
	for i, p := range s.pseudo {
		set(p, int32(len(s.vocab.pieces)+i))
	}
	return y
}

// byteToken returns the token of a single byte, or none.
func (s *spec) byteToken(letters *letterTable, b byte) int32 {
	if s.byteLevel {
		if id, ok := s.vocab.index.find(letters.letter[b]); ok && s.vocab.kinds[id] == normalKind {
			return id
		}
		return none
	}
	if id, ok := s.vocab.index.find(bytePiece(b)); ok && s.vocab.kinds[id] == byteKind {
		return id
	}
	return none
}

// glued returns the characters after which a space mark may be merged to one token with them: for all others a text can be cut there,
// and the words come out the same as from the text in one piece.
func (s *spec) glued() map[rune]bool {
	out := map[rune]bool{}
	for i, p := range s.vocab.pieces {
		if !s.vocab.mergeable(int32(i)) {
			continue
		}
		before := rune(-1)
		for _, r := range p {
			if r == spaceMarkRune && before != -1 {
				out[before] = true
			}
			before = r
		}
	}
	return out
}

const spaceMarkRune = '\u2581'

// spaceWords cuts before each space mark that no token joins to the character before it.
func spaceWords(glued map[rune]bool) stage {
	return func(s string) int {
		for from := 0; ; {
			n := literalIndex(s, from)
			if n < 0 {
				return len(s)
			}
			if n > 0 {
				if r, _ := utf8.DecodeLastRuneInString(s[:n]); !glued[r] {
					return n
				}
			}
			from = n + len(spaceMark)
		}
	}
}
