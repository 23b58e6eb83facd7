package gateway_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/auth"
	"github.com/stoker-llm/stoker/internal/gateway"
)

// The table is what the package comment says, and each route has one handler.
func TestReviewR14RoutesAreTheDocumentedOnes(t *testing.T) {
	src, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented, declared []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(GET|POST)\s+(\S+)\s+(open|use)\s`).FindAllStringSubmatch(string(src), -1) {
		documented = append(documented, strings.Join(m[1:], " "))
	}
	for _, r := range gateway.Routes() {
		declared = append(declared, fmt.Sprintf("%s %s %s", r.Method, r.Path, r.Scope))
	}
	if diff := cmp.Diff(documented, declared); diff != "" {
		t.Errorf("doc.go and the table differ (-documented +declared):\n%s", diff)
	}
	slices.Sort(declared)
	if n := len(slices.Compact(declared)); n != len(documented) {
		t.Errorf("%d different routes of %d: one hides another", n, len(documented))
	}
}

// A new route has to be added here: what does it say to whom?
func TestAuthorisationOfEveryRoute(t *testing.T) {
	const key = "sk-right"
	b := start(t, plan{key: key, opts: gateway.Options{}})
	type call struct {
		path, body string
		open       bool
	}
	calls := map[string]call{
		"POST /chat/completions": {path: "/v1/chat/completions", body: chatBody()},
		"POST /completions":      {path: "/v1/completions", body: `{"model":"m","prompt":"x"}`},
		"GET /models":            {path: "/v1/models"},
		"GET /models/{id...}":    {path: "/v1/models/m"},
		"GET /health":            {path: "/health", open: true},
		"GET /version":           {path: "/version", open: true},
		"GET /":                  {path: "/", open: true},
	}
	for _, r := range gateway.Routes() {
		name := r.Method + " " + r.Path
		t.Run(name, func(t *testing.T) {
			c, listed := calls[name]
			if !listed {
				t.Fatal("this route is not listed in the test: say who may use it")
			}
			if (r.Scope == auth.Open) != c.open {
				t.Fatalf("scope %q", r.Scope)
			}
			for _, h := range [][]string{{"Authorization", "Bearer " + key}, {"X-Api-Key", key}, {"Api-Key", key}} {
				if got := b.do(r.Method, c.path, c.body, h...); got.status != 200 {
					t.Errorf("with the key in %s: %d %s", h[0], got.status, got.body)
				}
			}
			for _, h := range [][]string{nil, {"Authorization", "Bearer sk-wrong"}, {"Authorization", "Basic " + key}, {"X-Api-Key", ""}} {
				got := b.do(r.Method, c.path, c.body, h...)
				if c.open {
					if got.status != 200 {
						t.Errorf("open route without the key: %d", got.status)
					}
					continue
				}
				got.wantError(t, 401, "invalid_api_key")
				if got.header.Get("WWW-Authenticate") == "" {
					t.Error("no WWW-Authenticate")
				}
			}
		})
	}
}

func TestPaths(t *testing.T) {
	b := start(t, plan{more: nil, alias: []string{"org/name", "claude-*"}})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/models", 200},
		{"GET", "/models", 200},
		{"GET", "/v1/v1/models", 200},
		{"GET", "/v1/v1/v1/models", 404},
		{"GET", "/v1/models?limit=1000", 200},
		{"GET", "/v1/models/m", 200},
		{"GET", "/v1/models/org/name", 200},
		{"GET", "/v1/models/org%2Fname", 200},
		{"GET", "/models/claude-x", 200},
		{"GET", "/v1/models/nobody", 404},
		{"HEAD", "/v1/models", 200},
		{"HEAD", "/", 200},
		{"GET", "/", 200},
		{"GET", "/v1", 200},
		{"GET", "/v1/", 200},
		{"GET", "/v1x/models", 404},
		{"GET", "/health", 200},
		{"GET", "/v1/chat/completions", 405},
		{"DELETE", "/v1/models", 405},
		{"POST", "/v1/models/m", 405},
		{"POST", "/v1/chat/completions/", 404},
		{"POST", "//v1/chat/completions", 404},
		{"POST", "/v1/../v1/chat/completions", 404},
		{"POST", "/v1/embeddings", 404},
		{"OPTIONS", "/v1/models", 204},
		{"OPTIONS", "/nothing", 404},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			got := b.do(c.method, c.path, "")
			if got.status != c.status {
				t.Fatalf("status %d, want %d: %s", got.status, c.status, got.body)
			}
			if got.header.Get("X-Request-Id") == "" {
				t.Error("no x-request-id")
			}
			switch c.status {
			case 404:
				code := "unknown_url"
				if strings.Contains(c.path, "nobody") {
					code = "model_not_found"
				}
				got.wantError(t, 404, code)
			case 405:
				got.wantError(t, 405, "method_not_allowed")
				if allow := got.header.Get("Allow"); !strings.Contains(allow, "OPTIONS") || strings.Contains(allow, c.method) {
					t.Errorf("Allow %q", allow)
				}
			}
		})
	}
}

func TestRequestID(t *testing.T) {
	b := start(t, plan{})
	for _, c := range []struct {
		name, sent string
		kept       bool
	}{
		{"none", "", false},
		{"plain", "trace-1_a.b:C", true},
		{"too long", strings.Repeat("a", 129), false},
		{"odd characters", "a b", false},
		{"quotes", `a"b`, false},
		{"not ASCII", "é", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := b.do("GET", "/version", "", "X-Request-Id", c.sent).header.Get("X-Request-Id")
			if (got == c.sent) != c.kept || got == "" {
				t.Errorf("got %q", got)
			}
		})
	}
	if a, b := b.chat().header.Get("X-Request-Id"), b.chat().header.Get("X-Request-Id"); a == b {
		t.Errorf("twice %q", a)
	}
}
