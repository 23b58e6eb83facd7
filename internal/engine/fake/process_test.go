package fake

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary plays the engine.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "engine" && os.Args[2] == "fake" {
		os.Exit(Main(os.Args[3:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// bound is how long anything may take that should come at once.
const bound = 20 * time.Second

// child is the engine as a process.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr *bufio.Reader
	stdout *bytes.Buffer
	// reaped is closed when the process was waited for: from then on its id may belong to anybody.
	reaped chan struct{}
	err    error // of the wait; set when reaped is closed
}

// spawn starts the engine with a script and its own flags.
func spawn(t *testing.T, script string, flags ...string) *child {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	as := "llama-server"
	if len(flags) > 0 && flags[0] == "as mlx-lm" {
		as, flags = "mlx-lm", flags[1:]
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	c := &child{t: t, stdout: &bytes.Buffer{}, reaped: make(chan struct{})}
	c.cmd = exec.CommandContext(ctx, self, append([]string{"engine", "fake", "--as", as, "--script", file, "--"}, flags...)...)
	c.cmd.WaitDelay = bound // a grandchild may hold its output open
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Stdout = c.stdout
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr, c.stderr = w, bufio.NewReader(r)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		c.err = c.cmd.Wait()
		close(c.reaped)
	}()
	t.Cleanup(func() {
		cancel() // kills it, if it still runs
		r.Close()
		<-c.reaped
	})
	return c
}

// line waits for a line on standard error that matches, and returns its first group.
func (c *child) line(expr string) string {
	c.t.Helper()
	re := regexp.MustCompile(expr)
	for {
		l, err := c.stderr.ReadString('\n')
		if m := re.FindStringSubmatch(l); m != nil {
			return m[len(m)-1]
		}
		if err != nil {
			c.t.Fatalf("no line like %s: %v", expr, err)
		}
	}
}

// url waits until it listens.
func (c *child) url() string { return c.line(`listening on (http://\S+)`) }

// wait returns how it ended, with what was left on standard error.
func (c *child) wait() (syscall.WaitStatus, string) {
	c.t.Helper()
	rest, err := io.ReadAll(c.stderr)
	if err != nil {
		c.t.Error(err)
	}
	<-c.reaped
	if _, ok := errors.AsType[*exec.ExitError](c.err); c.err != nil && !ok {
		c.t.Fatal(c.err)
	}
	return c.cmd.ProcessState.Sys().(syscall.WaitStatus), string(rest)
}

func TestDeaths(t *testing.T) {
	tests := []struct {
		script string
		asked  bool // it dies in an answer
		exit   int
		signal syscall.Signal
	}{
		{"die-at: bind", false, 1, 0},
		{"die-at: load\nload: 20ms", false, 1, 0},
		{"die-at: load\ndie-how: exit:7", false, 7, 0},
		{"die-at: warmup\ndie-how: exit:3", true, 3, 0},
		{"die-at: prefill\ndie-how: kill", true, 0, syscall.SIGKILL},
		{"die-at: after:2\ndie-how: abort", true, 0, syscall.SIGABRT},
		{"die-at: final", true, 1, 0},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.script, "\n", " "), func(t *testing.T) {
			c := spawn(t, tt.script+"\nlast-words: 'E out of memory'", "--port", "0")
			if tt.asked {
				if resp, err := http.Post(c.url()+"/v1/chat/completions", "application/json", strings.NewReader(chatOf("a b", `"stream":true`))); err == nil {
					if b, err := io.ReadAll(resp.Body); err == nil {
						t.Errorf("the answer is whole: %s", b)
					}
					resp.Body.Close()
				}
			}
			status, rest := c.wait()
			if tt.signal != 0 && (!status.Signaled() || status.Signal() != tt.signal) || tt.signal == 0 && status.ExitStatus() != tt.exit {
				t.Errorf("it ended with %d, %s; want %d, %s", status.ExitStatus(), status.Signal(), tt.exit, tt.signal)
			}
			if strings.Count(rest, "E out of memory\n") != 1 {
				t.Errorf("its last words: %q", rest)
			}
		})
	}
}

func TestListensWhenItIsLoaded(t *testing.T) {
	c := spawn(t, "load: 100ms", "--port", "0", "-a", "zed,alpha", "-c", "800", "-np", "2")
	c.line("load_model: 50%")
	url := c.url()
	if status, b := get(t, url+"/props"); status != 200 || !strings.Contains(b, `"n_ctx":400`) || !strings.Contains(b, `"model_alias":"alpha"`) {
		t.Errorf("props %d %s", status, b)
	}
	c = spawn(t, "", "--port", "0", "-c", "800", "-np", "2", "-kvu", "-m", "/x/y.gguf")
	if _, b := get(t, c.url()+"/props"); !strings.Contains(b, `"n_ctx":800`) || !strings.Contains(b, `"model_alias":"/x/y.gguf"`) {
		t.Errorf("props of a shared cache %s", b)
	}
	c = spawn(t, "", "as mlx-lm", "--port", "0")
	port := c.line(`Starting httpd at 127.0.0.1 on port (\d+)...`)
	if status, _ := get(t, "http://127.0.0.1:"+port+"/health"); status != 200 {
		t.Errorf("health %d", status)
	}
}

func TestOnASocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "f")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sock := filepath.Join(dir, "s.sock")
	c := spawn(t, "", "--host", sock)
	c.line("listening on unix://(.*)")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sock)
	}, DisableKeepAlives: true}}
	resp, err := client.Get("http://engine/health")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	c.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // the wait tells
	if status, _ := c.wait(); status.ExitStatus() != 0 {
		t.Errorf("SIGTERM gives %d", status.ExitStatus())
	}
	if _, err := os.Stat(sock); err != nil {
		t.Errorf("the socket's file is not left behind: %v", err)
	}
	if status, rest := spawn(t, "", "--host", sock).wait(); status.ExitStatus() != 1 || !strings.Contains(rest, "couldn't bind HTTP server socket") {
		t.Errorf("with a file in the way: %d %s", status.ExitStatus(), rest)
	}
}

