package enginetest

import (
	"context"
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

	mu       sync.Mutex // guards exit and previous
	exit     *engine.Exit
	previous string
}

const refWindow = 400

func newReference(wrong string) *reference {
	r := &reference{wrong: wrong, done: make(chan struct{})}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

func (e *reference) Facts() engine.Facts {
	return engine.Facts{Engine: "reference", Mode: "exact", Window: refWindow, Parallel: 2, Caps: engine.Capabilities{
		Chat: true, Completion: true, Seed: true, Logprobs: true, CountTokens: e.wrong != "hides that it counts",
	}}
}

func (e *reference) State() engine.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return engine.State{Exit: e.exit}
}

func (e *reference) Done() <-chan struct{} { return e.done }

func (e *reference) finish(reason engine.ExitReason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.exit == nil {
		e.exit = &engine.Exit{Reason: reason, At: time.Now()}
		e.end()
		close(e.done)
	}
}

func (e *reference) Stop(context.Context) error {
	e.finish(engine.ExitStopped)
	return nil
}

func promptOf(r *infer.Request) []string {
	text := r.Prompt
	for _, m := range r.Messages {
		text += m.Text()
	}
	if r.PromptTokens != nil {
		return make([]string, len(r.PromptTokens))
	}
	return strings.Fields(text)
}

func (e *reference) CountTokens(_ context.Context, r *infer.Request) (int, error) {
	if e.wrong == "counts one too many" {
		return len(promptOf(r)) + 1, nil
	}
	return len(promptOf(r)), nil
}

func (e *reference) refuse(r *infer.Request) error {
	n := len(promptOf(r))
	switch {
	case e.life.Err() != nil && e.wrong != "takes requests when dead":
		return infer.Errorf(infer.ErrEngineLost, "", "gone")
	case r.Suffix != "" && e.wrong != "takes a suffix":
		return infer.Errorf(infer.ErrUnsupported, "suffix", "no suffix")
	case len(r.Tools) > 0 && e.wrong == "refuses without a name":
		return infer.Errorf(infer.ErrUnsupported, "", "no")
	case len(r.Tools) > 0:
		return infer.Errorf(infer.ErrUnsupported, "tools", "no tools")
	case len(r.Messages) > 0 && len(r.Messages[0].Parts) > 1:
		return infer.Errorf(infer.ErrUnsupported, r.Messages[0].Parts[1].Image.Param, "no images")
	case n >= refWindow && e.wrong == "gives wrong numbers":
		return &infer.Error{Kind: infer.ErrContextLength, Message: "too long", PromptTokens: 1, Window: 2}
	case n >= refWindow && e.wrong != "has no window":
		return &infer.Error{Kind: infer.ErrContextLength, Message: "too long", PromptTokens: n, Window: refWindow}
	}
	return nil
}

func (e *reference) Generate(ctx context.Context, r *infer.Request) (engine.Stream, error) {
	if err := e.refuse(r); err != nil {
		return nil, err
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
		prompt, e.previous = e.previous, prompt
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
	n := min(max(r.MaxTokens, 1), refWindow)
	if e.wrong == "ignores max tokens" {
		n += 2
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
	text := strings.Join(words, "")
	done := infer.Done{Reason: infer.StopLength, Usage: infer.Usage{Prompt: len(promptOf(r)), Completion: len(words)}}
	for _, stop := range r.Stop {
		if i := strings.Index(text, stop); i >= 0 && wrong != "ignores stop texts" {
			if wrong == "leaks the stop text" {
				i += len(stop)
			}
			words, done.Reason, done.StopString = []string{text[:i]}, infer.StopString, stop
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
	for _, w := range words {
		ev := infer.Text{Text: w}
		if r.Logprobs {
			p := infer.TokenLogprob{Token: w, Logprob: -0.5, Bytes: []byte(w)}
			if wrong == "gives impossible odds" {
				p.Logprob = 0.5
			}
			p.Top = make([]infer.TokenLogprob, r.TopLogprobs)
			ev.Logprobs = []infer.TokenLogprob{p}
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
