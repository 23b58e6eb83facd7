package llamacpp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

const (
	// answerLimit bounds answers that are read whole. /props carries the chat template and is the largest of them.
	answerLimit = 16 << 20
	// errorLimit bounds what is read of an error's body.
	errorLimit = 64 << 10
)

// conn talks HTTP to one engine, on a new connection for each request.
type conn struct {
	client *http.Client
	base   string
	// key is what proves us to the engine, empty on a socket that only we can reach.
	key string
}

// newConn returns a conn to the engine at addr.
func newConn(addr address) *conn {
	dialer := &net.Dialer{}
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, addr.network(), addr.target())
		},
		DisableCompression: true, // it would buffer the stream
		// The engine closes a connection that was idle for 5 s, and a request written into a connection that is being
		// closed is lost without a way to tell how far it got (after a streamed answer b11434 closes at once, without saying so). A new
		// connection to a socket costs some 50 µs.
		DisableKeepAlives: true,
	}
	// The engine answers itself or not at all: a redirect is not followed.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &conn{client: &http.Client{Transport: t, CheckRedirect: stay}, base: "http://llama-server", key: addr.key}
}

// do sends a request. body is nil for a GET. It returns when the engine has sent its headers, for which there is no limit
// but ctx: on a request for an answer they come as late as the first event.
func (c *conn) do(ctx context.Context, path string, body []byte) (*http.Response, error) {
	method, reader := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, reader = http.MethodPost, bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return c.client.Do(req)
}

// fetch sends a request and reads the whole answer into v. An answer that is not 200 is an *answerError.
func (c *conn) fetch(ctx context.Context, path string, body []byte, v any) error {
	resp, err := c.do(ctx, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return readAnswerError(resp)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: the answer is not what llama-server sends: %w", path, err)
	}
	return nil
}

// answerError is an answer that refuses. The body is llama-server's error object; code repeats the status.
type answerError struct {
	Status       int
	Message      string `json:"message"`
	Type         string `json:"type"`
	PromptTokens int    `json:"n_prompt_tokens"`
	Window       int    `json:"n_ctx"`
}

// Error returns the engine's words.
func (e *answerError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("status %d without a reason", e.Status)
	}
	return e.Message
}

// readAnswerError reads the error in an answer. Bodies that are empty or in another form leave the message empty.
func readAnswerError(resp *http.Response) *answerError {
	var body struct {
		Error answerError `json:"error"`
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, errorLimit))
	if err != nil || json.Unmarshal(b, &body) != nil {
		body.Error = answerError{}
	}
	body.Error.Status = resp.StatusCode
	return &body.Error
}
