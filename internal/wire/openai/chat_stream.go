package openai

import (
	"strconv"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
	"github.com/stoker-llm/stoker/internal/wire/sse"
)

// ChatStream writes the events of one chat answer as event-stream frames (chat.completion.chunk objects). Append it all:
// the results are whole frames, in order. Text pieces may end inside a character.
//
//	s := openai.NewChatStream(head)
//	for each event { buf = s.Append(buf[:0], ev); write and flush buf }
//	at io.EOF:       buf = s.AppendEnd(buf[:0])
//	on failure:      buf = s.AppendError(buf[:0], err), write it, abort the connection
type ChatStream struct {
	base    []byte // a frame up to its choices
	choice  []byte // a frame up to its delta
	closing []byte // a frame from its logprobs on, when nothing special is in it
	usage   bool
	id      string

	speaking  field
	content   hold
	reasoning hold
	args      []hold
	started   bool
	done      bool
	failed    bool
}

// field is the member of the delta that the last piece went to.
type field uint8

const (
	fieldNone field = iota
	fieldContent
	fieldReasoning
	fieldTools
)

// NewChatStream returns the writer of the answer with head h.
func NewChatStream(h Head) *ChatStream {
	s := &ChatStream{usage: h.IncludeUsage, id: h.ID}
	s.base = appendHead([]byte("data: "), h, "chat.completion.chunk")
	s.choice = append(append(s.choice, s.base...), `"choices":[{"index":0,"delta":`...)
	s.closing = appendFrameEnd([]byte(`,"logprobs":null,"finish_reason":null}]`), s.usage)
	return s
}

