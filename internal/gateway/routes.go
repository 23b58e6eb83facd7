package gateway

import (
	"net/http"
	"strings"

	"github.com/stoker-llm/stoker/internal/auth"
)

// Route is one row of the table of routes.
type Route struct {
	Method string
	// Path is the path without /v1. A last segment of {id...} stands for the rest of the path.
	Path  string
	Scope auth.Scope
}

// route is a Route and who answers it. The error of handle becomes a status and an envelope, unless a status was sent.
type route struct {
	Route
	handle func(*Gateway, *exchange) error
}

// routeTable is the one place where routes are declared.
func routeTable() []route {
	return []route{
		{Route{http.MethodPost, "/chat/completions", auth.Use}, (*Gateway).chat},
		{Route{http.MethodPost, "/completions", auth.Use}, (*Gateway).completion},
		{Route{http.MethodGet, "/models", auth.Use}, (*Gateway).listModels},
		{Route{http.MethodGet, "/models/{id...}", auth.Use}, (*Gateway).getModel},
		{Route{http.MethodGet, "/health", auth.Open}, (*Gateway).health},
		{Route{http.MethodGet, "/version", auth.Open}, (*Gateway).version},
		{Route{http.MethodGet, "/", auth.Open}, (*Gateway).hello},
	}
}

// Routes returns the declared routes.
func Routes() []Route {
	var all []Route
	for _, r := range routeTable() {
		all = append(all, r.Route)
	}
	return all
}

// table finds routes by path. http.ServeMux would redirect paths that are not clean, which turns a POST into a GET, and
// answers wrong methods with a text of its own instead of the dialect's envelope.
type table struct {
	exact map[string]*place
	// open are the places whose pattern ends with {id...}, by the part before it.
	open map[string]*place
}

// place is a path with the routes that share it.
type place struct {
	routes []*route
	allow  string
}

const rest = "{id...}"

func newTable(rows []route) table {
	t := table{exact: make(map[string]*place), open: make(map[string]*place)}
	for i := range rows {
		where, path := t.exact, rows[i].Path
		if head, ok := strings.CutSuffix(path, rest); ok {
			where, path = t.open, head
		}
		if where[path] == nil {
			where[path] = &place{allow: http.MethodOptions}
		}
		where[path].add(&rows[i])
	}
	return t
}

func (p *place) add(r *route) {
	p.routes = append(p.routes, r)
	p.allow = r.Method + ", " + p.allow
	if r.Method == http.MethodGet {
		p.allow = http.MethodHead + ", " + p.allow
	}
}

// method returns the route for m, or nil. HEAD is a GET whose body net/http leaves out.
func (p *place) method(m string) *route {
	if m == http.MethodHead {
		m = http.MethodGet
	}
	for _, r := range p.routes {
		if r.Method == m {
			return r
		}
	}
	return nil
}

// find returns the place of a decoded path, and what its pattern leaves open.
func (t table) find(path string) (*place, string) {
	for range 2 { // /v1, and /v1/v1 of clients that add it to a base address which has it
		if after, ok := strings.CutPrefix(path, "/v1"); ok && (after == "" || after[0] == '/') {
			path = after
		}
	}
	if path == "" {
		path = "/"
	}
	if p := t.exact[path]; p != nil {
		return p, ""
	}
	for head, p := range t.open {
		if tail, ok := strings.CutPrefix(path, head); ok && tail != "" {
			return p, tail
		}
	}
	return nil, ""
}
