package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// jsonPart is a normalizer, pre-tokenizer, decoder or post-processor: the fields of all of them that we know.
type jsonPart struct {
	Type string `json:"type"`

	Normalizers   []jsonPart `json:"normalizers"`
	PreTokenizers []jsonPart `json:"pretokenizers"`
	Decoders      []jsonPart `json:"decoders"`
	Processors    []jsonPart `json:"processors"`

	// Prepend, Replace, Strip.
	Prepend string      `json:"prepend"`
	Pattern jsonPattern `json:"pattern"`
	Content string      `json:"content"`
	Start   int         `json:"start"`

	// Split, Punctuation, Digits, ByteLevel, Metaspace.
	Behavior       string `json:"behavior"`
	Invert         bool   `json:"invert"`
	Individual     bool   `json:"individual_digits"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"`
	Replacement    string `json:"replacement"`
	PrependScheme  string `json:"prepend_scheme"`
	Split          *bool  `json:"split"`

	// TemplateProcessing.
	Single        []jsonPiece                    `json:"single"`
	SpecialTokens map[string]struct{ IDs []int } `json:"special_tokens"`
}

type jsonPattern struct {
	String string `json:"String"`
	Regex  string `json:"Regex"`
}

type jsonPiece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
}

// part reads one of the parts; ok is false if the file has none.
func part(where string, raw json.RawMessage) (p jsonPart, ok bool, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return p, false, nil
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, false, &Error{where, err.Error(), ErrInvalid}
	}
	return p, true, nil
}

// normalizer reads the changes of the text that come first.
func (f *jsonFile) normalizer(s *spec) error {
	p, ok, err := part("normalizer", f.Normalizer)
	if err != nil || !ok {
		return err
	}
	return p.normalizer(s)
}

func (p *jsonPart) normalizer(s *spec) error {
	forms := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}
	if form, ok := forms[p.Type]; ok {
		s.edits = append(s.edits, normal(form))
		return nil
	}
	switch p.Type {
	case "Sequence":
		for i := range p.Normalizers {
			if err := p.Normalizers[i].normalizer(s); err != nil {
				return err
			}
		}
	case "Prepend":
		s.edits = append(s.edits, prepend(p.Prepend))
	case "Replace":
		if p.Pattern.String == "" {
			return unsupported("normalizer", "Replace with the pattern %q; known are plain strings", p.Pattern.Regex)
		}
		s.edits = append(s.edits, replace(p.Pattern.String, p.Content))
	default:
		return unsupported("normalizer", "%q; known are NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence", p.Type)
	}
	return nil
}

// preTokenizer reads how the text is cut.
func (f *jsonFile) preTokenizer(s *spec) error {
	p, ok, err := part("pre_tokenizer", f.PreTokenizer)
	if err != nil || !ok {
		return err
	}
	if err := p.preTokenizer(s); err != nil {
		return err
	}
	if len(s.stages) >= maxStages {
		return unsupported("pre_tokenizer", "%d steps; at most %d are known", len(s.stages), maxStages-1)
	}
	return nil
}

func (p *jsonPart) preTokenizer(s *spec) error {
	const field = "pre_tokenizer"
	if s.byteLevel && (p.Type != "Split" || p.Pattern.Regex != `[0-9][0-9][0-9]`) {
		// After ByteLevel a step sees byte letters, not text. Only steps for which that is the same are known.
		return unsupported(field, "%s after ByteLevel", p.Type)
	}
	switch p.Type {
	case "Sequence":
		for i := range p.PreTokenizers {
			if err := p.PreTokenizers[i].preTokenizer(s); err != nil {
				return err
			}
		}
	case "Split":
		return p.split(s)
	case "ByteLevel":
		return p.bytes(s)
	case "Digits":
		if p.Individual {
			s.stages = append(s.stages, isolate(digits(1)))
		} else {
			s.stages = append(s.stages, isolate(classRun(number)))
		}
	case "Punctuation":
		if p.Behavior != "Contiguous" {
			return unsupported(field, "Punctuation with the behavior %q; known is Contiguous", p.Behavior)
		}
		s.stages = append(s.stages, isolate(punctuation(true)))
	case "Metaspace":
		return p.metaspace(s)
	default:
		return unsupported(field, "%q; known are ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split", p.Type)
	}
	return nil
}

