package gateway

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
)

// story is what the log line of a request tells. Texts are not part of it.
type story struct {
	model, engine string
	status        int
	first         time.Time // when the first piece of an answer came
	usage         *infer.Usage
	dropped       []string
	// abort is set when the connection must not end as if all were well.
	abort bool
}

// note looks at an event on its way to the client.
func (s *story) note(ev infer.Event) {
	switch e := ev.(type) {
	case infer.Progress:
		return
	case infer.Done:
		s.usage = &e.Usage
	}
	if s.first.IsZero() {
		s.first = time.Now()
	}
}

// tell writes the log line. Requests that run models are worth a line by default; the polling of the others is not.
func (x *exchange) tell(err error) {
	log, ctx, level := x.g.opts.Log, x.r.Context(), slog.LevelDebug
	if x.r.Method == http.MethodPost || err != nil {
		level = slog.LevelInfo
	}
	if x.story.status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	if !log.Enabled(ctx, level) {
		return
	}
	s := &x.story
	attrs := append(make([]slog.Attr, 0, 12), slog.String("id", x.id), slog.String("method", clip(x.r.Method)),
		slog.String("route", x.routeName()), slog.Int("status", s.status), slog.Duration("took", time.Since(x.start)),
		slog.String("outcome", outcome(err)))
	if s.model != "" {
		attrs = append(attrs, slog.String("model", s.model), slog.String("engine", s.engine))
	}
	if !s.first.IsZero() {
		attrs = append(attrs, slog.Duration("ttft", s.first.Sub(x.start)))
	}
	if s.usage != nil {
		attrs = append(attrs, slog.Int("prompt_tokens", s.usage.Prompt), slog.Int("cached_tokens", s.usage.Cached),
			slog.Int("completion_tokens", s.usage.Completion))
	}
	if len(s.dropped) > 0 {
		attrs = append(attrs, slog.Any("dropped", s.dropped))
	}
	if err != nil && s.status >= http.StatusInternalServerError || s.abort && infer.KindOf(err) != infer.ErrCanceled {
		attrs = append(attrs, slog.Any("err", err))
	}
	log.LogAttrs(ctx, level, "request", attrs...)
}

// outcome is "ok", "client_gone" or the kind of the error.
func outcome(err error) string {
	switch kind := infer.KindOf(err); kind {
	case "":
		return "ok"
	case infer.ErrCanceled:
		return "client_gone"
	default:
		return string(kind)
	}
}

func (x *exchange) routeName() string {
	if x.route == nil {
		return ""
	}
	return x.route.Path
}
