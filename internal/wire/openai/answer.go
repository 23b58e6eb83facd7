package openai

import (
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// errNoDone is the failure of an answer whose final event never came.
func errNoDone() error {
	return infer.Errorf(infer.ErrEngineLost, "", "the engine stopped in the middle of the answer; please try again")
}

// ChatAnswer collects the events of one chat answer into a chat.completion object. What it says is what a client would
// get by joining the chunks of a [ChatStream].
type ChatAnswer struct {
	head      Head
	content   []byte
	reasoning []byte
	calls     []infer.ToolCall
	args      [][]byte
	logprobs  []infer.TokenLogprob
	done      *infer.Done
}

// NewChatAnswer returns an empty answer with head h.
func NewChatAnswer(h Head) *ChatAnswer { return &ChatAnswer{head: h} }

// Add takes the next event. Events after [infer.Done] are ignored.
func (a *ChatAnswer) Add(ev infer.Event) {
	if a.done != nil {
		return
	}
	switch ev := ev.(type) {
	case infer.Text:
		a.content = append(a.content, ev.Text...)
		a.logprobs = append(a.logprobs, ev.Logprobs...)
	case infer.Reasoning:
		a.reasoning = append(a.reasoning, ev.Text...)
		a.logprobs = append(a.logprobs, ev.Logprobs...)
	case infer.ToolStart:
		for len(a.calls) <= ev.Index {
			a.calls = append(a.calls, infer.ToolCall{ID: callID(a.head.ID, ev), Name: ev.Name})
			a.args = append(a.args, nil)
		}
	case infer.ToolArgs:
		if ev.Index >= 0 && ev.Index < len(a.args) {
			a.args[ev.Index] = append(a.args[ev.Index], ev.Text...)
		}
	case infer.Done:
		a.done = &ev
	}
}

// Body returns the JSON body, or an *infer.Error if the final event has not come: half an answer is no answer.
func (a *ChatAnswer) Body() ([]byte, error) {
	if a.done == nil {
		return nil, errNoDone()
	}
	dst := appendHead(nil, a.head, "chat.completion")
	dst = append(dst, `"choices":[{"index":0,"message":`...)
	dst = a.appendMessage(dst)
	dst = append(dst, `,"logprobs":`...)
	dst = appendLogprobs(dst, a.logprobs)
	dst = append(dst, `,"finish_reason":"`...)
	dst = append(dst, finishReason(a.done.Reason, len(a.calls) > 0)...)
	dst = append(dst, `"}],"usage":`...)
	dst = appendUsage(dst, a.done.Usage)
	return append(dst, '}'), nil
}

// appendMessage appends the message. Content is null only beside calls; refusal is always there, as the published schema
// requires both members.
func (a *ChatAnswer) appendMessage(dst []byte) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	if len(a.content) == 0 && len(a.calls) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = rawjson.AppendString(dst, a.content)
	}
	dst = append(dst, `,"refusal":null`...)
	if len(a.reasoning) > 0 {
		dst = append(dst, `,"reasoning_content":`...)
		dst = rawjson.AppendString(dst, a.reasoning)
	}
	for i, c := range a.calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendToolCall(dst, c.ID, c.Name, a.args[i])
		if i == len(a.calls)-1 {
			dst = append(dst, ']')
		}
	}
	return append(dst, '}')
}

// appendToolCall appends a complete call as messages hold it.
func appendToolCall[S ~string | ~[]byte](dst []byte, id, name string, args S) []byte {
	dst = append(dst, `{"id":`...)
	dst = rawjson.AppendString(dst, id)
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = rawjson.AppendString(dst, name)
	dst = append(dst, `,"arguments":`...)
	dst = rawjson.AppendString(dst, args)
	return append(dst, "}}"...)
}

// CompletionAnswer collects the events of one completion into a text_completion object.
type CompletionAnswer struct {
	head     Head
	text     []byte
	logprobs []infer.TokenLogprob
	done     *infer.Done
}

// NewCompletionAnswer returns an empty answer with head h.
func NewCompletionAnswer(h Head) *CompletionAnswer { return &CompletionAnswer{head: h} }

// Add takes the next event. Events after [infer.Done] are ignored.
func (a *CompletionAnswer) Add(ev infer.Event) {
	if a.done != nil {
		return
	}
	switch ev := ev.(type) {
	case infer.Text:
		a.text = append(a.text, ev.Text...)
		a.logprobs = append(a.logprobs, ev.Logprobs...)
	case infer.Reasoning:
		a.text = append(a.text, ev.Text...)
		a.logprobs = append(a.logprobs, ev.Logprobs...)
	case infer.Done:
		a.done = &ev
	}
}

// Body returns the JSON body, or an *infer.Error if the final event has not come.
func (a *CompletionAnswer) Body() ([]byte, error) {
	if a.done == nil {
		return nil, errNoDone()
	}
	dst := appendHead(nil, a.head, "text_completion")
	dst = append(dst, `"choices":[{"index":0,"text":`...)
	dst = rawjson.AppendString(dst, a.text)
	dst = append(dst, `,"logprobs":`...)
	dst, _ = appendLegacyLogprobs(dst, a.logprobs, 0)
	dst = append(dst, `,"finish_reason":"`...)
	dst = append(dst, finishReason(a.done.Reason, false)...)
	dst = append(dst, `"}],"usage":`...)
	dst = appendUsage(dst, a.done.Usage)
	return append(dst, '}'), nil
}
