// Package native is the dialect that stoker speaks with its own engine, a child process: requests and events of package infer as
// JSON, one event to a line.
//
//	body, err := native.EncodeRequest(r)
//	line, err := native.AppendEvent(nil, ev)       // in the child
//	ev, err := native.NewReader(body).Next()       // in the parent
//
// An answer is whole only if its last line is a done event. A line that is an error ends it as well; the end of input before either
// is an error. Text need not be valid UTF-8: such bytes travel in base64.
//
// Functions are pure; a Reader belongs to one goroutine.
package native

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
	"unicode/utf8"

	"github.com/stoker-llm/stoker/internal/infer"
)

// maxLine is the longest line that is read: an event of a token with all its alternatives stays far below.
const maxLine = 8 << 20

// EncodeRequest writes a request as JSON.
func EncodeRequest(r *infer.Request) ([]byte, error) { return json.Marshal(r) }

// DecodeRequest reads a request. Unknown fields are errors: both ends are the same program.
func DecodeRequest(r io.Reader) (*infer.Request, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var out infer.Request
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("the request is not what this version of stoker writes: %w", err)
	}
	unset(&out.Format.Schema)
	for i := range out.Tools {
		unset(&out.Tools[i].Parameters)
	}
	return &out, nil
}

// unset undoes what JSON makes of a value that is not there.
func unset(raw *json.RawMessage) {
	if string(*raw) == "null" {
		*raw = nil
	}
}

// line is one event. Which fields count depends on Kind.
type line struct {
	Kind     string         `json:"kind"`
	Text     string         `json:"text,omitempty"`
	Bytes    []byte         `json:"bytes,omitempty"` // in place of Text, where that is not valid UTF-8
	Logprobs []prob         `json:"logprobs,omitempty"`
	Index    int            `json:"index,omitempty"`
	ID       string         `json:"id,omitempty"`
	Name     string         `json:"name,omitempty"`
	Progress infer.Progress `json:"progress,omitzero"`
	Done     *infer.Done    `json:"done,omitempty"`
	Error    *Error         `json:"error,omitempty"`
}

// prob is a token's log probability. Its text is its bytes.
type prob struct {
	Bytes   []byte  `json:"b"`
	Logprob float64 `json:"p"`
	Top     []prob  `json:"top,omitempty"`
}

// Error is an *infer.Error on its way between processes. The cause is part of the message then.
type Error struct {
	Kind         infer.ErrorKind `json:"kind"`
	Message      string          `json:"message"`
	Param        string          `json:"param,omitempty"`
	PromptTokens int             `json:"prompt_tokens,omitempty"`
	Window       int             `json:"window,omitempty"`
	RetryAfter   time.Duration   `json:"retry_after,omitempty"`
}

// ErrorOf makes an Error of any error.
func ErrorOf(err error) *Error {
	out := &Error{Kind: infer.KindOf(err), Message: err.Error()}
	if e, ok := errors.AsType[*infer.Error](err); ok {
		out.Param, out.PromptTokens, out.Window, out.RetryAfter = e.Param, e.PromptTokens, e.Window, e.RetryAfter
	}
	return out
}

// Infer returns the error that e stands for.
func (e *Error) Infer() *infer.Error {
	return &infer.Error{
		Kind: e.Kind, Message: e.Message, Param: e.Param, PromptTokens: e.PromptTokens, Window: e.Window, RetryAfter: e.RetryAfter,
	}
}

// AppendEvent appends an event as a line.
func AppendEvent(b []byte, ev infer.Event) ([]byte, error) {
	var l line
	switch ev := ev.(type) {
	case infer.Text:
		l = text("text", ev.Text, ev.Logprobs)
	case infer.Reasoning:
		l = text("reasoning", ev.Text, ev.Logprobs)
	case infer.ToolStart:
		l = line{Kind: "tool_start", Index: ev.Index, ID: ev.ID, Name: ev.Name}
	case infer.ToolArgs:
		l = text("tool_args", ev.Text, nil)
		l.Index = ev.Index
	case infer.Progress:
		l = line{Kind: "progress", Progress: ev}
	case infer.Done:
		l = line{Kind: "done", Done: &ev}
	default:
		return b, fmt.Errorf("an event of type %T cannot be written", ev)
	}
	return appendLine(b, l)
}

