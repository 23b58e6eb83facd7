package llamacpp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
)

// callParser reads the text of one forced call, {"name": "f", "arguments": {...}}, piece by piece as the grammar lets the
// model write it, and turns it into the events of a tool call. White space is free between tokens. The zero value is
// ready.
type callParser struct {
	state callState
	// literal is what is left of the fixed text of the current state.
	literal string
	// name is the JSON string of the name, quotes included, as far as it came.
	name []byte
	// scan follows the arguments.
	scan valueScan
}

// callState says which part of the call comes next.
type callState int

const (
	atStart callState = iota
	inHead
	inName
	inMiddle
	inArguments
	inTail
	atEnd
)

// The fixed parts of a call.
const (
	callHead   = `{"name":`
	callMiddle = `,"arguments":`
	callTail   = `}`
)

// errCallShape says that the engine broke the grammar it was given.
var errCallShape = errors.New("the engine's text does not have the shape of the call it was made to write")

// feed takes the next piece of text and returns the events it makes.
func (p *callParser) feed(s string) ([]infer.Event, error) {
	var events []infer.Event
	var args strings.Builder
	for i := range len(s) {
		start, err := p.step(s[i], &args)
		if err != nil {
			return nil, fmt.Errorf("%w: at %q", err, s[i:])
		}
		if start != nil {
			events = append(events, *start)
		}
	}
	if args.Len() > 0 {
		events = append(events, infer.ToolArgs{Text: args.String()})
	}
	return events, nil
}

// complete reports whether the whole call was read.
func (p *callParser) complete() bool { return p.state == atEnd }

// step takes one byte. It returns a ToolStart when the byte ends the name.
func (p *callParser) step(c byte, args *strings.Builder) (*infer.ToolStart, error) {
	if p.state == atStart {
		p.state, p.literal = inHead, callHead
	}
	space := c == ' ' || c == '\n' || c == '\t' || c == '\r'
	switch p.state {
	case inHead, inMiddle, inTail:
		if space {
			return nil, nil
		}
		if p.literal[0] != c {
			return nil, errCallShape
		}
		if p.literal = p.literal[1:]; p.literal == "" {
			p.state++
		}
	case inName:
		if space && len(p.name) == 0 {
			return nil, nil
		}
		return p.nameByte(c)
	case inArguments:
		if space && !p.scan.begun {
			return nil, nil
		}
		args.WriteByte(c)
		if p.scan.step(c) {
			p.state, p.literal = inTail, callTail
		}
	case atEnd:
		if !space {
			return nil, errCallShape
		}
	}
	return nil, nil
}

// nameByte takes a byte of the name's JSON string.
func (p *callParser) nameByte(c byte) (*infer.ToolStart, error) {
	if len(p.name) == 0 && c != '"' {
		return nil, errCallShape
	}
	p.name = append(p.name, c)
	if !p.scan.step(c) {
		return nil, nil
	}
	p.scan = valueScan{}
	var name string
	if err := json.Unmarshal(p.name, &name); err != nil {
		return nil, errCallShape
	}
	p.state, p.literal = inMiddle, callMiddle
	return &infer.ToolStart{Name: name}, nil
}

// valueScan follows a JSON object, array or string to its end. It checks no more of the syntax than that needs.
type valueScan struct {
	begun, inString, escaped bool
	depth                    int
}

// step takes the next byte and reports whether it ends the value.
func (v *valueScan) step(c byte) bool {
	v.begun = true
	switch {
	case v.escaped:
		v.escaped = false
	case v.inString:
		switch c {
		case '\\':
			v.escaped = true
		case '"':
			v.inString = false
		}
	case c == '"':
		v.inString = true
		return false
	case c == '{' || c == '[':
		v.depth++
	case c == '}' || c == ']':
		v.depth--
	}
	return v.depth <= 0 && !v.inString && !v.escaped
}