func TestPortLost(t *testing.T) {
	script := "port-lost: 2\nstate-file: " + filepath.Join(t.TempDir(), "starts")
	for i := range 2 {
		if status, rest := spawn(t, script, "--port", "0").wait(); status.ExitStatus() != 1 || !strings.Contains(rest, "address already in use") {
			t.Errorf("start %d: %d %s", i, status.ExitStatus(), rest)
		}
	}
	spawn(t, script, "--port", "0").url()
}

func TestSilence(t *testing.T) {
	c := spawn(t, "silent-at: bind\nlast-words: I begin", "--port", "0")
	c.line("I begin")
	c.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // the wait tells
	if status, rest := c.wait(); status.ExitStatus() != 0 || rest != "" {
		t.Errorf("%d %q", status.ExitStatus(), rest)
	}
	c = spawn(t, "silent-at: load\nload: 10ms\nlast-words: 'too long'", "as mlx-lm", "--port", "0")
	port := c.line(`on port (\d+)`)
	c.line("too long")
	if status, _ := get(t, "http://127.0.0.1:"+port+"/health"); status != 200 {
		t.Errorf("mlx-lm: health %d while it is stuck, want 200", status)
	}
}

// TestNoise: readiness comes after the noise, so that a reader who is in the way is noticed.
func TestNoise(t *testing.T) {
	c := spawn(t, "noise: 3\nnoise-to: both\nnoise-newlines: true", "--port", "0")
	c.url()
	c.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // the wait tells
	c.wait()
	if got := c.stdout.Len(); got != 3<<20 {
		t.Errorf("%d bytes on standard output", got)
	}
	c = spawn(t, "noise: 1", "--port", "0")
	blocked := make([]byte, 1<<20)
	if _, err := io.ReadFull(c.stderr, blocked); err != nil || bytes.ContainsRune(blocked, '\n') {
		t.Errorf("noise with newlines, or none: %v", err)
	}
	url := c.url()
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chatOf("a @fault{noise: 1, noise-at: answer, noise-to: stdout}", "")))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	c.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // the wait tells
	c.wait()
	if got := c.stdout.Len(); got != 1<<20 {
		t.Errorf("%d bytes on standard output in an answer", got)
	}
}

// TestStubbornTree: a child of the engine holds a port and ignores SIGTERM, as the engine does.
func TestStubbornTree(t *testing.T) {
	c := spawn(t, "grandchild: true\nignore-sigterm: true", "--port", "0")
	url := c.url()
	group := -c.cmd.Process.Pid          // the leader lives until the next but one signal, so the id is its own
	syscall.Kill(group, syscall.SIGTERM) //nolint:errcheck // what follows tells
	resp, err := http.Get(url + "/health")
	syscall.Kill(group, syscall.SIGKILL) //nolint:errcheck // what follows tells
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("health after SIGTERM: %v, %v", resp, err)
	}
	resp.Body.Close()
	c.wait()
	var pid int
	var at string
	if _, err := fmt.Sscanf(c.stdout.String(), "grandchild %d holds %s", &pid, &at); err != nil {
		t.Fatalf("%q: %v", c.stdout.String(), err)
	}
	until(t, func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

func TestOnlyAlias(t *testing.T) {
	script := "die-at: bind\ndie-how: exit:9\nonly-alias: bad"
	spawn(t, script, "--port", "0", "-a", "good").url()
	if status, _ := spawn(t, script, "--port", "0", "-a", "bad").wait(); status.ExitStatus() != 9 {
		t.Errorf("exit %d, want 9", status.ExitStatus())
	}
}

func TestMainSpeaksTheEnginesLanguage(t *testing.T) {
	script := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(script, []byte("die-at: bind\ndie-how: exit:9\nlast-words: bye\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		exit int
		says string
	}{
		{[]string{"--help"}, 0, "Usage: stoker engine fake"},
		{[]string{"--", "--help"}, 0, "-c,    --ctx-size N"},
		{[]string{"--", "--version"}, 0, "version: 0.0.0-fake"},
		{[]string{"--", "--list-devices"}, 0, "Available devices"},
		{[]string{"--", "--nonsense"}, 1, "error: invalid argument: --nonsense"},
		{[]string{"--as", "mlx-lm", "--", "--ctx-size", "1"}, 2, "mlx_lm.server: error: unrecognized arguments: --ctx-size"},
		{[]string{"--as", "mlx-lm", "--", "--port"}, 2, "argument --port: expected one argument"},
		{[]string{"--", "-c"}, 1, "expected value for argument: -c"},
		{[]string{"--as", "vllm"}, 2, "vllm"},
		{[]string{"--script", "/nowhere.yaml"}, 2, "nowhere.yaml"},
		{[]string{"--port", "1"}, 2, "go behind --"},
		{[]string{"--script", script}, 9, "bye"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var out bytes.Buffer
			if got := Main(tt.args, nil, &out, &out); got != tt.exit || !strings.Contains(out.String(), tt.says) {
				t.Errorf("exit %d with %q, want %d with %q", got, out.String(), tt.exit, tt.says)
			}
		})
	}
}
