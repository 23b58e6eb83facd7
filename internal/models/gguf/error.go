package gguf

import (
	"errors"
	"fmt"
)

// The kinds of failure, for errors.Is. A file that cannot be read from disk gives the error of the read instead.
var (
	// ErrNotGGUF: the file does not begin as a GGUF file does.
	ErrNotGGUF = errors.New("not a GGUF file")
	// ErrUnsupported: a GGUF file that we do not read: another version, byte order or tensor type.
	ErrUnsupported = errors.New("unsupported GGUF file")
	// ErrTruncated: the file ends before what its header promises.
	ErrTruncated = errors.New("file is cut off or its header is wrong")
	// ErrInvalid: the header contradicts itself or the format.
	ErrInvalid = errors.New("invalid GGUF header")
	// ErrNoKey: the metadata has no such key.
	ErrNoKey = errors.New("no such metadata key")
	// ErrKind: the key's value is of another kind than asked for, or out of range.
	ErrKind = errors.New("metadata value of another kind")
)

// Error is a failure at a place in a file.
type Error struct {
	// Offset is the byte in the file at which the offending value begins.
	Offset int64
	// Where names the key or tensor, such as `key "general.name"`, or the part of the header.
	Where string
	// Message says what is wrong.
	Message string
	// Kind is one of the Err values of this package.
	Kind error
}

// Error returns the place and the failure in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("gguf: %s at byte %d: %s", e.Where, e.Offset, e.Message)
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }
