package fake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// shape is how a surface writes the parts of an answer.
type shape interface {
	// progress is what shows how far the prompt is read, nil if nothing does.
	progress(q *question, done, total int) []byte
	think(token string) []byte
	text(q *question, token string) []byte
	call(c *call) [][]byte
	// finish is the event with the reason, usage the one with the counts; either may be nil where they are one.
	finish(q *question, a *reply, n counts) []byte
	usage(q *question, n counts) []byte
	done() []byte
	fault() []byte
	// whole is an answer that is not streamed.
	whole(q *question, a *reply, n counts) any
}

type counts struct{ prompt, completion int }

// errGone ends a turn whose client is gone, errFault one that a fault ended.
var (
	errGone  = errors.New("the client is gone")
	errFault = errors.New("a fault ended the answer")
)

// turn is one answer being given.
type turn struct {
	s     *Server
	w     http.ResponseWriter
	out   *http.ResponseController
	ctx   context.Context
	q     *question
	shape shape
	wrote bool
	// held are the bytes of a cut character that wait for the next event.
	held string
}

// answer gives the answer to q, with the faults of its script.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, q *question, sh shape) {
	t := &turn{s: s, w: w, out: http.NewResponseController(w), ctx: r.Context(), q: q, shape: sh}
	if !t.takeSlot() {
		s.update(func(st *State) { st.Cancelled++; st.LastCancel = time.Now() })
		return
	}
	err := t.run()
	<-s.slots
	s.update(func(st *State) {
		st.Active--
		switch {
		case err == nil:
			st.Finished++
		case errors.Is(err, errFault):
			st.Failed++
		default:
			st.Cancelled++
			st.LastCancel = time.Now()
		}
	})
	if err != nil && t.wrote {
		panic(http.ErrAbortHandler)
	}
}

func (t *turn) takeSlot() bool {
	t.s.update(func(st *State) { st.Waiting++ })
	var got bool
	select {
	case t.s.slots <- struct{}{}:
		got = true
	case <-t.ctx.Done():
	}
	t.s.update(func(st *State) {
		st.Waiting--
		if got {
			st.Active++
		}
	})
	return got
}

func (t *turn) run() error {
	if t.q.script.Status > 0 {
		t.refuse()
		return errFault
	}
	if err := t.reach(phase{name: "start"}); err != nil {
		return err
	}
	if t.q.script.NoiseAt == "answer" {
		makeNoise(t.s.cfg.Noise, t.q.script)
	}
	if err := t.prefill(); err != nil {
		return err
	}
	a := t.q.reply()
	n := counts{len(t.q.prompt), len(a.think) + len(a.tokens)}
	if a.call != nil {
		n.completion += len(Tokenize(a.call.Args)) + 1
	}
	if !t.q.stream {
		return t.whole(&a, n)
	}
	if err := t.body(&a); err != nil {
		return err
	}
	if err := t.reach(phase{name: "final"}); err != nil {
		return err
	}
	return t.end(&a, n)
}

// prefill reads the prompt in pieces.
func (t *turn) prefill() error {
	piece := t.q.script.Chunk
	if piece <= 0 {
		piece = 64
	}
	total := len(t.q.prompt)
	for done := 0; done < total; {
		done = min(done+piece, total)
		if err := t.pause(t.q.script.ChunkDelay); err != nil {
			return err
		}
		if t.q.stream {
			if err := t.emit(t.shape.progress(t.q, done, total)); err != nil {
				return err
			}
		}
		if done == piece || done == total {
			if err := t.reach(phase{name: "prefill"}); err != nil {
				return err
			}
		}
	}
	t.s.update(func(st *State) { st.PromptTokens += total })
	return nil
}

// body sends the tokens.
func (t *turn) body(a *reply) error {
	for _, token := range a.think {
		if err := t.emit(t.shape.think(token)); err != nil {
			return err
		}
	}
	for i, token := range a.tokens {
		if err := t.reach(phase{"after", i}); err != nil {
			return err
		}
		if err := t.pause(t.q.script.TokenDelay); err != nil {
			return err
		}
		if err := t.token(token, i == len(a.tokens)-1); err != nil {
			return err
		}
	}
	t.s.update(func(st *State) { st.Tokens += len(a.tokens) })
	if a.call == nil || t.q.script.DropToolCall {
		return nil
	}
	for _, frame := range t.shape.call(a.call) {
		if err := t.emit(frame); err != nil {
			return err
		}
	}
	return nil
}

// token sends one token. With cut-utf8 each character of several bytes is spread over two events, or over two writes.
func (t *turn) token(token string, last bool) error {
	switch t.q.script.CutUTF8 {
	case "events":
		token = t.held + token
		t.held = ""
		if r, size := utf8.DecodeLastRuneInString(token); !last && size > 1 && r != utf8.RuneError {
			t.held, token = token[len(token)-1:], token[:len(token)-1]
		}
		return t.emit(t.shape.text(t.q, token))
	case "writes":
		frame := t.shape.text(t.q, token)
		if at := strings.IndexFunc(string(frame), func(r rune) bool { return r >= utf8.RuneSelf }); at >= 0 {
			if err := t.write(frame[:at+1]); err != nil {
				return err
			}
			frame = frame[at+1:]
		}
		return t.write(frame)
	}
	return t.emit(t.shape.text(t.q, token))
}

