package fake

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// message is one message of a chat.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// request is what the surfaces read of a body. One struct serves all routes.
type request struct {
	Messages      []message       `json:"messages"`
	Prompt        json.RawMessage `json:"prompt"`
	Stream        bool            `json:"stream"`
	StreamOptions *struct {
		IncludeUsage *bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	NPredict            *int            `json:"n_predict"`
	Stop                json.RawMessage `json:"stop"`
	Temperature         *float64        `json:"temperature"`
	Seed                *uint64         `json:"seed"`
	Logprobs            json.RawMessage `json:"logprobs"`
	TopLogprobs         int             `json:"top_logprobs"`
	NProbs              int             `json:"n_probs"`
	Progress            bool            `json:"return_progress"`
	JSONSchema          json.RawMessage `json:"json_schema"`
	ResponseFormat      *struct {
		Type       string          `json:"type"`
		Schema     json.RawMessage `json:"schema"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Tools      []json.RawMessage `json:"tools"`
	ToolChoice json.RawMessage   `json:"tool_choice"`
	IgnoreEOS  bool              `json:"ignore_eos"`

	raw []byte // the whole body
}

// question is a request made plain.
type question struct {
	rec    *record
	last   string // the last message, without its script
	source string // the text that the answer is made from: last, unless requests are mixed up
	prompt []string
	// max is the most tokens that the request allows, natural how many an answer made from the message has.
	max, natural int
	stops        []string
	start        int
	probs        int // log probabilities: how many alternatives, -1 for none
	schema       json.RawMessage
	call         *call
	script       Script
	faults       faults
	progress     bool
	stream       bool
	usage        bool
}

func (q *question) omits(part string) bool { return has(q.script.Omit, part) }

// setting is what a surface knows of a request's surroundings.
type setting struct {
	// base gives the server's script for one more answer, over which the request's own is laid.
	base func(last string) (script Script, first bool, text string)
	chat bool
	// max is the most tokens of an answer whose request says none, greedy the temperature of one that says none.
	max    int
	greedy bool
}

// question makes a request plain.
func (r *request) question(in setting) (*question, error) {
	q := &question{probs: -1, progress: r.Progress, stream: r.Stream, stops: r.stops()}
	text, err := r.text(in.chat)
	if err != nil {
		return nil, err
	}
	q.last = text
	if in.chat {
		q.last = contentText(r.Messages[len(r.Messages)-1].Content)
	}
	own, rest, err := scriptIn(q.last)
	if err != nil {
		return nil, err
	}
	q.last = rest
	var first bool
	q.script, first, q.source = in.base(rest)
	q.script = q.script.over(own)
	if q.faults, err = q.script.faults(first); err != nil {
		return nil, err
	}
	q.prompt = Tokenize(text)
	if ids, ok := r.tokenIDs(); ok && !in.chat {
		q.prompt = make([]string, len(ids))
		q.source = "tokens"
	}
	q.limits(r, in)
	q.shape(r)
	if len(r.Tools) > 0 && string(r.ToolChoice) != `"none"` {
		q.call = callIn(q.last)
	}
	return q, nil
}

// limits says how long the answer may be, and where its numbers start.
func (q *question) limits(r *request, in setting) {
	q.natural, q.max = q.script.Tokens, in.max
	if q.natural <= 0 {
		q.natural = defaultTokens
	}
	for _, m := range []*int{r.MaxTokens, r.NPredict, r.MaxCompletionTokens} {
		if m != nil && *m >= 0 && *m < q.max {
			q.max = max(*m, 1) // the engines make one token where none is asked for
		}
	}
	if r.IgnoreEOS {
		q.natural = q.max
	}
	switch {
	case r.Temperature != nil && *r.Temperature == 0, r.Temperature == nil && in.greedy:
	case r.Seed != nil:
		q.start = int(*r.Seed % 1000)
	default:
		q.start = rand.IntN(1000)
	}
}

// maxProbs bounds the alternatives for a token.
const maxProbs = 20

func (q *question) shape(r *request) {
	switch {
	case r.NProbs > 0:
		q.probs = r.NProbs
	case string(r.Logprobs) == "true":
		q.probs = r.TopLogprobs
	default:
		// The OpenAI completions route takes a number.
		var n int
		if len(r.Logprobs) > 0 && json.Unmarshal(r.Logprobs, &n) == nil && n > 0 {
			q.probs = n
		}
	}
	q.probs = min(q.probs, maxProbs)
	q.usage = r.StreamOptions != nil && r.StreamOptions.IncludeUsage != nil && *r.StreamOptions.IncludeUsage
	q.schema = r.JSONSchema
	if f := r.ResponseFormat; f != nil && f.Type != "text" {
		q.schema = json.RawMessage(`{}`)
		if len(f.Schema) > 0 {
			q.schema = f.Schema
		}
		if len(f.JSONSchema.Schema) > 0 {
			q.schema = f.JSONSchema.Schema
		}
	}
}

// text is the whole prompt as the model reads it.
func (r *request) text(chat bool) (string, error) {
	if !chat {
		var s string
		if json.Unmarshal(r.Prompt, &s) == nil {
			return s, nil
		}
		if _, ok := r.tokenIDs(); ok {
			return "", nil
		}
		return "", fmt.Errorf("\"prompt\" must be a string or a list of tokens")
	}
	if len(r.Messages) == 0 {
		return "", fmt.Errorf("\"messages\" is required")
	}
	return r.rendered(), nil
}

// rendered is the chat template: each message after its role, and the answer's role at the end.
func (r *request) rendered() string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString("<" + m.Role + "> " + contentText(m.Content) + "\n")
	}
	for _, t := range r.Tools {
		b.WriteString("<tool> " + string(t) + "\n")
	}
	b.WriteString("<assistant> ")
	return b.String()
}

func (r *request) tokenIDs() ([]int, bool) {
	var ids []int
	if len(r.Prompt) == 0 || json.Unmarshal(r.Prompt, &ids) != nil {
		return nil, false
	}
	return ids, true
}

func (r *request) stops() []string {
	var one string
	if json.Unmarshal(r.Stop, &one) == nil && one != "" {
		return []string{one}
	}
	var many []string
	if json.Unmarshal(r.Stop, &many) == nil {
		return many
	}
	return nil
}

// contentText joins the text of a message's content, a string or a list of parts.
func contentText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// reply is an answer before it is sent.
type reply struct {
	think  []string
	tokens []string
	call   *call
	// reason is why it ends: "stop", "length" or "tool_calls"; stopWord is the stop text that ended it.
	reason, stopWord string
}

// callTokens is what the tool call takes: its name and its arguments.
func (a *reply) callTokens() int {
	if a.call == nil {
		return 0
	}
	return 1 + len(Tokenize(a.call.Args))
}

// reply makes the answer to q.
func (q *question) reply() reply {
	a := reply{reason: "stop"}
	if q.script.Think != "" {
		a.think = Tokenize(q.script.Think)
	}
	if q.call != nil {
		q.makeCall(&a)
		return a
	}
	full := q.script.Answer
	switch {
	case q.schema != nil:
		full = string(appendInstance(nil, q.schema))
	case full == "":
		full = echo(q.source, min(q.natural, q.max), q.start)
	}
	tokens := Tokenize(full)
	if len(tokens) >= q.max {
		tokens, a.reason = tokens[:q.max], "length"
	}
	cut, word := cutAtStop(strings.Join(tokens, ""), q.stops)
	if word != "" {
		a.reason, a.stopWord = "stop", word
		tokens = Tokenize(cut)
	}
	a.tokens = slices.Clip(tokens)
	return a
}

// makeCall puts the tool call in, or as much of it as the request allows.
func (q *question) makeCall(a *reply) {
	a.call, a.reason = q.call, "tool_calls"
	if args := Tokenize(q.call.Args); len(args) >= q.max {
		a.reason = "length"
		a.call = &call{q.call.Name, strings.Join(args[:q.max-1], "")}
	}
}
