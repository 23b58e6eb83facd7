package tokenizer

import (
	"errors"
	"math"
	"strings"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

const (
	keyModel  = "tokenizer.ggml.model"
	keyPre    = "tokenizer.ggml.pre"
	keyTokens = "tokenizer.ggml.tokens"
	keyKinds  = "tokenizer.ggml.token_type"
	keyScores = "tokenizer.ggml.scores"
	keyMerges = "tokenizer.ggml.merges"
)

// The values of tokenizer.ggml.model that we know.
const (
	modelBytePair      = "gpt2"
	modelSentencePiece = "llama"
	modelGemma4        = "gemma4"
)

// FromGGUF builds the tokenizer that the metadata of f describe. f is not needed afterwards. Errors are of type *Error and name the key.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	r := &metadata{f: f}
	model, err := r.text(keyModel)
	if err != nil {
		return nil, err
	}
	s, err := r.spec(model)
	if err != nil {
		return nil, err
	}
	if err := r.specials(s); err != nil {
		return nil, err
	}
	if err := r.merges(s, model); err != nil {
		return nil, err
	}
	r.added(s)
	return s.build()
}

// metadata reads a GGUF file's metadata.
type metadata struct{ f *gguf.File }

// reading turns a getter's error into ours.
func reading(key string, err error) error {
	if errors.Is(err, gguf.ErrNoKey) {
		return invalid(key, "the file has no such key; a tokenizer of this kind needs it")
	}
	return &Error{key, err.Error(), err}
}

func (r *metadata) text(key string) (string, error) {
	s, err := r.f.String(key)
	if err != nil {
		return "", reading(key, err)
	}
	return s, nil
}

func (r *metadata) has(key string) bool { _, ok := r.f.Kind(key); return ok }

// flag reads a truth value, or returns otherwise if the file has none.
func (r *metadata) flag(key string, otherwise bool) (bool, error) {
	if !r.has(key) {
		return otherwise, nil
	}
	b, err := r.f.Bool(key)
	if err != nil {
		return false, reading(key, err)
	}
	return b, nil
}

// spec reads what depends on the kind of tokenizer.
func (r *metadata) spec(model string) (*spec, error) {
	v, err := r.vocab()
	if err != nil {
		return nil, err
	}
	s := &spec{vocab: v, where: keyTokens, bos: none, eos: none, unknown: none}
	switch model {
	case modelBytePair:
		return s, r.bytePairs(s)
	case modelSentencePiece:
		return s, r.sentencePieces(s)
	case modelGemma4:
		r.marked(s)
		return s, nil
	}
	return nil, unsupported(keyModel, "%q; known are %s, %s, %s", model, modelBytePair, modelSentencePiece, modelGemma4)
}

// vocab reads the tokens and their kinds.
func (r *metadata) vocab() (*vocab, error) {
	if n, _, err := r.f.Len(keyTokens); err == nil && n > maxTokens {
		return nil, invalid(keyTokens, "%d tokens; at most %d are read", n, maxTokens)
	}
	pieces, err := r.f.Strings(keyTokens)
	if err != nil {
		return nil, reading(keyTokens, err)
	}
	if len(pieces) == 0 {
		return nil, invalid(keyTokens, "there are no tokens")
	}
	kinds, err := r.kinds(len(pieces))
	if err != nil {
		return nil, err
	}
	return newVocab(keyTokens, pieces, kinds)
}

// kinds reads the kinds of n tokens; without the key all are normal.
func (r *metadata) kinds(n int) ([]kind, error) {
	kinds := make([]kind, n)
	for i := range kinds {
		kinds[i] = normalKind
	}
	if !r.has(keyKinds) {
		return kinds, nil
	}
	if err := r.sameLength(keyKinds, n); err != nil {
		return nil, err
	}
	types, err := r.f.Ints(keyKinds)
	if err != nil {
		return nil, reading(keyKinds, err)
	}
	for i := range kinds {
		if types[i] < int64(normalKind) || types[i] > int64(byteKind) {
			return nil, invalid(keyKinds, "token %d has type %d; known are 1 to 6", i, types[i])
		}
		kinds[i] = kind(types[i])
	}
	return kinds, nil
}

// sameLength checks that a list has n elements, before it is read.
func (r *metadata) sameLength(key string, n int) error {
	have, _, err := r.f.Len(key)
	if err != nil {
		return reading(key, err)
	}
	if have != int64(n) {
		return invalid(key, "%d elements for %d tokens", have, n)
	}
	return nil
}

// bytePairs reads a byte-level tokenizer with merges. Which patterns cut its text is known by name only.
func (r *metadata) bytePairs(s *spec) error {
	pre := "default"
	if r.has(keyPre) {
		var err error
		if pre, err = r.text(keyPre); err != nil {
			return err
		}
	}
	f, ok := findFamily(pre)
	if !ok {
		return unsupported(keyPre, "%q; known are %s", pre, familyNames())
	}
	s.byteLevel, s.whole, s.addsBOS = true, f.whole, f.bos
	s.edits, s.stages = f.edits(), f.stages()
	return nil
}

