// Package auth says who may use the public HTTP surface: keys and the scopes of routes. There is one key for now, and
// no key means that everybody who reaches the listener may use it.
//
//	keys := auth.NewKeys(key)                  // "" for no key
//	if err := keys.Check(auth.Use, r.Header); err != nil { ... } // an *infer.Error
//
// A Keys value never changes, may be used from many goroutines, and holds digests only: it cannot print a key. Nothing
// here blocks.
package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
)

// Scope is what a route demands of its caller.
type Scope string

// The scopes.
const (
	// Open routes answer everybody, and tell nothing that a key protects.
	Open Scope = "open"
	// Use routes run models and list them: the key is needed if there is one.
	Use Scope = "use"
)

// Keys holds the digests of the accepted keys. The zero value accepts everybody.
type Keys struct {
	digests [][sha256.Size]byte
}

// NewKeys accepts the given keys. Empty ones are left out.
func NewKeys(keys ...string) Keys {
	var k Keys
	for _, key := range keys {
		if key != "" {
			k.digests = append(k.digests, sha256.Sum256([]byte(key)))
		}
	}
	return k
}

// Required reports whether a key is needed at all.
func (k Keys) Required() bool { return len(k.digests) > 0 }

// Check returns nil if a caller who sent h may use routes of scope s, else an *infer.Error of kind ErrUnauthorized.
func (k Keys) Check(s Scope, h http.Header) error {
	if s == Open || k.Known(h) {
		return nil
	}
	if !offered(h) {
		return infer.Errorf(infer.ErrUnauthorized, "",
			"no API key in the request: send it as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"")
	}
	return infer.Errorf(infer.ErrUnauthorized, "", "the API key in the request is not the one this server was given")
}

// Known reports whether h carries an accepted key, or none is needed. Clients may send the key in several headers at
// once, some of them with a placeholder: one good key is enough.
func (k Keys) Known(h http.Header) bool {
	if !k.Required() {
		return true
	}
	known := false
	for key := range keysOf(h) {
		known = k.match(key) || known
	}
	return known
}

// match compares digests in constant time, so neither the length nor a common prefix of a key shows in the time taken.
func (k Keys) match(key string) bool {
	sum, ok := sha256.Sum256([]byte(key)), 0
	for _, d := range k.digests {
		ok |= subtle.ConstantTimeCompare(sum[:], d[:])
	}
	return ok == 1
}

func offered(h http.Header) bool {
	for range keysOf(h) {
		return true
	}
	return false
}

// keysOf yields each non-empty key in h: Authorization: Bearer (OpenAI, and Anthropic's SDKs since October 2026),
// x-api-key (Anthropic), api-key (Azure OpenAI).
func keysOf(h http.Header) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key"} {
			for _, v := range h[name] {
				key := strings.TrimSpace(v)
				if name == "Authorization" {
					key = bearer(v)
				}
				if key != "" && !yield(key) {
					return
				}
			}
		}
	}
}

// bearer returns the token of an Authorization header, or "" for another scheme. The scheme's case does not matter
// (RFC 9110, section 11.1).
func bearer(v string) string {
	scheme, token, ok := strings.Cut(strings.TrimSpace(v), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
