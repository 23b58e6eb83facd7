package llamacpp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

func TestStartTellsItsProgress(t *testing.T) {
	s := scriptedSpec(t)
	var phases []string
	s.OnLoad = func(p engine.LoadProgress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
		if p.Total <= 0 || p.Done > p.Total {
			t.Errorf("progress %+v is not within its total", p)
		}
	}
	in, err := scriptedDriver(t, "load: 300ms").Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	stopAfter(t, in)
	if got := strings.Join(phases, " "); got != "weights warmup ready" {
		t.Errorf("phases = %q, want weights warmup ready", got)
	}
	if f := in.Facts(); f.Window != 4096 || f.Parallel != 1 || !f.Caps.Chat || f.Mode == "" {
		t.Errorf("facts = %+v", f)
	}
}

// TestReviewR3TwentyAtOnce: twenty engines that start at the same moment on ports all become ready, each on its own.
func TestReviewR3TwentyAtOnce(t *testing.T) {
	const many = 20
	d := scriptedDriver(t, "no-socket: true")
	d.Fingerprint(t.Context())
	var wg sync.WaitGroup
	ports := make([]int, many)
	for i := range many {
		s := scriptedSpec(t)
		wg.Go(func() {
			in, err := d.Start(t.Context(), s)
			if err != nil {
				t.Errorf("engine %d: %v", i, err)
				return
			}
			stopAfter(t, in)
			ports[i] = in.(*instance).addr.port
			st, err := in.Generate(t.Context(), chat("number "+strconv.Itoa(i), 4))
			if err != nil {
				t.Errorf("engine %d: %v", i, err)
				return
			}
			if text, _, err := answer(t.Context(), st); err != nil || text != "1 number 2 "+strconv.Itoa(i) {
				t.Errorf("engine %d answered %q, %v", i, text, err)
			}
		})
	}
	wg.Wait()
	seen := map[int]bool{}
	for i, p := range ports {
		if p == 0 || seen[p] {
			t.Errorf("engine %d has port %d, which is none or another's", i, p)
		}
		seen[p] = true
	}
}

// TestReviewR3PortLost: an engine that finds its port taken is started again on another one, a bounded number of times.
func TestReviewR3PortLost(t *testing.T) {
	state := filepath.Join(t.TempDir(), "starts")
	in := startScripted(t, "no-socket: true\nport-lost: 2\nstate-file: "+state)
	// The scripted engine only says that the port is taken, so the driver has to find that out from a real squatter. Here it
	// learns from the end of the process; the third start is the good one.
	if b, err := os.ReadFile(state); err != nil || strings.TrimSpace(string(b)) != "3" {
		t.Errorf("%s starts (%v), want 3", b, err)
	}
	if in.addr.port == 0 {
		t.Error("it does not use a port")
	}
}

// TestReviewR3Stranger: somebody else who answers on our port is never taken for our engine, whatever he says.
func TestReviewR3Stranger(t *testing.T) {
	for name, status := range map[string]int{"says yes to everybody": http.StatusOK, "says no to everybody": http.StatusUnauthorized} {
		t.Run(name, func(t *testing.T) {
			stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				w.Write([]byte(`{"status":"ok"}`)) //nolint:errcheck // a test
			}))
			defer stranger.Close()
			_, port, err := net.SplitHostPort(stranger.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.Atoi(port)
			if err != nil {
				t.Fatal(err)
			}
			addr := address{port: n, key: "secret"}
			st := &starter{spec: engine.StartSpec{Window: 1, Parallel: 1}}
			if err := st.prove(t.Context(), &instance{addr: addr, conn: newConn(addr)}); err == nil {
				t.Error("a stranger was taken for our engine")
			}
		})
	}
}

// TestReviewR16FailedStart: whatever goes wrong on the way to the first token, the error names the model and carries the engine's own
// words, and nothing is left.
func TestReviewR16FailedStart(t *testing.T) {
	tests := []struct {
		name, script string
		kind         infer.ErrorKind
		says         string
	}{
		{"dies before it listens", "die-at: bind\nlast-words: 'E cannot open the model'", infer.ErrEngine, "cannot open the model"},
		{"dies while loading", "load: 200ms\ndie-at: load\nlast-words: 'E failed to load model'", infer.ErrEngine, "architecture llama"},
		{"runs out of memory", "load: 200ms\ndie-at: load\ndie-how: kill\nlast-words: 'CUDA error: out of memory'", infer.ErrModelTooLarge, "out of memory"},
		{"dies in its first answer", "die-at: warmup", infer.ErrEngine, "could not load tiny"},
		{"lies about being ready", "lies: fail", infer.ErrEngine, "scripted failure"},
		{"gives a smaller window", "window: 512", infer.ErrUnsupported, "512"},
		{"is silent while loading", "silent-at: load", infer.ErrEngine, "no progress"},
		{"never answers", "lies: never", infer.ErrEngine, "no progress"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := scriptedSpec(t)
			if tt.says == "no progress" {
				s.LoadStall = 500 * time.Millisecond
			}
			_, err := scriptedDriver(t, tt.script).Start(t.Context(), s)
			if infer.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Start = %q (%s), want %q in it (%s)", err, infer.KindOf(err), tt.says, tt.kind)
			}
			if left := mine(t, s.RunDir); left != "" {
				t.Errorf("processes are left: %s", left)
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	s := scriptedSpec(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	s.OnLoad = func(engine.LoadProgress) { cancel(enough) }
	_, err := scriptedDriver(t, "load: 1h").Start(ctx, s)
	if !errors.Is(err, enough) {
		t.Errorf("Start = %v, want the context's cause", err)
	}
	if left := mine(t, s.RunDir); left != "" {
		t.Errorf("processes are left: %s", left)
	}
}

// TestReviewR12NoiseStopsNothing: 100 MiB of output without a newline, before and while answering, hold up nothing.
func TestReviewR12NoiseStopsNothing(t *testing.T) {
	for _, at := range []string{"load", "answer"} {
		t.Run(at, func(t *testing.T) {
			in := startScripted(t, "noise: 100\nnoise-at: "+at)
			st, err := in.Generate(t.Context(), chat("a b", 4))
			if err != nil {
				t.Fatal(err)
			}
			if text, _, err := answer(t.Context(), st); err != nil || text != "1 a 2 b" {
				t.Errorf("answer %q, %v", text, err)
			}
		})
	}
}

func TestReviewR2StopEndsTheTree(t *testing.T) {
	for _, script := range []string{"ignore-sigterm: true", "grandchild: true"} {
		t.Run(script, func(t *testing.T) {
			in := startScripted(t, script)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := in.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			if e := in.State().Exit; e == nil || e.Reason != engine.ExitStopped {
				t.Errorf("exit = %+v, want stopped", e)
			}
			if left := mine(t, in.spec.RunDir); left != "" {
				t.Errorf("processes are left: %s", left)
			}
			if _, err := in.Generate(t.Context(), chat("a", 1)); infer.KindOf(err) != infer.ErrEngineLost {
				t.Errorf("Generate after Stop = %v", err)
			}
		})
	}
}
