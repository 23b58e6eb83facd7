package openai

import (
	"errors"
	"fmt"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// ChatRequest is a decoded chat request.
type ChatRequest struct {
	// Model is the name as the client wrote it; empty when it gave none.
	Model string
	// Stream reports whether the answer is wanted as a stream, and IncludeUsage whether with a usage chunk.
	Stream, IncludeUsage bool
	// Dropped names the parts that were left out, such as "tools[3] (web_search)", for the log.
	Dropped []string
	// Infer is the request itself. Its ID is empty.
	Infer *infer.Request
}

// CompletionRequest is a decoded completion request. Its fields are those of [ChatRequest].
type CompletionRequest struct {
	Model                string
	Stream, IncludeUsage bool
	Infer                *infer.Request
}

// DecodeChat reads the body of a chat request. The error is an *infer.Error whose Param is the path of the field at fault,
// such as "messages[2].content[0].text". Explicit nulls count as absent, unknown fields are ignored, and of a field that
// is there twice the last one counts alone.
func DecodeChat(body []byte) (*ChatRequest, error) {
	d := newDecoding(infer.Chat)
	if err := d.run(body, chatFields); err != nil {
		return nil, err
	}
	return &ChatRequest{
		Model: d.model, Stream: d.stream, IncludeUsage: d.usage && d.stream, Dropped: d.dropped, Infer: d.req,
	}, nil
}

// defaultCompletionTokens is the length of a completion that asks for none, as OpenAI documents it.
const defaultCompletionTokens = 16

// DecodeCompletion reads the body of a completion request, as [DecodeChat] does.
func DecodeCompletion(body []byte) (*CompletionRequest, error) {
	d := newDecoding(infer.Completion)
	if err := d.run(body, completionFields); err != nil {
		return nil, err
	}
	return &CompletionRequest{
		Model: d.model, Stream: d.stream, IncludeUsage: d.usage && d.stream, Infer: d.req,
	}, nil
}

// decoding is the work on one body.
type decoding struct {
	req           *infer.Request
	model         string
	stream, usage bool
	dropped       []string
	// maxTokens and maxCompletion are the two names of one wish; -1 is no bound.
	maxTokens, maxCompletion *int
	topLogprobs              *int
	effort                   string
	hasPrompt                bool
}

func newDecoding(k infer.Kind) *decoding { return &decoding{req: &infer.Request{Kind: k}} }

// run checks the whole body, then reads the fields in the table's order, so that the same body gives the same error.
func (d *decoding) run(body []byte, table []fieldRow) error {
	if err := checkBody(body); err != nil {
		return err
	}
	members := make(map[string][]byte, len(table))
	o := rawjson.Object(body)
	for o.Next() {
		members[string(o.Key())] = o.Value()
	}
	if err := o.Err(); err != nil {
		return infer.Errorf(infer.ErrInvalid, "", "the request body is not usable: %v", err)
	}
	for _, row := range table {
		v, ok := members[row.name]
		if !ok || row.read == nil || rawjson.KindOf(v) == rawjson.Null {
			continue
		}
		if err := row.read(d, row.name, v); err != nil {
			return err
		}
	}
	return d.settle()
}

// checkBody refuses bodies that some engine or template would fail on later, with an error that names the wrong culprit.
func checkBody(body []byte) error {
	err := rawjson.Check(body)
	switch {
	case err == nil && rawjson.KindOf(trimBody(body)) != rawjson.ObjectKind:
		return infer.Errorf(infer.ErrInvalid, "", "the request body must be a JSON object")
	case err == nil:
		return nil
	case len(body) == 0:
		return infer.Errorf(infer.ErrInvalid, "", "the request body is empty; send a JSON object")
	case errors.Is(err, rawjson.ErrUTF8), errors.Is(err, rawjson.ErrSurrogate):
		return infer.Errorf(infer.ErrInvalid, "", "the request body is not valid text (%v); send UTF-8", err)
	case errors.Is(err, rawjson.ErrDepth):
		return infer.Errorf(infer.ErrInvalid, "", "the request body is %v", err)
	default:
		return infer.Errorf(infer.ErrInvalid, "", "the request body is not JSON: %v", err)
	}
}

// trimBody returns body from its first byte that is not space.
func trimBody(body []byte) []byte {
	for len(body) > 0 && (body[0] == ' ' || body[0] == '\n' || body[0] == '\t' || body[0] == '\r') {
		body = body[1:]
	}
	return body
}

// settle checks what hangs on several fields.
func (d *decoding) settle() error {
	r := d.req
	switch {
	case r.Kind == infer.Chat && len(r.Messages) == 0:
		return invalid("messages", "messages is required: a list with at least one message")
	case r.Kind == infer.Completion && !d.hasPrompt:
		return invalid("prompt", "prompt is required: a string")
	}
	if d.topLogprobs != nil && *d.topLogprobs > 0 && !r.Logprobs {
		return invalid("top_logprobs", "top_logprobs needs logprobs: true")
	}
	if r.Logprobs && d.topLogprobs != nil {
		r.TopLogprobs = *d.topLogprobs
	}
	if r.ReasoningEffort == "" {
		r.ReasoningEffort = d.effort
	}
	d.settleMax()
	fillToolIDs(r.Messages)
	return nil
}

// settleMax chooses the bound on the answer.
func (d *decoding) settleMax() {
	limit := d.maxTokens
	if d.maxCompletion != nil {
		limit = d.maxCompletion
	}
	switch {
	case limit != nil:
		d.req.MaxTokens = max(0, *limit)
	case d.req.Kind == infer.Completion:
		d.req.MaxTokens = defaultCompletionTokens
	}
}

func invalid(path, format string, args ...any) error {
	return infer.Errorf(infer.ErrInvalid, path, format, args...)
}

func unsupported(path, format string, args ...any) error {
	return infer.Errorf(infer.ErrUnsupported, path, format, args...)
}

// wrongType is the error for a value of another type than wanted.
func wrongType(path, want string, v []byte) error {
	return invalid(path, "%s must be %s, not %s", path, want, rawjson.KindOf(v))
}

// refuseUnless returns a reader that accepts only the given values, which are written as JSON.
func refuseUnless(defaults ...string) func(*decoding, string, []byte) error {
	return func(_ *decoding, path string, v []byte) error {
		for _, ok := range defaults {
			if string(v) == ok {
				return nil
			}
		}
		return unsupported(path, "%s is not supported%s", path, exceptFor(defaults))
	}
}

func exceptFor(defaults []string) string {
	if len(defaults) == 0 {
		return "; leave it out"
	}
	return fmt.Sprintf("; leave it out or send %s", defaults[0])
}

// refuseUnlessEmpty returns a reader that accepts only an empty list.
func refuseUnlessEmpty(way string) func(*decoding, string, []byte) error {
	return func(_ *decoding, path string, v []byte) error {
		if a := rawjson.Array(v); !a.Next() && a.Err() == nil {
			return nil
		}
		return unsupported(path, "%s is not supported; %s", path, way)
	}
}
