package fake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// lmRoutes are the routes of stoker's own engine in its child role.
func (s *Server) lmRoutes() {
	s.mux.HandleFunc("GET "+native.StatePath, s.info(s.lmState))
	s.mux.HandleFunc("GET "+native.FactsPath, s.lmLoaded(s.info(s.lmFacts)))
	s.mux.HandleFunc("POST "+native.CountPath, s.lmLoaded(s.lmCount))
	s.mux.HandleFunc("POST "+native.GeneratePath, s.lmLoaded(s.lmAnswer))
}

// lmFlags reads the words behind --, which are the child's command line.
func (p *process) lmFlags() (values map[string]string, code int, done bool) {
	c, err := native.ParseCommand(p.opts.engine, p.stderr)
	switch {
	case errors.Is(err, native.ErrHelp):
		return nil, 0, true
	case err != nil:
		fmt.Fprintln(p.stderr, "stoker lm:", err)
		return nil, 2, true
	}
	return map[string]string{
		"--host": c.Socket, "--model": c.Model, "--alias": c.Model, "--ctx-size": strconv.Itoa(c.Window), "--kv-unified": "true",
		"--parallel": strconv.Itoa(c.Parallel),
	}, 0, false
}

// lmLoaded refuses while the model loads.
func (s *Server) lmLoaded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.loaded() < 1 {
			lmRefuse(w, infer.Errorf(infer.ErrLoading, "", "the model is still being loaded"))
			return
		}
		next(w, r)
	}
}

func lmRefuse(w http.ResponseWriter, err error) {
	writeJSON(w, native.Status(infer.KindOf(err)), native.ErrorOf(err))
}

// lmBytes is the size of the model that is played.
const lmBytes = 100 << 20

func (s *Server) lmState(w http.ResponseWriter, _ *http.Request) {
	far, st := s.loaded(), s.State()
	out := native.State{
		Phase: native.PhaseWeights, Done: int64(far * lmBytes), Total: lmBytes, Requests: uint64(st.Received), Tokens: uint64(st.Tokens),
		Prompt: uint64(st.PromptTokens), Active: st.Active, Waiting: st.Waiting,
	}
	if far >= 1 {
		out.Phase = native.PhaseReady
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *Server) lmFacts(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, native.Facts{
		Architecture: "llama", Quantization: "none", Mode: "exact", Kernel: "generic", Threads: 1, Window: s.window(), Parallel: s.cfg.Slots, Chat: true,
	})
}

func (s *Server) lmCount(w http.ResponseWriter, r *http.Request) {
	in, err := native.DecodeRequest(http.MaxBytesReader(w, r.Body, maxBody))
	var q *question
	if err == nil {
		q, err = lmRequest(in).question(setting{base: func(string) (Script, bool, string) { return Script{}, false, "" }, chat: in.Kind == infer.Chat})
	}
	if err != nil {
		lmRefuse(w, infer.Errorf(infer.ErrInvalid, "", "%v", err))
		return
	}
	writeJSON(w, http.StatusOK, native.Count{Tokens: len(q.prompt)})
}

func (s *Server) lmAnswer(w http.ResponseWriter, r *http.Request) {
	req, rec, err := s.read(w, r)
	var q *question
	if err == nil {
		q, err = s.lmQuestion(req.raw)
	}
	if err != nil {
		if rec != nil {
			s.mark(rec, Refused)
		}
		lmRefuse(w, err)
		return
	}
	q.rec = rec
	s.answer(w, r, q, lmShape{})
}

