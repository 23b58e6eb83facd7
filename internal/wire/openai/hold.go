package openai

import (
	"unicode/utf8"

	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// hold joins pieces of text that may be cut inside a character. It keeps the incomplete end of what it was given until the
// rest comes, so that no client ever sees half a character, wherever the engine cut.
type hold struct {
	tail [utf8.UTFMax]byte
	n    int
}

// append appends what is whole of the held bytes and piece to dst, as the inside of a JSON string.
func (h *hold) append(dst []byte, piece string) []byte {
	for h.n > 0 && len(piece) > 0 {
		h.tail[h.n] = piece[0]
		h.n++
		piece = piece[1:]
		if whole := wholeLen(h.tail[:h.n]); whole > 0 {
			dst = rawjson.AppendInner(dst, h.tail[:whole])
			h.n = copy(h.tail[:], h.tail[whole:h.n])
		}
	}
	if len(piece) == 0 {
		return dst
	}
	whole := wholeLen(piece)
	dst = rawjson.AppendInner(dst, piece[:whole])
	h.n = copy(h.tail[:], piece[whole:])
	return dst
}

// flush appends the held bytes as U+FFFD: the rest of their character will not come.
func (h *hold) flush(dst []byte) []byte {
	dst = rawjson.AppendInner(dst, h.tail[:h.n])
	h.n = 0
	return dst
}

// wholeLen returns the length of s without the beginning of a character at its end.
func wholeLen[S ~string | ~[]byte](s S) int {
	for i := len(s) - 1; i >= 0 && i > len(s)-utf8.UTFMax; i-- {
		if !utf8.RuneStart(s[i]) {
			continue
		}
		// The short conversion does not allocate.
		if !utf8.FullRuneInString(string(s[i:])) {
			return i
		}
		break
	}
	return len(s)
}