// split reads a step that cuts by a pattern.
func (p *jsonPart) split(s *spec) error {
	const field = "pre_tokenizer"
	if p.Pattern.Regex == "" {
		return p.splitString(s)
	}
	compile, ok := patterns()[p.Pattern.Regex]
	if !ok {
		return unsupported(field, "the pattern %q; known are those of %s", p.Pattern.Regex, familyNames())
	}
	isolated := p.Behavior == "Isolated" && !p.Invert
	// To remove all that is no match is the same, for a pattern that matches everywhere.
	matches := p.Behavior == "Removed" && p.Invert && everywhere(p.Pattern.Regex)
	if !isolated && !matches {
		return unsupported(field, "Split with the behavior %q, invert %v; known is Isolated", p.Behavior, p.Invert)
	}
	s.stages = append(s.stages, compile())
	return nil
}

// everywhere reports whether a known pattern matches at each place of each text.
func everywhere(pattern string) bool {
	switch pattern {
	case llama3Pattern, qwen2Pattern, qwen35Pattern, o200kPattern, tekkenPattern, gpt2Pattern:
		return true
	}
	return false
}

// splitString reads a step that cuts at a plain string.
func (p *jsonPart) splitString(s *spec) error {
	before, after := p.Behavior != "MergedWithPrevious", p.Behavior != "MergedWithNext"
	known := !before || !after || p.Behavior == "Isolated"
	if p.Pattern.String == "" || p.Invert || !known {
		return unsupported("pre_tokenizer",
			"Split at %q with the behavior %q, invert %v; known are Isolated, MergedWithPrevious, MergedWithNext",
			p.Pattern.String, p.Behavior, p.Invert)
	}
	s.stages = append(s.stages, literalSplit(p.Pattern.String, before, after))
	return nil
}

// bytes reads the step that makes the vocabulary one of bytes.
func (p *jsonPart) bytes(s *spec) error {
	if p.AddPrefixSpace == nil || *p.AddPrefixSpace {
		if len(s.stages) > 0 {
			return unsupported("pre_tokenizer", "ByteLevel with add_prefix_space after other steps")
		}
		s.prep = append(s.prep, prependOnce(" ", false))
	}
	if p.UseRegex == nil || *p.UseRegex {
		s.stages = append(s.stages, gpt2())
	}
	s.byteLevel = true
	return nil
}

// metaspace reads the step that marks spaces.
func (p *jsonPart) metaspace(s *spec) error {
	const field = "pre_tokenizer"
	if p.Replacement != spaceMark {
		return unsupported(field, "Metaspace with the replacement %q; known is %q", p.Replacement, spaceMark)
	}
	if len(s.stages) > 0 {
		return unsupported(field, "Metaspace after other steps")
	}
	scheme := p.prependScheme()
	s.prep = append(s.prep, replace(" ", spaceMark))
	switch scheme {
	case "always", "first":
		s.prep = append(s.prep, prependOnce(spaceMark, scheme == "first"))
	case "never":
	default:
		return unsupported(field, "Metaspace with the prepend_scheme %q; known are always, first, never", scheme)
	}
	if p.Split == nil || *p.Split {
		s.stages = append(s.stages, literalSplit(spaceMark, true, false))
	}
	return nil
}

// prependScheme returns when Metaspace puts a mark before a text. Older files have a truth value for it.
func (p *jsonPart) prependScheme() string {
	switch {
	case p.PrependScheme != "":
		return p.PrependScheme
	case p.AddPrefixSpace != nil && !*p.AddPrefixSpace:
		return "never"
	}
	return "always"
}

// decoder reads whether the space at the beginning of a text is left out again.
func (f *jsonFile) decoder(s *spec) error {
	p, ok, err := part("decoder", f.Decoder)
	if err != nil || !ok {
		return err
	}
	return p.decoder(s)
}

