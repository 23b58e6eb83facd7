// Package gate judges whether an engine still says what a model's published weights say. A [Reference] holds what torch makes of
// them in float32: greedy answers with the gaps of their best tokens, logits, and each layer's output. [Judge] asks a [Subject] the
// same and reports, prompt by prompt, what it kept.
//
//	ref, err := gate.LoadReference(file)
//	report, err := gate.Judge(ctx, ref, subject, gate.Options{})
//	if !report.Passed { ... }
//
// Nothing passes by default: an empty reference, a subject without answers and an answer that is too short fail by name. A subject
// that rounds (fast mode, another engine's own kernels) is not held to the limits but compared: its report says how many answers it
// keeps.
//
// A Reference is immutable. Judge asks one prompt after the other; it may run for several subjects at once.
package gate

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Reference is what a model says, as internal/gate/testdata/make_reference.py recorded it.
type Reference struct {
	Format  string            `json:"format"`
	Version int               `json:"version"`
	Model   Model             `json:"model"`
	MadeBy  map[string]string `json:"made_by"`
	Prompts []Prompt          `json:"prompts"`
	// Sample are the token ids whose logits are kept at every position.
	Sample ids `json:"sample"`
}

// Model is the file that the reference was made of.
type Model struct {
	Name   string  `json:"name"`
	File   string  `json:"file"`
	SHA256 string  `json:"sha256"`
	Arch   string  `json:"arch"`
	Layers int     `json:"layers"`
	Width  int     `json:"width"`
	Vocab  int     `json:"vocab"`
	Ends   []int32 `json:"ends"`
}

// Prompt is one prompt with its answer.
type Prompt struct {
	Name string `json:"name"`
	// Kind is "chat" for a rendered conversation and "raw" for text to continue. Special reports whether special tokens in the text count
	// as such.
	Kind    string  `json:"kind"`
	Text    string  `json:"text"`
	Special bool    `json:"special"`
	Tokens  []int32 `json:"tokens"`
	// Steps is how many tokens were asked for. Answer has as many, or fewer if it ends with one of the model's ends.
	Steps  int     `json:"steps"`
	Answer []int32 `json:"answer"`
	Ended  bool    `json:"ended"`
	// Second are the next best tokens, Gap the distances of the best two logits and Range those of the best and the worst.
	Second []int32   `json:"second"`
	Gap    []float64 `json:"gap"`
	Range  []float64 `json:"range"`
	// Noise is how far the reference's own logits are from a pass in float64, as relative RMS.
	Noise  float64  `json:"noise"`
	Logits []Logits `json:"logits"`
	Taps   []Tap    `json:"taps"`
}

// Logits are those behind position Pos of prompt and answer: of the reference's sample, then of Top.
type Logits struct {
	Pos    int    `json:"pos"`
	Top    ids    `json:"top"`
	Values floats `json:"values"`
}

// Tap is the output of each layer, and of the final norm, at position Pos: [layers+1][width].
type Tap struct {
	Pos    int    `json:"pos"`
	Values floats `json:"values"`
}

// ids and floats travel as base64 of little-endian 32-bit numbers.
type (
	ids    []int32
	floats []float32
)

// UnmarshalJSON decodes base64.
func (x *ids) UnmarshalJSON(text []byte) error {
	b, err := raw32(text)
	for ; len(b) > 0; b = b[4:] {
		*x = append(*x, int32(binary.LittleEndian.Uint32(b)))
	}
	return err
}

