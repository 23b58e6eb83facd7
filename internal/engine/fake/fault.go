package fake

import (
	"bytes"
	"io"
	"net"
	"net/http"
)

// scripted is what the errors of a script say.
const scripted = "scripted failure"

// reach carries out the faults that belong to a phase.
func (t *turn) reach(at phase) error {
	if t.ctx.Err() != nil {
		return errGone
	}
	f := &t.q.faults
	if at == f.badJSON {
		if err := t.garble(); err != nil {
			return err
		}
	}
	switch at {
	case f.die:
		if t.s.cfg.Die != nil {
			t.s.cfg.Die(t.q.script) // it does not come back
		}
		sayLastWords(t.s.cfg.Noise, t.q.script)
		return t.hangUp(false)
	case f.silent:
		sayLastWords(t.s.cfg.Noise, t.q.script)
		<-t.ctx.Done()
		return errGone
	case f.close:
		return t.close()
	case f.fail:
		return t.fail()
	}
	return nil
}

// garble sends an event that is no JSON, or breaks an answer that is not streamed.
func (t *turn) garble() error {
	if !t.q.stream {
		t.broken = true
		return nil
	}
	return t.write([]byte("data: {\"choices\":[{\n\n"))
}

// fail is an error of the engine. If the body has begun, the engine ends it in order.
func (t *turn) fail() error {
	if !t.wrote {
		t.shape.refuse(t.w, t.shape.failStatus(), scripted)
		return errFault
	}
	err := t.emit(t.shape.fault(t.buf[:0]))
	t.wrote = false
	if err != nil {
		return err
	}
	return errFault
}

// close ends the connection as the script says.
func (t *turn) close() error {
	switch t.q.script.CloseHow {
	case "reset":
		return t.hangUp(true)
	case "cut":
		return t.hangUp(false)
	case "half-line", "stall-half-line":
		if err := t.write(t.half()); err != nil {
			return err
		}
		if t.q.script.CloseHow == "stall-half-line" {
			<-t.ctx.Done()
			return errGone
		}
	default:
		if !t.wrote {
			return t.hangUp(false)
		}
	}
	t.wrote = false // the body ends in order, and is not whole
	return errFault
}

// half is the first half of what would have come next.
func (t *turn) half() []byte {
	next := t.reply
	if t.q.stream {
		next = t.shape.text(t.buf[:0], t.q, " half")
	}
	if len(next) == 0 {
		return []byte("{")
	}
	return next[:len(next)/2]
}

// hangUp closes the connection under the response, with a reset if that is asked for and the connection knows one.
func (t *turn) hangUp(reset bool) error {
	conn, _, err := t.out.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0) //nolint:errcheck // then it is closed without a reset
	}
	conn.Close()
	t.wrote = false
	return errFault
}

// refuse answers with the script's status.
func (t *turn) refuse() {
	switch sc := t.q.script; sc.StatusBody {
	case "empty":
		t.w.WriteHeader(sc.Status)
	case "html":
		writeHTML(t.w, sc.Status)
	case "string":
		writeJSON(t.w, sc.Status, map[string]string{"error": scripted})
	case "object":
		writeJSON(t.w, sc.Status, llamaError(sc.Status, scripted))
	default:
		t.shape.refuse(t.w, sc.Status, scripted)
	}
}

// sayLastWords writes the script's last line.
func sayLastWords(w io.Writer, s Script) {
	if s.LastWords != "" {
		io.WriteString(w, s.LastWords+"\n") //nolint:errcheck // nobody reads it
	}
}

// makeNoise writes the script's noise.
func (s *Server) makeNoise(sc Script) { makeNoise(s.cfg.Noise, s.cfg.Stdout, sc) }

func makeNoise(stderr, stdout io.Writer, s Script) {
	if s.Noise <= 0 {
		return
	}
	block := bytes.Repeat([]byte("noise noise noi\x20"), 1<<16)
	if s.NoiseNewlines {
		for i := 79; i < len(block); i += 80 {
			block[i] = '\n'
		}
	}
	for range s.Noise {
		if s.NoiseTo != "stdout" {
			stderr.Write(block)
		}
		if s.NoiseTo == "stdout" || s.NoiseTo == "both" {
			stdout.Write(block)
		}
	}
}
