// Package e2e tests the whole program: the real binary, a real llama-server, real models, over real HTTP. The helpers here
// start the binary with a home of its own; tests may run side by side.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/test/kit"
)

// program is the binary under test, built once.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "stoker")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/stoker").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build stoker: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// server is a running stoker.
type server struct {
	t   *testing.T
	cmd *exec.Cmd
	home,
	url string
	out bytes.Buffer
}

// serve starts stoker with the real llama-server and returns when it serves.
func serve(t *testing.T, real kit.Real, args ...string) *server {
	t.Helper()
	s := launch(t, []string{"STOKER_LLAMACPP_PATH=" + real.LlamaServer, "STOKER_ENGINE=llamacpp"}, append(args, "--port", "0")...)
	s.await("ok")
	return s
}

// launch starts `stoker serve`. It is stopped at the end of the test, and must leave nothing.
func launch(t *testing.T, env []string, args ...string) *server {
	t.Helper()
	home, err := os.MkdirTemp("", "h") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, home: home}
	s.cmd = exec.Command(program, append([]string{"serve"}, args...)...)
	s.cmd.Env = append(os.Environ(), append(env, "HOME="+home, "STOKER_RUN_DIR="+filepath.Join(home, "r"), "STOKER_STATE_DIR="+s.state())...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

func (s *server) state() string { return filepath.Join(s.home, "s") }

// stop asks for an orderly end, and makes sure of it.
func (s *server) stop() {
	defer os.RemoveAll(s.home)
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may be gone
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.cmd.Wait() //nolint:errcheck // a test that cares about the status waits itself
		}()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			s.cmd.Process.Kill() //nolint:errcheck // see below
			s.t.Error("the server did not stop within 30 s")
		}
	}
	if left := s.processes(); left != "" {
		s.t.Errorf("processes are left: %s", left)
	}
	if s.t.Failed() {
		s.t.Logf("the server's output:\n%s", s.out.String())
	}
}

// processes lists what still runs with this server's home among its arguments.
func (s *server) processes() string {
	limit := time.Now().Add(10 * time.Second)
	for {
		out, _ := exec.Command("pgrep", "-af", s.home).Output() // exit 1 means none
		if len(out) == 0 || time.Now().After(limit) {
			return string(out)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *server) status() (*client.Status, error) {
	l, err := client.Open(s.state())
	if err != nil {
		return nil, err
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	return l.Status(ctx)
}

// await waits until the server is in a state, and returns its status.
func (s *server) await(state string) *client.Status {
	s.t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for {
		st, err := s.status()
		if err == nil && st.State == state {
			s.url = st.URL
			return st
		}
		if time.Now().After(limit) {
			s.t.Fatalf("not %s within 2 minutes: %+v, %v\n%s", state, st, err, s.out.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reply is an HTTP answer.
type reply struct {
	status int
	header http.Header
	body   []byte
	// err is what ended the body if it was not its proper end.
	err error
}

func (s *server) post(path string, body any) reply {
	s.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.Post(s.url+path, "application/json", bytes.NewReader(b))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, out, err}
}

// get unmarshals a JSON answer and returns its status.
func (s *server) get(path string, into any) int {
	s.t.Helper()
	resp, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	return resp.StatusCode
}

type obj = map[string]any

// ask is a chat body at temperature 0.
func ask(model, text string, more obj) obj {
	b := obj{"model": model, "temperature": 0, "max_tokens": 24, "messages": []obj{{"role": "user", "content": text}}}
	for k, v := range more {
		b[k] = v
	}
	return b
}

// events splits an event stream's data.
func events(body []byte) []string {
	var list []string
	for sc := bufio.NewScanner(bytes.NewReader(body)); sc.Scan(); {
		if d, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			list = append(list, d)
		}
	}
	return list
}

// content joins the text of a chat stream.
func content(t *testing.T, body []byte) string {
	t.Helper()
	text := ""
	for _, e := range events(body) {
		if e == "[DONE]" {
			continue
		}
		var c struct {
			Choices []struct {
				Text  string `json:"text"`
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal([]byte(e), &c); err != nil {
			t.Fatalf("event %q: %v", e, err)
		}
		for _, ch := range c.Choices {
			text += ch.Delta.Content + ch.Text
		}
	}
	return text
}

// dig walks into decoded JSON by keys and indexes.
func dig(t *testing.T, body []byte, path ...any) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("no %v of %v in %s", p, path, body)
			}
			v = m[p]
		case int:
			l, ok := v.([]any)
			if !ok || p >= len(l) {
				t.Fatalf("no %v of %v in %s", p, path, body)
			}
			v = l[p]
		}
	}
	return v
}
