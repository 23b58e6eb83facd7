package fake

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// shape is how a surface writes the parts of an answer. The events are appended to dst; nothing appended is no event.
type shape interface {
	// progress is what shows how far the prompt is read.
	progress(dst []byte, q *question, done, total int) []byte
	// role is the event before the first word.
	role(dst []byte) []byte
	think(dst []byte, token string) []byte
	text(dst []byte, q *question, token string) []byte
	// call is a tool call in its events.
	call(c *call) [][]byte
	// finish is the event with the reason, usage the one with the counts; either may be nothing where they are one.
	finish(dst []byte, q *question, a *reply, n counts) []byte
	usage(dst []byte, q *question, n counts) []byte
	done(dst []byte) []byte
	// fault is an error in the middle of a stream.
	fault(dst []byte) []byte
	// failStatus is the status of an answer that fails before its body, refuse writes such an error.
	failStatus() int
	refuse(w http.ResponseWriter, status int, message string)
	// whole is an answer that is not streamed.
	whole(q *question, a *reply, n counts) map[string]any
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
	rec   *record
	w     http.ResponseWriter
	out   *http.ResponseController
	ctx   context.Context
	q     *question
	shape shape
	// wrote says that the body has begun and has no end yet: it is cut off if the turn fails.
	wrote bool
	// buf is the event that is being made; it is used again for the next.
	buf []byte
	// held are the bytes of a cut character that wait for the next event.
	held string
	// reply is the body of an answer that is not streamed, as soon as it is known.
	reply []byte
	// broken says that only the first half of it is sent, as if that were all.
	broken bool
}

// answer gives the answer to q, with the faults of its script.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, q *question, sh shape) {
	t := &turn{s: s, rec: q.rec, w: w, out: http.NewResponseController(w), ctx: r.Context(), q: q, shape: sh}
	s.mark(t.rec, Waiting)
	select {
	case s.slots <- struct{}{}:
	case <-t.ctx.Done():
		s.mark(t.rec, Cancelled)
		return
	}
	s.mark(t.rec, Active)
	end := Failed
	defer func() {
		<-s.slots
		s.mark(t.rec, end)
	}()
	err := t.run()
	switch {
	case err == nil:
		end = Finished
	case !errors.Is(err, errFault):
		end = Cancelled
	}
	if err != nil && t.wrote {
		panic(http.ErrAbortHandler)
	}
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
		t.s.makeNoise(t.q.script)
	}
	if err := t.prefill(); err != nil {
		return err
	}
	a := t.q.reply()
	n := counts{len(t.q.prompt), len(a.think) + len(a.tokens) + a.callTokens()}
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
	if err := t.tellProgress(0, total); err != nil {
		return err
	}
	for done := 0; done < total; {
		n := min(piece, total-done)
		if err := t.pause(t.q.script.ChunkDelay); err != nil {
			return err
		}
		t.rec.prompt.Add(int64(n))
		t.s.total.prompt.Add(int64(n))
		done += n
		if err := t.tellProgress(done, total); err != nil {
			return err
		}
		if done == n { // the first piece
			if err := t.reach(phase{name: "prefill"}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *turn) tellProgress(done, total int) error {
	if !t.q.stream {
		return nil
	}
	return t.emit(t.shape.progress(t.buf[:0], t.q, done, total))
}

// body sends the tokens.
func (t *turn) body(a *reply) error {
	if err := t.emit(t.shape.role(t.buf[:0])); err != nil {
		return err
	}
	for _, token := range a.think {
		if err := t.pause(t.q.script.TokenDelay); err != nil {
			return err
		}
		if err := t.emit(t.shape.think(t.buf[:0], token)); err != nil {
			return err
		}
		t.count(1)
	}
	for i, token := range a.tokens {
		if err := t.step(i); err != nil {
			return err
		}
		if err := t.token(token, i == len(a.tokens)-1); err != nil {
			return err
		}
		t.count(1)
	}
	if a.call == nil {
		return t.reach(phase{"after", len(a.tokens)})
	}
	return t.calls(a)
}

// calls sends the tool call. Its events count as tokens.
func (t *turn) calls(a *reply) error {
	if t.q.script.DropToolCall {
		t.count(a.callTokens())
		return t.reach(phase{"after", 0})
	}
	frames := t.shape.call(a.call)
	for i, frame := range frames {
		if err := t.step(i); err != nil {
			return err
		}
		if err := t.emit(frame); err != nil {
			return err
		}
		t.count(1)
	}
	t.count(a.callTokens() - len(frames)) // a surface may send a call in one piece
	return t.reach(phase{"after", len(frames)})
}

// step is what comes before token i.
func (t *turn) step(i int) error {
	if err := t.reach(phase{"after", i}); err != nil {
		return err
	}
	return t.pause(t.q.script.TokenDelay)
}

// count counts tokens as they are made, so that GET /fake/state shows whether an answer goes on.
func (t *turn) count(n int) {
	t.rec.tokens.Add(int64(n))
	t.s.total.tokens.Add(int64(n))
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
	case "writes":
		frame := t.shape.text(t.buf[:0], t.q, token)
		if at := strings.IndexFunc(string(frame), func(r rune) bool { return r >= utf8.RuneSelf }); at >= 0 {
			if err := t.write(frame[:at+1]); err != nil {
				return err
			}
			frame = frame[at+1:]
		}
		return t.write(frame)
	}
	return t.emit(t.shape.text(t.buf[:0], t.q, token))
}

// end sends the last events, less what the script omits.
func (t *turn) end(a *reply, n counts) error {
	if !t.q.omits("finish") {
		if err := t.emit(t.shape.finish(t.buf[:0], t.q, a, n)); err != nil {
			return err
		}
	}
	if !t.q.omits("usage") {
		if err := t.emit(t.shape.usage(t.buf[:0], t.q, n)); err != nil {
			return err
		}
	}
	if !t.q.omits("done") {
		return t.emit(t.shape.done(t.buf[:0]))
	}
	return nil
}

// whole makes the answer and sends it in one piece.
func (t *turn) whole(a *reply, n counts) error {
	body := t.shape.whole(t.q, a, n)
	if t.q.omits("usage") {
		for _, k := range []string{"usage", "timings", "tokens_predicted", "tokens_evaluated"} {
			delete(body, k)
		}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	t.reply = append(b, '\n')
	for i := range n.completion {
		if err := t.step(i); err != nil {
			return err
		}
		t.count(1)
	}
	if err := t.reach(phase{"after", n.completion}); err != nil {
		return err
	}
	if err := t.reach(phase{name: "final"}); err != nil {
		return err
	}
	if t.broken {
		t.reply = t.reply[:len(t.reply)/2]
	}
	t.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if _, err := t.w.Write(t.reply); err != nil {
		return errGone
	}
	return nil
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

// emit sends one event, if it is one, and keeps its memory for the next.
func (t *turn) emit(frame []byte) error {
	if len(frame) == 0 {
		return nil
	}
	t.buf = frame
	return t.write(frame)
}

func (t *turn) write(b []byte) error {
	if !t.wrote {
		typ := "text/event-stream"
		if !t.q.stream {
			typ = "application/json; charset=utf-8"
		}
		t.w.Header().Set("Content-Type", typ)
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
