package gateway

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
)

// body reads the whole request body, inflated. It reads to the very end, since net/http watches for the client's leaving only
// from there on.
func (x *exchange) body() ([]byte, error) {
	limit := x.g.opts.MaxBody
	if x.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	raw := http.MaxBytesReader(x.w, x.r.Body, limit)
	var body []byte
	var err error
	switch coding := strings.ToLower(strings.TrimSpace(x.r.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
		body, err = readAll(raw, x.r.ContentLength)
	case "gzip", "x-gzip":
		body, err = inflate(raw, limit)
	default:
		return nil, infer.Errorf(infer.ErrUnsupported, "Content-Encoding",
			"the request body is encoded as %q; send it as gzip or not encoded at all", clip(coding))
	}
	return body, x.bodyError(err)
}

// readAll is io.ReadAll with a buffer of the right size from the start, if the size is known.
func readAll(r io.Reader, size int64) ([]byte, error) {
	if size <= 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	_, err := r.Read(make([]byte, 1)) // the end of the body itself
	if err == io.EOF {
		err = nil
	}
	return body, err
}

// inflate reads a gzip body of at most limit bytes inside, then what follows it outside.
func inflate(raw io.Reader, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(raw)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, tooLarge(limit)
	}
	_, err = io.Copy(io.Discard, raw)
	return body, err
}

func (x *exchange) bodyError(err error) error {
	if err == nil {
		return nil
	}
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(over.Limit)
	}
	if _, ok := errors.AsType[*infer.Error](err); ok {
		return err
	}
	if x.r.Context().Err() != nil {
		return &infer.Error{Kind: infer.ErrCanceled, Message: "the client left before its request was whole", Err: err}
	}
	return infer.Errorf(infer.ErrInvalid, "", "the request body could not be read: %v", err)
}

func tooLarge(limit int64) error {
	return infer.Errorf(infer.ErrTooLarge, "", "the request body is over the limit of %d bytes", limit)
}
