package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// conn talks HTTP to one child.
type conn struct{ client *http.Client }

func newConn(socket string) *conn {
	dialer := &net.Dialer{}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the child answers itself or not at all
	return &conn{&http.Client{CheckRedirect: stay, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
		DisableCompression: true, // it would buffer the stream
	}}}
}

// answerLimit bounds answers that are read whole.
const answerLimit = 1 << 20

// do sends a request; body is nil for a GET. It returns when the child has sent its headers. An answer that is not 200 is the engine's
// own *infer.Error.
func (c *conn) do(ctx context.Context, path string, body []byte) (*http.Response, error) {
	method, reader := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, reader = http.MethodPost, bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lm"+path, reader)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return nil, err
	}
	said, err := native.DecodeError(b)
	if err != nil {
		return nil, infer.Errorf(infer.ErrEngine, "", "the embedded engine answered %s with %s, without a reason that can be read", path, resp.Status)
	}
	return nil, said
}

// fetch sends a request and reads the whole answer into v.
func (c *conn) fetch(ctx context.Context, path string, body []byte, v any) error {
	resp, err := c.do(ctx, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return &infer.Error{Kind: infer.ErrEngine, Message: "the embedded engine's answer to " + path + " cannot be read", Err: err}
	}
	return nil
}
