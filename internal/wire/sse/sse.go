// Package sse reads and writes event streams (text/event-stream, as the HTML standard defines it in "server-sent events").
//
// [NewReader] wraps the body of an engine's answer, and [Reader.Next] gives one event or one comment at a time; comments
// are not skipped, because engines report progress in them. [AppendData], [AppendEvent] and [AppendComment] write.
//
// A stream that ends between two events ends with io.EOF. One that ends inside an event or a line was cut off and ends with
// [ErrTruncated]. Whether a cleanly ended stream was complete is for the dialect to say: each has a final event of its own.
//
// A Reader belongs to one goroutine and reuses its buffers, so an item is valid until the next call of Next. It reads only
// when it has no whole line left: a slow caller fills the connection's buffers and so holds the sender back. The append
// functions may be called concurrently.
package sse

import (
	"errors"
	"io"
)

// DefaultLimit is the bound on one line and on the data of one event when [Limits] says nothing: as much as the official
// SDKs' own readers take, so no event that a client could have read directly is refused here.
const DefaultLimit = 32 << 20

// Errors of [Reader.Next]. All are final.
var (
	ErrLineTooLong  = errors.New("event stream: line over the limit")
	ErrEventTooLong = errors.New("event stream: event over the limit")
	ErrTruncated    = errors.New("event stream: cut off inside an event")
)

// Limits bound what a Reader holds in memory, in bytes. Zero means [DefaultLimit].
type Limits struct {
	// Line bounds a line, without its end.
	Line int
	// Event bounds the data of an event, with the line ends between its lines.
	Event int
}

// Kind tells events from comments.
type Kind uint8

// The kinds of items.
const (
	Event Kind = iota
	Comment
)

// Item is an event or a comment. Name and Data are valid until the next call of Next.
type Item struct {
	Kind Kind
	// Name is the event's type, empty for events that give none.
	Name []byte
	// Data is the event's data, lines joined by LF, or the comment's text.
	Data []byte
}

// Reader reads the items of one stream.
type Reader struct {
	src   io.Reader
	limit Limits
	err   error

	// buf[pos:end] is read but not used; buf[pos:seen] has no line end in it.
	buf            []byte
	pos, seen, end int
	started        bool // the first line was reached, a byte order mark can no longer come
	skipLF         bool // the last line ended in CR, an LF behind it belongs to that end

	name, data []byte
	open       bool // a field of an event was read and its blank line not yet
	hasData    bool
}

// firstBuffer fits the events of one network read for nearly all engines; longer lines double it.
const firstBuffer = 8 << 10

// NewReader returns a Reader of r.
func NewReader(r io.Reader, l Limits) *Reader {
	if l.Line <= 0 {
		l.Line = DefaultLimit
	}
	if l.Event <= 0 {
		l.Event = DefaultLimit
	}
	return &Reader{src: r, limit: l, buf: make([]byte, firstBuffer)}
}
