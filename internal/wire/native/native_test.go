package native

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
)

func events() []infer.Event {
	return []infer.Event{
		infer.Progress{Done: 5, Total: 9, Cached: 2},
		infer.Progress{},
		infer.Text{Text: "größe\n\"<&>\u2028\x00"},
		infer.Text{Text: "\x00AAAA"},
		infer.Text{Text: "\xe2\x82"},
		infer.Text{Text: "\xac", Logprobs: []infer.TokenLogprob{
			{
				Token: "\xac", Bytes: []byte("\xac"), Logprob: -0.1, Top: []infer.TokenLogprob{
					{Token: "a", Bytes: []byte("a"), Logprob: math.Inf(-1)}, {Token: "�", Bytes: []byte("\xe2\x82"), Logprob: -1e-300},
				},
			},
			{Token: "<end>", Bytes: []byte{}, Logprob: 0, Top: []infer.TokenLogprob{}},
			{Token: "b"},
		}},
		infer.Text{Logprobs: []infer.TokenLogprob{{Token: "", Bytes: []byte{}}}},
		infer.Reasoning{Text: "hm", Logprobs: []infer.TokenLogprob{{Token: "hm", Bytes: []byte("hm"), Logprob: -3}}},
		infer.ToolStart{Index: 1, ID: "x", Name: "f"},
		infer.ToolStart{Name: "g"},
		infer.ToolArgs{Index: 1, Text: "{}"},
		infer.Done{Reason: infer.StopString, StopString: "\xff", Usage: infer.Usage{Prompt: 9, Cached: 2, Completion: 4, Reasoning: 1, Estimated: true}},
	}
}

func written(t testing.TB, evs []infer.Event) []byte {
	t.Helper()
	var b []byte
	for _, ev := range evs {
		var err error
		if b, err = AppendEvent(b, ev); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func readAll(r io.Reader) ([]infer.Event, error) {
	var out []infer.Event
	for n := NewReader(r); ; {
		ev, err := n.Next()
		if err != nil {
			if _, again := n.Next(); again != err { //nolint:errorlint // the very same
				return out, errors.New("the reader's end is not final")
			}
			return out, err
		}
		out = append(out, ev)
	}
}

func TestEventsSurvive(t *testing.T) {
	b := written(t, events())
	if n := bytes.Count(b, []byte("\n")); n != len(events()) {
		t.Errorf("%d events are %d lines", len(events()), n)
	}
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b)), "with more behind": strings.NewReader(string(b) + "x"),
	} {
		got, err := readAll(r)
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: ended with %v", name, err)
		}
		if diff := cmp.Diff(events(), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestEveryEvent makes sure that events has each kind that package infer has: what it lacks cannot be written.
func TestEveryEvent(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, ev := range events() {
		seen[reflect.TypeOf(ev)] = true
	}
	for _, ev := range []infer.Event{infer.Text{}, infer.Reasoning{}, infer.ToolStart{}, infer.ToolArgs{}, infer.Progress{}, infer.Done{}} {
		if !seen[reflect.TypeOf(ev)] {
			t.Errorf("%T is not tested", ev)
		}
	}
	if b, err := AppendEvent([]byte("x"), nil); err == nil || string(b) != "x" {
		t.Errorf("no event at all is written as %q, %v", b, err)
	}
}

// TestCutIsNotWhole cuts an answer at every byte.
func TestCutIsNotWhole(t *testing.T) {
	b := written(t, events())
	for n := range len(b) {
		evs, err := readAll(bytes.NewReader(b[:n]))
		if !errors.Is(err, ErrTruncated) {
			t.Fatalf("%d of %d bytes end with %v, want %v", n, len(b), err, ErrTruncated)
		}
		if want := bytes.Count(b[:n], []byte("\n")); len(evs) != want {
			t.Fatalf("%d of %d bytes have %d events, want %d", n, len(b), len(evs), want)
		}
	}
}

func TestErrorsSurvive(t *testing.T) {
	want := &infer.Error{Kind: infer.ErrContextLength, Message: "too \xff long", Param: "messages", PromptTokens: 9, Window: 4, RetryAfter: time.Second}
	b, err := AppendError(written(t, events()[:3]), want)
	if err != nil {
		t.Fatal(err)
	}
	evs, err := readAll(bytes.NewReader(b))
	got, ok := errors.AsType[*infer.Error](err)
	if !ok || cmp.Diff(want, got) != "" || len(evs) != 3 {
		t.Errorf("got %d events and %#v, want %#v", len(evs), err, want)
	}
	alone, err := json.Marshal(ErrorOf(&infer.Error{Kind: infer.ErrInvalid, Message: "no", Err: io.ErrUnexpectedEOF}))
	if err != nil {
		t.Fatal(err)
	}
	got, err = DecodeError(alone)
	if err != nil || got.Kind != infer.ErrInvalid || got.Message != "no: unexpected EOF" {
		t.Errorf("the cause is lost: %v, %v", got, err)
	}
	if e := ErrorOf(io.ErrClosedPipe); e.Kind != infer.ErrInternal {
		t.Errorf("an error without a kind becomes %s", e.Kind)
	}
	for _, s := range []string{"", "<html>", "{}", `{"kind":"engine"}`, `{"error":"x"}`, `{"kind":"engine","message":"x"} {}`} {
		if e, err := DecodeError([]byte(s)); err == nil {
			t.Errorf("%q is read as %v", s, e)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"no JSON": "hello\n", "an unknown kind": `{"kind":"song"}` + "\n", "no kind": "{}\n", "an empty line": "\n",
		"done without content": `{"kind":"done"}` + "\n", "done without counts": `{"kind":"done","done":{"reason":"end"}}` + "\n",
		"done without a reason": `{"kind":"done","done":{"usage":{}}}` + "\n", "error without content": `{"kind":"error"}` + "\n",
		"progress without content": `{"kind":"progress"}` + "\n", "text without content": `{"kind":"text"}` + "\n",
		"a call without a name": `{"kind":"tool_start"}` + "\n", "an unknown field": `{"kind":"text","text":"a","colour":1}` + "\n",
		"two values": `{"kind":"text","text":"a"}{}` + "\n", "broken base64": `{"kind":"text","text":"\u0000*"}` + "\n",
	} {
		evs, err := readAll(strings.NewReader(s))
		if _, bad := errors.AsType[*BadLineError](err); !bad || errors.Is(err, io.EOF) || len(evs) > 0 {
			t.Errorf("%s: %v, %v", name, evs, err)
		}
	}
}

func TestReaderBoundsLines(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"kind":"text","text":"`), zeros{})
	if _, err := NewReader(endless).Next(); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("a line without end gives %v", err)
	}
	long := infer.Text{Text: strings.Repeat("x", 1<<20)}
	got, err := readAll(bytes.NewReader(written(t, []infer.Event{long, infer.Done{Reason: infer.StopEnd}})))
	if !errors.Is(err, io.EOF) || got[0].(infer.Text).Text != long.Text {
		t.Errorf("a line of a mebibyte gives %d events and %v", len(got), err)
	}
	broken := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab")))
	if _, err := NewReader(broken).Next(); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("a failed read gives %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// fill sets every field of a value, so that one which the dialect lacks is noticed.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte("{ \"b\" : 1.0,\n\"a\":\"<\xff>\" }"))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(val, n)
		v.SetMapIndex(key, val)
	case reflect.String:
		v.SetString(strings.Repeat("s", *n%5+1) + "\xfe")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) / 3)
	default:
		v.SetInt(int64(*n))
	}
}

