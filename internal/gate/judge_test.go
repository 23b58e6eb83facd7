package gate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// A model of two layers, width 3 and 10 tokens, that counts: each token is followed by the next one, and 9 ends.
func reference() *Reference {
	r := &Reference{Format: referenceFormat, Version: referenceVersion, Sample: ids{0, 9}}
	r.Model = Model{Name: "counter", Layers: 2, Width: 3, Vocab: 10, Ends: []int32{9}}
	r.Prompts = []Prompt{
		{
			Name: "one", Text: "12", Tokens: []int32{1, 2}, Steps: 3, Answer: []int32{3, 4, 5}, Second: []int32{0, 0, 7}, Gap: []float64{1, 1, 1e-5},
			Range: []float64{1, 1, 1}, Logits: []Logits{{Pos: 1, Top: ids{3}, Values: floats{1, 1, 4}}},
			Taps: []Tap{{Pos: 1, Values: floats{1, 1, 1, 2, 2, 2, 3, 3, 3}}},
		},
		{
			Name: "two", Text: "67", Tokens: []int32{6, 7}, Steps: 5, Answer: []int32{8, 9}, Ended: true, Second: []int32{0, 0}, Gap: []float64{1, 1},
			Range: []float64{1, 1},
		},
	}
	return r
}

// counter is a subject that is right, but for what wrong says.
type counter struct {
	wrong string
	// asked counts the calls of Greedy.
	asked int
}

func (c *counter) Mode() string {
	if c.wrong == "rounds" {
		return "fast"
	}
	return "exact"
}

func (c *counter) Tokenize(text string, _ bool) ([]int32, error) {
	var out []int32
	for _, d := range text {
		out = append(out, d-'0')
	}
	if c.wrong == "adds a token" {
		out = append([]int32{0}, out...)
	}
	return out, nil
}

func (c *counter) Greedy(_ context.Context, tokens []int32, n int) ([]int32, error) {
	c.asked++
	if c.wrong == "fails" {
		return nil, errors.New("no engine")
	}
	if c.wrong == "says nothing" {
		return nil, nil
	}
	var out []int32
	for last := tokens[len(tokens)-1]; len(out) < n; {
		last++
		out = append(out, last)
		if last == 9 && c.wrong != "does not end" {
			break
		}
		last %= 9
	}
	switch c.wrong {
	case "says one less":
		out = out[:len(out)-1]
	case "is wrong where it is decided", "is wrong inside as well":
		out[0] = 0
	case "takes the other of a tie":
		if len(out) == 3 && out[2] == 5 {
			out[2] = 7
		}
	case "takes a third one at a tie":
		if len(out) == 3 && out[2] == 5 {
			out[2] = 2
		}
	}
	return out, nil
}

func (c *counter) Inside(_ context.Context, _ []int32, positions []int) ([][]float32, [][][]float32, error) {
	var logits [][]float32
	var taps [][][]float32
	for range positions {
		l := []float32{1, 0, 0, 4, 0, 0, 0, 0, 0, 1}
		layers := [][]float32{{1, 1, 1}, {2, 2, 2}, {3, 3, 3}}
		switch c.wrong {
		case "has other logits":
			l[3] += 1e-3
		case "has logits that are no numbers":
			l[3] = float32(math.NaN())
		case "has fewer logits":
			l = l[:5]
		case "has another layer", "is wrong inside as well":
			layers[1][2] += 1e-3
		case "has fewer layers":
			layers = layers[:2]
		case "has narrow layers":
			layers[0] = layers[0][:2]
		}
		logits, taps = append(logits, l), append(taps, layers)
	}
	if c.wrong == "shows fewer positions" && len(logits) > 0 {
		return logits[1:], taps, nil
	}
	return logits, taps, nil
}