// end sends the last events, less what the script omits.
func (t *turn) end(a *reply, n counts) error {
	omit := t.q.script.Omit
	if !has(omit, "finish") {
		if err := t.emit(t.shape.finish(t.q, a, n)); err != nil {
			return err
		}
	}
	if !has(omit, "usage") {
		if err := t.emit(t.shape.usage(t.q, n)); err != nil {
			return err
		}
	}
	if !has(omit, "done") {
		return t.emit(t.shape.done())
	}
	return nil
}

func (t *turn) whole(a *reply, n counts) error {
	for i := range a.tokens {
		if err := t.reach(phase{"after", i}); err != nil {
			return err
		}
		if err := t.pause(t.q.script.TokenDelay); err != nil {
			return err
		}
	}
	if err := t.reach(phase{name: "final"}); err != nil {
		return err
	}
	t.wrote = false
	t.s.update(func(st *State) { st.Tokens += len(a.tokens) })
	writeJSON(t.w, http.StatusOK, t.shape.whole(t.q, a, n))
	return nil
}

// reach carries out the faults that belong to a phase.
func (t *turn) reach(at phase) error {
	sc := &t.q.script
	if t.ctx.Err() != nil {
		return errGone
	}
	switch {
	case at.is(sc.DieAt):
		sayLastWords(t.s.cfg.Noise, *sc)
		if t.s.cfg.Die != nil {
			t.s.cfg.Die(*sc)
		}
		t.hangUp(false)
		return errFault
	case at.is(sc.SilentAt):
		sayLastWords(t.s.cfg.Noise, *sc)
		<-t.ctx.Done()
		return errGone
	case at.is(sc.CloseAt):
		return t.close()
	case at.is(sc.BadJSONAt):
		t.emit([]byte("data: {\"choices\":[{\n\n")) //nolint:errcheck // the fault is what matters
		return nil
	case at.is(sc.ErrorAt):
		t.emit(t.shape.fault()) //nolint:errcheck // the fault is what matters
		t.wrote = false         // the engine ends the body in order
		return errFault
	}
	return nil
}

// is reports whether this phase is the one that a script names.
func (p phase) is(text string) bool {
	named, err := parsePhase(text)
	return err == nil && text != "" && named == p
}

// close ends the connection as the script says.
func (t *turn) close() error {
	frame := t.shape.text(t.q, " half")
	switch t.q.script.CloseHow {
	case "reset":
		t.hangUp(true)
	case "half-line":
		t.write(frame[:len(frame)/2]) //nolint:errcheck // the fault is what matters
		t.wrote = false               // a clean end of the body behind half an event
	case "stall-half-line":
		t.write(frame[:len(frame)/2]) //nolint:errcheck // see above
		<-t.ctx.Done()
		return errGone
	default:
		if !t.wrote {
			t.hangUp(false)
		}
		t.wrote = false
	}
	return errFault
}

// hangUp closes the connection under the response, with a reset if that is asked for and the connection knows one.
func (t *turn) hangUp(reset bool) {
	conn, _, err := t.out.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0) //nolint:errcheck // then it is closed without a reset
	}
	conn.Close()
	t.wrote = false
}

// refuse answers with the script's status.
func (t *turn) refuse() {
	switch sc := t.q.script; sc.StatusBody {
	case "empty":
		t.w.WriteHeader(sc.Status)
	case "html":
		t.w.Header().Set("Content-Type", "text/html")
		t.w.WriteHeader(sc.Status)
		io.WriteString(t.w, "<html><body><h1>Bad Gateway</h1></body></html>") //nolint:errcheck // the client is gone
	case "string":
		writeJSON(t.w, sc.Status, map[string]string{"error": "scripted failure"})
	default:
		writeJSON(t.w, sc.Status, llamaError(sc.Status, "scripted failure"))
	}
}

func (t *turn) pause(d time.Duration) error {
	if d <= 0 {
		if t.ctx.Err() != nil {
			return errGone
		}
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.ctx.Done():
		return errGone
	}
}

// emit sends one event; nil is none.
func (t *turn) emit(frame []byte) error {
	if frame == nil {
		return nil
	}
	return t.write(frame)
}

func (t *turn) write(b []byte) error {
	if !t.wrote {
		t.w.Header().Set("Content-Type", "text/event-stream")
		t.wrote = true
	}
	if _, err := t.w.Write(b); err != nil {
		return errGone
	}
	if err := t.out.Flush(); err != nil {
		return errGone
	}
	return nil
}

// sayLastWords writes the script's last line.
func sayLastWords(w io.Writer, s Script) {
	if s.LastWords != "" {
		io.WriteString(w, s.LastWords+"\n") //nolint:errcheck // nobody reads it
	}
}

// makeNoise writes the script's noise.
func makeNoise(w io.Writer, s Script) {
	block := bytes.Repeat([]byte("noise noise noi\x20"), 1<<16)
	if s.NoiseNewlines {
		for i := 79; i < len(block); i += 80 {
			block[i] = '\n'
		}
	}
	for range s.Noise {
		w.Write(block) //nolint:errcheck // nobody reads it
	}
}