// appendFrameEnd ends a chunk behind its choices. With usage asked for, OpenAI sends the member in each chunk, null until
// the last.
func appendFrameEnd(dst []byte, usage bool) []byte {
	if usage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

// Append appends the frames for ev to dst. It may append none: for progress, or while a character is incomplete. Events
// after [infer.Done] are ignored.
func (s *ChatStream) Append(dst []byte, ev infer.Event) []byte {
	if s.done || s.failed {
		return dst
	}
	switch ev := ev.(type) {
	case infer.Text:
		return s.piece(dst, fieldContent, ev.Text, ev.Logprobs)
	case infer.Reasoning:
		return s.piece(dst, fieldReasoning, ev.Text, ev.Logprobs)
	case infer.ToolStart:
		return s.toolStart(dst, ev)
	case infer.ToolArgs:
		return s.toolArgs(dst, ev)
	case infer.Done:
		return s.finish(dst, ev)
	default:
		return dst
	}
}

// AppendError appends the error event. Nothing may follow it: the caller aborts the connection.
func (s *ChatStream) AppendError(dst []byte, err error) []byte {
	s.failed = true
	return appendErrorFrame(dst, err)
}

func appendErrorFrame(dst []byte, err error) []byte {
	dst = append(dst, "data: "...)
	dst = appendError(dst, clientError(err))
	return append(dst, "\n\n"...)
}

// AppendHeartbeat appends a comment, which keeps idle connections and clients alive while the engine is silent.
func (s *ChatStream) AppendHeartbeat(dst []byte) []byte { return sse.AppendComment(dst, "keepalive") }

// AppendEnd appends the [DONE] frame, if the answer is whole. For one that is not it appends nothing.
func (s *ChatStream) AppendEnd(dst []byte) []byte {
	if !s.done || s.failed {
		return dst
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// enter opens the answer before its first frame, and closes the text of the field that was spoken in before f.
func (s *ChatStream) enter(dst []byte, f field) []byte {
	if !s.started {
		s.started = true
		// An empty string and not null: clients assert on it (kyutai-labs/unmute#80).
		dst = append(dst, s.choice...)
		dst = append(dst, `{"role":"assistant","content":""}`...)
		dst = append(dst, s.closing...)
	}
	if s.speaking != f {
		dst = s.flush(dst)
		s.speaking = f
	}
	return dst
}

// flush sends what is held back of the field that was spoken in last.
func (s *ChatStream) flush(dst []byte) []byte {
	h := &s.content
	switch s.speaking {
	case fieldReasoning:
		h = &s.reasoning
	case fieldContent:
	default:
		return dst
	}
	if h.n == 0 {
		return dst
	}
	dst = s.openText(dst, s.speaking)
	dst = append(h.flush(dst), `"}`...)
	return append(dst, s.closing...)
}

func (s *ChatStream) openText(dst []byte, f field) []byte {
	dst = append(dst, s.choice...)
	if f == fieldReasoning {
		return append(dst, `{"reasoning_content":"`...)
	}
	return append(dst, `{"content":"`...)
}

func (s *ChatStream) piece(dst []byte, f field, text string, lp []infer.TokenLogprob) []byte {
	if text == "" && len(lp) == 0 {
		return dst
	}
	dst = s.enter(dst, f)
	h := &s.content
	if f == fieldReasoning {
		h = &s.reasoning
	}
	frame := len(dst)
	dst = s.openText(dst, f)
	before := len(dst)
	dst = h.append(dst, text)
	if len(dst) == before && len(lp) == 0 {
		return dst[:frame]
	}
	dst = append(dst, `"}`...)
	if len(lp) == 0 {
		return append(dst, s.closing...)
	}
	dst = append(dst, `,"logprobs":`...)
	dst = appendLogprobs(dst, lp)
	dst = append(dst, `,"finish_reason":null}]`...)
	return appendFrameEnd(dst, s.usage)
}

// toolStart opens a call in a frame of its own, with empty arguments: clients lose the "{" that comes with the name
// (ggml-org/llama.cpp#22722).
func (s *ChatStream) toolStart(dst []byte, ev infer.ToolStart) []byte {
	if ev.Index < len(s.args) {
		return dst
	}
	dst = s.enter(dst, fieldTools)
	for len(s.args) <= ev.Index {
		s.args = append(s.args, hold{})
	}
	dst = s.openCall(dst, ev.Index)
	dst = append(dst, `,"id":`...)
	dst = rawjson.AppendString(dst, callID(s.id, ev))
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = rawjson.AppendString(dst, ev.Name)
	dst = append(dst, `,"arguments":""}}]}`...)
	return append(dst, s.closing...)
}

func (s *ChatStream) openCall(dst []byte, index int) []byte {
	dst = append(dst, s.choice...)
	dst = append(dst, `{"tool_calls":[{"index":`...)
	return strconv.AppendInt(dst, int64(index), 10)
}

func (s *ChatStream) toolArgs(dst []byte, ev infer.ToolArgs) []byte {
	if ev.Index < 0 || ev.Index >= len(s.args) || ev.Text == "" {
		return dst
	}
	frame := len(dst)
	dst = append(s.openCall(dst, ev.Index), `,"function":{"arguments":"`...)
	before := len(dst)
	dst = s.args[ev.Index].append(dst, ev.Text)
	if len(dst) == before {
		return dst[:frame]
	}
	dst = append(dst, `"}}]}`...)
	return append(dst, s.closing...)
}

func (s *ChatStream) finish(dst []byte, ev infer.Done) []byte {
	dst = s.enter(dst, fieldNone)
	for i := range s.args {
		if s.args[i].n > 0 {
			dst = append(s.openCall(dst, i), `,"function":{"arguments":"`...)
			dst = append(s.args[i].flush(dst), `"}}]}`...)
			dst = append(dst, s.closing...)
		}
	}
	dst = append(dst, s.choice...)
	dst = append(dst, `{},"logprobs":null,"finish_reason":"`...)
	dst = append(dst, finishReason(ev.Reason, len(s.args) > 0)...)
	dst = appendFrameEnd(append(dst, `"}]`...), s.usage)
	if s.usage {
		dst = appendUsageFrame(dst, s.base, ev.Usage)
	}
	s.done = true
	return dst
}

// appendUsageFrame appends the frame with the usage. Its choices are empty but present: SDKs fail without the member.
func appendUsageFrame(dst, base []byte, u infer.Usage) []byte {
	dst = append(dst, base...)
	dst = append(dst, `"choices":[],"usage":`...)
	dst = appendUsage(dst, u)
	return append(dst, "}\n\n"...)
}

// callID returns the identifier of a call. One that the engine gave is kept; else it is made from the answer's own, so
// that the same answer has the same identifiers in a stream and as a whole.
func callID(answer string, ev infer.ToolStart) string {
	if ev.ID != "" {
		return ev.ID
	}
	for i := range len(answer) {
		if answer[i] == '-' {
			answer = answer[i+1:]
			break
		}
	}
	return "call_" + answer + "_" + strconv.Itoa(ev.Index)
}