func (s *Server) lmQuestion(body []byte) (*question, error) {
	in, err := native.DecodeRequest(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if err := lmCannot(in); err != nil {
		return nil, err
	}
	window := s.window()
	q, err := lmRequest(in).question(setting{base: s.base, chat: in.Kind == infer.Chat, max: window})
	if err != nil {
		return nil, infer.Errorf(infer.ErrInvalid, "", "%v", err)
	}
	if n := len(q.prompt); n >= window {
		return nil, &infer.Error{Kind: infer.ErrContextLength, Message: "the prompt leaves no room for an answer", PromptTokens: n, Window: window}
	}
	q.max = min(q.max, window-len(q.prompt))
	return q, nil
}

// lmCannot names what the engine cannot do.
func lmCannot(in *infer.Request) error {
	var param string
	switch {
	case len(in.Tools) > 0 && in.ToolChoice.Mode != infer.ToolNone:
		param = "tools"
	case in.Format.Kind != infer.FormatText:
		param = "response_format"
	case in.Suffix != "":
		param = "suffix"
	default:
		return nil
	}
	return infer.Errorf(infer.ErrUnsupported, param, "the embedded engine has no %s", param)
}

// lmRequest puts a request in the words of the other surfaces. It is always streamed, with progress.
func lmRequest(in *infer.Request) *request {
	r := &request{
		Stream: true, Progress: true, Temperature: in.Sampling.Temperature, TopLogprobs: in.TopLogprobs, IgnoreEOS: in.IgnoreEOS,
		Prompt: quoted(in.Prompt), Stop: quoted(in.Stop), Logprobs: quoted(in.Logprobs),
	}
	if in.PromptTokens != nil {
		r.Prompt = quoted(in.PromptTokens)
	}
	if in.MaxTokens > 0 {
		r.MaxTokens = &in.MaxTokens
	}
	if in.Sampling.Seed != nil {
		seed := uint64(*in.Sampling.Seed)
		r.Seed = &seed
	}
	for _, m := range in.Messages {
		r.Messages = append(r.Messages, message{string(m.Role), quoted(m.Text())})
	}
	return r
}

// quoted is a value of a type that JSON always has.
func quoted(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// lmShape writes answers in the child's dialect.
type lmShape struct{}

func event(dst []byte, ev infer.Event) []byte {
	b, err := native.AppendEvent(dst, ev)
	if err != nil {
		return dst
	}
	return b
}

func (lmShape) progress(dst []byte, _ *question, done, total int) []byte {
	return event(dst, infer.Progress{Done: done, Total: total})
}

func (lmShape) role(dst []byte) []byte { return dst }

func (lmShape) think(dst []byte, token string) []byte {
	return event(dst, infer.Reasoning{Text: token})
}

func (lmShape) text(dst []byte, q *question, token string) []byte {
	ev := infer.Text{Text: token}
	if q.probs >= 0 {
		ev.Logprobs = []infer.TokenLogprob{{Token: token, Bytes: []byte(token), Logprob: -0.25}}
		for i := range q.probs {
			other := token
			if i > 0 {
				other = "alternative" + strconv.Itoa(i)
			}
			ev.Logprobs[0].Top = append(ev.Logprobs[0].Top, infer.TokenLogprob{Token: other, Bytes: []byte(other), Logprob: -0.25 - float64(i)})
		}
	}
	return event(dst, ev)
}

func (lmShape) call(*call) [][]byte { return nil }

func (lmShape) finish(dst []byte, q *question, a *reply, n counts) []byte {
	d := infer.Done{Reason: infer.StopEnd, StopString: a.stopWord, Usage: infer.Usage{Prompt: n.prompt, Completion: n.completion}}
	switch {
	case a.stopWord != "":
		d.Reason = infer.StopString
	case a.reason == "length":
		d.Reason = infer.StopLength
	}
	if q.omits("usage") {
		return append(dst, `{"kind":"done","done":{"reason":"`+string(d.Reason)+`"}}`+"\n"...)
	}
	return event(dst, d)
}

func (lmShape) usage(dst []byte, _ *question, _ counts) []byte { return dst }
func (lmShape) done(dst []byte) []byte                         { return dst }

func (lmShape) fault(dst []byte) []byte {
	b, err := native.AppendError(dst, infer.Errorf(infer.ErrEngine, "", scripted))
	if err != nil {
		return dst
	}
	return b
}

func (lmShape) failStatus() int { return http.StatusInternalServerError }

func (lmShape) refuse(w http.ResponseWriter, status int, message string) {
	kind := infer.ErrEngine
	switch status {
	case http.StatusBadRequest:
		kind = infer.ErrInvalid
	case http.StatusServiceUnavailable:
		kind = infer.ErrUnavailable
	}
	writeJSON(w, status, native.ErrorOf(infer.Errorf(kind, "", "%s", strings.TrimSpace(message))))
}

func (lmShape) whole(*question, *reply, counts) map[string]any { return nil } // answers are always streamed