// marked prepares a tokenizer of characters, in which a mark stands for a space.
func (r *metadata) marked(s *spec) {
	s.addsBOS, s.fuse = true, true
	s.edits = append(s.edits, replace(" ", spaceMark))
	// Some files call tokens that are spelled as bytes normal, and then a text could spell them.
	for b := range 256 {
		if id, ok := s.vocab.index.find(bytePiece(byte(b))); ok && s.vocab.kinds[id] == normalKind {
			s.vocab.kinds[id] = byteKind
		}
	}
}

// sentencePieces reads what is special to SentencePiece vocabularies, which have scores instead of merges.
func (r *metadata) sentencePieces(s *spec) error {
	prefix, err := r.flag("tokenizer.ggml.add_space_prefix", true)
	if err != nil {
		return err
	}
	if prefix {
		s.edits = append(s.edits, prepend(" "))
	}
	s.strips = prefix
	s.bos, s.eos, s.unknown = 1, 2, 0
	r.marked(s)
	return nil
}

// merges reads the merges, or makes them from scores.
func (r *metadata) merges(s *spec, model string) error {
	if model == modelSentencePiece {
		scores, err := r.scores(len(s.vocab.pieces))
		if err != nil {
			return err
		}
		s.pairs, s.pseudo = scoreMerges(s.vocab, scores)
		return nil
	}
	list, err := r.f.Strings(keyMerges)
	if err != nil {
		return reading(keyMerges, err)
	}
	s.pairs, err = mergeList(keyMerges, s.vocab, len(list), func(i int) (string, string, bool) { return cutMerge(list[i]) })
	return err
}

// scores reads the scores of n tokens.
func (r *metadata) scores(n int) ([]float32, error) {
	if err := r.sameLength(keyScores, n); err != nil {
		return nil, err
	}
	floats, err := r.f.Floats(keyScores)
	if err != nil {
		return nil, reading(keyScores, err)
	}
	scores := make([]float32, n)
	for i, f := range floats {
		if math.IsNaN(f) {
			return nil, invalid(keyScores, "the score of token %d is no number", i)
		}
		scores[i] = float32(f)
	}
	return scores, nil
}

// specials reads the tokens with a meaning of their own.
func (r *metadata) specials(s *spec) error {
	var eot, eom int32 = none, none
	for _, k := range []struct {
		key string
		id  *int32
	}{
		{"bos", &s.bos}, {"eos", &s.eos}, {"eot", &eot}, {"eom", &eom}, {"unknown", &s.unknown},
	} {
		if err := r.special("tokenizer.ggml."+k.key+"_token_id", k.id, len(s.vocab.pieces)); err != nil {
			return err
		}
	}
	if s.byteLevel {
		// Some byte-level files name their end token here. A byte without a token is rather left out.
		s.unknown = none
	}
	var err error
	if s.addsBOS, err = r.flag("tokenizer.ggml.add_bos_token", s.addsBOS); err != nil {
		return err
	}
	if s.addsEOS, err = r.flag("tokenizer.ggml.add_eos_token", false); err != nil {
		return err
	}
	s.ends = findEnds(s.vocab, s.eos, eot, eom)
	return nil
}

// special reads a token id into id, which holds the id to be taken if the file has none.
func (r *metadata) special(key string, id *int32, n int) error {
	if !r.has(key) {
		if int(*id) >= n {
			*id = none
		}
		return nil
	}
	v, err := r.f.Int(key)
	if err != nil {
		return reading(key, err)
	}
	if v < 0 || v >= int64(n) {
		return invalid(key, "token %d of %d", v, n)
	}
	*id = int32(v)
	return nil
}

// added lists the tokens that are found in the text before it is cut.
func (r *metadata) added(s *spec) {
	name, _ := r.f.String("general.name")
	name = strings.ToLower(name)
	phi3 := strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	for i, k := range s.vocab.kinds {
		piece := s.vocab.pieces[i]
		if piece == "" || !k.special() && k != userKind {
			continue
		}
		a := addedToken{text: piece, id: int32(i), special: k.special()}
		// GGUF has no place for this property of Phi-3's tokens.
		a.rstrip = phi3 && piece != "<unk>" && piece != "<s>" && piece != "<|endoftext|>"
		if !s.byteLevel && !a.special && strings.Contains(piece, " ") {
			// Gemma's runs of spaces. They have marks in the model's own tokenizer, which finds them where a text has marks, and
			// merges marks to them before anything else. Converters write spaces, and lose those merges.
			a.text = strings.ReplaceAll(piece, " ", spaceMark)
			s.edited = append(s.edited, a)
		}
		s.raw = append(s.raw, a)
	}
}
