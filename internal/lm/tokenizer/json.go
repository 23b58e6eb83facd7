package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// FromJSON builds the tokenizer that Hugging Face's tokenizer.json describes. config is the text of tokenizer_config.json, which names
// the beginning and end tokens, or nil. Errors are of type *Error and name the field.
func FromJSON(text, config []byte) (*Tokenizer, error) {
	var file jsonFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, &Error{"tokenizer.json", err.Error(), ErrInvalid}
	}
	var c jsonConfig
	if config != nil {
		if err := json.Unmarshal(config, &c); err != nil {
			return nil, &Error{"tokenizer_config.json", err.Error(), ErrInvalid}
		}
	}
	if err := file.Model.check(); err != nil {
		return nil, err
	}
	s := &spec{where: "model.vocab", bos: none, eos: none, unknown: none, whole: file.Model.IgnoreMerges, fuse: file.Model.FuseUnknown}
	for _, step := range []func(*spec) error{
		file.vocab, file.normalizer, file.preTokenizer, file.decoder, file.postProcessor, c.apply, file.merges, file.added,
	} {
		if err := step(s); err != nil {
			return nil, err
		}
	}
	return s.build()
}

// jsonFile is tokenizer.json. Its parts are unions that are told apart by "type", so they are read in a second step.
type jsonFile struct {
	Added         []jsonAdded     `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         jsonModel       `json:"model"`
}

type jsonAdded struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type jsonModel struct {
	Type         string          `json:"type"`
	Dropout      float64         `json:"dropout"`
	Unknown      string          `json:"unk_token"`
	Prefix       string          `json:"continuing_subword_prefix"`
	Suffix       string          `json:"end_of_word_suffix"`
	FuseUnknown  bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
}

// check refuses what we do not have.
func (m *jsonModel) check() error {
	if m.Type != "BPE" && (m.Type != "" || m.Merges == nil) {
		return unsupported("model.type", "%q; known is BPE", m.Type)
	}
	if m.Dropout != 0 {
		return unsupported("model.dropout", "%v: tokens would be different each time", m.Dropout)
	}
	if m.Prefix != "" || m.Suffix != "" {
		return unsupported("model", "continuing_subword_prefix %q, end_of_word_suffix %q; known are vocabularies without them",
			m.Prefix, m.Suffix)
	}
	return nil
}

// vocab reads model.vocab and the places of the added tokens in it.
func (f *jsonFile) vocab(s *spec) error {
	entries, err := readVocab(f.Model.Vocab)
	if err != nil {
		return invalid(s.where, "%v", err)
	}
	size, err := f.size(entries)
	if err != nil {
		return err
	}
	pieces, kinds := make([]string, size), make([]kind, size)
	for _, e := range entries {
		if pieces[e.id] != "" {
			return invalid(s.where, "%q and %q are both token %d", pieces[e.id], e.piece, e.id)
		}
		pieces[e.id], kinds[e.id] = strings.Clone(e.piece), normalKind
		if _, ok := byteOfPiece(e.piece); ok && f.Model.ByteFallback {
			kinds[e.id] = byteKind
		}
	}
	for _, a := range f.Added {
		if p := pieces[a.ID]; p != "" && p != a.Content {
			return invalid("added_tokens", "%q and %q are both token %d", p, a.Content, a.ID)
		}
		pieces[a.ID], kinds[a.ID] = a.Content, userKind
		if a.Special {
			kinds[a.ID] = controlKind
		}
	}
	for i := range kinds {
		if kinds[i] == 0 {
			kinds[i] = unusedKind
		}
	}
	if s.vocab, err = newVocab(s.where, pieces, kinds); err != nil {
		return err
	}
	if u := f.Model.Unknown; u != "" {
		id, ok := s.vocab.index.find(u)
		if !ok {
			return invalid("model.unk_token", "%q is no token", u)
		}
		s.unknown = id
		if s.vocab.kinds[id] == normalKind {
			s.vocab.kinds[id] = unknownKind
		}
	}
	return nil
}

// size returns the number of tokens, with those that have no name. There are few of them in real files; many would be a way to ask for
// memory that no text stands for.
func (f *jsonFile) size(entries []vocabEntry) (int, error) {
	limit := int64(8*(len(entries)+len(f.Added)) + 1<<16)
	limit = min(limit, maxTokens)
	size := int64(0)
	for _, e := range entries {
		if e.id < 0 || e.id >= limit {
			return 0, invalid("model.vocab", "%q is token %d of %d", e.piece, e.id, len(entries))
		}
		size = max(size, e.id+1)
	}
	for _, a := range f.Added {
		if a.ID < 0 || a.ID >= limit {
			return 0, invalid("added_tokens", "%q is token %d of %d", a.Content, a.ID, len(entries))
		}
		size = max(size, a.ID+1)
	}
	if size == 0 {
		return 0, invalid("model.vocab", "there are no tokens")
	}
	return int(size), nil
}

// merges reads model.merges.
func (f *jsonFile) merges(s *spec) error {
	list, err := readMerges(f.Model.Merges)
	if err != nil {
		return invalid("model.merges", "%v", err)
	}
	s.pairs, err = mergeList("model.merges", s.vocab, len(list), func(i int) (string, string, bool) { return list[i][0], list[i][1], true })
	return err
}

// added lists the tokens that are found in the text before it is cut; those that are said to be normalized are looked for after the
// text's edits, which are done to them too.
func (f *jsonFile) added(s *spec) error {
	for _, a := range f.Added {
		t := addedToken{
			text: a.Content, id: int32(a.ID), special: s.vocab.kinds[a.ID].special(),
			lstrip: a.LStrip, rstrip: a.RStrip, word: a.SingleWord,
		}
		if a.Normalized && len(s.edits) > 0 {
			t.text = apply(s.edits, t.text, true)
			s.edited = append(s.edited, t)
		} else {
			s.raw = append(s.raw, t)
		}
	}
	return nil
}

// jsonConfig is the part of tokenizer_config.json that we need.
type jsonConfig struct {
	BOS    jsonToken `json:"bos_token"`
	EOS    jsonToken `json:"eos_token"`
	AddBOS *bool     `json:"add_bos_token"`
	AddEOS *bool     `json:"add_eos_token"`
}

// jsonToken is a token's text, which is written alone or as an object with the token's properties.
type jsonToken string

func (t *jsonToken) UnmarshalJSON(b []byte) error {
	var s string
	if len(b) > 0 && b[0] == '{' {
		var o struct {
			Content string `json:"content"`
		}
		if err := json.Unmarshal(b, &o); err != nil {
			return err
		}
		s = o.Content
	} else if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a token is a string or an object: %w", err)
	}
	*t = jsonToken(s)
	return nil
}

// apply sets the beginning and end tokens. What the configuration says goes before what the post-processor says.
func (c *jsonConfig) apply(s *spec) error {
	for _, k := range []struct {
		field string
		piece jsonToken
		id    *int32
		add   *bool
		adds  *bool
	}{
		{"bos_token", c.BOS, &s.bos, c.AddBOS, &s.addsBOS},
		{"eos_token", c.EOS, &s.eos, c.AddEOS, &s.addsEOS},
	} {
		if k.piece != "" {
			id, ok := s.vocab.index.find(string(k.piece))
			if !ok {
				return invalid("tokenizer_config.json "+k.field, "%q is no token", k.piece)
			}
			*k.id = id
		}
		if k.add != nil {
			*k.adds = *k.add
		}
	}
	s.ends = findEnds(s.vocab, s.eos)
	return nil
}
