package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
)

// access keeps other people's web pages away. A page can make a browser send requests to this machine, so the loopback
// address is no boundary: its requests carry an Origin, and after DNS rebinding, a Host that is the page's own name.
type access struct {
	hosts, origins map[string]bool
}

func newAccess(hosts, origins []string) access {
	a := access{hosts: make(map[string]bool), origins: make(map[string]bool)}
	for _, h := range hosts {
		a.hosts[strings.ToLower(h)] = true
	}
	for _, o := range origins {
		a.origins[strings.ToLower(strings.TrimSuffix(o, "/"))] = true
	}
	return a
}

// check refuses a foreign Host or Origin, and tells the browser that an allowed origin may read the answer.
func (a access) check(r *http.Request, h http.Header) error {
	if !a.goodHost(r.Host) {
		return infer.Errorf(infer.ErrForbidden, "Host",
			"this server is not called %q: use an address or localhost, or start it with that name as its host", clip(r.Host))
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil // no browser, or a page of this server
	}
	h.Set("Vary", "Origin")
	if !a.goodOrigin(origin, r.Host) {
		return infer.Errorf(infer.ErrForbidden, "Origin", "pages of the origin %q may not use this server", clip(origin))
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "x-request-id, x-stoker-engine, x-stoker-mode, x-stoker-window, retry-after")
	return nil
}

// goodHost accepts loopback names, the configured ones, and every IP address: rebinding needs a name to rebind.
func (a access) goodHost(host string) bool {
	name := hostname(host)
	if name == "" || isLoopback(name) || a.hosts[name] {
		return true // HTTP/1.0 may leave the Host out, and no browser does
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// goodOrigin accepts pages from loopback (who serves those runs programs here already), from this server, and from the
// configured origins.
func (a access) goodOrigin(origin, host string) bool {
	if a.origins[strings.ToLower(origin)] {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	return isLoopback(hostname(u.Host)) || strings.EqualFold(u.Host, host)
}

// hostname returns the name or address in a Host, in lower case, without port, brackets and the root's dot.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isLoopback reports whether name is one for this machine that no foreign DNS server can answer for (RFC 6761, section 6.3).
func isLoopback(name string) bool {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// preflight answers OPTIONS: to a browser what the page may send, to others what the path takes.
func (x *exchange) preflight(at *place) error {
	h := x.w.Header()
	h.Set("Allow", at.allow)
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", at.allow)
		if asked := x.r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked)
		}
		if x.r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
		h.Set("Access-Control-Max-Age", "600")
	}
	x.committed, x.story.status = true, http.StatusNoContent
	x.w.WriteHeader(http.StatusNoContent)
	return nil
}
