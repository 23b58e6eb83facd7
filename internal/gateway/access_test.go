package gateway_test

import (
	"testing"

	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/gateway"
)

// Other people's web pages cannot use this server: neither through their own name for it, nor from their origin, nor with the
// requests that browsers send without asking first.
func TestReviewR13ForeignPagesAreKeptOut(t *testing.T) {
	calls := make(chan *scripted.Call, 100)
	b := start(t, plan{driver: &scripted.Driver{Calls: calls}, opts: gateway.Options{
		Hosts: []string{"box.lan"}, Origins: []string{"https://chat.example/"},
	}})
	for _, c := range []struct {
		name         string
		host, origin string
		status       int
	}{
		{"no browser", "", "", 200},
		{"localhost", "localhost:1919", "", 200},
		{"a name below localhost", "stoker.localhost", "", 200},
		{"IPv4 loopback", "127.0.0.1:1919", "", 200},
		{"IPv6 loopback", "[::1]:1919", "", 200},
		{"a LAN address", "192.168.1.5:1919", "", 200},
		{"configured name", "BOX.lan:1919", "", 200},
		{"configured name with the root's dot", "box.lan.:1919", "", 200},
		{"rebound name", "evil.example:1919", "", 403},
		{"name that begins like loopback", "127.0.0.1.evil.example", "", 403},
		{"name that begins like localhost", "localhost.evil.example", "", 403},
		{"name that ends like localhost", "evil-localhost", "", 403},
		{"foreign origin", "", "https://evil.example", 403},
		{"foreign origin that begins like loopback", "", "http://localhost.evil.example", 403},
		{"hidden origin", "", "null", 403},
		{"origin that is no web page", "", "file://", 403},
		{"extension", "", "chrome-extension://abc", 403},
		{"page on loopback", "", "http://localhost:3000", 200},
		{"page on IPv6 loopback", "", "http://[::1]:3000", 200},
		{"own page", "box.lan:1919", "http://box.lan:1919", 200},
		{"another port of a configured host", "box.lan:1919", "http://box.lan:8080", 403},
		{"configured origin", "", "https://chat.example", 200},
		{"configured origin's name over http", "", "http://chat.example", 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := c.host
			if host == "" {
				host = b.addr
			}
			header := []string{"Content-Type", "text/plain", "Host", host}
			if c.origin != "" {
				header = append(header, "Origin", c.origin)
			}
			before := len(calls)
			got := b.do("POST", "/v1/chat/completions", chatBody(), header...)
			if got.status != c.status {
				t.Fatalf("status %d, want %d: %s", got.status, c.status, got.body)
			}
			allowed := got.header.Get("Access-Control-Allow-Origin")
			if c.status == 403 {
				got.wantError(t, 403, "forbidden")
				if len(calls) != before || allowed != "" {
					t.Errorf("the engine heard %d requests; allowed %q", len(calls)-before, allowed)
				}
				return
			}
			if allowed != c.origin {
				t.Errorf("Access-Control-Allow-Origin %q, want %q", allowed, c.origin)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	b := start(t, plan{key: "k"})
	ask := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization, content-type"}
	got := b.do("OPTIONS", "/v1/chat/completions", "", append(ask, "Origin", "http://localhost:3000")...)
	if got.status != 204 {
		t.Fatalf("status %d: a preflight carries no key and needs none", got.status)
	}
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "http://localhost:3000", "Access-Control-Allow-Headers": "authorization, content-type",
		"Access-Control-Allow-Methods": "POST, OPTIONS", "Vary": "Origin", "Access-Control-Allow-Credentials": "",
	} {
		if v := got.header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	got = b.do("OPTIONS", "/v1/chat/completions", "", append(ask, "Origin", "https://evil.example")...)
	got.wantError(t, 403, "forbidden")
	if v := got.header.Get("Access-Control-Allow-Origin"); v != "" {
		t.Errorf("a foreign origin is allowed: %q", v)
	}
}
