package llamacpp

import (
	"errors"
	"slices"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// nativeDecoder reads answers of the own route as text.
type nativeDecoder struct {
	// top is how many alternatives the client asked for beside each token.
	top int
}

func (d *nativeDecoder) decode(data []byte) ([]infer.Event, error) {
	c, err := parseNative(data)
	if err != nil {
		return nil, badEvent(err)
	}
	if c.fault != nil {
		return nil, streamFault(c.fault)
	}
	var evs []infer.Event
	if c.progress != nil {
		evs = append(evs, *c.progress)
	}
	if c.content != "" || len(c.logprobs) > 0 {
		evs = append(evs, infer.Text{Text: c.content, Logprobs: trimTop(c.logprobs, d.top)})
	}
	if c.stop {
		done := c.done()
		if done.Reason == "" {
			return evs, badEvent(errors.New("unknown stop_type " + c.stopType))
		}
		evs = append(evs, done)
	}
	return evs, nil
}

// done makes the final event from the last event of the own route. Its Reason is empty if the engine's is unknown.
func (c *nativeChunk) done() infer.Done {
	d := infer.Done{Usage: infer.Usage{Prompt: c.prompt, Cached: c.cached, Completion: c.predicted}}
	switch c.stopType {
	case "eos":
		d.Reason = infer.StopEnd
	case "word":
		d.Reason, d.StopString = infer.StopString, c.stopWord
	case "limit":
		d.Reason = infer.StopLength
	}
	return d
}

// trimTop leaves n alternatives beside each token.
func trimTop(ts []infer.TokenLogprob, n int) []infer.TokenLogprob {
	for i := range ts {
		if len(ts[i].Top) > n {
			ts[i].Top = ts[i].Top[:n:n]
		}
	}
	return ts
}

// callDecoder reads answers of the own route that a grammar forces to be one tool call.
type callDecoder struct{ parser callParser }

func (d *callDecoder) decode(data []byte) ([]infer.Event, error) {
	c, err := parseNative(data)
	if err != nil {
		return nil, badEvent(err)
	}
	if c.fault != nil {
		return nil, streamFault(c.fault)
	}
	var evs []infer.Event
	if c.progress != nil {
		evs = append(evs, *c.progress)
	}
	calls, err := d.parser.feed(c.content)
	if err != nil {
		return evs, badEvent(err)
	}
	evs = append(evs, calls...)
	if !c.stop {
		return evs, nil
	}
	done := c.done()
	switch {
	case d.parser.complete():
		done.Reason, done.StopString = infer.StopTools, ""
	case done.Reason != infer.StopLength:
		return evs, badEvent(errCallShape)
	}
	return append(evs, done), nil
}

// chatDecoder reads answers of the chat route.
type chatDecoder struct {
	stops []string
	top   int
	// oneCall drops all tool calls after the first: the client allows no more and an engine may write them all the same.
	oneCall bool

	// names has an entry for each tool call that was opened.
	calls  int
	finish string
	// stopType and stopWord are the engine's words on its end, as far as it says them.
	stopType, stopWord string
}

// chatChunk is one event of the chat route, as far as we read it.
type chatChunk struct {
	text, reasoning string
	calls           []callPiece
	logprobs        []infer.TokenLogprob
	progress        *infer.Progress
	usage           *infer.Usage
	fault           *answerError
	finish          string
	verbose         []byte
}

// callPiece is a piece of a tool call.
type callPiece struct {
	index          int
	id, name, args string
}

func (d *chatDecoder) decode(data []byte) ([]infer.Event, error) {
	if string(data) == "[DONE]" {
		return d.end(infer.Usage{Estimated: true})
	}
	c, err := parseChat(data)
	if err != nil {
		return nil, badEvent(err)
	}
	if c.fault != nil {
		return nil, streamFault(c.fault)
	}
	if c.verbose != nil {
		if v, err := parseNative(c.verbose); err == nil && v.stop {
			d.stopType, d.stopWord = v.stopType, v.stopWord
		}
	}
	if c.finish != "" {
		d.finish = c.finish
	}
	evs := d.events(c)
	if c.usage == nil {
		return evs, nil
	}
	last, err := d.end(*c.usage)
	return append(evs, last...), err
}

// events turns a chunk's pieces into events.
func (d *chatDecoder) events(c chatChunk) []infer.Event {
	var evs []infer.Event
	if c.progress != nil {
		evs = append(evs, *c.progress)
	}
	lp := trimTop(c.logprobs, d.top)
	if c.reasoning != "" {
		evs = append(evs, infer.Reasoning{Text: c.reasoning, Logprobs: lp})
		lp = nil
	}
	if c.text != "" || len(lp) > 0 {
		evs = append(evs, infer.Text{Text: c.text, Logprobs: lp})
	}
	for _, p := range c.calls {
		if d.oneCall && p.index > 0 {
			continue
		}
		if p.index >= d.calls && p.name != "" {
			d.calls = p.index + 1
			evs = append(evs, infer.ToolStart{Index: p.index, ID: p.id, Name: p.name})
		}
		if p.args != "" {
			evs = append(evs, infer.ToolArgs{Index: p.index, Text: p.args})
		}
	}
	return evs
}

// end makes the final event.
func (d *chatDecoder) end(u infer.Usage) ([]infer.Event, error) {
	done := infer.Done{Usage: u}
	switch d.finish {
	case "stop":
		done.Reason = infer.StopEnd
		// The template may have stop texts of its own; those are ends like any other.
		if d.stopType == "word" && slices.Contains(d.stops, d.stopWord) {
			done.Reason, done.StopString = infer.StopString, d.stopWord
		}
	case "length":
		done.Reason = infer.StopLength
	case "tool_calls":
		if d.calls == 0 {
			return nil, badEvent(errors.New("the answer ended with tool_calls, and no call came"))
		}
		done.Reason = infer.StopTools
	default:
		return nil, badEvent(errors.New("the answer ended with finish_reason " + d.finish))
	}
	return []infer.Event{done}, nil
}

// parseChat reads one event.
func parseChat(data []byte) (chatChunk, error) {
	var c chatChunk
	o := rawjson.Object(data)
	for o.Next() {
		switch v := o.Value(); string(o.Key()) {
		case "choices":
			a := rawjson.Array(v)
			for a.Next() {
				c.choice(a.Value())
			}
			if err := a.Err(); err != nil {
				return c, err
			}
		case "prompt_progress":
			c.progress = &infer.Progress{Done: member(v, "processed"), Total: member(v, "total"), Cached: member(v, "cache")}
		case "usage":
			if rawjson.KindOf(v) == rawjson.ObjectKind {
				c.usage = parseUsage(v)
			}
		case "error":
			c.fault = parseFault(v)
		case "__verbose":
			c.verbose = v
		}
	}
	return c, o.Err()
}

// choice reads the one choice of a chunk.
func (c *chatChunk) choice(v []byte) {
	for o := rawjson.Object(v); o.Next(); {
		switch v := o.Value(); string(o.Key()) {
		case "delta":
			c.delta(v)
		case "finish_reason":
			c.finish = textOf(v)
		case "logprobs":
			for l := rawjson.Object(v); l.Next(); {
				if string(l.Key()) == "content" {
					c.logprobs = parseLogprobs(l.Value())
				}
			}
		}
	}
}

// delta reads the pieces in a choice.
func (c *chatChunk) delta(v []byte) {
	for o := rawjson.Object(v); o.Next(); {
		switch v := o.Value(); string(o.Key()) {
		case "content":
			c.text = textOf(v)
		case "reasoning_content":
			c.reasoning = textOf(v)
		case "tool_calls":
			for a := rawjson.Array(v); a.Next(); {
				c.calls = append(c.calls, parseCallPiece(a.Value()))
			}
		}
	}
}

func parseCallPiece(v []byte) callPiece {
	var p callPiece
	for o := rawjson.Object(v); o.Next(); {
		switch v := o.Value(); string(o.Key()) {
		case "index":
			p.index = intOf(v)
		case "id":
			p.id = textOf(v)
		case "function":
			for f := rawjson.Object(v); f.Next(); {
				switch string(f.Key()) {
				case "name":
					p.name = textOf(f.Value())
				case "arguments":
					p.args = textOf(f.Value())
				}
			}
		}
	}
	return p
}

func parseUsage(v []byte) *infer.Usage {
	u := &infer.Usage{Prompt: member(v, "prompt_tokens"), Completion: member(v, "completion_tokens")}
	for o := rawjson.Object(v); o.Next(); {
		if string(o.Key()) == "prompt_tokens_details" {
			u.Cached = member(o.Value(), "cached_tokens")
		}
	}
	return u
}

// textOf reads a string, "" if v is none: engines write null for a piece that is not there.
func textOf(v []byte) string {
	if rawjson.KindOf(v) != rawjson.String {
		return ""
	}
	return rawjson.Text(v)
}
