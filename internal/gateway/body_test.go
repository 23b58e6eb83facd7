package gateway_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/gateway"
)

func gz(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBodies(t *testing.T) {
	const limit = 1 << 20
	b := start(t, plan{opts: gateway.Options{MaxBody: limit}})
	padded := func(n int) string { return chatBody(`"metadata":"` + strings.Repeat("x", n) + `"`) }
	for _, c := range []struct {
		name, body, coding string
		status             int
		code               string
	}{
		{"plain", chatBody(), "", 200, ""},
		{"said to be plain", chatBody(), "identity", 200, ""},
		{"large", padded(limit - 1000), "", 200, ""},
		{"over the limit", padded(limit), "", 413, "request_too_large"},
		{"gzip", gz(t, chatBody()), "gzip", 200, ""},
		{"gzip in capitals", gz(t, chatBody()), "GZIP", 200, ""},
		{"gzip that is small outside only", gz(t, padded(4*limit)), "gzip", 413, "request_too_large"},
		{"cut gzip", gz(t, padded(1000))[:40], "gzip", 400, ""},
		{"no gzip at all", chatBody(), "gzip", 400, ""},
		{"empty gzip", "", "gzip", 400, ""},
		{"zstd", chatBody(), "zstd", 400, "unsupported_parameter"},
		{"empty", "", "", 400, ""},
		{"not JSON", "hello", "", 400, ""},
		{"two values", chatBody() + "{}", "", 400, ""},
	} {
		for _, how := range []string{"with length", "chunked"} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				var r io.Reader = strings.NewReader(c.body)
				if how == "chunked" {
					r = io.MultiReader(r) // hides the length
				}
				req, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/chat/completions", r)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Encoding", c.coding)
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				got := reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
				if c.status == 200 {
					if got.status != 200 {
						t.Fatalf("status %d: %s", got.status, got.body)
					}
					return
				}
				got.wantError(t, c.status, c.code)
			})
		}
	}
}

// A body over the limit is refused by its announced length: nobody has to send it first.
func TestTooLargeIsSaidBeforeTheBodyIsSent(t *testing.T) {
	b := start(t, plan{})
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
	readUntil(t, c, "request_too_large")
}
