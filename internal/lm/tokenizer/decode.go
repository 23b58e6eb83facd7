package tokenizer

// Decoder turns tokens into text one by one. A character may come in parts: the bytes of all tokens one after another are the text. Use
// it from one goroutine.
type Decoder struct {
	t *Tokenizer
	// begun says that text came already, so that a space is the text's own.
	begun bool
}

// Decoder returns a decoder for the beginning of a text. SentencePiece vocabularies (Llama 2, Phi-3) put a space before every text, and
// the decoder leaves it out again. For text that goes on where a prompt ended, call Continue first.
func (t *Tokenizer) Decoder() *Decoder { return &Decoder{t: t} }

// Continue tells d that other text stands before the next token, and returns d.
func (d *Decoder) Continue() *Decoder {
	d.begun = true
	return d
}

// Next returns the bytes that token id adds to the text: none for a control token and an id that does not exist. The caller must not
// change them.
func (d *Decoder) Next(id int32) []byte {
	b := d.t.Bytes(id)
	if d.begun || len(b) == 0 {
		return b
	}
	d.begun = true
	if d.t.strips && b[0] == ' ' {
		return b[1:]
	}
	return b
}

// Decode returns the text of ids, which are a whole text: see Decoder.
func (t *Tokenizer) Decode(ids []int32) []byte {
	d := t.Decoder()
	var out []byte
	for _, id := range ids {
		out = append(out, d.Next(id)...)
	}
	return out
}
