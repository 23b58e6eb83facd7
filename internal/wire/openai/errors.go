package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// statusClientGone is the status that logs show for a request whose client left. No client reads it.
const statusClientGone = 499

// The error types of the dialect. SDKs choose their exception class by status and show the type.
const (
	typeInvalid = "invalid_request_error"
	typeRate    = "rate_limit_error"
	typeServer  = "server_error"
)

// errorRow is how one kind of failure looks in this dialect.
type errorRow struct {
	status    int
	typ, code string
}

// rowOf returns the row of kind k. Statuses of 500 and more, 408, 409 and 429 make the SDKs try again, so a failure that
// would come again is in the 400s.
func rowOf(k infer.ErrorKind) errorRow {
	switch k {
	case infer.ErrInvalid:
		return errorRow{http.StatusBadRequest, typeInvalid, "invalid_value"}
	case infer.ErrContextLength:
		return errorRow{http.StatusBadRequest, typeInvalid, "context_length_exceeded"}
	case infer.ErrUnsupported:
		return errorRow{http.StatusBadRequest, typeInvalid, "unsupported_parameter"}
	case infer.ErrModelTooLarge:
		return errorRow{http.StatusBadRequest, typeInvalid, "model_too_large"}
	case infer.ErrUnauthorized:
		return errorRow{http.StatusUnauthorized, typeInvalid, "invalid_api_key"}
	case infer.ErrForbidden:
		return errorRow{http.StatusForbidden, typeInvalid, "forbidden"}
	case infer.ErrModelNotFound:
		return errorRow{http.StatusNotFound, typeInvalid, "model_not_found"}
	case infer.ErrNotFound:
		return errorRow{http.StatusNotFound, typeInvalid, "unknown_url"}
	case infer.ErrMethod:
		return errorRow{http.StatusMethodNotAllowed, typeInvalid, "method_not_allowed"}
	case infer.ErrTooLarge:
		return errorRow{http.StatusRequestEntityTooLarge, typeInvalid, "request_too_large"}
	case infer.ErrQueueFull:
		return errorRow{http.StatusTooManyRequests, typeRate, "rate_limit_exceeded"}
	case infer.ErrCanceled:
		return errorRow{statusClientGone, typeInvalid, "canceled"}
	case infer.ErrEngine, infer.ErrEngineLost:
		return errorRow{http.StatusBadGateway, typeServer, "engine_error"}
	case infer.ErrLoading, infer.ErrUnavailable:
		return errorRow{http.StatusServiceUnavailable, typeServer, "server_is_overloaded"}
	default:
		return errorRow{http.StatusInternalServerError, typeServer, "internal_error"}
	}
}

// ErrorBody returns the status and the JSON body for err. The envelope is always an object with message, type, param and
// code. Only an *infer.Error has a message that is meant for clients; any other error is reported as an internal one
// without its text, and the causes of both stay inside.
func ErrorBody(err error) (status int, body []byte) {
	e := clientError(err)
	return rowOf(e.Kind).status, appendError(nil, e)
}

func clientError(err error) *infer.Error {
	if e, ok := errors.AsType[*infer.Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) {
		return infer.Errorf(infer.ErrCanceled, "", "the client closed the request")
	}
	return infer.Errorf(infer.ErrInternal, "", "internal error; the server's log has the cause")
}

// appendError appends the envelope of e.
func appendError(dst []byte, e *infer.Error) []byte {
	row := rowOf(e.Kind)
	dst = append(dst, `{"error":{"message":`...)
	dst = rawjson.AppendString(dst, clientMessage(e))
	dst = append(dst, `,"type":`...)
	dst = rawjson.AppendString(dst, row.typ)
	dst = append(dst, `,"param":`...)
	dst = appendStringOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendStringOrNull(dst, errorCode(e, row))
	if e.Kind == infer.ErrContextLength {
		dst = append(dst, `,"n_prompt_tokens":`...)
		dst = strconv.AppendInt(dst, int64(e.PromptTokens), 10)
		dst = append(dst, `,"n_ctx":`...)
		dst = strconv.AppendInt(dst, int64(e.Window), 10)
	}
	return append(dst, "}}"...)
}

func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return rawjson.AppendString(dst, s)
}

// errorCode refines the code of the row where clients act on it: agents drop an image that was refused and go on.
func errorCode(e *infer.Error, row errorRow) string {
	switch {
	case e.Kind == infer.ErrInvalid && e.Param == "":
		return ""
	case e.Kind == infer.ErrInvalid && strings.HasSuffix(e.Param, ".image_url"):
		return "invalid_image"
	case e.Kind == infer.ErrUnsupported && strings.HasPrefix(e.Param, "messages["):
		return "unsupported_content"
	default:
		return row.code
	}
}

// clientMessage is the sentence for the client. For a prompt over the window it is OpenAI's own, because agents recognise
// an overflow by that wording and compact their history; other words send them into a loop (earendil-works/pi#5930,
// openclaw/openclaw#133860).
func clientMessage(e *infer.Error) string {
	if e.Kind != infer.ErrContextLength || e.Window <= 0 {
		return e.Message
	}
	subject := "messages"
	if e.Param == "prompt" {
		subject = "prompt"
	}
	return fmt.Sprintf("This model's maximum context length is %d tokens. However, your %s resulted in %d tokens. "+
		"Please reduce the length of the %s.", e.Window, subject, e.PromptTokens, subject)
}
