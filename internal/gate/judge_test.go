package gate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
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
	case "is wrong where it is decided":
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
		case "has another layer":
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
		{"has another layer", false, Numbers, "layer 1"},
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

func TestNothingPassesByDefault(t *testing.T) {
	empty := reference()
	empty.Prompts = nil
	for name, tt := range map[string]struct {
		ref *Reference
		o   Options
	}{
		"no prompts": {empty, Options{}}, "fewer prompts than asked for": {reference(), Options{Prompts: 3}},
	} {
		r, err := Judge(t.Context(), tt.ref, &counter{}, tt.o)
		if err != nil || r.Passed || len(r.Why) == 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Judge(ctx, reference(), &counter{}, Options{}); err == nil || r.Passed {
		t.Errorf("a judgement that was cut off: %+v, %v", r, err)
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
		"format": referenceFormat, "version": 1, "model": map[string]any{"layers": 1, "width": 2, "vocab": 5}, "sample": b64(4), "prompts": []any{prompt},
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
		"fewer gaps":            func(_, p map[string]any) { p["gap"] = []int{1} },
		"logits behind the end": func(_, p map[string]any) {
			p["logits"] = []any{map[string]any{"pos": 2, "top": b64(3), "values": b64(1, 1)}}
		},
		"fewer logits": func(_, p map[string]any) {
			p["logits"] = []any{map[string]any{"pos": 1, "top": b64(3), "values": b64(1)}}
		},
		"a best token out of range": func(_, p map[string]any) {
			p["logits"] = []any{map[string]any{"pos": 1, "top": b64(9), "values": b64(1, 1)}}
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
}

func FuzzLoadReference(f *testing.F) {
	f.Add(packed(f, stored(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ref, err := LoadReference(bytes.NewReader(b)); err == nil {
			if _, err := Judge(t.Context(), ref, &counter{wrong: "says nothing"}, Options{}); err != nil {
				t.Error(err)
			}
		}
	})
}
