package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// head is the beginning of an event of an OpenAI surface, up to the choices' members.
func head(object, alias string) []byte {
	b := append([]byte(nil), `data: {"id":"chatcmpl-fake","created":1700000000,"system_fingerprint":"`+buildInfo+`","object":"`+object+`","model":`...)
	return append(rawjson.AppendString(b, alias), `,"choices":[`...)
}

// chatShape is llama-server's chat. head begins every event.
type chatShape struct {
	head  []byte
	alias string
}

func newChatShape(alias string) chatShape {
	return chatShape{head("chat.completion.chunk", alias), alias}
}

// frame begins an event with one choice, up to the members of its delta.
func (c chatShape) frame(dst []byte) []byte {
	return append(append(dst, c.head...), `{"finish_reason":null,"index":0,"delta":{`...)
}

func (c chatShape) delta(dst []byte, members, text string) []byte {
	return append(appendRaw(append(c.frame(dst), members...), text), "}}]}\n\n"...)
}

const roleDelta = `"role":"assistant","content":null}}]`

func (c chatShape) progress(dst []byte, q *question, done, total int) []byte {
	if !q.progress {
		return dst
	}
	return appendProgress(append(c.frame(dst), roleDelta+","...), done, total)
}

func appendProgress(b []byte, done, total int) []byte {
	return append(fmt.Appendf(b, `"prompt_progress":{"total":%d,"cache":0,"processed":%d,"time_ms":1}}`, total, done), '\n', '\n')
}

func (c chatShape) role(dst []byte) []byte { return append(c.frame(dst), roleDelta+"}\n\n"...) }

func (c chatShape) think(dst []byte, token string) []byte {
	return c.delta(dst, `"reasoning_content":`, token)
}

func (c chatShape) text(dst []byte, q *question, token string) []byte {
	if q.probs < 0 {
		return c.delta(dst, `"content":`, token)
	}
	b := append(appendRaw(append(c.frame(dst), `"content":`...), token), `},"logprobs":{"content":[`...)
	return append(appendProb(b, token, q.probs), "]}}]}\n\n"...)
}

func (c chatShape) call(k *call) [][]byte {
	b := append(c.frame(nil), `"tool_calls":[{"index":0,"id":"`+callID+`","type":"function","function":{"name":`...)
	frames := [][]byte{append(rawjson.AppendString(b, k.Name), `,"arguments":""}}]}}]}`+"\n\n"...)}
	for _, piece := range Tokenize(k.Args) {
		b := append(c.frame(nil), `"tool_calls":[{"index":0,"function":{"arguments":`...)
		frames = append(frames, append(rawjson.AppendString(b, piece), `}}]}}]}`+"\n\n"...))
	}
	return frames
}

// callID is the id of a tool call. Real ones are random and have no prefix either.
const callID = "fakecall0"

func (c chatShape) finish(dst []byte, q *question, a *reply, n counts) []byte {
	b := append(append(dst, c.head...), `{"index":0,"finish_reason":"`+a.reason+`","delta":{}}]`...)
	if !q.usage && !q.omits("usage") { // else the timings are in the usage event
		b = appendTimings(append(b, ','), n)
	}
	return append(b, "}\n\n"...)
}

func appendTimings(b []byte, n counts) []byte {
	return fmt.Appendf(b, `"timings":{"cache_n":0,"prompt_n":%d,"prompt_ms":1,"predicted_n":%d,"predicted_ms":1}`, n.prompt, n.completion)
}

func (c chatShape) usage(dst []byte, q *question, n counts) []byte {
	if !q.usage {
		return dst
	}
	b := appendUsage(append(append(dst, c.head...), `],"usage":`...), n)
	return append(appendTimings(append(b, ','), n), "}\n\n"...)
}

func appendUsage(b []byte, n counts) []byte {
	return fmt.Appendf(b, `{"completion_tokens":%d,"prompt_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}`,
		n.completion, n.prompt, n.prompt+n.completion)
}

