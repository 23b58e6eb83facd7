package native

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/stoker-llm/stoker/internal/infer"
)

// maxLine is the longest line that is read. A token with twenty alternatives is some kilobytes; a stop text that was held back and
// comes at once can be as long as a request.
const maxLine = 8 << 20

var (
	// ErrTruncated is an answer whose last line did not come.
	ErrTruncated = errors.New("the answer ended before its last event")
	// ErrLineTooLong is a line beyond what any event takes.
	ErrLineTooLong = fmt.Errorf("an event of more than %d bytes", maxLine)
)

// BadLineError is a line that is not what the dialect allows.
type BadLineError struct{ Err error }

// Error says what is wrong with it.
func (e *BadLineError) Error() string { return "the answer cannot be read: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *BadLineError) Unwrap() error { return e.Err }

// Reader reads the events of one answer.
type Reader struct {
	r    *bufio.Reader
	long []byte // a line that does not fit into r's buffer
	end  error
}

// NewReader returns a reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 16<<10)} }

// Next returns the next event, and io.EOF behind a done event. Any other error is final: an *infer.Error that the engine wrote, a
// *BadLineError, ErrLineTooLong, ErrTruncated, or what reading gave.
func (r *Reader) Next() (infer.Event, error) {
	if r.end != nil {
		return nil, r.end
	}
	var raw []byte
	if raw, r.end = r.line(); r.end != nil {
		return nil, r.end
	}
	ev, err := decode(raw)
	if err != nil {
		if _, said := errors.AsType[*infer.Error](err); !said {
			err = &BadLineError{err}
		}
		r.end = err
		return nil, err
	}
	if _, whole := ev.(infer.Done); whole {
		r.end = io.EOF
	}
	return ev, nil
}

// line reads up to the next newline. It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	r.long = r.long[:0]
	for {
		piece, err := r.r.ReadSlice('\n')
		switch {
		case err == nil && len(r.long) == 0:
			return piece, nil
		case len(r.long)+len(piece) > maxLine:
			return nil, ErrLineTooLong
		case errors.Is(err, io.EOF):
			return nil, ErrTruncated
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		if r.long = append(r.long, piece...); err == nil {
			return r.long, nil
		}
	}
}