func TestRequestsSurvive(t *testing.T) {
	zero, none, no := 0.0, 0, false
	full, n := &infer.Request{}, 0
	fill(reflect.ValueOf(full).Elem(), &n)
	for name, want := range map[string]*infer.Request{
		"every field": full,
		"nothing":     {},
		"empty, not missing": {
			Messages: []infer.Message{{Parts: []infer.Part{}, ToolCalls: []infer.ToolCall{}}}, Tools: []infer.Tool{}, PromptTokens: []int{},
			Stop: []string{}, TemplateArgs: map[string]json.RawMessage{}, Sampling: infer.Sampling{LogitBias: map[int]float64{}},
		},
		"zero, not unset": {
			ParallelTools: &no,
			Sampling:      infer.Sampling{Temperature: &zero, TopP: &zero, TopK: &none, Seed: new(int64)},
		},
		"large and negative": {
			Sampling:     infer.Sampling{Seed: ptr(int64(math.MinInt64)), Temperature: ptr(math.MaxFloat64), LogitBias: map[int]float64{-3: -100}},
			PromptTokens: []int{-1, math.MaxInt},
		},
	} {
		b, err := EncodeRequest(want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := DecodeRequest(bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v in %s", name, err, b)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestRequestsRefused(t *testing.T) {
	if _, err := EncodeRequest(&infer.Request{Sampling: infer.Sampling{Temperature: ptr(math.NaN())}}); err == nil {
		t.Error("a temperature that is no number is written")
	}
	for _, s := range []string{"", "null x", `{"kind":"chat","colour":1}`, `{"kind":"chat"}{}`, `[]`, `{"prompt":"\u0000*"}`} {
		if r, err := DecodeRequest(strings.NewReader(s)); err == nil {
			t.Errorf("%q is read as %+v", s, r)
		}
	}
}

func TestCommandsSurvive(t *testing.T) {
	for _, want := range []Command{
		{Model: "/m x.gguf", Socket: "/s", Window: 4096, Parallel: 3, Mode: "fast", Kernel: "avx2", Threads: 2, PackDir: "/p"},
		{Model: "--odd", Socket: "s", Parallel: 1},
	} {
		got, err := ParseCommand(want.Args(), io.Discard)
		if err != nil || got != want {
			t.Errorf("%v becomes %+v, %v", want.Args(), got, err)
		}
	}
	for _, args := range [][]string{
		{},
		{"serve"},
		{Role},
		{Role, "--model", "x"},
		{Role, "--socket", "x"},
		{Role, "--model", "x", "--socket", "y", "z"},
		{Role, "--model", "x", "--socket", "y", "--colour", "z"},
		{Role, "--model", "x", "--socket", "y", "--window", "many"},
	} {
		if c, err := ParseCommand(args, io.Discard); err == nil {
			t.Errorf("%q is read as %+v", args, c)
		}
	}
}

// TestStatusTellsKindsApart: whoever cannot read the body still learns whose fault it was.
func TestStatusTellsKindsApart(t *testing.T) {
	for kind, want := range map[infer.ErrorKind]int{
		infer.ErrInvalid: 400, infer.ErrContextLength: 400, infer.ErrUnsupported: 400, infer.ErrLoading: 503, infer.ErrUnavailable: 503,
		infer.ErrInternal: 500, infer.ErrEngine: 500,
	} {
		if got := Status(kind); got != want {
			t.Errorf("%s has status %d, want %d", kind, got, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(written(f, events()))
	f.Add([]byte(`{"kind":"error","error":{"kind":"engine","message":"x"}}` + "\n"))
	f.Add([]byte("\n")) // was once taken for the end of a whole answer
	f.Add([]byte(`{"kind":"text","text":"\u0000/w=="}` + "\n" + `{"kind":"done","done":{"reason":"end","usage":{}}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		evs, err := readAll(bytes.NewReader(b))
		if err == nil {
			t.Fatal("reading ended without an error")
		}
		whole := slices.ContainsFunc(evs, func(ev infer.Event) bool { _, done := ev.(infer.Done); return done })
		if whole != errors.Is(err, io.EOF) {
			t.Fatalf("%d events end with %v", len(evs), err)
		}
		again, _ := readAll(bytes.NewReader(written(t, evs)))
		if diff := cmp.Diff(evs, again, nanEqual()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func nanEqual() cmp.Option {
	return cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
}

func FuzzDecodeRequest(f *testing.F) {
	full, n := &infer.Request{}, 0
	fill(reflect.ValueOf(full).Elem(), &n)
	b, err := EncodeRequest(full)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"kind":"chat","messages":[{"role":"user","parts":[{"text":"hi"}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRequest(bytes.NewReader(b))
		if err != nil {
			return
		}
		out, err := EncodeRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeRequest(bytes.NewReader(out))
		if diff := cmp.Diff(r, again); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

// BenchmarkToken is what a token costs on its way between the processes, both ends together.
func BenchmarkToken(b *testing.B) {
	var pipe bytes.Buffer
	r := NewReader(&pipe)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = AppendEvent(buf[:0], infer.Text{Text: " token"})
		pipe.Write(buf)
		if ev, err := r.Next(); err != nil || ev.(infer.Text).Text != " token" {
			b.Fatal(ev, err)
		}
	}
}
