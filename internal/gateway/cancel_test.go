package gateway_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/gateway"
	"github.com/stoker-llm/stoker/internal/infer"
)

// Whoever leaves takes the work with them: by closing, by resetting, or by closing only their own direction.
func TestCaseC28ClientGone(t *testing.T) {
	leaves := map[string]func(*testing.T, net.Conn){
		"close": func(_ *testing.T, c net.Conn) { c.Close() },
		"reset": func(t *testing.T, c net.Conn) {
			if err := c.(*net.TCPConn).SetLinger(0); err != nil {
				t.Error(err)
			}
			c.Close()
		},
		"half close": func(t *testing.T, c net.Conn) {
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Error(err)
			}
		},
	}
	for _, mode := range []string{streaming, `"stream":false`} {
		for _, phase := range []string{"prefill", "decode"} {
			for how, leave := range leaves {
				t.Run(mode+" "+phase+" "+how, func(t *testing.T) {
					d := steps(scripted.Hang())
					if phase == "decode" {
						d = steps(scripted.Say("abc"), scripted.Say("def"), scripted.Hang())
					}
					d.Calls = make(chan *scripted.Call, 1)
					b := start(t, plan{driver: d})
					c := b.raw("/v1/chat/completions", chatBody(mode))
					call := <-d.Calls
					if phase == "decode" && mode == streaming {
						readUntil(t, c, "def")
					}
					leave(t, c)
					within(t, "the engine hears that the client left", call.Canceled())
					wantIdle(t, b)
				})
			}
		}
	}
}

// wantIdle waits until the model has no request any more.
func wantIdle(t *testing.T, b *bed) {
	t.Helper()
	for end := time.Now().Add(bound); ; {
		st := b.fleet.Status()[0]
		if st.Running == 0 && st.Queued == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("running %d, queued %d", st.Running, st.Queued)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCaseC28ClientGoneInTheQueue(t *testing.T) {
	for _, mode := range []string{streaming, `"stream":false`} {
		t.Run(mode, func(t *testing.T) {
			d := steps(scripted.Hang())
			d.Calls = make(chan *scripted.Call, 9)
			b := start(t, plan{driver: d, queue: 4})
			first := b.raw("/v1/chat/completions", chatBody(mode))
			call := <-d.Calls
			second := b.raw("/v1/chat/completions", chatBody(mode))
			waitFor(t, "the second one waits", func() bool { return b.fleet.Status()[0].Queued == 1 })
			second.Close()
			waitFor(t, "it leaves the queue", func() bool { return b.fleet.Status()[0].Queued == 0 })
			if len(d.Calls) != 0 {
				t.Error("the engine heard of it")
			}
			first.Close()
			within(t, "the first one ends", call.Canceled())
			wantIdle(t, b)
		})
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: did not happen", what)
		}
	}
}

// A client that stays but takes nothing does not hold its turn for ever.
func TestStuckClientIsDropped(t *testing.T) {
	big := strings.Repeat("x", 32<<10)
	d := &scripted.Driver{Calls: make(chan *scripted.Call, 1), Answer: func(*infer.Request) []scripted.Step {
		var s []scripted.Step
		for range 4000 { // far more than the sockets' buffers hold
			s = append(s, scripted.Say(big))
		}
		return append(s, scripted.Finish(4000))
	}}
	b := start(t, plan{driver: d, opts: gateway.Options{WriteStall: 200 * time.Millisecond}})
	c := b.raw("/v1/chat/completions", chatBody(streaming))
	call := <-d.Calls
	readUntil(t, c, "xxx")
	within(t, "the client is dropped", call.Canceled())
	wantIdle(t, b)
	waitFor(t, "the log says so", func() bool { return strings.Contains(b.log.String(), "outcome=client_gone") })
}

// A slow client that does read gets everything.
func TestSlowClientGetsAll(t *testing.T) {
	piece := strings.Repeat("y", 1<<10)
	var s []scripted.Step
	for range 2000 {
		s = append(s, scripted.Say(piece))
	}
	b := start(t, plan{driver: steps(append(s, scripted.Finish(2000))...)})
	req, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/chat/completions", strings.NewReader(chatBody(streaming)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all strings.Builder
	buf := make([]byte, 100<<10)
	for {
		n, err := resp.Body.Read(buf)
		all.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := len(said(t, all.String())); got != 2000<<10 {
		t.Errorf("%d bytes of text, want %d", got, 2000<<10)
	}
}
