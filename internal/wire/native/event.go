package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
)

// The kinds of line.
const (
	kindText      = "text"
	kindReasoning = "reasoning"
	kindToolStart = "tool_start"
	kindToolArgs  = "tool_args"
	kindProgress  = "progress"
	kindDone      = "done"
	kindError     = "error"
)

// line is one event. Which fields count depends on Kind.
type line struct {
	Kind     string    `json:"kind"`
	Text     text      `json:"text,omitempty"`
	Logprobs []prob    `json:"logprobs,omitzero"`
	Index    int       `json:"index,omitempty"`
	ID       text      `json:"id,omitempty"`
	Name     text      `json:"name,omitempty"`
	Progress *progress `json:"progress,omitempty"`
	Done     *done     `json:"done,omitempty"`
	Error    *Error    `json:"error,omitempty"`
}

type progress struct {
	Done   int `json:"done"`
	Total  int `json:"total"`
	Cached int `json:"cached"`
}

type done struct {
	Reason     text   `json:"reason"`
	StopString text   `json:"stop_string,omitempty"`
	Usage      *usage `json:"usage"`
}

type usage struct {
	Prompt     int  `json:"prompt"`
	Cached     int  `json:"cached"`
	Completion int  `json:"completion"`
	Reasoning  int  `json:"reasoning"`
	Estimated  bool `json:"estimated,omitempty"`
}

// prob is a token's log probability. Bytes that spell the token are left out, and NoBytes says that there are none.
type prob struct {
	Token   text   `json:"t"`
	Logprob real   `json:"p"`
	Bytes   []byte `json:"b,omitzero"`
	NoBytes bool   `json:"nb,omitempty"`
	Top     []prob `json:"top,omitzero"`
}

// Error is an *infer.Error on its way between processes. Its cause has become part of the message.
type Error struct {
	Kind         infer.ErrorKind `json:"kind"`
	Message      text            `json:"message"`
	Param        text            `json:"param,omitempty"`
	PromptTokens int             `json:"prompt_tokens,omitempty"`
	Window       int             `json:"window,omitempty"`
	RetryAfter   time.Duration   `json:"retry_after,omitempty"`
}

// ErrorOf makes an Error of any error.
func ErrorOf(err error) *Error {
	out := &Error{Kind: infer.KindOf(err), Message: text(err.Error())}
	if e, ok := errors.AsType[*infer.Error](err); ok {
		out.Param, out.PromptTokens, out.Window, out.RetryAfter = text(e.Param), e.PromptTokens, e.Window, e.RetryAfter
	}
	return out
}

// Infer returns the error that e stands for.
func (e *Error) Infer() *infer.Error {
	return &infer.Error{
		Kind: e.Kind, Message: string(e.Message), Param: string(e.Param), PromptTokens: e.PromptTokens, Window: e.Window, RetryAfter: e.RetryAfter,
	}
}

// DecodeError reads an error that stands alone: the body of a refusal, or the last line of a child that could not start.
func DecodeError(b []byte) (*infer.Error, error) {
	var e Error
	if err := strictBytes(b, &e); err != nil {
		return nil, err
	}
	if e.Kind == "" || e.Message == "" {
		return nil, errors.New("an error without kind or message")
	}
	return e.Infer(), nil
}

// AppendEvent appends an event as a line. The error is an event of a kind that the dialect lacks.
func AppendEvent(b []byte, ev infer.Event) ([]byte, error) {
	var l line
	switch ev := ev.(type) {
	case infer.Text:
		l = line{Kind: kindText, Text: text(ev.Text), Logprobs: encodeProbs(ev.Logprobs)}
	case infer.Reasoning:
		l = line{Kind: kindReasoning, Text: text(ev.Text), Logprobs: encodeProbs(ev.Logprobs)}
	case infer.ToolStart:
		l = line{Kind: kindToolStart, Index: ev.Index, ID: text(ev.ID), Name: text(ev.Name)}
	case infer.ToolArgs:
		l = line{Kind: kindToolArgs, Index: ev.Index, Text: text(ev.Text)}
	case infer.Progress:
		p := progress(ev)
		l = line{Kind: kindProgress, Progress: &p}
	case infer.Done:
		u := usage(ev.Usage)
		l = line{Kind: kindDone, Done: &done{Reason: text(ev.Reason), StopString: text(ev.StopString), Usage: &u}}
	default:
		return b, fmt.Errorf("an event of type %T cannot be written", ev)
	}
	return appendLine(b, l)
}

// AppendError appends the line that ends an answer which is not whole.
func AppendError(b []byte, err error) ([]byte, error) {
	return appendLine(b, line{Kind: kindError, Error: ErrorOf(err)})
}

func appendLine(b []byte, l line) ([]byte, error) {
	out, err := json.Marshal(l)
	if err != nil {
		return b, err
	}
	return append(append(b, out...), '\n'), nil
}

// decode reads a line. The error is the *infer.Error of an error line, or says what is wrong with the line.
func decode(raw []byte) (infer.Event, error) {
	var l line
	if err := strictBytes(raw, &l); err != nil {
		return nil, fmt.Errorf("a line that is no event: %w", err)
	}
	switch {
	case l.Kind == kindText && (l.Text != "" || l.Logprobs != nil):
		return infer.Text{Text: string(l.Text), Logprobs: decodeProbs(l.Logprobs)}, nil
	case l.Kind == kindReasoning && (l.Text != "" || l.Logprobs != nil):
		return infer.Reasoning{Text: string(l.Text), Logprobs: decodeProbs(l.Logprobs)}, nil
	case l.Kind == kindToolStart && l.Name != "":
		return infer.ToolStart{Index: l.Index, ID: string(l.ID), Name: string(l.Name)}, nil
	case l.Kind == kindToolArgs && l.Text != "":
		return infer.ToolArgs{Index: l.Index, Text: string(l.Text)}, nil
	case l.Kind == kindProgress && l.Progress != nil:
		return infer.Progress(*l.Progress), nil
	case l.Kind == kindDone && l.Done != nil && l.Done.Reason != "" && l.Done.Usage != nil:
		return infer.Done{Reason: infer.StopReason(l.Done.Reason), StopString: string(l.Done.StopString), Usage: infer.Usage(*l.Done.Usage)}, nil
	case l.Kind == kindError && l.Error != nil:
		return nil, l.Error.Infer()
	}
	return nil, fmt.Errorf("an event of kind %q that is not known, or lacks its content", clip(l.Kind))
}

// clip keeps a foreign word from filling an error text.
func clip(s string) string { return s[:min(len(s), 40)] }

func encodeProbs(list []infer.TokenLogprob) []prob {
	if list == nil {
		return nil
	}
	out := make([]prob, len(list))
	for i, p := range list {
		out[i] = prob{Token: text(p.Token), Logprob: real(p.Logprob), NoBytes: p.Bytes == nil, Top: encodeProbs(p.Top)}
		if string(p.Bytes) != p.Token {
			out[i].Bytes = p.Bytes
		}
	}
	return out
}

func decodeProbs(list []prob) []infer.TokenLogprob {
	if list == nil {
		return nil
	}
	out := make([]infer.TokenLogprob, len(list))
	for i, p := range list {
		out[i] = infer.TokenLogprob{Token: string(p.Token), Logprob: float64(p.Logprob), Bytes: p.Bytes, Top: decodeProbs(p.Top)}
		if p.Bytes == nil && !p.NoBytes {
			out[i].Bytes = []byte(p.Token)
		}
	}
	return out
}