// AppendError appends the line that ends an answer which is not whole.
func AppendError(b []byte, err error) ([]byte, error) {
	return appendLine(b, line{Kind: "error", Error: ErrorOf(err)})
}

func appendLine(b []byte, l line) ([]byte, error) {
	out, err := json.Marshal(l)
	if err != nil {
		return b, err
	}
	return append(append(b, out...), '\n'), nil
}

func text(kind, s string, probs []infer.TokenLogprob) line {
	l := line{Kind: kind, Text: s, Logprobs: encodeProbs(probs)}
	if !utf8.ValidString(s) {
		l.Text, l.Bytes = "", []byte(s)
	}
	return l
}

func (l *line) text() string {
	if l.Bytes != nil {
		return string(l.Bytes)
	}
	return l.Text
}

// noChance stands for the logarithm of 0, which JSON cannot write.
const noChance = -1e9

func encodeProbs(list []infer.TokenLogprob) []prob {
	var out []prob
	for _, p := range list {
		b := p.Bytes
		if b == nil {
			b = []byte(p.Token)
		}
		lp := p.Logprob
		if math.IsInf(lp, 0) || math.IsNaN(lp) {
			lp = noChance
		}
		out = append(out, prob{b, lp, encodeProbs(p.Top)})
	}
	return out
}

func decodeProbs(list []prob) []infer.TokenLogprob {
	var out []infer.TokenLogprob
	for _, p := range list {
		out = append(out, infer.TokenLogprob{Token: string(p.Bytes), Bytes: p.Bytes, Logprob: p.Logprob, Top: decodeProbs(p.Top)})
	}
	return out
}

// Reader reads the events of one answer.
type Reader struct {
	r   *bufio.Reader
	end error
}

// NewReader returns a reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReader(r)} }

// ErrTruncated is an answer whose last line did not come.
var ErrTruncated = errors.New("the answer ended before its last event")

// Next returns the next event, and io.EOF behind a done event. Any other error is final: an *infer.Error that the engine wrote,
// ErrTruncated, or what reading gave.
func (r *Reader) Next() (infer.Event, error) {
	if r.end != nil {
		return nil, r.end
	}
	raw, err := r.line()
	if err != nil {
		r.end = err
		return nil, err
	}
	ev, err := decode(raw)
	if err != nil {
		r.end = err
	}
	if _, done := ev.(infer.Done); done {
		r.end = io.EOF
	}
	return ev, err
}

// line reads up to the next newline.
func (r *Reader) line() ([]byte, error) {
	var out []byte
	for {
		piece, err := r.r.ReadSlice('\n')
		out = append(out, piece...)
		switch {
		case err == nil:
			return out, nil
		case len(out) > maxLine:
			return nil, fmt.Errorf("an event of more than %d bytes", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, ErrTruncated
		default:
			return nil, err
		}
	}
}

func decode(raw []byte) (infer.Event, error) {
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, fmt.Errorf("an event that is not JSON: %w", err)
	}
	switch l.Kind {
	case "text":
		return infer.Text{Text: l.text(), Logprobs: decodeProbs(l.Logprobs)}, nil
	case "reasoning":
		return infer.Reasoning{Text: l.text(), Logprobs: decodeProbs(l.Logprobs)}, nil
	case "tool_start":
		return infer.ToolStart{Index: l.Index, ID: l.ID, Name: l.Name}, nil
	case "tool_args":
		return infer.ToolArgs{Index: l.Index, Text: l.text()}, nil
	case "progress":
		return l.Progress, nil
	case "done":
		if l.Done != nil {
			return *l.Done, nil
		}
	case "error":
		if l.Error != nil {
			return nil, l.Error.Infer()
		}
	}
	return nil, fmt.Errorf("an event of kind %q without its content, or of a kind that is not known", l.Kind)
}
