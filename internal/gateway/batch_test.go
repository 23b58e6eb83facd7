package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/openai"
)

// counting counts writes and flushes.
type counting struct {
	*httptest.ResponseRecorder
	writes, flushes int
}

func (c *counting) Write(p []byte) (int, error) {
	c.writes++
	return c.ResponseRecorder.Write(p)
}

func (c *counting) Flush() { c.flushes++ }

func newPump(t *testing.T) (*pump, *counting) {
	t.Helper()
	g := New(Options{})
	w := &counting{ResponseRecorder: httptest.NewRecorder()}
	p := &pump{
		x: &exchange{g: g, w: w, out: http.NewResponseController(w)}, frames: openai.NewChatStream(openai.Head{}),
		timer: time.NewTimer(time.Hour),
	}
	t.Cleanup(func() { p.timer.Stop() })
	return p, w
}

// What is ready goes out in one write; what is alone goes out at once.
func TestBatch(t *testing.T) {
	text := news{ev: infer.Text{Text: "x"}}
	for _, c := range []struct {
		name   string
		ready  int
		big    string
		writes int
		left   int
	}{
		{"the first token alone", 0, "", 1, 0},
		{"a burst", 50, "", 1, 0},
		{"a burst of large pieces is cut", 10, strings.Repeat("x", fullBuffer), 1, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, w := newPump(t)
			feed := make(chan news, ahead)
			for range c.ready {
				feed <- text
			}
			first := text
			if c.big != "" {
				first = news{ev: infer.Text{Text: c.big}}
			}
			if done, err := p.batch(first, true, feed); done || err != nil {
				t.Fatal(done, err)
			}
			if w.writes != c.writes || w.flushes != c.writes || len(feed) != c.left {
				t.Errorf("%d writes, %d flushes, %d left; want %d, %d, %d", w.writes, w.flushes, len(feed), c.writes, c.writes, c.left)
			}
		})
	}
}

// An error behind pieces that were ready goes out behind them, and one before any piece is still a status.
func TestBatchWithError(t *testing.T) {
	fault := news{err: infer.Errorf(infer.ErrEngine, "", "no")}
	p, w := newPump(t)
	feed := make(chan news, ahead)
	feed <- fault
	if done, err := p.batch(news{ev: infer.Text{Text: "piece"}}, true, feed); !done || err == nil || !p.x.story.abort {
		t.Fatalf("done %v, err %v, abort %v", done, err, p.x.story.abort)
	}
	if got := w.Body.String(); !strings.Contains(got, "piece") || !strings.Contains(got, `"error"`) {
		t.Errorf("wrote %q", got)
	}
	p, w = newPump(t)
	if done, err := p.batch(fault, true, nil); !done || err == nil || p.x.committed || w.writes != 0 {
		t.Errorf("done %v, err %v, committed %v, %d writes", done, err, p.x.committed, w.writes)
	}
}
