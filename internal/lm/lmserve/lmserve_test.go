package lmserve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// scripted is an engine that does as its fields say.
type scripted struct {
	generate func(ctx context.Context, r *infer.Request) (Stream, error)
	closed   chan struct{}
	once     sync.Once
}

func newScripted(f func(ctx context.Context, r *infer.Request) (Stream, error)) *scripted {
	return &scripted{generate: f, closed: make(chan struct{})}
}

func (s *scripted) Generate(ctx context.Context, r *infer.Request) (Stream, error) {
	return s.generate(ctx, r)
}

func (s *scripted) CountTokens(r *infer.Request) (int, error) {
	if r.Prompt == "" {
		return 0, infer.Errorf(infer.ErrInvalid, "prompt", "the prompt is empty")
	}
	return len(r.Prompt), nil
}

func (s *scripted) Facts() lm.Facts {
	return lm.Facts{Arch: "llama", Quantization: "Q8_0", Kernel: "generic", Mode: "exact", Threads: 3, Window: 64, Parallel: 2, Chat: true}
}

func (s *scripted) Stats() lm.Stats {
	return lm.Stats{Requests: 1, Tokens: 2, Prompt: 3, Cached: 4, Steps: 5, Active: 6, Waiting: 7, Memory: map[string]int64{"weights": 8}}
}

func (s *scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// events is a stream of what it holds, and then of end.
type events struct {
	list   []infer.Event
	end    error
	closed chan struct{} // closed by Close, if not nil
}

func (e *events) Next(context.Context) (infer.Event, error) {
	if len(e.list) == 0 {
		return nil, e.end
	}
	ev := e.list[0]
	e.list = e.list[1:]
	return ev, nil
}

func (e *events) Close() error {
	if e.closed != nil {
		close(e.closed)
	}
	return nil
}

// endless is a stream that says nothing until its work is stopped.
type endless struct{ begun, left chan struct{} }

func (e *endless) Next(ctx context.Context) (infer.Event, error) {
	close(e.begun)
	<-ctx.Done()
	return nil, ctx.Err()
}

func (e *endless) Close() error {
	close(e.left)
	return nil
}

// child is a running role.
type child struct {
	t      *testing.T
	client *http.Client
	socket string
	stderr *bytes.Buffer // read it when the role has ended
	status chan int
}

// start runs the role in this process. It is ended by SIGTERM, as a real one is, since that is what the test's own process gets.
func start(t *testing.T, open opener, more ...string) *child {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &child{t: t, socket: filepath.Join(dir, "s"), stderr: &bytes.Buffer{}, status: make(chan int, 1)}
	dialer := &net.Dialer{}
	c.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", c.socket)
		},
	}}
	args := append([]string{native.Role, "--model", "the model", "--socket", c.socket}, more...)
	go func() { c.status <- run(args, c.stderr, open) }()
	c.await(func() bool { _, err := os.Stat(c.socket); return err == nil })
	return c
}

func opened(e Engine) opener {
	return func(context.Context, string, lm.Options) (Engine, error) { return e, nil }
}

func (c *child) await(f func() bool) {
	c.t.Helper()
	for limit := time.Now().Add(time.Minute); !f(); <-time.After(time.Millisecond) {
		if time.Now().After(limit) {
			c.t.Fatal("it does not come")
		}
	}
}

func (c *child) awaitPhase(phase string) (st native.State) {
	c.t.Helper()
	c.await(func() bool {
		resp, err := c.client.Get("http://x" + native.StatePath)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(&st) == nil && st.Phase == phase
	})
	return st
}

func (c *child) post(ctx context.Context, path string, r *infer.Request) (*http.Response, error) {
	c.t.Helper()
	b, err := native.EncodeRequest(r)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x"+path, bytes.NewReader(b))
	if err != nil {
		c.t.Fatal(err)
	}
	return c.client.Do(req)
}

// ask reads an answer to its end.
func (c *child) ask(r *infer.Request) ([]infer.Event, error) {
	c.t.Helper()
	resp, err := c.post(c.t.Context(), native.GeneratePath, r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			c.t.Fatal(err)
		}
		e, err := native.DecodeError(b)
		if err != nil {
			c.t.Fatalf("status %d, %s: %v", resp.StatusCode, b, err)
		}
		return nil, e
	}
	var out []infer.Event
	for rd := native.NewReader(resp.Body); ; {
		ev, err := rd.Next()
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
}

// stop ends the role as its driver does, and returns its status.
func (c *child) stop() int {
	c.t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	return c.ended()
}

func (c *child) ended() int {
	c.t.Helper()
	select {
	case status := <-c.status:
		return status
	case <-time.After(time.Minute):
		c.t.Fatal("it does not end")
		return -1
	}
}

