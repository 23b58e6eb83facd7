//go:build soak

package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/test/kit"
)

const (
	length  = 3 * time.Minute
	clients = 8
	// growth is how much more memory the server may hold at the end than after its first minute. Leaks of a kilobyte per request
	// would pass it.
	growth = 24 << 20
)

// faults are what happens to some of the requests. The engine survives them all but the last ones.
var faults = []string{
	"", "", "", "", "token-delay: 1ms", "close-at: after:3", "close-at: after:2, close-how: reset", "bad-json-at: after:1", "error-at: after:4",
	"status: 500", "status: 400", "omit: [finish]", "omit: [done]", "answer: 'größe 東京 🚂', cut-utf8: events", "silent-at: after:2",
	"chunk: 1, chunk-delay: 5ms", "die-at: after:5", "die-at: prefill, die-how: kill",
}

// TestSoak sends some minutes of good, bad and abandoned requests through one server whose engine dies again and again. Every
// stream is whole or visibly not, the server answers at the end, and neither memory nor processes grow.
func TestSoak(t *testing.T) {
	home := t.TempDir()
	run, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(run)
	program := filepath.Join(home, "stoker")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/stoker").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	engine, err := kit.WriteFakeLlama(home, program, "")
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(home, "model.gguf")
	if err := kit.WriteModel(model, true); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(home, "state")
	cmd := exec.Command(program, "serve", model, "--port", "0", "--parallel", "4", "--log-level", "error")
	cmd.Env = append(os.Environ(), "HOME="+home, "STOKER_LLAMACPP_PATH="+engine, "STOKER_ENGINE=llamacpp", "STOKER_RUN_DIR="+run, "STOKER_STATE_DIR="+state)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			cmd.Process.Kill() //nolint:errcheck // a failed test
		}
	}()
	url := await(t, state)
	whole, broken, refused, left := storm(t, url, cmd.Process.Pid)
	t.Logf("%d whole answers, %d visibly broken, %d refused, %d abandoned", whole, broken, refused, left)
	if whole == 0 || broken == 0 || left == 0 {
		t.Error("the soak did not do its work")
	}
	await(t, state)
	cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it runs
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v\n%s", err, log.String())
	}
	stopped = true
	if out, _ := exec.Command("pgrep", "-af", home).Output(); len(out) > 0 { // exit 1 means none
		t.Errorf("processes are left:\n%s", out)
	}
}

// await returns the server's address when it serves.
func await(t *testing.T, state string) string {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	for {
		var st *client.Status
		l, err := client.Open(state)
		if err == nil {
			st, err = l.Status(t.Context())
			l.Close()
		}
		if err == nil && st.State == "ok" {
			return st.URL
		}
		if time.Now().After(limit) {
			t.Fatalf("the server does not serve: %+v, %v", st, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func storm(t *testing.T, url string, pid int) (whole, broken, refused, left int64) {
	end := time.Now().Add(length)
	var w, b, r, l atomic.Int64
	d := &dose{}
	d.deaths.Store(maxDeaths)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for time.Now().Before(end) {
				switch one(t, rnd, url, d) {
				case "whole":
					w.Add(1)
					d.well.Add(1)
				case "broken":
					b.Add(1)
				case "refused":
					r.Add(1)
					time.Sleep(20 * time.Millisecond) // a restart takes a second: do not spin
				default:
					l.Add(1)
				}
			}
		})
	}
	time.Sleep(length / 3)
	before := resident(t, pid)
	wg.Wait()
	after := resident(t, pid)
	t.Logf("resident: %d MiB after a third, %d MiB at the end", before>>20, after>>20)
	if after > before+growth {
		t.Errorf("memory grew from %d to %d bytes", before, after)
	}
	return w.Load(), b.Load(), r.Load(), l.Load()
}

// maxDeaths is how often the engine may die: as often as stoker starts one again within ten minutes.
const maxDeaths = 3

// dose keeps the faults apart. Three failures in a row are the sign of a sick engine, which stoker starts anew, and so is a death;
// too many of those and it gives up, as it should.
type dose struct {
	well   atomic.Int64 // whole answers since the last fault
	deaths atomic.Int64
}

func (d *dose) pick(rnd *rand.Rand) string {
	fault := faults[rnd.IntN(len(faults))]
	switch {
	case fault == "" || d.well.Load() < 2*clients: // those that were on their way when the last fault struck do not count
		return ""
	case strings.HasPrefix(fault, "die") && (rnd.IntN(50) > 0 || d.deaths.Add(-1) < 0):
		return ""
	}
	d.well.Store(0)
	return fault
}

// one makes a request, and says what became of it.
func one(t *testing.T, rnd *rand.Rand, url string, d *dose) string {
	fault := d.pick(rnd)
	patience := 10 * time.Second
	if rnd.IntN(5) == 0 || strings.HasPrefix(fault, "silent") {
		patience = time.Duration(1+rnd.IntN(50)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream := rnd.IntN(2) == 0
	body, err := json.Marshal(map[string]any{"model": "model", "stream": stream, "temperature": 0, "max_tokens": 20, "messages": []any{
		map[string]string{"role": "user", "content": fmt.Sprintf("some words here @fault{%s}", fault)},
	}})
	if err != nil {
		t.Error(err)
		return ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return gone(ctx)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case ctx.Err() != nil:
		return "left"
	case resp.StatusCode != http.StatusOK:
		return "refused"
	case !stream && err == nil && json.Valid(text):
		return "whole"
	case bytes.Contains(text, []byte("[DONE]")):
		if err != nil || bytes.Contains(text, []byte(`"error"`)) || !bytes.Contains(text, []byte(`"finish_reason":"`)) {
			t.Errorf("fault %q: an answer that is not whole has its end mark: %v\n%s", fault, err, text)
		}
		return "whole"
	case err == nil:
		t.Errorf("fault %q: a body without its end mark ended as if it were whole:\n%s", fault, text)
		return "broken"
	}
	return "broken"
}

func gone(ctx context.Context) string {
	if ctx.Err() != nil {
		return "left"
	}
	return "broken"
}

func resident(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
