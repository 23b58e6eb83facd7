package gateway_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/auth"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/gateway"
	"github.com/stoker-llm/stoker/internal/infer"
)

// bound is far beyond what any wait of these tests takes; reaching it is a failure.
const bound = 10 * time.Second

// bed is a gateway on a real listener before a real fleet with scripted engines.
type bed struct {
	t     *testing.T
	fleet *fleet.Fleet
	gw    http.Handler
	url   string
	addr  string
	log   *lockedBuffer
}

// plan says what a bed is made of.
type plan struct {
	driver *scripted.Driver // of the model "m"
	more   []fleet.ModelSpec
	repo   string
	alias  []string
	queue  int
	key    string
	opts   gateway.Options
	// loading leaves without waiting for the load.
	loading bool
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, p plan) *bed {
	t.Helper()
	b := build(t, p)
	srv := httptest.NewServer(b.gw)
	t.Cleanup(srv.Close)
	// A handler that waits for its engine ends with the fleet, so the fleet goes first.
	t.Cleanup(func() { b.fleet.Stop(t.Context()) })
	b.url, b.addr = srv.URL, srv.Listener.Addr().String()
	return b
}

// build makes the handler without a listener.
func build(t *testing.T, p plan) *bed {
	t.Helper()
	if p.driver == nil {
		p.driver = &scripted.Driver{}
	}
	dirs := t.TempDir()
	specs := append([]fleet.ModelSpec{{
		Name: "m", Repo: p.repo, Aliases: p.alias, Driver: p.driver,
		Start: engine.StartSpec{Model: engine.Model{Name: "m", Path: "/secret/place/m.gguf"}, Window: 4096, Parallel: 1},
	}}, p.more...)
	f, err := fleet.New(fleet.Options{
		Models: specs, QueueLimit: p.queue, RunDir: func(string) (string, error) { return os.MkdirTemp(dirs, "r") },
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Start()
	if !p.loading {
		<-f.Loaded()
	}
	b := &bed{t: t, fleet: f, log: &lockedBuffer{}}
	p.opts.Fleet, p.opts.Auth, p.opts.InstanceID, p.opts.Version = f, auth.NewKeys(p.key), "i-1", "v-test"
	p.opts.Log = slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.gw = gateway.New(p.opts)
	return b
}

func steps(s ...scripted.Step) *scripted.Driver {
	return &scripted.Driver{Answer: func(*infer.Request) []scripted.Step { return s }}
}

// chatBody is a chat request with further members, such as `"stream":true`.
func chatBody(more ...string) string {
	return `{"model":"m","messages":[{"role":"user","content":"tell-me-a-secret"}]` + tail(more) + `}`
}

func tail(more []string) string {
	if len(more) == 0 {
		return ""
	}
	return "," + strings.Join(more, ",")
}

const streaming = `"stream":true`

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	// err is how the body ended: nil for a clean end.
	err error
}

func (b *bed) do(method, path, body string, header ...string) reply {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(got), err}
}

func (b *bed) chat(more ...string) reply {
	b.t.Helper()
	return b.do("POST", "/v1/chat/completions", chatBody(more...), "Content-Type", "application/json")
}

// envelope is the dialect's error.
type envelope struct {
	Error *struct {
		Message *string
		Type    *string
		Param   *string
		Code    *string
	}
}

// wantError checks the status and the envelope, in which all members have to be there.
func (r reply) wantError(t *testing.T, status int, code string, words ...string) {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d; body %s", r.status, status, r.body)
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	wantEnvelope(t, r.body, code, words...)
}

func wantEnvelope(t *testing.T, body, code string, words ...string) {
	t.Helper()
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error == nil {
		t.Fatalf("no envelope: %v: %s", err, body)
	}
	for _, member := range []string{`"message":`, `"type":`, `"param":`, `"code":`} {
		if !strings.Contains(body, member) {
			t.Errorf("no %s in %s", member, body)
		}
	}
	if got := deref(e.Error.Code); got != code {
		t.Errorf("code %q, want %q", got, code)
	}
	for _, w := range words {
		if !strings.Contains(deref(e.Error.Message), w) {
			t.Errorf("message %q does not say %q", deref(e.Error.Message), w)
		}
	}
	if strings.Contains(body, "/secret") {
		t.Errorf("the file's path is shown: %s", body)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// frames returns the data of each event of a stream.
func frames(body string) []string {
	var all []string
	for line := range strings.SplitSeq(body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			all = append(all, data)
		}
	}
	return all
}

// said joins the content of a chat stream's chunks.
func said(t *testing.T, body string) string {
	t.Helper()
	var text strings.Builder
	for _, f := range frames(body) {
		if f == "[DONE]" {
			continue
		}
		var c struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(f), &c); err != nil {
			t.Fatalf("frame %s: %v", f, err)
		}
		for _, ch := range c.Choices {
			text.WriteString(ch.Delta.Content)
		}
	}
	return text.String()
}

// raw sends a POST on a connection of its own, and returns it for whoever wants to see or cut it.
func (b *bed) raw(path, body string) net.Conn {
	b.t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(bound)); err != nil {
		b.t.Fatal(err)
	}
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, b.addr, len(body), body)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// readUntil reads from c until text has come.
func readUntil(t *testing.T, c io.Reader, text string) {
	t.Helper()
	var got strings.Builder
	in := bufio.NewReader(c)
	for !strings.Contains(got.String(), text) {
		ch, err := in.ReadByte()
		if err != nil {
			t.Fatalf("no %q: %v after %q", text, err, got.String())
		}
		got.WriteByte(ch)
	}
}

func within(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(bound):
		t.Fatalf("%s: did not happen", what)
	}
}