func TestAnswers(t *testing.T) {
	done := infer.Done{Reason: infer.StopEnd, Usage: infer.Usage{Prompt: 1, Completion: 1}}
	var got *infer.Request
	e := newScripted(func(_ context.Context, r *infer.Request) (Stream, error) {
		got = r
		switch r.Prompt {
		case "refuse":
			return nil, &infer.Error{Kind: infer.ErrContextLength, Message: "too long", Param: "prompt", PromptTokens: 9, Window: 8}
		case "fail":
			return &events{[]infer.Event{infer.Text{Text: "\xff"}}, infer.Errorf(infer.ErrInternal, "", "no more"), nil}, nil
		case "unspeakable":
			return &events{[]infer.Event{infer.Text{Text: "a"}, nil}, io.EOF, nil}, nil
		}
		return &events{[]infer.Event{infer.Progress{Done: 1, Total: 1}, infer.Text{Text: "a"}, done}, io.EOF, nil}, nil
	})
	c := start(t, opened(e))
	c.awaitPhase(native.PhaseReady)
	evs, err := c.ask(&infer.Request{ID: "r", Kind: infer.Completion, Prompt: "x\xff"})
	if !errors.Is(err, io.EOF) || len(evs) != 3 || evs[2] != infer.Event(done) || got.Prompt != "x\xff" || got.ID != "r" {
		t.Errorf("%v, %v for %+v", evs, err, got)
	}
	if _, err := c.ask(&infer.Request{Prompt: "refuse"}); infer.KindOf(err) != infer.ErrContextLength {
		t.Errorf("refused with %v", err)
	}
	if evs, err := c.ask(&infer.Request{Prompt: "fail"}); infer.KindOf(err) != infer.ErrInternal || len(evs) != 1 {
		t.Errorf("failed with %v, %v", evs, err)
	}
	// What cannot be written must not end as if it were whole, nor as the engine's own word.
	evs, err = c.ask(&infer.Request{Prompt: "unspeakable"})
	if _, said := errors.AsType[*infer.Error](err); said || errors.Is(err, io.EOF) || len(evs) != 1 {
		t.Errorf("an event that cannot be written: %v, %v", evs, err)
	}
	if c.stop() != 0 || c.stderr.Len() > 0 {
		t.Errorf("it said %s", c.stderr)
	}
	if _, err := os.Stat(c.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestFactsStateAndCount(t *testing.T) {
	c := start(t, opened(newScripted(nil)))
	want := native.State{
		Phase: native.PhaseReady, Requests: 1, Tokens: 2, Prompt: 3, Cached: 4, Steps: 5, Active: 6, Waiting: 7, Memory: map[string]int64{"weights": 8},
	}
	got, _ := json.Marshal(c.awaitPhase(native.PhaseReady))   //nolint:errchkjson // plain fields
	if b, _ := json.Marshal(want); string(b) != string(got) { //nolint:errchkjson // plain fields
		t.Errorf("the state is %s, want %s", got, b)
	}
	resp, err := c.client.Get("http://x" + native.FactsPath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var f native.Facts
	if err := json.NewDecoder(resp.Body).Decode(&f); err != nil {
		t.Fatal(err)
	}
	if want := (native.Facts{Architecture: "llama", Quantization: "Q8_0", Kernel: "generic", Mode: "exact", Threads: 3, Window: 64, Parallel: 2, Chat: true}); f != want {
		t.Errorf("the facts are %+v, want %+v", f, want)
	}
	for prompt, want := range map[string]string{"abc": `{"tokens":3}`, "": `"param":"prompt"`} {
		resp, err := c.post(t.Context(), native.CountPath, &infer.Request{Prompt: prompt})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("the count of %q is %s, %v", prompt, b, err)
		}
	}
	resp, err = c.client.Post("http://x"+native.GeneratePath, "application/json", strings.NewReader(`{"colour":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("a request of another version: %s", resp.Status)
	}
	c.stop()
}

// TestLoad: the socket answers while the model loads, with the bytes, and refuses work; a load can be ended.
func TestLoad(t *testing.T) {
	begun := make(chan lm.Options, 1)
	c := start(t, func(ctx context.Context, path string, o lm.Options) (Engine, error) {
		if path != "the model" {
			t.Errorf("it loads %q", path)
		}
		o.Progress(3, 10)
		begun <- o
		<-ctx.Done()
		return nil, ctx.Err()
	}, "--window", "64", "--parallel", "2", "--mode", "fast", "--kernel", "generic", "--threads", "3")
	o := <-begun
	if o.Window != 64 || o.Parallel != 2 || o.Mode != "fast" || o.Kernel != "generic" || o.Threads != 3 {
		t.Errorf("the options are %+v", o)
	}
	if got := runtime.GOMAXPROCS(0); got != 4 {
		t.Errorf("%d threads may run Go code, want one beside the 3 that spin", got)
	}
	if st := c.awaitPhase(native.PhaseWeights); st.Done != 3 || st.Total != 10 {
		t.Errorf("the state is %+v", st)
	}
	if _, err := c.ask(&infer.Request{}); infer.KindOf(err) != infer.ErrLoading {
		t.Errorf("an early request: %v", err)
	}
	if status := c.stop(); status != 0 || c.stderr.Len() > 0 {
		t.Errorf("status %d, %s", status, c.stderr)
	}
}

// TestLoadFails: the reason is the last line, in the form that the driver reads.
func TestLoadFails(t *testing.T) {
	var stderr bytes.Buffer
	args := []string{native.Role, "--model", "m", "--socket", filepath.Join(t.TempDir(), "s")}
	status := run(args, &stderr, func(context.Context, string, lm.Options) (Engine, error) {
		return nil, &infer.Error{Kind: infer.ErrUnsupported, Param: "model", Message: "no", Err: io.ErrUnexpectedEOF}
	})
	e, err := native.DecodeError(bytes.TrimSpace(stderr.Bytes()))
	if status != 1 || err != nil || e.Kind != infer.ErrUnsupported || e.Param != "model" || e.Message != "no: unexpected EOF" {
		t.Errorf("status %d, %s, %v", status, &stderr, err)
	}
}

func TestWrongCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{native.Role}, 2, "--model"},
		{[]string{native.Role, "--color"}, 2, "color"},
		{[]string{native.Role, "-h"}, 0, "unix socket"},
		{[]string{native.Role, "--model", "m", "--socket", "/nonexistent/s"}, 1, "cannot listen"},
	} {
		var stderr bytes.Buffer
		status := run(tt.args, &stderr, func(context.Context, string, lm.Options) (Engine, error) {
			t.Errorf("%q: it loads", tt.args)
			return nil, io.EOF
		})
		if status != tt.status || !strings.Contains(stderr.String(), tt.says) {
			t.Errorf("%q: status %d, %s", tt.args, status, &stderr)
		}
	}
}

// TestClientGone: the end of a connection is the end of its work, before and after the first event.
func TestClientGone(t *testing.T) {
	s := &endless{make(chan struct{}), make(chan struct{})}
	c := start(t, opened(newScripted(func(context.Context, *infer.Request) (Stream, error) { return s, nil })))
	c.awaitPhase(native.PhaseReady)
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := c.post(ctx, native.GeneratePath, &infer.Request{Prompt: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-s.begun
	cancel()
	select {
	case <-s.left:
	case <-time.After(time.Minute):
		t.Error("the work goes on")
	}
	c.stop()
}

// TestStopEndsAnswers with an error of their own, which still reaches whoever reads.
func TestStopEndsAnswers(t *testing.T) {
	begun := make(chan struct{})
	var e *scripted
	e = newScripted(func(context.Context, *infer.Request) (Stream, error) { return &held{begun, e.closed}, nil })
	c := start(t, opened(e))
	c.awaitPhase(native.PhaseReady)
	answer := make(chan error, 1)
	go func() {
		_, err := c.ask(&infer.Request{Prompt: "x"})
		answer <- err
	}()
	<-begun
	if status := c.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	if err := <-answer; infer.KindOf(err) != infer.ErrEngineLost {
		t.Errorf("the answer ended with %v", err)
	}
}

// held is a stream that ends with its engine.
type held struct{ begun, closed chan struct{} }

func (h *held) Next(context.Context) (infer.Event, error) {
	close(h.begun)
	<-h.closed
	return nil, infer.Errorf(infer.ErrEngineLost, "", "the engine was stopped")
}

func (h *held) Close() error { return nil }

// TestPanicIsSeen: the process ends, with the stack, and does not go on for the others.
func TestPanicIsSeen(t *testing.T) {
	var stderr bytes.Buffer
	status := 0
	s := &server{stderr: &stderr, exit: func(n int) { status = n }}
	s.loaded(newScripted(func(context.Context, *infer.Request) (Stream, error) { panic("out of tune") }))
	w := &recorder{header: http.Header{}}
	s.handler().ServeHTTP(w, request(t, "x"))
	if status != 2 || !strings.HasPrefix(stderr.String(), "panic: out of tune\n") || !strings.Contains(stderr.String(), "lmserve_test.go") {
		t.Errorf("status %d, %s", status, &stderr)
	}
}

// TestReaderGone: a connection that breaks in the middle is cut off, and nothing else happens.
func TestReaderGone(t *testing.T) {
	closed := make(chan struct{})
	s := &server{stderr: io.Discard, exit: func(n int) { t.Errorf("it exits with %d", n) }}
	s.loaded(newScripted(func(context.Context, *infer.Request) (Stream, error) {
		return &events{[]infer.Event{infer.Text{Text: "a"}, infer.Text{Text: "b"}}, io.EOF, closed}, nil
	}))
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("the answer ends with %v", err)
		}
		<-closed
	}()
	s.handler().ServeHTTP(&recorder{header: http.Header{}, broken: true}, request(t, "x"))
}

func request(t *testing.T, prompt string) *http.Request {
	t.Helper()
	b, err := native.EncodeRequest(&infer.Request{Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+native.GeneratePath, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// recorder is a connection, or what is left of one.
type recorder struct {
	header http.Header
	broken bool
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
func (r *recorder) Flush()              {}

func (r *recorder) Write(b []byte) (int, error) {
	if r.broken {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}