func TestJudge(t *testing.T) {
	tests := []struct {
		wrong   string
		passes  bool
		verdict Verdict
		detail  string
	}{
		{"", true, Same, ""},
		{"takes the other of a tie", true, Tie, "could be either"},
		{"takes a third one at a tie", false, Differs, "token 2 is 2, want 5"},
		{"is wrong where it is decided", false, Differs, "token 0 is 0, want 3"},
		{"says nothing", false, Empty, "no tokens after 0 of 3"},
		{"says one less", false, Short, "2 tokens, want 3"},
		{"adds a token", false, Tokens, "3 tokens, want 2"},
		{"fails", false, Failed, "no engine"},
		{"has other logits", false, Numbers, "logits differ"},
		{"has logits that are no numbers", false, Numbers, "logits differ"},
		{"has fewer logits", false, Failed, "5 logits"},
		{"is wrong inside as well", false, Differs, "token 0 is 0, want 3; the gap there is 1 of the logits' range; the output of blk.1 differs"},
		{"has another layer", false, Numbers, "output of blk.1"},
		{"has fewer layers", false, Failed, "2 layers"},
		{"has narrow layers", false, Failed, "2 wide"},
		{"shows fewer positions", false, Failed, "positions"},
	}
	for _, tt := range tests {
		t.Run(tt.wrong, func(t *testing.T) {
			r, err := Judge(t.Context(), reference(), &counter{wrong: tt.wrong}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			first := r.Results[0]
			if r.Passed != tt.passes || first.Verdict != tt.verdict || !strings.Contains(first.Detail, tt.detail) {
				t.Errorf("passed %t, %+v; want %t, %s: %s", r.Passed, first, tt.passes, tt.verdict, tt.detail)
			}
			var text bytes.Buffer
			if err := r.WriteText(&text); err != nil || !tt.passes && !strings.Contains(text.String(), "FAILED") {
				t.Errorf("%v\n%s", err, text.String())
			}
		})
	}
}

func TestAnAnswerThatDoesNotEndFails(t *testing.T) {
	r, err := Judge(t.Context(), reference(), &counter{wrong: "does not end"}, Options{})
	if err != nil || r.Passed || r.Results[1].Verdict != Differs {
		t.Errorf("%+v, %v", r, err)
	}
}

// blind is a subject that shows no insides.
type blind struct{ Subject }

func TestNothingPassesByDefault(t *testing.T) {
	empty, bare := reference(), reference()
	empty.Prompts = nil
	for i := range bare.Prompts {
		bare.Prompts[i].Taps = nil
	}
	for name, tt := range map[string]struct {
		ref *Reference
		s   Subject
		o   Options
		why string
	}{
		"no prompts":                    {empty, &counter{}, Options{}, "0 prompts"},
		"no prompts to compare":         {empty, &counter{}, Options{Compare: true}, "0 prompts"},
		"no reference":                  {&Reference{}, &counter{}, Options{TokensOnly: true}, "0 prompts"},
		"fewer prompts than asked for":  {reference(), &counter{}, Options{Prompts: 3}, "want at least 3"},
		"a reference without layers":    {bare, &counter{}, Options{}, "no layers"},
		"a subject that shows nothing":  {reference(), blind{&counter{}}, Options{}, "shows no logits"},
		"a subject in fast mode":        {reference(), &counter{wrong: "rounds"}, Options{}, `mode "fast"`},
		"fast mode, judged by its text": {reference(), &counter{wrong: "rounds"}, Options{TokensOnly: true}, `mode "fast"`},
	} {
		r, err := Judge(t.Context(), tt.ref, tt.s, tt.o)
		if err != nil || r.Passed || len(r.Results) > 0 || len(r.Why) != 1 || !strings.Contains(r.Why[0], tt.why) {
			t.Errorf("%s: %+v, %v; want %q", name, r, err, tt.why)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Judge(ctx, reference(), &counter{}, Options{}); err == nil || r.Passed {
		t.Errorf("a judgement that was cut off: %+v, %v", r, err)
	}
}

func TestTokensOnly(t *testing.T) {
	r, err := Judge(t.Context(), reference(), blind{&counter{}}, Options{TokensOnly: true})
	if err != nil || !r.Passed || r.Inside || r.Kept != 2 {
		t.Errorf("a right subject: %+v, %v", r, err)
	}
	r, err = Judge(t.Context(), reference(), blind{&counter{wrong: "says one less"}}, Options{TokensOnly: true})
	if err != nil || r.Passed || r.Results[0].Verdict != Short {
		t.Errorf("a short answer: %+v, %v", r, err)
	}
}

// TestBehindATieTheRestIsJudged: a tie excuses one token, not what comes after it.
func TestBehindATieTheRestIsJudged(t *testing.T) {
	for _, then := range []string{"goes on rightly", "goes on wrongly", "stops"} {
		ref := reference()
		p := &ref.Prompts[0]
		p.Steps, p.Answer, p.Second = 5, []int32{3, 4, 5, 6, 7}, []int32{0, 0, 7, 0, 0}
		p.Gap, p.Range = []float64{1, 1, 1e-5, 1, 1}, []float64{1, 1, 1, 1, 1}
		s := &tied{then: then}
		r, err := Judge(t.Context(), ref, s, Options{})
		want := map[string]Verdict{"goes on rightly": Tie, "goes on wrongly": Differs, "stops": Empty}[then]
		if err != nil || r.Results[0].Verdict != want || r.Passed != (want == Tie) {
			t.Errorf("%s: %+v, %v; want %s", then, r.Results[0], err, want)
		}
		if s.asked[1] != "12345+2" {
			t.Errorf("%s: asked for %q behind the tie, want the reference's tokens", then, s.asked[1])
		}
	}
}

// tied takes the other token of the tie in prompt one, and then goes on as it says.
type tied struct {
	counter
	then  string
	asked []string
}

func (s *tied) Greedy(ctx context.Context, tokens []int32, n int) ([]int32, error) {
	var b strings.Builder
	for _, id := range tokens {
		b.WriteByte(byte('0' + id))
	}
	s.asked = append(s.asked, fmt.Sprintf("%s+%d", b.String(), n))
	switch {
	case len(s.asked) == 1:
		return []int32{3, 4, 7, 8, 9}, nil
	case len(s.asked) == 2 && s.then == "goes on wrongly":
		return []int32{6, 6}, nil
	case len(s.asked) == 2 && s.then == "stops":
		return nil, nil
	}
	return s.counter.Greedy(ctx, tokens, n)
}

func TestReportText(t *testing.T) {
	r := &Report{
		Model: "counter", Kept: 1, Ties: 1, Of: 3, Inside: true, Why: []string{"prompt three: differs: no"},
		Results: []Result{
			{Prompt: "one", Verdict: Same, At: -1, Logits: 2e-6, Taps: 3e-6, Layer: "blk.1"},
			{Prompt: "two", Verdict: Tie, At: 12, Gap: 1e-5, Logits: 1e-6},
			{Prompt: "three", Verdict: Differs, At: 0, Gap: 0.25},
		},
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `counter: FAILED: 1 of 3 answers kept, 1 more but for ties; logits within 2e-06 and layers within 3e-06 relative RMS
  prompt  verdict  first flip  gap    logits  layers  worst
  one     same     -           -      2e-06   3e-06   blk.1
  two     tie      token 12    1e-05  1e-06   -       -
  three   differs  token 0     0.25   -       -       -
  prompt three: differs: no
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestCompareLooksAtAnswersOnly: an engine that rounds is compared by what it says.
func TestCompareLooksAtAnswersOnly(t *testing.T) {
	r, err := Judge(t.Context(), reference(), &counter{wrong: "has other logits"}, Options{Compare: true})
	if err != nil || !r.Passed || r.Kept != 2 || r.Inside {
		t.Errorf("%+v, %v", r, err)
	}
}

func packed(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return packedText(t, b)
}

func packedText(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func b64(values ...uint32) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// stored is a small reference as it lies in a file; change changes it.
func stored(change func(ref, prompt map[string]any)) map[string]any {
	one := math.Float32bits(1)
	prompt := map[string]any{
		"name": "p", "kind": "raw", "text": "x", "tokens": []int{1}, "steps": 2, "answer": []int{2, 3}, "ended": false, "second": []int{1, 1},
		"gap": []int{1, 1}, "range": []int{2, 2}, "logits": []any{map[string]any{"pos": 1, "top": b64(3), "values": b64(one, one)}},
		"taps": []any{map[string]any{"pos": 0, "values": b64(one, one, one, one)}},
	}
	ref := map[string]any{
		"format": referenceFormat, "version": 1, "model": map[string]any{"layers": 1, "width": 2, "vocab": 5, "ends": []int{4}}, "sample": b64(4), "prompts": []any{prompt},
	}
	if change != nil {
		change(ref, prompt)
	}
	return ref
}

func TestLoadReference(t *testing.T) {
	r, err := LoadReference(bytes.NewReader(packed(t, stored(nil))))
	if err != nil || r.Sample[0] != 4 || r.Prompts[0].Logits[0].Values[1] != 1 || len(r.Prompts[0].Taps[0].Values) != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, change := range map[string]func(ref, p map[string]any){
		"another format":        func(ref, _ map[string]any) { ref["format"] = "x" },
		"another version":       func(ref, _ map[string]any) { ref["version"] = 2 },
		"no shape":              func(ref, _ map[string]any) { ref["model"] = map[string]any{} },
		"a sample out of range": func(ref, _ map[string]any) { ref["sample"] = b64(5) },
		"half a number":         func(ref, _ map[string]any) { ref["sample"] = "AAA=" },
		"no tokens":             func(_, p map[string]any) { p["tokens"] = []int{} },
		"a token out of range":  func(_, p map[string]any) { p["tokens"] = []int{5} },
		"no answer":             func(_, p map[string]any) { p["answer"] = []int{} },
		"a short answer":        func(_, p map[string]any) { p["steps"] = 3 },
		"no name":               func(_, p map[string]any) { p["name"] = "" },
		"the same name twice":   func(ref, p map[string]any) { ref["prompts"] = []any{p, p} },
		"no range":              func(_, p map[string]any) { p["gap"], p["range"] = []int{0, 0}, []int{0, 0} },
		"a gap below zero":      func(_, p map[string]any) { p["gap"] = []int{1, -1} },
		"a gap over the range":  func(_, p map[string]any) { p["gap"] = []int{1, 3} },
		"an end in the middle":  func(ref, _ map[string]any) { ref["model"].(map[string]any)["ends"] = []int{2} },
		"an end that is none":   func(_, p map[string]any) { p["ended"] = true },
		"a next best beyond":    func(_, p map[string]any) { p["second"] = []int{1, 5} },
		"an endless answer": func(ref, p map[string]any) {
			p["steps"], p["ended"], p["answer"] = 1<<40, true, []int{2, 4}
		},
		"fewer gaps": func(_, p map[string]any) { p["gap"] = []int{1} },
		"logits behind the end": func(_, p map[string]any) {
			p["logits"] = []any{map[string]any{"pos": 2, "top": b64(3), "values": b64(1, 1)}}
		},
		"fewer logits": func(_, p map[string]any) {
			p["logits"] = []any{map[string]any{"pos": 1, "top": b64(3), "values": b64(1)}}
		},
		"a best token out of range": func(_, p map[string]any) {
			p["logits"] = []any{map[string]any{"pos": 1, "top": b64(9), "values": b64(1, 1)}}
		},
		"a logit that is no number": func(_, p map[string]any) {
			p["logits"] = []any{map[string]any{"pos": 1, "top": b64(3), "values": b64(math.Float32bits(1), 0x7fc00000)}}
		},
		"an infinite layer": func(_, p map[string]any) {
			p["taps"] = []any{map[string]any{"pos": 0, "values": b64(0, 0, 0x7f800000, 0)}}
		},
		"fewer layers": func(_, p map[string]any) { p["taps"] = []any{map[string]any{"pos": 0, "values": b64(1, 1)}} },
	} {
		if _, err := LoadReference(bytes.NewReader(packed(t, stored(change)))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := LoadReference(strings.NewReader("hello")); err == nil {
		t.Error("a text: no error")
	}
	whole := packed(t, stored(nil))
	if _, err := LoadReference(bytes.NewReader(whole[:len(whole)-9])); err == nil {
		t.Error("a file that was cut off: no error")
	}
}

func TestReferenceThatUnpacksToTooMuch(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	spaces := bytes.Repeat([]byte{' '}, 1<<20)
	for range maxReference>>20 + 1 {
		if _, err := z.Write(spaces); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadReference(&b); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%v; want a refusal by size", err)
	}
}

// FuzzLoadReference reads bytes as a file and as the text inside one, and judges by what it accepts.
func FuzzLoadReference(f *testing.F) {
	f.Add(packed(f, stored(nil)))
	for _, change := range []func(ref, p map[string]any){
		nil,
		func(_, p map[string]any) { p["ended"], p["answer"] = true, []int{2, 4} },
		func(_, p map[string]any) { p["logits"] = nil },
		func(_, p map[string]any) { p["gap"] = []float64{1e-9, 1} },
		func(ref, _ map[string]any) { ref["sample"] = b64(0, 1, 2, 3, 4) },
	} {
		b, err := json.Marshal(stored(change))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, file := range [][]byte{b, packedText(t, b)} {
			ref, err := LoadReference(bytes.NewReader(file))
			if err != nil {
				continue
			}
			for _, wrong := range []string{"", "says nothing", "is wrong where it is decided"} {
				if r, err := Judge(t.Context(), ref, &counter{wrong: wrong}, Options{}); err != nil || r.Passed && len(r.Results) == 0 {
					t.Errorf("%+v, %v", r, err)
				}
			}
		}
	})
}
