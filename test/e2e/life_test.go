package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/test/kit"
)

// clockTicks is Linux's USER_HZ, which the kernel reports times in.
const clockTicks = 100

// cpu is the processor time that a process has used, all its threads together.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err1 != nil || err2 != nil {
		t.Fatalf("stat of %d: %s", pid, b)
	}
	return time.Duration(user+system) * time.Second / clockTicks
}

// idleAfter returns how long it takes until the engine uses no processor time for 200 ms on end; the bound is far above the aim of a
// second.
func idleAfter(t *testing.T, pid int) time.Duration {
	t.Helper()
	start := time.Now()
	last, since := cpu(t, pid), time.Now()
	for time.Since(since) < 200*time.Millisecond {
		time.Sleep(10 * time.Millisecond)
		if now := cpu(t, pid); now > last {
			last, since = now, time.Now()
		}
		if time.Since(start) > time.Minute {
			t.Fatal("the engine was not idle within a minute")
		}
	}
	return since.Sub(start)
}

// busy waits until the engine works.
func busy(t *testing.T, pid int) {
	t.Helper()
	start, limit := cpu(t, pid), time.Now().Add(10*time.Second)
	for cpu(t, pid)-start < 200*time.Millisecond {
		if time.Now().After(limit) {
			t.Fatal("the engine did not begin to work")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestClientGone: when the client goes, the real engine is idle soon: streamed or not, in prefill and in decode.
func TestClientGone(t *testing.T) { withEach(t, clientGone) }

// withEach runs a test with each local engine.
func withEach(t *testing.T, f func(*testing.T, *server)) {
	real := kit.NeedReal(t)
	for _, engine := range []string{"llamacpp", "embedded"} {
		t.Run(engine, func(t *testing.T) {
			f(t, serve(t, real, real.Chat, "--served-model-name", "m", "--engine", engine, "--ctx", "8k"))
		})
	}
}

func clientGone(t *testing.T, s *server) {
	pid := s.await("ok").Models[0].EnginePID
	long := strings.Repeat("The quick brown fox jumps over the lazy dog near the old mill. ", 480)
	for _, stream := range []bool{true, false} {
		for name, body := range map[string]obj{
			"prefill": ask("m", long, obj{"stream": stream}),
			"decode":  ask("m", "Write a very long story about the sea.", obj{"stream": stream, "max_tokens": 4000, "ignore_eos": true}),
		} {
			t.Run(fmt.Sprintf("%s, stream %v", name, stream), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					b, err := json.Marshal(body)
					if err != nil {
						t.Error(err)
						return
					}
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", bytes.NewReader(b))
					if err != nil {
						t.Error(err)
						return
					}
					if resp, err := http.DefaultClient.Do(req); err == nil {
						if resp.StatusCode != 200 {
							t.Errorf("status %d", resp.StatusCode)
						}
						io.Copy(io.Discard, resp.Body) //nolint:errcheck // it is cut off
						resp.Body.Close()
					}
				}()
				busy(t, pid)
				cancel()
				<-ended
				t.Logf("the engine was idle %s after its client went", idleAfter(t, pid).Round(time.Millisecond))
			})
		}
	}
	if r := s.post("/v1/chat/completions", ask("m", "Say hello.", nil)); r.status != 200 {
		t.Errorf("a request afterwards gives %d %s", r.status, r.body)
	}
}

// TestEngineDies: an engine killed in the middle of an answer fails the stream visibly, and is started again.
func TestEngineDies(t *testing.T) { withEach(t, engineDies) }

func engineDies(t *testing.T, s *server) {
	pid := s.await("ok").Models[0].EnginePID
	b, err := json.Marshal(ask("m", "Write a very long story.", obj{"stream": true, "max_tokens": 3000, "ignore_eos": true}))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	head := make([]byte, 600)
	if _, err := io.ReadFull(resp.Body, head); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(resp.Body)
	if err == nil {
		t.Error("the body ended as if it were whole")
	}
	if bytes.Contains(rest, []byte("[DONE]")) || !bytes.Contains(rest, []byte(`"error":{`)) {
		t.Errorf("an error event and no [DONE] are wanted: %s", rest)
	}
	limit := time.Now().Add(time.Minute)
	for {
		st, err := s.status()
		if err == nil && st.State == "ok" && st.Models[0].EnginePID != pid && st.Models[0].Restarts == 1 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the engine was not started again: %+v", st)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if r := s.post("/v1/chat/completions", ask("m", "Say hello.", nil)); r.status != 200 {
		t.Errorf("a request afterwards gives %d %s", r.status, r.body)
	}
}

// TestReviewR2KilledServer: a server killed with SIGKILL takes its real engine with it, busy or not, and the next one starts.
func TestReviewR2KilledServer(t *testing.T) { withEach(t, killedServer) }

func killedServer(t *testing.T, s *server) {
	pid := s.await("ok").Models[0].EnginePID
	go func() {
		b, err := json.Marshal(ask("m", "Write a long story.", obj{"stream": true, "max_tokens": 3000, "ignore_eos": true}))
		if err != nil {
			return
		}
		if resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", bytes.NewReader(b)); err == nil {
			io.Copy(io.Discard, resp.Body) //nolint:errcheck // it is cut off
			resp.Body.Close()
		}
	}()
	busy(t, pid)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait() //nolint:errcheck // killed
	if left := s.processes(); left != "" {
		t.Errorf("processes are left: %s", left)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the engine is still there")
	}
	if _, err := s.status(); err == nil {
		t.Error("a dead server is found")
	}
}