func (chatShape) done(dst []byte) []byte { return append(dst, "data: [DONE]\n\n"...) }

func (chatShape) fault(dst []byte) []byte {
	return append(dst, `data: {"error":{"code":500,"message":"`+scripted+`","type":"server_error"}}`+"\n\n"...)
}

func (chatShape) failStatus() int { return http.StatusInternalServerError }

func (chatShape) refuse(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, llamaError(status, message))
}

func (c chatShape) whole(q *question, a *reply, n counts) map[string]any {
	return wholeChat(c.alias, "reasoning_content", q, a, n)
}

// wholeChat is a chat's answer in one piece. thinks is the member that reasoning comes in.
func wholeChat(model, thinks string, q *question, a *reply, n counts) map[string]any {
	msg := map[string]any{"role": "assistant", "content": strings.Join(a.tokens, "")}
	if len(a.think) > 0 {
		msg[thinks] = strings.Join(a.think, "")
	}
	if a.call != nil {
		msg["content"] = nil
	}
	if a.call != nil && !q.script.DropToolCall {
		msg["tool_calls"] = []any{map[string]any{
			"id": callID, "type": "function", "function": map[string]string{"name": a.call.Name, "arguments": a.call.Args},
		}}
	}
	return wholeAnswer("chat.completion", model, map[string]any{"index": 0, "finish_reason": q.reason(a), "message": msg}, q, a, n)
}

func wholeAnswer(object, model string, choice map[string]any, q *question, a *reply, n counts) map[string]any {
	if q.probs >= 0 {
		choice["logprobs"] = map[string]any{"content": wholeProbs(a, q.probs)}
	}
	return map[string]any{
		"id": "chatcmpl-fake", "object": object, "created": 1700000000, "model": model, "system_fingerprint": buildInfo,
		"choices": []any{choice}, "usage": json.RawMessage(appendUsage(nil, n)), "timings": rawTimings(n),
	}
}

// reason is the answer's reason, nil if the script omits it.
func (q *question) reason(a *reply) any {
	if q.omits("finish") {
		return nil
	}
	return a.reason
}

func rawTimings(n counts) json.RawMessage {
	b := appendTimings(nil, n)
	return b[len(`"timings":`):]
}

func wholeProbs(a *reply, top int) json.RawMessage {
	b := []byte{'['}
	for i, token := range a.tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendProb(b, token, top)
	}
	return append(b, ']')
}

// textShape is the OpenAI completions route.
type textShape struct {
	chatShape
}

func newTextShape(alias string) textShape {
	return textShape{chatShape{head("text_completion", alias), alias}}
}

// chunk is an event up to the end of its choices.
func (c textShape) chunk(dst []byte, q *question, text, reason string) []byte {
	b := append(append(dst, c.head...), `{"index":0,"logprobs":`...)
	if q.probs >= 0 && reason == "null" && text != "" {
		b = append(appendProb(append(b, `{"content":[`...), text, q.probs), `]}`...)
	} else {
		b = append(b, "null"...)
	}
	b = appendRaw(append(b, `,"text":`...), text)
	return append(append(append(b, `,"finish_reason":`...), reason...), "}]"...)
}

func (c textShape) progress(dst []byte, q *question, done, total int) []byte {
	if !q.progress {
		return dst
	}
	return appendProgress(append(c.chunk(dst, q, "", "null"), ','), done, total)
}

func (c textShape) role(dst []byte) []byte { return dst }

func (c textShape) think(dst []byte, token string) []byte {
	return c.text(dst, &question{probs: -1}, token)
}

func (c textShape) text(dst []byte, q *question, token string) []byte {
	return append(c.chunk(dst, q, token, "null"), "}\n\n"...)
}

func (c textShape) call(*call) [][]byte { return nil }

