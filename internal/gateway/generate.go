package gateway

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/openai"
)

// framer turns events into frames of a dialect's stream.
type framer interface {
	Append(dst []byte, ev infer.Event) []byte
	AppendEnd(dst []byte) []byte
	AppendError(dst []byte, err error) []byte
	AppendHeartbeat(dst []byte) []byte
}

// collector turns events into a dialect's whole answer.
type collector interface {
	Add(ev infer.Event)
	Body() ([]byte, error)
}

var (
	_ framer    = (*openai.ChatStream)(nil)
	_ framer    = (*openai.CompletionStream)(nil)
	_ collector = (*openai.ChatAnswer)(nil)
	_ collector = (*openai.CompletionAnswer)(nil)
)

// task is a generation that was asked for, in no dialect but for its two writers.
type task struct {
	// model is the client's word for it at first, then the served name.
	model  string
	stream bool
	head   openai.Head
	req    *infer.Request

	frames  func(openai.Head) framer
	collect func(openai.Head) collector
}

func (g *Gateway) chat(x *exchange) error {
	body, err := x.body()
	if err != nil {
		return err
	}
	d, err := openai.DecodeChat(body)
	if err != nil {
		return err
	}
	x.story.dropped = d.Dropped
	return g.generate(x, &task{
		model: d.Model, stream: d.Stream, req: d.Infer,
		head:    openai.Head{ID: "chatcmpl-" + idTail(x.id), IncludeUsage: d.IncludeUsage},
		frames:  func(h openai.Head) framer { return openai.NewChatStream(h) },
		collect: func(h openai.Head) collector { return openai.NewChatAnswer(h) },
	})
}

func (g *Gateway) completion(x *exchange) error {
	body, err := x.body()
	if err != nil {
		return err
	}
	d, err := openai.DecodeCompletion(body)
	if err != nil {
		return err
	}
	return g.generate(x, &task{
		model: d.Model, stream: d.Stream, req: d.Infer,
		head:    openai.Head{ID: "cmpl-" + idTail(x.id), IncludeUsage: d.IncludeUsage},
		frames:  func(h openai.Head) framer { return openai.NewCompletionStream(h) },
		collect: func(h openai.Head) collector { return openai.NewCompletionAnswer(h) },
	})
}

// idTail makes the answer's id from the request's, so that either finds the log line.
func idTail(id string) string { return strings.TrimPrefix(id, "req_") }

// generate resolves the model and answers as a stream or as a whole.
func (g *Gateway) generate(x *exchange, t *task) error {
	served, err := g.opts.Fleet.Resolve(t.model)
	if err != nil {
		return err
	}
	t.model, x.story.model = served, served
	t.head.Model, t.head.Created = served, x.start.Unix()
	t.req.ID = x.id
	if t.stream {
		return g.stream(x, t)
	}
	return g.whole(x, t)
}

// whole answers in one piece. The client's leaving ends the request's context, and with it the work.
func (g *Gateway) whole(x *exchange, t *task) error {
	body, err := g.collect(x, t)
	if err != nil {
		return err
	}
	return x.send(200, "application/json", body)
}

// collect reads the whole answer and gives its turn back before a byte of it is written.
func (g *Gateway) collect(x *exchange, t *task) ([]byte, error) {
	a, err := g.opts.Fleet.Generate(x.r.Context(), t.model, t.req)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	x.origin(a.Facts.Engine, a.Facts.Mode, a.Facts.Window)
	c := t.collect(t.head)
	for {
		ev, err := a.Next()
		if errors.Is(err, io.EOF) {
			return c.Body()
		}
		if err != nil {
			return nil, err
		}
		x.story.note(ev)
		c.Add(ev)
	}
}

// origin sets the headers that say where the answer comes from.
func (x *exchange) origin(engine, mode string, window int) {
	x.story.engine = engine
	h := x.w.Header()
	h["X-Stoker-Engine"] = []string{engine}
	h["X-Stoker-Mode"] = []string{mode}
	h["X-Stoker-Window"] = []string{strconv.Itoa(window)}
}

// originOf sets them for a model whose answer has not begun.
func (x *exchange) originOf(model string) {
	for _, st := range x.g.opts.Fleet.Status() {
		if st.Name == model && st.Facts != nil {
			x.origin(st.Facts.Engine, st.Facts.Mode, st.Facts.Window)
		}
	}
}
