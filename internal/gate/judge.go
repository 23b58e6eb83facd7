package gate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Subject is what is judged.
type Subject interface {
	// Tokenize turns text into tokens, with the token that begins a text if the model wants one. special: whether special tokens in the
	// text count as such.
	Tokenize(text string, special bool) ([]int32, error)
	// Greedy continues tokens by the likeliest ones: n of them, or fewer if one ends the answer, which is the last one then.
	Greedy(ctx context.Context, tokens []int32, n int) ([]int32, error)
}

// Tapper is a Subject that shows its insides.
type Tapper interface {
	Subject
	// Mode is how the subject computes. Only "exact" is judged; anything else can be compared.
	Mode() string
	// Inside computes tokens and returns, for each of the positions, the logits behind it, [vocabulary], and each layer's output and the
	// final norm's, [layers+1][width].
	Inside(ctx context.Context, tokens []int32, positions []int) (logits [][]float32, taps [][][]float32, err error)
}

// Limits of exact arithmetic. A logit's limit is the issue's; a layer's is wider, since a layer's output may be dominated by one
// dimension that the next norm takes away.
const (
	// LogitLimit is the largest relative RMS of logits.
	LogitLimit = 1e-5
	// TapLimit is the largest relative RMS of a layer's output.
	TapLimit = 5e-5
	// tieShare is the share of the logits' range below which the gap of the best two is a tie: rounding decides it.
	tieShare = 1e-4
)

// exactMode is the mode whose results do not depend on how the work was cut, and which rounds nothing but float32 sums.
const exactMode = "exact"

// Options say how to judge. The zero value is the strictest.
type Options struct {
	// Compare reports what is kept without looking inside: for engines that round. Nobody should hold such a subject to Passed.
	Compare bool
	// TokensOnly judges a subject that is no Tapper, or a reference without logits and layers, by its answers alone.
	TokensOnly bool
	// Prompts is the least number of prompts that the reference must hold; 0 means 1.
	Prompts int
}

// Verdict is what became of one prompt.
type Verdict string

// The verdicts. Only Same and Tie pass.
const (
	Same    Verdict = "same"
	Tie     Verdict = "tie"     // it left the reference where that was undecided itself, and was right on both sides
	Differs Verdict = "differs" // another token where the reference was decided
	Short   Verdict = "short"   // fewer tokens than asked for
	Empty   Verdict = "empty"   // no tokens at all
	Tokens  Verdict = "tokens"  // the prompt became other tokens
	Numbers Verdict = "numbers" // the tokens are right, logits or layers are beyond the limit
	Failed  Verdict = "failed"  // an error
)

// Result is the verdict on one prompt.
type Result struct {
	Prompt  string  `json:"prompt"`
	Verdict Verdict `json:"verdict"`
	// At is the step of the first token that differs, -1 if none does, and Gap the reference's gap there, as a share of the range.
	At  int     `json:"at"`
	Gap float64 `json:"gap,omitempty"`
	// Logits is the largest relative RMS of the logits that were compared. Taps is that of the layers' outputs, at Layer; if some are
	// beyond the limit, it is that of the first one. Layers are called blk.0, blk.1 and so on, and the final norm output_norm.
	Logits float64 `json:"logits_rms,omitempty"`
	Taps   float64 `json:"taps_rms,omitempty"`
	Layer  string  `json:"worst_layer,omitempty"`
	Detail string  `json:"detail,omitempty"`
}

// Report is a judgement.
type Report struct {
	Model  string   `json:"model"`
	Passed bool     `json:"passed"`
	Kept   int      `json:"kept"`
	Ties   int      `json:"ties"`
	Of     int      `json:"of"`
	Why    []string `json:"why_not,omitempty"`
	// Inside reports whether the subject's logits and layers were compared as well.
	Inside  bool     `json:"inside"`
	Results []Result `json:"results"`
}

