package openai

import (
	"strconv"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

func readMessages(d *decoding, path string, v []byte) error {
	return eachElement(path, "a list of messages", v, func(i int, e []byte) error {
		m, err := readMessage(at(path, i), e)
		d.req.Messages = append(d.req.Messages, m)
		return err
	})
}

func readMessage(path string, v []byte) (m infer.Message, err error) {
	list, err := members(path, "an object", v)
	if err != nil {
		return m, err
	}
	if m.Role, err = readRole(list, path); err != nil {
		return m, err
	}
	if m.Name, err = getString(list, path, "name"); err != nil {
		return m, err
	}
	content := get(list, "content")
	if content != nil {
		if m.Parts, err = readContent(path+".content", content); err != nil {
			return m, err
		}
	}
	switch m.Role {
	case infer.Assistant:
		return m, readAssistant(&m, list, path)
	case infer.ToolRole:
		m.ToolCallID, err = getString(list, path, "tool_call_id")
		return m, err
	default:
		if content == nil {
			return m, invalid(path+".content", "%s.content is required: a string or a list of parts", path)
		}
		return m, nil
	}
}

func readRole(list []member, path string) (infer.Role, error) {
	path += ".role"
	v := get(list, "role")
	if v == nil {
		return "", invalid(path, "%s is required", path)
	}
	s, err := readString(path, v)
	if err != nil {
		return "", err
	}
	switch s {
	case "system", "developer", "user", "assistant", "tool":
		return infer.Role(s), nil
	case "function": // the form before tools
		return infer.ToolRole, nil
	default:
		return "", invalid(path, "%s: unknown role %q; use developer, system, user, assistant or tool", path, clip(s))
	}
}

// readAssistant reads what only assistant messages have.
func readAssistant(m *infer.Message, list []member, path string) (err error) {
	if len(m.Parts) == 0 {
		refusal, err := getString(list, path, "refusal")
		if err != nil {
			return err
		}
		if refusal != "" {
			m.Parts = []infer.Part{{Text: refusal}}
		}
	}
	if m.Reasoning, err = getString(list, path, "reasoning_content"); err != nil {
		return err
	}
	// Other servers use "reasoning" for text, and some of their clients for an object, which is not text.
	if r := get(list, "reasoning"); m.Reasoning == "" && rawjson.KindOf(r) == rawjson.String {
		m.Reasoning = rawjson.Text(r)
	}
	if calls := get(list, "tool_calls"); calls != nil {
		return readToolCalls(m, path+".tool_calls", calls)
	}
	if call := get(list, "function_call"); call != nil {
		c, err := readFunctionCall(path+".function_call", call)
		m.ToolCalls = []infer.ToolCall{c}
		return err
	}
	return nil
}

func readToolCalls(m *infer.Message, path string, v []byte) error {
	return eachElement(path, "a list of tool calls", v, func(i int, e []byte) error {
		c, err := readToolCall(at(path, i), e)
		m.ToolCalls = append(m.ToolCalls, c)
		return err
	})
}

func readToolCall(path string, v []byte) (c infer.ToolCall, err error) {
	list, err := members(path, "an object", v)
	if err != nil {
		return c, err
	}
	typ, err := getString(list, path, "type")
	if err != nil {
		return c, err
	}
	if typ != "" && typ != "function" {
		return c, unsupported(path+".type", "%s.type: only calls of functions are supported, not %q", path, clip(typ))
	}
	f := get(list, "function")
	if f == nil {
		return c, invalid(path+".function", "%s.function is required", path)
	}
	if c, err = readFunctionCall(path+".function", f); err != nil {
		return c, err
	}
	c.ID, err = getString(list, path, "id")
	return c, err
}

// readFunctionCall reads a name and arguments. Arguments are JSON in a string; some clients send the JSON itself.
func readFunctionCall(path string, v []byte) (c infer.ToolCall, err error) {
	list, err := members(path, "an object", v)
	if err != nil {
		return c, err
	}
	if c.Name, err = getString(list, path, "name"); err != nil {
		return c, err
	}
	if c.Name == "" {
		return c, invalid(path+".name", "%s.name is required", path)
	}
	args := get(list, "arguments")
	switch rawjson.KindOf(args) {
	case rawjson.Invalid:
	case rawjson.String:
		c.Arguments = rawjson.Text(args)
	case rawjson.ObjectKind:
		c.Arguments = string(args)
	default:
		return c, wrongType(path+".arguments", "a string with JSON in it", args)
	}
	return c, nil
}

// readContent reads the content of a message, a string or a list of parts. An empty string is no part.
func readContent(path string, v []byte) ([]infer.Part, error) {
	if rawjson.KindOf(v) == rawjson.String {
		if s := rawjson.Text(v); s != "" {
			return []infer.Part{{Text: s}}, nil
		}
		return nil, nil
	}
	var parts []infer.Part
	err := eachElement(path, "a string or a list of parts", v, func(i int, e []byte) error {
		p, err := readPart(at(path, i), e)
		if p.Text != "" || p.Image != nil {
			parts = append(parts, p)
		}
		return err
	})
	return parts, err
}

func readPart(path string, v []byte) (infer.Part, error) {
	list, err := members(path, "an object", v)
	if err != nil {
		return infer.Part{}, err
	}
	typ, err := getString(list, path, "type")
	if err != nil {
		return infer.Part{}, err
	}
	switch typ {
	case "text", "input_text", "output_text":
		return readTextPart(list, path, "text")
	case "refusal":
		return readTextPart(list, path, "refusal")
	case "image_url", "input_image":
		return readImagePart(list, path)
	case "":
		return infer.Part{}, invalid(path+".type", "%s.type is required", path)
	case "input_audio", "file", "video_url", "audio_url":
		return infer.Part{}, unsupported(path+"."+typ, "%s: parts of type %q are not supported; send text or images",
			path, typ)
	default:
		return infer.Part{}, unsupported(path+".type", "%s: parts of type %q are not supported; send text or images",
			path, clip(typ))
	}
}

func readTextPart(list []member, path, name string) (infer.Part, error) {
	path += "." + name
	v := get(list, name)
	if v == nil {
		return infer.Part{}, invalid(path, "%s is required", path)
	}
	s, err := readString(path, v)
	return infer.Part{Text: s}, err
}

// readImagePart reads {"image_url": {"url": ...}} and the flat {"image_url": "..."}.
func readImagePart(list []member, path string) (infer.Part, error) {
	path += ".image_url"
	v := get(list, "image_url")
	if v == nil {
		return infer.Part{}, invalid(path, "%s is required", path)
	}
	where := path
	if rawjson.KindOf(v) == rawjson.ObjectKind {
		inner, err := members(path, "an object", v)
		if err != nil {
			return infer.Part{}, err
		}
		where += ".url"
		if v = get(inner, "url"); v == nil {
			return infer.Part{}, invalid(path, "%s is required", where)
		}
	}
	url, err := readString(where, v)
	if err != nil {
		return infer.Part{}, err
	}
	if url == "" {
		return infer.Part{}, invalid(path, "%s is empty", where)
	}
	return infer.Part{Image: &infer.Image{URL: url, Param: path}}, nil
}

// fillToolIDs gives calls without an identifier one made from their place, and hands them in order to the results that
// follow without one. Templates and engines pair the two by it.
func fillToolIDs(messages []infer.Message) {
	var open []string
	for i := range messages {
		m := &messages[i]
		for j := range m.ToolCalls {
			if j == 0 {
				open = nil
			}
			if m.ToolCalls[j].ID == "" {
				m.ToolCalls[j].ID = "call_" + strconv.Itoa(i) + "_" + strconv.Itoa(j)
				open = append(open, m.ToolCalls[j].ID)
			}
		}
		if m.Role == infer.ToolRole && m.ToolCallID == "" && len(open) > 0 {
			m.ToolCallID, open = open[0], open[1:]
		}
	}
}
