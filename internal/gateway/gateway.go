package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/auth"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/openai"
)

// Fleet is what the gateway needs of the engines. *fleet.Fleet is one.
type Fleet interface {
	// Resolve returns the served name that a client's name reaches, or ErrModelNotFound.
	Resolve(name string) (string, error)
	// Generate waits for a turn and starts an answer. An error means that nothing was sent.
	Generate(ctx context.Context, served string, r *infer.Request) (*fleet.Answer, error)
	// Status says how each model is, without asking an engine.
	Status() []fleet.Status
}

var _ Fleet = (*fleet.Fleet)(nil)

// Options are what a gateway is made of. Fleet is needed; everything else has a default.
type Options struct {
	Fleet Fleet
	Auth  auth.Keys
	Log   *slog.Logger
	// Hosts are names, besides loopback and addresses, that clients may call this server by (the Host header, without port).
	Hosts []string
	// Origins are the web origins, besides those on loopback, whose pages may use this server: "https://chat.example".
	Origins []string
	// InstanceID tells this run of the server from others, Version is its version, and Build is what /version answers.
	InstanceID string
	Version    string
	Build      any
	// MaxBody bounds a request's body, inflated. The default of 64 MiB holds a conversation with a few screenshots.
	MaxBody int64
	// CommitAfter is how long a stream keeps its status back for a better one. The default of 5 s is well below the patience
	// of clients for headers, and long enough for the errors that engines know at once.
	CommitAfter time.Duration
	// Heartbeat is the longest silence on a stream after that. 0 means no heartbeats.
	Heartbeat time.Duration
	// WriteStall is how long a client may take nothing before it is dropped. The default of 60 s outlives a laptop's change of
	// networks, and frees the turn on the engine before anybody's patience ends.
	WriteStall time.Duration
	// Started is when the server began; models show it as the time of their creation.
	Started time.Time
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 64 << 20
	}
	if o.CommitAfter <= 0 {
		o.CommitAfter = 5 * time.Second
	}
	if o.WriteStall <= 0 {
		o.WriteStall = time.Minute
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	return o
}

// Gateway is the handler.
type Gateway struct {
	opts    Options
	routes  table
	access  access
	buffers sync.Pool // of *[]byte: frames on their way to a client
}

// New returns the handler of the public surface.
func New(o Options) *Gateway {
	return &Gateway{
		opts: o.withDefaults(), routes: newTable(routeTable()), access: newAccess(o.Hosts, o.Origins),
		buffers: sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }},
	}
}

// exchange is one request and what becomes of it.
type exchange struct {
	g     *Gateway
	w     http.ResponseWriter
	r     *http.Request
	out   *http.ResponseController
	id    string
	start time.Time
	route *route
	// rest is the part of the path that the route's pattern left open.
	rest string

	// committed is set when a status was sent: what fails then can only abort the connection.
	committed bool
	story     story
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{
		g: g, w: w, r: r, out: http.NewResponseController(w), id: requestID(r.Header.Get("X-Request-Id")), start: time.Now(),
	}
	w.Header()["X-Request-Id"] = []string{x.id}
	err := g.serve(x)
	if err != nil && !x.committed {
		x.refuse(err)
	}
	x.tell(err)
	if err != nil && x.story.abort {
		panic(http.ErrAbortHandler) // net/http closes the connection without ending the body
	}
}

// serve decides who answers x. What it checks comes in the order of what a caller may learn.
func (g *Gateway) serve(x *exchange) error {
	if err := g.access.check(x.r, x.w.Header()); err != nil {
		return err
	}
	at, rest := g.routes.find(x.r.URL.Path)
	if at == nil {
		return infer.Errorf(infer.ErrNotFound, "", "no such route: %s %s; GET / lists what there is", x.r.Method, clip(x.r.URL.Path))
	}
	if x.r.Method == http.MethodOptions {
		return x.preflight(at)
	}
	x.route, x.rest = at.method(x.r.Method), rest
	if x.route == nil {
		x.w.Header().Set("Allow", at.allow)
		return infer.Errorf(infer.ErrMethod, "", "%s does not take %s; it takes %s", clip(x.r.URL.Path), clip(x.r.Method), at.allow)
	}
	if err := g.opts.Auth.Check(x.route.Scope, x.r.Header); err != nil {
		x.w.Header().Set("WWW-Authenticate", `Bearer realm="stoker"`)
		return err
	}
	return x.route.handle(g, x)
}

// refuse answers with the status and the envelope of err.
func (x *exchange) refuse(err error) {
	status, body := openai.ErrorBody(err)
	if e, ok := errors.AsType[*infer.Error](err); ok && e.RetryAfter > 0 {
		x.w.Header().Set("Retry-After", retryAfter(e.RetryAfter))
	}
	if infer.KindOf(err) == infer.ErrCanceled {
		x.story.abort = true // nobody reads it
		x.story.status = status
		return
	}
	x.send(status, "application/json", body) //nolint:errcheck // there is nobody left to tell
}

// retryAfter is d in whole seconds, rounded up, and never 0: that would mean at once.
func retryAfter(d time.Duration) string {
	return strconv.Itoa(max(1, int((d+time.Second-1)/time.Second)))
}

// send answers with a whole body.
func (x *exchange) send(status int, contentType string, body []byte) error {
	h := x.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.committed, x.story.status = true, status
	x.patience()
	x.w.WriteHeader(status)
	if _, err := x.w.Write(body); err != nil {
		return x.lost(err)
	}
	return nil
}

// patience gives the client WriteStall from now to take what is written. net/http takes the limit back after the request.
func (x *exchange) patience() {
	x.out.SetWriteDeadline(time.Now().Add(x.g.opts.WriteStall)) //nolint:errcheck // not a connection that can stall
}

// lost is the error of a write that the client did not take.
func (x *exchange) lost(err error) error {
	x.story.abort = true
	return &infer.Error{Kind: infer.ErrCanceled, Message: "the client does not take the answer", Err: err}
}

// maxID bounds the request ids that are taken from clients.
const maxID = 128

// requestID returns the client's own id, so that its logs and ours meet, if it is short and plain enough to be safe in a log
// and a header; else a new one.
func requestID(own string) string {
	if own == "" || len(own) > maxID || strings.ContainsFunc(own, notPlain) {
		return "req_" + rand.Text()
	}
	return own
}

func notPlain(c rune) bool {
	plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:", c)
	return !plain
}

// clip bounds what is repeated of a client's words.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