func (p *jsonPart) decoder(s *spec) error {
	const field = "decoder"
	switch p.Type {
	case "Sequence":
		for i := range p.Decoders {
			if err := p.Decoders[i].decoder(s); err != nil {
				return err
			}
		}
	case "ByteLevel", "ByteFallback", "Fuse":
	case "Replace":
		if p.Pattern.String != spaceMark || p.Content != " " {
			return unsupported(field, "Replace of %q by %q; known is %q by a space", p.Pattern.String, p.Content, spaceMark)
		}
	case "Strip":
		if p.Content != " " || p.Start > 1 {
			return unsupported(field, "Strip of %d %q; known is one space", p.Start, p.Content)
		}
		s.strips = s.strips || p.Start == 1
	case "Metaspace":
		s.strips = s.strips || p.prependScheme() != "never"
	default:
		return unsupported(field, "%q; known are ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip", p.Type)
	}
	return nil
}

// postProcessor reads which tokens are put before and behind a text.
func (f *jsonFile) postProcessor(s *spec) error {
	p, ok, err := part("post_processor", f.PostProcessor)
	if err != nil || !ok {
		return err
	}
	return p.postProcessor(s)
}

func (p *jsonPart) postProcessor(s *spec) error {
	const field = "post_processor"
	switch p.Type {
	case "Sequence":
		for i := range p.Processors {
			if err := p.Processors[i].postProcessor(s); err != nil {
				return err
			}
		}
	case "ByteLevel":
	case "TemplateProcessing":
		return p.template(s)
	default:
		return unsupported(field, "%q; known are ByteLevel, Sequence, TemplateProcessing", p.Type)
	}
	return nil
}

// template reads a template: at most one special token before the text, and one behind it.
func (p *jsonPart) template(s *spec) error {
	text := -1
	for i, piece := range p.Single {
		if piece.SpecialToken == nil {
			text = i
		}
	}
	if text < 0 || text > 1 || len(p.Single) > text+2 {
		return unsupported("post_processor", "a template of %d pieces; known is the text with at most one token on each side",
			len(p.Single))
	}
	for i, piece := range p.Single {
		if i == text {
			continue
		}
		id, ok := s.vocab.index.find(piece.SpecialToken.ID)
		if !ok {
			return invalid("post_processor", "%q is no token", piece.SpecialToken.ID)
		}
		if i < text {
			s.bos, s.addsBOS = id, true
		} else {
			s.eos, s.addsEOS = id, true
		}
	}
	return nil
}

// vocabEntry is one member of model.vocab.
type vocabEntry struct {
	piece string
	id    int64
}

// readVocab reads an object of numbers. The pieces are parts of one large string: clone those that are kept.
func readVocab(raw json.RawMessage) ([]vocabEntry, error) {
	r := &jsonReader{s: string(raw)}
	var out []vocabEntry
	err := r.list('{', '}', func() error {
		piece, err := r.text()
		if err != nil {
			return err
		}
		if err := r.expect(':'); err != nil {
			return err
		}
		id, err := r.integer()
		out = append(out, vocabEntry{piece, id})
		return err
	})
	return out, err
}

// readMerges reads a list of merges, each of which is a string of two tokens with a space between them, or a list of two strings.
func readMerges(raw json.RawMessage) ([][2]string, error) {
	r := &jsonReader{s: string(raw)}
	var out [][2]string
	err := r.list('[', ']', func() error {
		if r.peek() != '[' {
			text, err := r.text()
			if err != nil {
				return err
			}
			left, right, ok := strings.Cut(text, " ")
			if !ok {
				return fmt.Errorf("merge %d, %q, is not two tokens", len(out), text)
			}
			out = append(out, [2]string{left, right})
			return nil
		}
		var pair []string
		err := r.list('[', ']', func() error {
			text, err := r.text()
			pair = append(pair, text)
			return err
		})
		if err == nil && len(pair) != 2 {
			return fmt.Errorf("merge %d has %d tokens", len(out), len(pair))
		}
		if err == nil {
			out = append(out, [2]string(pair))
		}
		return err
	})
	return out, err
}