func (c textShape) finish(dst []byte, q *question, a *reply, n counts) []byte {
	b := c.chunk(dst, q, "", strconv.Quote(a.reason))
	if !q.omits("usage") {
		b = appendTimings(append(appendUsage(append(b, `,"usage":`...), n), ','), n)
	}
	return append(b, "}\n\n"...)
}

func (c textShape) usage(dst []byte, _ *question, _ counts) []byte { return dst }

func (c textShape) whole(q *question, a *reply, n counts) map[string]any {
	choice := map[string]any{"index": 0, "finish_reason": q.reason(a), "text": strings.Join(a.tokens, ""), "logprobs": nil}
	return wholeAnswer("text_completion", c.alias, choice, q, a, n)
}

// nativeShape is llama-server's own completion route.
type nativeShape struct{ chatShape }

func (nativeShape) progress(dst []byte, q *question, done, total int) []byte {
	if !q.progress {
		return dst
	}
	return appendProgress(append(dst, `data: {"index":0,"content":"","tokens":[0],"stop":false,`...), done, total)
}

func (nativeShape) role(dst []byte) []byte { return dst }

func (c nativeShape) think(dst []byte, token string) []byte {
	return c.text(dst, &question{probs: -1}, token)
}

func (nativeShape) text(dst []byte, q *question, token string) []byte {
	b := appendRaw(append(dst, `data: {"index":0,"stop":false,"content":`...), token)
	if q.probs >= 0 {
		b = append(appendProb(append(b, `,"completion_probabilities":[`...), token, q.probs), ']')
	}
	return append(b, "}\n\n"...)
}

func (nativeShape) call(*call) [][]byte { return nil }

// stopType is why an answer ended, in the native words.
func (a *reply) stopType() string {
	switch {
	case a.stopWord != "":
		return "word"
	case a.reason == "length":
		return "limit"
	}
	return "eos"
}

func (nativeShape) finish(dst []byte, q *question, a *reply, n counts) []byte {
	b := append(dst, `data: {"index":0,"content":"","stop":true,"stop_type":"`+a.stopType()+`","stopping_word":`...)
	b = rawjson.AppendString(b, a.stopWord)
	if !q.omits("usage") {
		b = fmt.Appendf(b, `,"tokens_predicted":%d,"tokens_evaluated":%d,`, n.completion, n.prompt)
		b = appendTimings(b, n)
	}
	return append(b, "}\n\n"...)
}

func (nativeShape) usage(dst []byte, _ *question, _ counts) []byte { return dst }
func (nativeShape) done(dst []byte) []byte                         { return dst }

func (nativeShape) whole(q *question, a *reply, n counts) map[string]any {
	m := map[string]any{
		"index": 0, "content": strings.Join(a.tokens, ""), "stop": true, "stop_type": a.stopType(), "stopping_word": a.stopWord,
		"tokens_predicted": n.completion, "tokens_evaluated": n.prompt, "timings": rawTimings(n),
	}
	if q.probs >= 0 {
		m["completion_probabilities"] = wholeProbs(a, q.probs)
	}
	return m
}

// appendRaw appends s as a JSON string and keeps bytes that are no UTF-8 as they are: engines cut characters.
func appendRaw(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// appendProb appends one token's log probability with n alternatives.
func appendProb(dst []byte, token string, n int) []byte {
	one := func(token string, p float64) {
		dst = fmt.Appendf(dst, `{"id":%d,"logprob":%g,"bytes":[`, tokenID(token), p)
		for i := range len(token) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(token[i]), 10)
		}
		dst = rawjson.AppendString(append(dst, `],"token":`...), token)
	}
	one(token, -0.25)
	dst = append(dst, `,"top_logprobs":[`...)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		t := token
		if i > 0 {
			t = "alternative" + strconv.Itoa(i)
		}
		one(t, -0.25-float64(i))
		dst = append(dst, '}')
	}
	return append(dst, ']', '}')
}