// Judge asks s each prompt of ref. An error means that ctx ended; everything else is part of the report.
func Judge(ctx context.Context, ref *Reference, s Subject, o Options) (*Report, error) {
	r := &Report{Model: ref.Model.Name, Of: len(ref.Prompts), Inside: !o.Compare && !o.TokensOnly}
	if why := refuse(ref, s, o); why != "" {
		r.Why = append(r.Why, why)
		return r, nil
	}
	for i := range ref.Prompts {
		res := judge(ctx, ref, &ref.Prompts[i], s, r.Inside)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		switch res.Verdict {
		case Same:
			r.Kept++
		case Tie:
			r.Ties++
		default:
			r.Why = append(r.Why, fmt.Sprintf("prompt %s: %s: %s", res.Prompt, res.Verdict, res.Detail))
		}
		r.Results = append(r.Results, res)
	}
	r.Passed = len(r.Why) == 0 && len(r.Results) > 0 && r.Kept+r.Ties == r.Of
	return r, nil
}

// refuse says why there is nothing to judge, or "".
func refuse(ref *Reference, s Subject, o Options) string {
	if n, least := len(ref.Prompts), max(1, o.Prompts); n < least {
		return fmt.Sprintf("the reference holds %d prompts, want at least %d", n, least)
	}
	if o.Compare {
		return ""
	}
	t, inside := s.(Tapper)
	if inside && t.Mode() != exactMode {
		return fmt.Sprintf("the subject runs in mode %q: only %q is judged, others can be compared", t.Mode(), exactMode)
	}
	if o.TokensOnly {
		return ""
	}
	logits, taps := 0, 0
	for _, p := range ref.Prompts {
		logits, taps = logits+len(p.Logits), taps+len(p.Taps)
	}
	switch {
	case !inside:
		return "the subject shows no logits and layers: it can be judged by its tokens only"
	case logits == 0 || taps == 0:
		return "the reference has no logits or no layers: it can be used to judge tokens only"
	}
	return ""
}

func judge(ctx context.Context, ref *Reference, p *Prompt, s Subject, inside bool) Result {
	res := Result{Prompt: p.Name, Verdict: Same, At: -1}
	set := func(v Verdict, format string, args ...any) Result {
		res.Verdict, res.Detail = v, fmt.Sprintf(format, args...)
		return res
	}
	tokens, err := s.Tokenize(p.Text, p.Special)
	switch {
	case err != nil:
		return set(Failed, "tokenizing: %v", err)
	case !slices.Equal(tokens, p.Tokens):
		return set(Tokens, "%d tokens, want %d; they differ from number %d on", len(tokens), len(p.Tokens), firstDifference(tokens, p.Tokens))
	}
	res.Verdict, res.Detail = answers(ctx, p, s, &res)
	if !inside || res.Verdict == Failed {
		return res
	}
	// A look inside is worth most where the answer is wrong: it names the first layer that is.
	if err := look(ctx, ref, p, s.(Tapper), &res); err != nil {
		return set(Failed, "looking inside: %v", err)
	}
	if !res.Verdict.kept() {
		res.Detail = strings.TrimSuffix(res.Detail+"; "+res.numbers(), "; ")
	} else if wrong := res.numbers(); wrong != "" {
		return set(Numbers, "%s", wrong)
	}
	return res
}

// kept reports whether the answer counts as the reference's.
func (v Verdict) kept() bool { return v == Same || v == Tie }

// numbers says what is wrong with logits and layers, or "".
func (r *Result) numbers() string {
	switch {
	case !(r.Taps <= TapLimit):
		return fmt.Sprintf("the output of %s differs by %.2g relative RMS, want at most %.2g", r.Layer, r.Taps, TapLimit)
	case !(r.Logits <= LogitLimit):
		return fmt.Sprintf("logits differ by %.2g relative RMS, want at most %.2g", r.Logits, LogitLimit)
	}
	return ""
}

