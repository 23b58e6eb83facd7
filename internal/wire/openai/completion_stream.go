package openai

import (
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/sse"
)

// CompletionStream writes the events of one completion as event-stream frames (text_completion objects). It is used like
// [ChatStream].
type CompletionStream struct {
	base   []byte
	choice []byte
	usage  bool

	text   hold
	offset int // characters before the next token, for logprobs
	done   bool
	failed bool
}

// NewCompletionStream returns the writer of the answer with head h.
func NewCompletionStream(h Head) *CompletionStream {
	s := &CompletionStream{usage: h.IncludeUsage}
	s.base = appendHead([]byte("data: "), h, "text_completion")
	s.choice = append(append(s.choice, s.base...), `"choices":[{"index":0,"text":"`...)
	return s
}

// Append appends the frames for ev to dst. It may append none. A completion has no separate thinking: it is text too.
func (s *CompletionStream) Append(dst []byte, ev infer.Event) []byte {
	if s.done || s.failed {
		return dst
	}
	switch ev := ev.(type) {
	case infer.Text:
		return s.piece(dst, ev.Text, ev.Logprobs)
	case infer.Reasoning:
		return s.piece(dst, ev.Text, ev.Logprobs)
	case infer.Done:
		return s.finish(dst, ev)
	default:
		return dst
	}
}

// AppendError appends the error event. Nothing may follow it: the caller aborts the connection.
func (s *CompletionStream) AppendError(dst []byte, err error) []byte {
	s.failed = true
	return appendErrorFrame(dst, err)
}

// AppendHeartbeat appends a comment, which keeps idle connections and clients alive while the engine is silent.
func (s *CompletionStream) AppendHeartbeat(dst []byte) []byte {
	return sse.AppendComment(dst, "keepalive")
}

// AppendEnd appends the [DONE] frame, if the answer is whole. For one that is not it appends nothing.
func (s *CompletionStream) AppendEnd(dst []byte) []byte {
	if !s.done || s.failed {
		return dst
	}
	return append(dst, "data: [DONE]\n\n"...)
}

func (s *CompletionStream) piece(dst []byte, text string, lp []infer.TokenLogprob) []byte {
	if text == "" && len(lp) == 0 {
		return dst
	}
	frame := len(dst)
	dst = append(dst, s.choice...)
	before := len(dst)
	dst = s.text.append(dst, text)
	if len(dst) == before && len(lp) == 0 {
		return dst[:frame]
	}
	dst = append(dst, `","logprobs":`...)
	dst, s.offset = appendLegacyLogprobs(dst, lp, s.offset)
	return appendFrameEnd(append(dst, `,"finish_reason":null}]`...), s.usage)
}

func (s *CompletionStream) finish(dst []byte, ev infer.Done) []byte {
	dst = append(dst, s.choice...)
	dst = s.text.flush(dst)
	dst = append(dst, `","logprobs":null,"finish_reason":"`...)
	dst = append(dst, finishReason(ev.Reason, false)...)
	dst = appendFrameEnd(append(dst, `"}]`...), s.usage)
	if s.usage {
		dst = appendUsageFrame(dst, s.base, ev.Usage)
	}
	s.done = true
	return dst
}