// UnmarshalJSON decodes base64.
func (x *floats) UnmarshalJSON(text []byte) error {
	b, err := raw32(text)
	for ; len(b) > 0; b = b[4:] {
		*x = append(*x, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return err
}

// check returns an error if a number is none, or infinite: nothing can be compared with it.
func (x floats) check() error {
	for i, v := range x {
		if v-v != 0 {
			return fmt.Errorf("number %d is %v", i, v)
		}
	}
	return nil
}

func raw32(text []byte) ([]byte, error) {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err == nil && len(b)%4 != 0 {
		err = fmt.Errorf("%d bytes are no 32-bit numbers", len(b))
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// The format that is read, the most bytes that a reference unpacks to, and the longest answer.
const (
	referenceFormat  = "stoker reference"
	referenceVersion = 1
	maxReference     = 64 << 20
	maxSteps         = 1 << 16
)

// LoadReference reads a reference, packed with gzip. What does not fit together is an error that names the prompt.
func LoadReference(r io.Reader) (*Reference, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, maxReference+1))
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	if len(b) > maxReference {
		return nil, fmt.Errorf("reference: more than %d bytes", maxReference)
	}
	var ref Reference
	if err := json.Unmarshal(b, &ref); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	if ref.Format != referenceFormat || ref.Version != referenceVersion {
		return nil, fmt.Errorf("reference: format %q version %d, want %q version %d", ref.Format, ref.Version, referenceFormat, referenceVersion)
	}
	return &ref, ref.check()
}

func (r *Reference) check() error {
	m := r.Model
	if m.Layers < 1 || m.Layers > 1<<12 || m.Width < 1 || m.Width > 1<<20 || m.Vocab < 1 || m.Vocab > 1<<24 {
		return fmt.Errorf("reference: %d layers of %d, vocabulary of %d", m.Layers, m.Width, m.Vocab)
	}
	if err := r.inVocabulary(r.Sample); err != nil {
		return fmt.Errorf("reference: sample: %w", err)
	}
	seen := map[string]bool{}
	for i := range r.Prompts {
		p := &r.Prompts[i]
		if p.Name == "" || seen[p.Name] {
			return fmt.Errorf("reference: prompt %d is called %q, as none or another is", i, p.Name)
		}
		seen[p.Name] = true
		if err := errors.Join(r.checkPrompt(p), r.checkInside(p)); err != nil {
			return fmt.Errorf("reference: prompt %q: %w", p.Name, err)
		}
	}
	return nil
}

func (r *Reference) checkPrompt(p *Prompt) error {
	n := len(p.Answer)
	switch {
	case len(p.Tokens) == 0:
		return errors.New("no tokens")
	case n == 0 || n > p.Steps || n < p.Steps && !p.Ended || p.Steps > maxSteps:
		return fmt.Errorf("an answer of %d tokens of %d", n, p.Steps)
	case len(p.Gap) != n || len(p.Range) != n || len(p.Second) != n:
		return fmt.Errorf("%d gaps, %d ranges and %d second tokens for %d tokens", len(p.Gap), len(p.Range), len(p.Second), n)
	}
	for i, t := range p.Answer {
		if slices.Contains(r.Model.Ends, t) != (p.Ended && i == n-1) {
			return fmt.Errorf("token %d of the answer is %d, and only its last one may end it", i, t)
		}
		// JSON has no infinities and no NaN.
		if p.Gap[i] < 0 || p.Gap[i] > p.Range[i] || p.Range[i] == 0 {
			return fmt.Errorf("at token %d of the answer the gap is %g and the range %g", i, p.Gap[i], p.Range[i])
		}
	}
	return errors.Join(r.inVocabulary(p.Tokens), r.inVocabulary(p.Answer), r.inVocabulary(p.Second))
}

// checkInside checks the logits and taps of p, which checkPrompt found to be in order otherwise.
func (r *Reference) checkInside(p *Prompt) error {
	end := len(p.Tokens) + len(p.Answer) - 1
	for _, l := range p.Logits {
		if l.Pos < 0 || l.Pos >= end || len(l.Values) != len(r.Sample)+len(l.Top) {
			return fmt.Errorf("logits at position %d: %d numbers for %d tokens", l.Pos, len(l.Values), len(r.Sample)+len(l.Top))
		}
		if err := errors.Join(r.inVocabulary(l.Top), l.Values.check()); err != nil {
			return fmt.Errorf("logits at position %d: %w", l.Pos, err)
		}
	}
	for _, t := range p.Taps {
		if t.Pos < 0 || t.Pos >= end || len(t.Values) != (r.Model.Layers+1)*r.Model.Width {
			return fmt.Errorf("taps at position %d: %d numbers, want %d x %d", t.Pos, len(t.Values), r.Model.Layers+1, r.Model.Width)
		}
		if err := t.Values.check(); err != nil {
			return fmt.Errorf("taps at position %d: %w", t.Pos, err)
		}
	}
	return nil
}

func (r *Reference) inVocabulary(list []int32) error {
	for _, id := range list {
		if id < 0 || int(id) >= r.Model.Vocab {
			return fmt.Errorf("token %d of %d", id, r.Model.Vocab)
		}
	}
	return nil
}

// through are the tokens of prompt and answer whose positions can be looked at.
func (p *Prompt) through() []int32 {
	return append(p.Tokens[:len(p.Tokens):len(p.Tokens)], p.Answer[:len(p.Answer)-1]...)
}