func firstDifference(a, b []int32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// answers compares the answer token by token. Behind a tie the subject is given the reference's token and goes on from there.
func answers(ctx context.Context, p *Prompt, s Subject, res *Result) (Verdict, string) {
	verdict, detail := Same, ""
	for from := 0; from < len(p.Answer); {
		got, err := s.Greedy(ctx, append(p.Tokens[:len(p.Tokens):len(p.Tokens)], p.Answer[:from]...), p.Steps-from)
		want := p.Answer[from:]
		switch {
		case err != nil:
			return Failed, err.Error()
		case len(got) == 0:
			return Empty, fmt.Sprintf("no tokens after %d of %d", from, len(p.Answer))
		}
		at := firstDifference(got, want)
		switch {
		case at == len(want) && len(got) == len(want):
			return verdict, detail
		case at == len(want):
			return Differs, fmt.Sprintf("it goes on after the answer's %d tokens", len(p.Answer))
		case at == len(got):
			return Short, fmt.Sprintf("%d tokens, want %d", from+len(got), len(p.Answer))
		}
		step := from + at
		share := p.Gap[step] / p.Range[step]
		if res.At < 0 {
			res.At, res.Gap = step, share
		}
		if !(share < tieShare) || got[at] != p.Second[step] {
			res.At, res.Gap = step, share
			return Differs, fmt.Sprintf("token %d is %d, want %d; the gap there is %.2g of the logits' range", step, got[at], want[at], share)
		}
		verdict, detail = Tie, fmt.Sprintf("token %d could be either: the gap there is %.2g of the logits' range", step, share)
		from = step + 1
	}
	return verdict, detail
}

// look compares logits and layers.
func look(ctx context.Context, ref *Reference, p *Prompt, s Tapper, res *Result) error {
	var positions []int
	for _, l := range p.Logits {
		positions = append(positions, l.Pos)
	}
	for _, t := range p.Taps {
		positions = append(positions, t.Pos)
	}
	logits, taps, err := s.Inside(ctx, p.through(), positions)
	if err != nil {
		return err
	}
	if len(logits) != len(positions) || len(taps) != len(positions) {
		return fmt.Errorf("%d logits and %d taps for %d positions", len(logits), len(taps), len(positions))
	}
	for i, l := range p.Logits {
		if len(logits[i]) < ref.Model.Vocab {
			return fmt.Errorf("%d logits at position %d, want %d", len(logits[i]), l.Pos, ref.Model.Vocab)
		}
		got := make([]float32, 0, len(l.Values))
		for _, id := range append(ref.Sample[:len(ref.Sample):len(ref.Sample)], l.Top...) {
			got = append(got, logits[i][id])
		}
		res.Logits = max(res.Logits, relative(got, l.Values))
	}
	for i, t := range p.Taps {
		layers := taps[len(p.Logits)+i]
		if len(layers) != ref.Model.Layers+1 {
			return fmt.Errorf("%d layers at position %d, want %d", len(layers), t.Pos, ref.Model.Layers+1)
		}
		for l, got := range layers {
			if len(got) != ref.Model.Width {
				return fmt.Errorf("layer %d is %d wide, want %d", l, len(got), ref.Model.Width)
			}
			rms := relative(got, t.Values[l*ref.Model.Width:(l+1)*ref.Model.Width])
			// The first layer beyond the limit is the one to look at.
			if rms > res.Taps && !(res.Taps > TapLimit) {
				res.Taps, res.Layer = rms, layerName(l, ref.Model.Layers)
			}
		}
	}
	return nil
}

// layerName calls a tap as GGUF files call its weights.
func layerName(l, layers int) string {
	if l == layers {
		return "output_norm"
	}
	return fmt.Sprintf("blk.%d", l)
}

// relative is the RMS of the difference over that of want. Anything that is no number is infinitely far.
func relative(got, want []float32) float64 {
	var diff, size float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		diff += d * d
		size += float64(w) * float64(w)
	}
	r := math.Sqrt(diff / size)
	if math.IsNaN(r) {
		return math.Inf(1)
	}
	return r
}
