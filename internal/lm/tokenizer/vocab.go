package tokenizer

import (
	"fmt"
	"strings"
)

// kind is what a token is for. The numbers are those of tokenizer.ggml.token_type.
type kind uint8

const (
	normalKind  kind = 1
	unknownKind kind = 2
	controlKind kind = 3
	// userKind tokens are found in any text before it is cut.
	userKind   kind = 4
	unusedKind kind = 5
	// byteKind tokens stand for one byte of which the vocabulary has no text.
	byteKind kind = 6
)

// special reports whether the token is not text: its spelling never comes from a user's text, and is not shown.
func (k kind) special() bool { return k == controlKind || k == unknownKind }

// vocab is the tokens of a model, by number and by spelling.
type vocab struct {
	pieces []string
	kinds  []kind
	index  *index
	// text holds the bytes of all tokens one after another; those of token i end at ends[i].
	text []byte
	ends []uint32
}

// maxTokens bounds a vocabulary. The largest known ones have 262,400 tokens.
const maxTokens = 1 << 22

// newVocab indexes pieces. where names the list in errors. Empty pieces are in no text and have no spelling to be found by.
func newVocab(where string, pieces []string, kinds []kind) (*vocab, error) {
	x, i, j, unique := newIndex(pieces)
	if !unique {
		return nil, invalid(where, "tokens %d and %d are both %q", i, j, pieces[i])
	}
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	if uint64(size) > 1<<31 {
		return nil, invalid(where, "the tokens have %d bytes", size)
	}
	return &vocab{pieces: pieces, kinds: kinds, index: x}, nil
}

// decode fills in the bytes that tokens stand for: by the byte letters of GPT-2, or else by SentencePiece's rules.
func (v *vocab) decode(byteLevel bool) {
	v.text = make([]byte, 0, len(v.pieces)*8)
	v.ends = make([]uint32, len(v.pieces))
	letters := byteLetters()
	for i, p := range v.pieces {
		switch k := v.kinds[i]; {
		case k.special():
		case k == userKind:
			v.text = append(v.text, p...)
		case byteLevel:
			v.text = letters.appendBytes(v.text, p)
		case k == byteKind:
			b, _ := byteOfPiece(p)
			v.text = append(v.text, b)
		default:
			v.text = appendSpaces(v.text, p)
		}
		v.ends[i] = uint32(len(v.text))
	}
}

// bytes returns the bytes of token id, without room for more. ok is false if there is no such token.
func (v *vocab) bytes(id int32) (b []byte, ok bool) {
	if id < 0 || int(id) >= len(v.ends) {
		return nil, false
	}
	start := uint32(0)
	if id > 0 {
		start = v.ends[id-1]
	}
	end := v.ends[id]
	return v.text[start:end:end], true
}

// appendSpaces appends piece with its space marks as spaces.
func appendSpaces(dst []byte, piece string) []byte {
	for {
		before, after, found := strings.Cut(piece, spaceMark)
		dst = append(dst, before...)
		if !found {
			return dst
		}
		dst = append(dst, ' ')
		piece = after
	}
}

// bytePiece is the spelling of a token that stands for one byte.
func bytePiece(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// byteOfPiece is the inverse of bytePiece.
func byteOfPiece(piece string) (byte, bool) {
	if len(piece) != len("<0x00>") || !strings.HasPrefix(piece, "<0x") || piece[5] != '>' {
		return 0, false
	}
	hi, lo := hexDigit(piece[3]), hexDigit(piece[4])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return byte(hi<<4 | lo), true
}

func hexDigit(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	}
	return -1
}

// letterTable is the alphabet in which byte-level vocabularies are written: each byte has a printable letter. Those of ASCII and Latin-1
// that are printable stand for themselves, the others got the letters from U+0100 on, in order.
type letterTable struct {
	letter [256]string
	// value is the byte of a letter below U+0144, or -1.
	value [0x144]int16
}

func byteLetters() *letterTable {
	t := &letterTable{}
	for i := range t.value {
		t.value[i] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			r = next
			next++
		}
		t.letter[b] = string(r)
		t.value[r] = int16(b)
	}
	return t
}

// appendBytes appends the bytes of a piece. A piece with a character that is no byte's letter is literal, as a whole.
func (t *letterTable) appendBytes(dst []byte, piece string) []byte {
	start := len(dst)
	for _, r := range piece {
		if r >= rune(len(t.value)) || t.value[r] < 0 {
			return append(dst[:start], piece...)
		}
		dst = append(dst, byte(t.value[r]))
	}
	return dst
}

// spell appends the letters of the bytes of s.
func (t *letterTable) spell(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = append(dst, t.letter[s[i]]...)
	}
	return dst
}
