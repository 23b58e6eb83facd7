package tokenizer

import (
	"errors"
	"fmt"
)

// The kinds of failure, for errors.Is.
var (
	// ErrUnsupported: a tokenizer of a kind that we do not have. The message names it and the ones that we have.
	ErrUnsupported = errors.New("unsupported tokenizer")
	// ErrInvalid: what the file says of its tokenizer is incomplete or contradicts itself.
	ErrInvalid = errors.New("invalid tokenizer")
)

// Error is a failure to build a tokenizer.
type Error struct {
	// Where names the metadata key of a GGUF file, such as "tokenizer.ggml.merges", or the field of tokenizer.json, such as
	// "model.merges".
	Where string
	// Message says what is wrong, and what to do about it where something can be done.
	Message string
	// Kind is ErrUnsupported, ErrInvalid, or the error of reading the value.
	Kind error
}

// Error returns the place and the failure in one line.
func (e *Error) Error() string { return e.Where + ": " + e.Message }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

func invalid(where, format string, args ...any) error {
	return &Error{where, fmt.Sprintf(format, args...), ErrInvalid}
}

func unsupported(where, format string, args ...any) error {
	return &Error{where, fmt.Sprintf(format, args...), ErrUnsupported}
}
