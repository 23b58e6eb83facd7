package tokenizer

import (
	"unicode/utf8"
)

// encoder is the memory that one call of Encode works with.
type encoder struct {
	t     *Tokenizer
	out   []int32
	ids   []int32
	spelt []byte
	words words
	heap  mergeHeap
}

// maxKept bounds the memory that an encoder keeps for the next text.
const maxKept = 1 << 20

// release gives e back for another text.
func (e *encoder) release() {
	e.out = nil
	e.words = words{}
	if 4*cap(e.ids)+cap(e.spelt)+e.heap.size() <= maxKept {
		e.t.encoders.Put(e)
	}
}

// text encodes a whole text.
func (e *encoder) text(s string, special bool) {
	for from := 0; from < len(s); {
		f, ok := e.t.raw.next(s, from, special)
		end := len(s)
		if ok {
			end = f.start
		}
		if from < end {
			e.fragment(s[from:end], from == 0, special)
		}
		if !ok {
			return
		}
		e.out = append(e.out, f.id)
		from = f.stop
	}
}

// fragment encodes a text without added tokens but those that are looked for in edited text. first says that the whole text begins
// with it.
func (e *encoder) fragment(s string, first, special bool) {
	s = apply(e.t.edits, s, first)
	for from := 0; from < len(s); {
		f, ok := e.t.edited.next(s, from, special)
		end := len(s)
		if ok {
			end = f.start
		}
		if from < end {
			e.cut(apply(e.t.prep, s[from:end], first && from == 0))
		}
		if !ok {
			return
		}
		e.out = append(e.out, f.id)
		from = f.stop
	}
}

// cut encodes a text word by word.
func (e *encoder) cut(s string) {
	if len(e.t.stages) == 0 {
		e.word(s)
		return
	}
	e.words.reset(e.t.stages, s)
	for {
		w, ok := e.words.next()
		if !ok {
			return
		}
		e.word(w)
	}
}

// word encodes one word.
func (e *encoder) word(w string) {
	short := len(w) <= maxCachedWord
	if short {
		if ids, ok := e.t.cache.find(w); ok {
			e.out = append(e.out, ids...)
			return
		}
	}
	start := len(e.out)
	if id, ok := e.wholeWord(w); ok {
		e.out = append(e.out, id)
	} else {
		e.ids = e.t.symbols.split(e.ids[:0], w)
		e.out = e.t.symbols.appendTokens(e.out, e.merge(e.ids), e.t.Size())
	}
	if short {
		e.t.cache.store(w, e.out[start:])
	}
}

// wholeWord returns the token of a word that is one whatever the merges say.
func (e *encoder) wholeWord(w string) (int32, bool) {
	if !e.t.whole {
		return 0, false
	}
	if e.t.symbols.byteLevel {
		e.spelt = e.t.symbols.letters.spell(e.spelt[:0], w)
	} else {
		e.spelt = append(e.spelt[:0], w...)
	}
	id, ok := e.t.vocab.index.findBytes(e.spelt)
	return id, ok && e.t.vocab.kinds[id] == normalKind
}

// split appends the symbols of a word.
func (y *symbols) split(ids []int32, w string) []int32 {
	if y.byteLevel {
		for i := range len(w) {
			ids = y.append(ids, y.bytes[w[i]])
		}
		return ids
	}
	for i := 0; i < len(w); {
		if b := w[i]; b < utf8.RuneSelf && y.ascii[b] != none {
			ids = append(ids, y.ascii[b])
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(w[i:])
		if id, ok := y.runes[r]; ok && (r != utf8.RuneError || n > 1) {
			ids = append(ids, id)
		} else {
			ids = y.appendBytes(ids, w[i:i+n])
		}
		i += n
	}
	return ids
}

// append appends a symbol, or the unknown token for none.
func (y *symbols) append(ids []int32, id int32) []int32 {
	if id != none {
		return append(ids, id)
	}
	if y.unknown == none || y.fuse && len(ids) > 0 && ids[len(ids)-1] == y.unknown {
		return ids
	}
	return append(ids, y.unknown)
}

// appendBytes appends the tokens of the bytes of one character; if a byte has none, the character is unknown.
func (y *symbols) appendBytes(ids []int32, char string) []int32 {
	for i := range len(char) {
		if y.bytes[char[i]] == none {
			return y.append(ids, none)
		}
	}
	for i := range len(char) {
		ids = append(ids, y.bytes[char[i]])
	}
	return ids
}

// appendTokens appends merged symbols. Those that are no tokens, numbered from size, become bytes.
func (y *symbols) appendTokens(out, ids []int32, size int) []int32 {
	if len(y.pseudo) == 0 {
		return append(out, ids...)
	}
	for _, id := range ids {
		if int(id) < size {
			out = append(out, id)
		} else {
			out = y.appendBytes(out, y.pseudo[int(id)-size])
		}
	}
	return out
}
