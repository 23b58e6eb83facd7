package llamacpp

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/stoker-llm/stoker/internal/infer"
)

// refusal turns an answer that came in place of a stream into the error that the client gets. what is at fault cannot
// always be told from the answer: llama-server says 400 and 500 for the same kinds of mistakes. So blame, which asks the
// engine itself, is called when the answer leaves it open.
func refusal(e *answerError, blame func() (param string, client bool)) *infer.Error {
	out := &infer.Error{Message: "llama-server: " + e.Error(), PromptTokens: e.PromptTokens, Window: e.Window}
	switch {
	case e.Type == "exceed_context_size_error":
		out.Kind, out.Param = infer.ErrContextLength, "messages"
	case e.Status == http.StatusServiceUnavailable:
		out.Kind = infer.ErrLoading
	case e.Status == http.StatusNotImplemented:
		out.Kind = infer.ErrUnsupported
	case e.Status == http.StatusBadRequest:
		out.Kind = infer.ErrInvalid
		out.Param, _ = blame()
	case e.Status >= 500:
		out.Kind = infer.ErrEngine
		if param, client := blame(); client {
			out.Kind, out.Param = infer.ErrInvalid, param
		}
	default:
		out.Kind = infer.ErrEngine // our own key, route or method is wrong, or somebody else answers
	}
	return out
}

// canceled is the error of work whose client is gone.
func canceled(ctx context.Context) error {
	return &infer.Error{Kind: infer.ErrCanceled, Message: "the request was canceled", Err: context.Cause(ctx)}
}

// lost is the error of an answer whose engine, or the connection to it, went away. words are what is known about the end.
func lost(words string, err error) *infer.Error {
	msg := "llama-server closed the connection before the answer was whole"
	if words != "" {
		msg = "llama-server is gone: " + words
	}
	switch {
	case errors.Is(err, context.Canceled):
		err = nil // our own closing of a dead connection adds nothing
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF // io.EOF means a whole answer to whoever reads the stream
	}
	return &infer.Error{Kind: infer.ErrEngineLost, Message: msg, Err: err}
}