// TestReviewR9EffectivePort: of two ports the last one is bound, printed and announced, and nothing else; a port that is taken is
// an error that never speaks to whoever has it.
func TestReviewR9EffectivePort(t *testing.T) {
	real := kit.NeedReal(t)
	first, second := freePort(t), freePort(t)
	s := launch(t, []string{"STOKER_LLAMACPP_PATH=" + real.LlamaServer}, real.Chat, "--ctx", "512", "--port", first, "--port="+second)
	st := s.await("ok")
	if want := "http://127.0.0.1:" + second; st.URL != want {
		t.Errorf("announced %s, want %s", st.URL, want)
	}
	if l, err := net.Listen("tcp", "127.0.0.1:"+first); err != nil {
		t.Errorf("the first port is taken: %v", err)
	} else {
		l.Close()
	}
	other := launch(t, []string{"STOKER_LLAMACPP_PATH=" + real.LlamaServer}, real.Chat, "--ctx", "512", "--port", second)
	if err := other.cmd.Wait(); err == nil || other.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("a taken port ends with %v, want exit 1", err)
	}
	if out := other.out.String(); !strings.Contains(out, "cannot listen on 127.0.0.1:"+second) || !strings.Contains(out, "--port") {
		t.Errorf("the reason is not clear: %s", out)
	}
	if !strings.Contains(s.out.String(), "serves at http://127.0.0.1:"+second) {
		t.Errorf("printed:\n%s", s.out.String())
	}
}

// freePort finds a port for a test that has to name one. Somebody else may take it; then the test fails and says so.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestBrokenModels: what the real engine cannot load is refused with its own words, by name, and nothing is left.
func TestBrokenModels(t *testing.T) {
	real := kit.NeedReal(t)
	whole, err := os.ReadFile(real.Chat)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, []byte("general.architecture")) + len("general.architecture") + 4 + 8
	unknown := bytes.Clone(whole)
	copy(unknown[at:], "nopes")
	unknown = bytes.ReplaceAll(unknown, []byte("llama."), []byte("nopes."))
	tests := []struct {
		name  string
		bytes []byte
		says  string
	}{
		{"truncated", whole[:3<<20], "truncated"},
		{"unknown architecture", unknown, "unknown model architecture: 'nopes'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := t.TempDir() + "/odd.gguf"
			if err := os.WriteFile(path, tt.bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			s := launch(t, []string{"STOKER_LLAMACPP_PATH=" + real.LlamaServer}, path, "--port", "0", "--ctx", "512")
			if err := s.cmd.Wait(); err == nil || s.cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("ends with %v, want exit 1", err)
			}
			if out := s.out.String(); !strings.Contains(out, tt.says) || !strings.Contains(out, "odd") {
				t.Errorf("%q is wanted in:\n%s", tt.says, out)
			}
		})
	}
}
