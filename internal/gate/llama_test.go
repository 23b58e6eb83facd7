package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// llama is the real llama-server as a subject.
type llama struct{ client *http.Client }

func (l llama) ask(ctx context.Context, path string, body, out any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://llama"+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if b, err = io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s %w", path, resp.Status, b, err)
	}
	return json.Unmarshal(b, out)
}

func (l llama) Tokenize(text string, special bool) ([]int32, error) {
	var out struct{ Tokens []int32 }
	err := l.ask(context.Background(), "/tokenize", map[string]any{"content": text, "add_special": true, "parse_special": special}, &out)
	return out.Tokens, err
}

func (l llama) Greedy(ctx context.Context, tokens []int32, n int) ([]int32, error) {
	var out struct{ Tokens []int32 }
	err := l.ask(ctx, "/completion", map[string]any{
		"prompt": tokens, "n_predict": n, "temperature": 0, "return_tokens": true, "cache_prompt": false, "repeat_penalty": 1,
	}, &out)
	return out.Tokens, err
}

// startLlama starts the engine with its default settings.
func startLlama(t *testing.T, model string) llama {
	t.Helper()
	dir, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s.sock")
	cmd := exec.Command(env(t, "STOKER_TEST_LLAMA_SERVER", "llama-server"), "-m", model, "--host", socket, "-c", "2048", "-np", "1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may be gone
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	l := llama{&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}}
	for limit := time.Now().Add(time.Minute); ; {
		_, err := l.Greedy(t.Context(), []int32{5}, 1)
		if err == nil {
			return l
		}
		if time.Now().After(limit) {
			t.Fatalf("llama-server does not answer within a minute: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestLlamaServerIsCompared says what the real llama-server keeps of the answers that exact mode keeps all of. It is not held to
// anything but to answer: its processor path rounds activations to 8 bits.
func TestLlamaServerIsCompared(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the tests with a real engine")
	}
	for _, s := range subjects(t)[:2] {
		t.Run(s.reference, func(t *testing.T) {
			r, err := Judge(t.Context(), load(t, s.reference), startLlama(t, s.model), Options{Compare: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("llama-server keeps %d of %d answers (and %d but for ties)", r.Kept, r.Of, r.Ties)
			for _, res := range r.Results {
				if res.Verdict == Failed || res.Verdict == Empty || res.Verdict == Tokens {
					t.Errorf("%+v", res)
				}
			}
		})
	}
}
