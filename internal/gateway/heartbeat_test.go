package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/gateway"
	"github.com/stoker-llm/stoker/internal/infer"
)

// clocked is a response that notes when each write came.
type clocked struct {
	*httptest.ResponseRecorder
	began  time.Time
	writes []at
}

type at struct {
	After time.Duration
	Text  string
}

func (c *clocked) Write(p []byte) (int, error) {
	c.writes = append(c.writes, at{time.Since(c.began), short(string(p))})
	return c.ResponseRecorder.Write(p)
}

// short names what a write holds.
func short(s string) string {
	switch {
	case strings.HasPrefix(s, ":"):
		return "heartbeat"
	case strings.Contains(s, `"error"`):
		return "error"
	case strings.Contains(s, "[DONE]"):
		return "done"
	}
	return "text"
}

// serve runs one streamed request on the fake clock, and reports whether the handler aborted the connection.
func serve(b *bed) (c *clocked, aborted bool) {
	c = &clocked{ResponseRecorder: httptest.NewRecorder(), began: time.Now()}
	r := httptest.NewRequestWithContext(b.t.Context(), "POST", "/v1/chat/completions", strings.NewReader(chatBody(streaming)))
	r.Host = "localhost"
	defer func() {
		if v := recover(); v != nil {
			if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			aborted = true
		}
	}()
	b.gw.ServeHTTP(c, r)
	return c, false
}

// sleep is an engine that is silent for d.
func sleep(d time.Duration) scripted.Step {
	return func(ctx context.Context, in *scripted.Instance) (infer.Event, error) {
		return scripted.Wait(time.After(d))(ctx, in)
	}
}

// The wall clock keeps a silent stream alive in every phase, whatever the engine does: C31 is a prefill that says nothing.
func TestCaseC31Heartbeats(t *testing.T) {
	const s = time.Second
	fault := scripted.Fail(infer.Errorf(infer.ErrEngine, "", "compute error"))
	say, done := scripted.Say("x"), scripted.Finish(1)
	progress := scripted.Send(infer.Progress{Done: 1, Total: 9})
	for _, c := range []struct {
		name    string
		steps   []scripted.Step
		want    []at
		code    int
		aborted bool
	}{
		{"quick", scripted.Steps(say, done), []at{{0, "done"}}, 200, false},
		{"just before the status is due", scripted.Steps(sleep(4*s), say, sleep(s), done), []at{{4 * s, "text"}, {5 * s, "done"}}, 200, false},
		{
			"silent prefill", scripted.Steps(sleep(26*s), say, done),
			[]at{{5 * s, "heartbeat"}, {15 * s, "heartbeat"}, {25 * s, "heartbeat"}, {26 * s, "done"}},
			200, false,
		},
		{
			"prefill that reports progress", scripted.Steps(progress, sleep(6*s), progress, sleep(10*s), say, done),
			[]at{{5 * s, "heartbeat"}, {15 * s, "heartbeat"}, {16 * s, "done"}},
			200, false,
		},
		{
			"silence in the middle", scripted.Steps(say, sleep(25*s), done),
			[]at{{0, "text"}, {10 * s, "heartbeat"}, {20 * s, "heartbeat"}, {25 * s, "done"}},
			200, false,
		},
		{
			"silence is counted from the last piece", scripted.Steps(say, sleep(7*s), say, sleep(11*s), done),
			[]at{{0, "text"}, {7 * s, "text"}, {17 * s, "heartbeat"}, {18 * s, "done"}},
			200, false,
		},
		{"error while the status is open", scripted.Steps(sleep(4*s), fault), []at{{4 * s, "error"}}, 502, false},
		{
			"error after the status", scripted.Steps(sleep(6*s), fault),
			[]at{{5 * s, "heartbeat"}, {6 * s, "error"}},
			200, true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := build(t, plan{driver: steps(c.steps...), opts: gateway.Options{CommitAfter: 5 * s, Heartbeat: 10 * s}})
				defer b.fleet.Stop(t.Context())
				got, aborted := serve(b)
				if diff := cmp.Diff(c.want, merge(got.writes)); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if got.Code != c.code || aborted != c.aborted {
					t.Errorf("status %d, aborted %v; want %d, %v", got.Code, aborted, c.code, c.aborted)
				}
				if c.aborted && strings.Contains(got.Body.String(), "[DONE]") {
					t.Error("a failed stream ends with [DONE]")
				}
				if got.Code == 200 && got.Header().Get("X-Stoker-Engine") != "scripted" {
					t.Error("an early status lacks the engine")
				}
			})
		})
	}
}

// merge joins writes of the same moment: how many pieces share one depends on the scheduler.
func merge(all []at) []at {
	var out []at
	for _, w := range all {
		if n := len(out); n > 0 && out[n-1].After == w.After && out[n-1].Text == "text" {
			out[n-1] = w
			continue
		}
		out = append(out, w)
	}
	return out
}

// Waiting in the queue is silence too.
func TestHeartbeatsInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := steps(sleep(12*time.Second), scripted.Say("x"), scripted.Finish(1))
		b := build(t, plan{driver: d, queue: 1, opts: gateway.Options{CommitAfter: 5 * time.Second, Heartbeat: 10 * time.Second}})
		defer b.fleet.Stop(t.Context())
		first := make(chan struct{})
		go func() {
			serve(b)
			close(first)
		}()
		synctest.Wait()
		got, _ := serve(b)
		<-first
		want := []at{{5 * time.Second, "heartbeat"}, {15 * time.Second, "heartbeat"}, {24 * time.Second, "done"}}
		if diff := cmp.Diff(want, merge(got.writes)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

func TestNoHeartbeatsIfNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := build(t, plan{driver: steps(scripted.Say("x"), sleep(time.Hour), scripted.Finish(1))})
		defer b.fleet.Stop(t.Context())
		got, _ := serve(b)
		if diff := cmp.Diff([]at{{0, "text"}, {time.Hour, "done"}}, merge(got.writes)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}
