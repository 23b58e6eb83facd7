package openai

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// Head is what all parts of one answer share.
type Head struct {
	// ID is the answer's identifier, prefix included: "chatcmpl-..." for chats, "cmpl-..." for completions.
	ID string
	// Model is the served name of what answers.
	Model string
	// Created is the time of the answer in seconds since 1970.
	Created int64
	// IncludeUsage asks a stream for a usage chunk. Whole answers always carry their usage.
	IncludeUsage bool
}

// appendHead appends the members that every object of an answer starts with, and a comma.
func appendHead(dst []byte, h Head, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = rawjson.AppendString(dst, h.ID)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, h.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = rawjson.AppendString(dst, h.Model)
	return append(dst, ',')
}

// appendUsage appends the usage object.
func appendUsage(dst []byte, u infer.Usage) []byte {
	field := func(name string, n int) {
		dst = append(dst, name...)
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	field(`{"prompt_tokens":`, u.Prompt)
	field(`,"completion_tokens":`, u.Completion)
	field(`,"total_tokens":`, u.Prompt+u.Completion)
	field(`,"prompt_tokens_details":{"cached_tokens":`, u.Cached)
	field(`},"completion_tokens_details":{"reasoning_tokens":`, u.Reasoning)
	return append(dst, "}}"...)
}

// finishReason names the reason r in this dialect. An engine that stopped by itself after a call says "stop" or
// "tool_calls" as it likes; clients run the calls only on the latter. If the budget cut the answer, that wins: the last
// call may be incomplete (vllm-project/vllm#53269).
func finishReason(r infer.StopReason, calls bool) string {
	switch r {
	case infer.StopLength:
		return "length"
	case infer.StopFilter:
		return "content_filter"
	default:
		if calls {
			return "tool_calls"
		}
		return "stop"
	}
}

// leastLogprob stands for what JSON cannot say, the logarithm of zero. OpenAI uses the same number for tokens that are
// "very unlikely".
const leastLogprob = -9999.0

func appendLogprob(dst []byte, f float64) []byte {
	if math.IsNaN(f) || f < leastLogprob {
		f = leastLogprob
	}
	return rawjson.AppendFloat(dst, f)
}

// appendLogprobs appends the logprobs member of a chat choice, null when there are none.
func appendLogprobs(dst []byte, list []infer.TokenLogprob) []byte {
	if len(list) == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"content":[`...)
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTokenLogprob(dst, &list[i])
		dst = append(dst, `,"top_logprobs":[`...)
		for j := range list[i].Top {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendTokenLogprob(dst, &list[i].Top[j]), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, `],"refusal":null}`...)
}

// appendTokenLogprob appends the object of one token, without its closing brace.
func appendTokenLogprob(dst []byte, t *infer.TokenLogprob) []byte {
	dst = append(dst, `{"token":`...)
	dst = rawjson.AppendString(dst, t.Token)
	dst = append(dst, `,"logprob":`...)
	dst = appendLogprob(dst, t.Logprob)
	dst = append(dst, `,"bytes":`...)
	if t.Bytes == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, b := range t.Bytes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	return append(dst, ']')
}

// appendLegacyLogprobs appends the logprobs member of a completion choice, null when there are none. offset is the number
// of characters before the first token; the offset behind the last one is returned.
func appendLegacyLogprobs(dst []byte, list []infer.TokenLogprob, offset int) ([]byte, int) {
	if len(list) == 0 {
		return append(dst, "null"...), offset
	}
	each := func(name string, item func(t *infer.TokenLogprob)) {
		dst = append(dst, name...)
		for i := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			item(&list[i])
		}
		dst = append(dst, ']')
	}
	each(`{"tokens":[`, func(t *infer.TokenLogprob) { dst = rawjson.AppendString(dst, legacyToken(t)) })
	each(`,"token_logprobs":[`, func(t *infer.TokenLogprob) { dst = appendLogprob(dst, t.Logprob) })
	each(`,"top_logprobs":[`, func(t *infer.TokenLogprob) { dst = appendLegacyTop(dst, t.Top) })
	each(`,"text_offset":[`, func(t *infer.TokenLogprob) {
		dst = strconv.AppendInt(dst, int64(offset), 10)
		offset += charsBegun(t)
	})
	return append(dst, '}'), offset
}

// charsBegun counts the characters that begin in t. A character that several tokens make up is counted with the first.
func charsBegun(t *infer.TokenLogprob) (n int) {
	raw := t.Token
	if t.Bytes != nil {
		raw = string(t.Bytes)
	}
	for i := range len(raw) {
		if utf8.RuneStart(raw[i]) {
			n++
		}
	}
	return n
}

func appendLegacyTop(dst []byte, top []infer.TokenLogprob) []byte {
	if len(top) == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	for i := range top {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(rawjson.AppendString(dst, legacyToken(&top[i])), ':')
		dst = appendLogprob(dst, top[i].Logprob)
	}
	return append(dst, '}')
}

// legacyToken is a token's text. Parts of characters are spelled out as OpenAI does, because several of them would be the
// same U+FFFD, and here they are names of members.
func legacyToken(t *infer.TokenLogprob) string {
	raw := t.Token
	if t.Bytes != nil {
		raw = string(t.Bytes)
	}
	if utf8.ValidString(raw) {
		return raw
	}
	var b strings.Builder
	b.WriteString("bytes:")
	for i := range len(raw) {
		fmt.Fprintf(&b, `\x%02x`, raw[i])
	}
	return b.String()
}
