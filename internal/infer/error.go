package infer

import (
	"errors"
	"fmt"
	"time"
)

// ErrorKind classifies failures. Behaviour (status, envelope, retry) hangs on the kind, never on the text.
type ErrorKind string

// The kinds of failure, with the HTTP status that the gateway gives each before the first byte.
const (
	ErrInvalid       ErrorKind = "invalid"            // 400: the request is wrong; Param names the field
	ErrContextLength ErrorKind = "context_length"     // 400: prompt over the window; PromptTokens and Window are set
	ErrUnsupported   ErrorKind = "unsupported"        // 400: this model or engine cannot do it; Param names the field
	ErrModelTooLarge ErrorKind = "model_too_large"    // 400: does not fit this machine at all
	ErrUnauthorized  ErrorKind = "unauthorized"       // 401
	ErrForbidden     ErrorKind = "forbidden"          // 403
	ErrModelNotFound ErrorKind = "model_not_found"    // 404
	ErrNotFound      ErrorKind = "not_found"          // 404: route or object
	ErrMethod        ErrorKind = "method_not_allowed" // 405
	ErrTooLarge      ErrorKind = "too_large"          // 413: body over the limit
	ErrQueueFull     ErrorKind = "queue_full"         // 429
	ErrCanceled      ErrorKind = "canceled"           // 499: the client is gone; nobody reads this
	ErrInternal      ErrorKind = "internal"           // 500: our own fault
	ErrEngine        ErrorKind = "engine"             // 502: the engine failed or answered nonsense
	ErrEngineLost    ErrorKind = "engine_lost"        // 502: the engine died or closed the connection
	ErrLoading       ErrorKind = "loading"            // 503: not ready yet; RetryAfter helps
	ErrUnavailable   ErrorKind = "unavailable"        // 503: stopping, or the model's engine is down
)

// Error is a failure in neutral words. Message is a sentence for the person who caused it: what is wrong and the way out.
type Error struct {
	Kind    ErrorKind
	Message string
	// Param is the request field at fault, in the client's own spelling, or empty.
	Param string
	// PromptTokens and Window are the two numbers of ErrContextLength.
	PromptTokens, Window int
	// RetryAfter says when trying again may help; 0 when waiting does not help.
	RetryAfter time.Duration
	// Err is the cause, if there is one.
	Err error
}

// Error returns the message, with the cause behind it when it adds something.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error of kind k about param.
func Errorf(k ErrorKind, param, format string, args ...any) *Error {
	return &Error{Kind: k, Param: param, Message: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of err, ErrInternal when it has none, and "" for nil.
func KindOf(err error) ErrorKind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ErrInternal
}
