package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// reference is a right engine in memory: its answer is a function of the prompt and the seed. wrong names the one thing that it
// does wrong, empty for nothing.
type reference struct {
	wrong string
	life  context.Context
	end   context.CancelFunc
	done  chan struct{}

	mu       sync.Mutex // guards the fields below
	exit     *engine.Exit
	previous string
	seen     map[string]bool
	log      []string
	count    Count
}

const refWindow = 400

func newReference(wrong string) *reference {
	r := &reference{wrong: wrong, done: make(chan struct{}), seen: map[string]bool{}, log: []string{"loaded"}, count: Count{Tokens: 1}}
	if wrong == "is ready too early" {
		r.count.Tokens = 0
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

func (e *reference) Facts() engine.Facts {
	return engine.Facts{Engine: "reference", Mode: "exact", Window: refWindow, Parallel: 2, Caps: engine.Capabilities{
		Chat: true, Completion: true, Seed: true, Logprobs: true, JSONSchema: true, ForcedTools: true, CountTokens: e.wrong != "hides that it counts",
	}}
}

func (e *reference) State() engine.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return engine.State{Exit: e.exit, LogTail: e.log}
}

func (e *reference) Done() <-chan struct{} { return e.done }

func (e *reference) finish(reason engine.ExitReason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.exit == nil {
		e.exit = &engine.Exit{Reason: reason, At: time.Now()}
		switch e.wrong {
		case "forgets why it ended":
			e.exit.Reason = ""
		case "loses its log":
			e.log = nil
		}
		e.end()
		close(e.done)
	}
}

func (e *reference) Stop(context.Context) error {
	if e.wrong == "cannot be stopped twice" && e.State().Exit != nil {
		return errors.New("it is stopped")
	}
	if e.wrong == "calls a stop a crash" {
		e.finish(engine.ExitCrashed)
	}
	e.finish(engine.ExitStopped)
	return nil
}

func promptText(r *infer.Request) string {
	text := r.Prompt
	for _, m := range r.Messages {
		text += m.Text()
	}
	return text
}

func promptOf(r *infer.Request) []string { return strings.Fields(promptText(r)) }

func (e *reference) CountTokens(_ context.Context, r *infer.Request) (int, error) {
	if e.wrong == "counts one too many" {
		return len(promptOf(r)) + 1, nil
	}
	return len(promptOf(r)), nil
}

func (e *reference) refuse(r *infer.Request) error {
	n, limit := len(promptOf(r)), refWindow
	if e.wrong == "takes one too many" {
		limit++
	}
	switch {
	case e.life.Err() != nil && e.wrong != "takes requests when dead":
		return infer.Errorf(infer.ErrEngineLost, "", "gone")
	case r.Suffix != "" && e.wrong != "takes a suffix":
		return infer.Errorf(infer.ErrUnsupported, "suffix", "no suffix")
	case r.Sampling.LogitBias != nil:
		return infer.Errorf(infer.ErrUnsupported, "logit_bias", "no bias")
	case r.PromptTokens != nil:
		return infer.Errorf(infer.ErrUnsupported, "prompt", "no token ids")
	case len(r.Tools) > 0 && r.ToolChoice.Mode == "" && e.wrong == "refuses without a name":
		return infer.Errorf(infer.ErrUnsupported, "", "no")
	case len(r.Tools) > 0 && r.ToolChoice.Mode == "":
		return infer.Errorf(infer.ErrUnsupported, "tools", "no tools")
	case len(r.Messages) > 0 && len(r.Messages[0].Parts) > 1:
		return infer.Errorf(infer.ErrUnsupported, r.Messages[0].Parts[1].Image.Param, "no images")
	case n >= refWindow && e.wrong == "gives wrong numbers":
		return &infer.Error{Kind: infer.ErrContextLength, Message: "too long", PromptTokens: 1, Window: 2}
	case n >= limit && e.wrong != "has no window":
		return &infer.Error{Kind: infer.ErrContextLength, Message: "too long", PromptTokens: n, Window: refWindow}
	}
	return nil
}

func (e *reference) Generate(ctx context.Context, r *infer.Request) (engine.Stream, error) {
	e.mu.Lock()
	e.count.Requests++
	if err := e.refuse(r); err != nil {
		if e.wrong != "asks the engine first" {
			e.count.Requests--
		}
		e.mu.Unlock()
		return nil, err
	}
	e.mu.Unlock()
	if strings.Contains(r.Prompt+promptText(r), "slowly") {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		if ctx.Err() != nil && e.wrong != "calls a leaver lost" {
			return nil, infer.Errorf(infer.ErrCanceled, "", "left")
		}
		return nil, infer.Errorf(infer.ErrEngineLost, "", "left")
	}
	own, cancel := context.WithCancel(ctx)
	if e.wrong != "goes on when it is left" {
		context.AfterFunc(e.life, cancel)
	}
	s := &refStream{e: e, ctx: own, cancel: cancel, request: ctx}
	s.write(r)
	return s, nil
}

type refStream struct {
	e       *reference
	ctx     context.Context // the answer's own lifetime
	cancel  context.CancelFunc
	request context.Context // the caller's
	events  []infer.Event
	slow    bool
	ended   bool
}

// write makes the events of an answer.
func (s *refStream) write(r *infer.Request) {
	e := s.e
	prompt := strings.Join(promptOf(r), "-")
	e.mu.Lock()
	if e.wrong == "mixes answers up" {
		// The first time a prompt is answered rightly, later as the one before it: whichever of two that run at once comes first, it
		// gets the answer that another prompt got alone.
		own := prompt
		if e.seen[own] {
			prompt = e.previous
		}
		e.seen[own], e.previous = true, own
	}
	e.mu.Unlock()
	seed := int64(0)
	if r.Sampling.Seed != nil {
		seed = *r.Sampling.Seed
	}
	switch e.wrong {
	case "ignores the seed":
		seed = time.Now().UnixNano()
	case "has one seed":
		seed = 0
	case "is not greedy":
		seed += time.Now().UnixNano()
	}
	n := min(max(r.MaxTokens, 1), refWindow-len(promptOf(r)))
	switch {
	case e.wrong == "ignores max tokens":
		n += 2
	case e.wrong == "writes over the window":
		n = max(r.MaxTokens, 1)
	}
	s.slow = r.IgnoreEOS
	var words []string
	for i := range n {
		words = append(words, fmt.Sprintf("%s%d:%d ", prompt[:min(len(prompt), 12)], seed, i))
	}
	s.send(r, words)
}

func (s *refStream) send(r *infer.Request, words []string) {
	wrong := s.e.wrong
	if r.ToolChoice.Mode != "" {
		s.call(r)
		return
	}
	if r.Format.Kind != infer.FormatText {
		words = []string{`{"city":"Rome",`, `"people":3}`}
		if wrong == "breaks the schema" {
			words = []string{`{"city":7}`}
		}
	}
	if wrong == "says nothing" && r.Kind == infer.Completion {
		words = []string{" "}
	}
	text := strings.Join(words, "")
	done := infer.Done{Reason: infer.StopLength, Usage: infer.Usage{Prompt: len(promptOf(r)), Completion: len(words)}}
	for _, stop := range r.Stop {
		if i := strings.Index(text, stop); i >= 0 && wrong != "ignores stop texts" {
			if wrong == "leaks the stop text" {
				i += len(stop)
			}
			words, done.Reason, done.StopString = []string{text[:i]}, infer.StopString, stop
			if wrong == "names another stop text" {
				done.StopString = "another"
			}
			break
		}
	}
	switch wrong {
	case "counts nothing":
		done.Usage = infer.Usage{}
	case "cuts characters":
		words = append([]string{"a\xe2"}, words...)
	case "sends empty text":
		words = append([]string{""}, words...)
	}
	for i, w := range words {
		ev := infer.Text{Text: w}
		if r.Logprobs {
			p := infer.TokenLogprob{Token: w, Logprob: -0.5, Bytes: []byte(w)}
			if wrong == "gives impossible odds" {
				p.Logprob = 0.5
			}
			p.Top = make([]infer.TokenLogprob, r.TopLogprobs)
			if i > 0 || wrong != "leaves out a probability" {
				ev.Logprobs = []infer.TokenLogprob{p}
			}
		}
		s.events = append(s.events, ev)
	}
	if wrong != "forgets Done" {
		s.events = append(s.events, done)
	}
	switch wrong {
	case "says Done twice":
		s.events = append(s.events, done)
	case "talks after Done":
		s.events = append(s.events, infer.Text{Text: "and"})
	}
}

// call makes a forced tool call.
func (s *refStream) call(r *infer.Request) {
	name, args, done := r.Tools[0].Name, `{"city":"Rome"}`, infer.Done{Reason: infer.StopTools, Usage: infer.Usage{Prompt: 3, Completion: 3}}
	if r.ToolChoice.Name != "" && s.e.wrong != "calls another tool" {
		name = r.ToolChoice.Name
	}
	switch s.e.wrong {
	case "breaks the arguments":
		args = `{"city":"Ro`
	case "ends a call as a text":
		done.Reason = infer.StopEnd
	}
	s.events = []infer.Event{infer.ToolStart{Index: 0, Name: name}, infer.ToolArgs{Index: 0, Text: args}, done}
}

func (s *refStream) Next(ctx context.Context) (infer.Event, error) {
	if s.slow && !s.ended {
		select {
		case <-time.After(time.Millisecond):
		case <-s.ctx.Done():
		case <-ctx.Done():
		}
	}
	if err := s.broken(ctx); err != nil {
		return nil, err
	}
	if len(s.events) == 0 {
		s.ended = true
		return nil, io.EOF
	}
	ev := s.events[0]
	s.events = s.events[1:]
	return ev, nil
}

// broken is why the answer cannot go on.
func (s *refStream) broken(ctx context.Context) error {
	if s.ended || s.e.wrong == "goes on when it is left" {
		return nil
	}
	switch dead := s.e.life.Err() != nil; {
	case dead && s.e.wrong == "ends in order when it dies":
		return io.EOF
	case dead:
		return infer.Errorf(infer.ErrEngineLost, "", "gone")
	case s.ctx.Err() != nil || ctx.Err() != nil || s.request.Err() != nil:
		return infer.Errorf(infer.ErrCanceled, "", "left")
	}
	return nil
}

func (s *refStream) Close() error {
	if !s.ended && len(s.events) > 0 {
		s.cancel()
	}
	return nil
}
