package openai

import (
	"bytes"
	"slices"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

func readTools(d *decoding, path string, v []byte) error {
	return eachElement(path, "a list of tools", v, func(i int, e []byte) error {
		return readTool(d, at(path, i), e)
	})
}

// readTool reads {"type":"function","function":{...}} and the flat form of the Responses API. Hosted tools are dropped:
// agents list them by habit, and the model can do without. A custom tool is the caller's own and is not.
func readTool(d *decoding, path string, v []byte) error {
	list, err := members(path, "an object", v)
	if err != nil {
		return err
	}
	typ, err := getString(list, path, "type")
	if err != nil {
		return err
	}
	switch typ {
	case "function", "":
	case "custom":
		return unsupported(path+".type", "%s: custom tools are not supported; describe it as a function", path)
	default:
		d.dropped = append(d.dropped, path+" ("+clip(typ)+")")
		return nil
	}
	if f := get(list, "function"); f != nil {
		path += ".function"
		if list, err = members(path, "an object", f); err != nil {
			return err
		}
	}
	t, err := readFunction(list, path)
	if err != nil {
		return err
	}
	d.req.Tools = append(d.req.Tools, t)
	return nil
}

func readFunction(list []member, path string) (t infer.Tool, err error) {
	if t.Name, err = getString(list, path, "name"); err != nil {
		return t, err
	}
	if t.Name == "" {
		return t, invalid(path+".name", "%s.name is required", path)
	}
	if t.Description, err = getString(list, path, "description"); err != nil {
		return t, err
	}
	if p := get(list, "parameters"); p != nil {
		if rawjson.KindOf(p) != rawjson.ObjectKind {
			return t, wrongType(path+".parameters", "a JSON schema object", p)
		}
		// A copy, so that the request does not keep the whole body alive.
		t.Parameters = bytes.Clone(p)
	}
	if s := get(list, "strict"); s != nil {
		t.Strict, err = readBool(path+".strict", s)
	}
	return t, err
}

// readToolChoice reads the wish about calls. Without tools it means nothing: clients send it by habit.
func readToolChoice(d *decoding, path string, v []byte) error {
	if len(d.req.Tools) == 0 {
		return nil
	}
	if rawjson.KindOf(v) == rawjson.String {
		mode, err := toolMode(path, rawjson.Text(v))
		d.req.ToolChoice.Mode = mode
		return err
	}
	list, err := members(path, "a string or an object", v)
	if err != nil {
		return err
	}
	typ, err := getString(list, path, "type")
	if err != nil {
		return err
	}
	switch typ {
	case "function":
		return readNamedChoice(d, list, path)
	case "allowed_tools":
		return readAllowedTools(d, list, path)
	case "auto", "none", "required":
		d.req.ToolChoice.Mode = infer.ToolMode(typ)
		return nil
	case "custom":
		return unsupported(path, "%s: custom tools are not supported", path)
	default:
		return invalid(path+".type", "%s.type: unknown type %q; use function or allowed_tools", path, clip(typ))
	}
}

func toolMode(path, word string) (infer.ToolMode, error) {
	switch word {
	case "auto", "none", "required":
		return infer.ToolMode(word), nil
	case "any": // other dialects' word for it
		return infer.ToolRequired, nil
	default:
		return "", invalid(path, "%s: unknown choice %q; use none, auto, required or an object", path, clip(word))
	}
}

func readNamedChoice(d *decoding, list []member, path string) error {
	name, where, err := functionName(list, path)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(d.req.Tools, func(t infer.Tool) bool { return t.Name == name }) {
		return invalid(where, "%s: %q is not one of the tools", where, clip(name))
	}
	d.req.ToolChoice = infer.ToolChoice{Mode: infer.ToolNamed, Name: name}
	return nil
}

// functionName reads the name in {"function":{"name":...}} or in the flat {"name":...}, and returns where it was.
func functionName(list []member, path string) (name, where string, err error) {
	if f := get(list, "function"); f != nil {
		path += ".function"
		if list, err = members(path, "an object", f); err != nil {
			return "", path, err
		}
	}
	where = path + ".name"
	if name, err = getString(list, path, "name"); err == nil && name == "" {
		err = invalid(where, "%s is required", where)
	}
	return name, where, err
}

// readAllowedTools reads {"allowed_tools":{"mode":...,"tools":[...]}}, nested or flat. The tools that are not allowed are
// left out of the request: what the model does not know, it cannot call.
func readAllowedTools(d *decoding, list []member, path string) error {
	if inner := get(list, "allowed_tools"); inner != nil {
		path += ".allowed_tools"
		var err error
		if list, err = members(path, "an object", inner); err != nil {
			return err
		}
	}
	mode, err := getString(list, path, "mode")
	if err != nil {
		return err
	}
	if mode != "auto" && mode != "required" {
		return invalid(path+".mode", "%s.mode must be auto or required", path)
	}
	allowed, err := readAllowedNames(d, get(list, "tools"), path+".tools")
	if err != nil {
		return err
	}
	d.req.Tools = slices.DeleteFunc(d.req.Tools, func(t infer.Tool) bool { return !allowed[t.Name] })
	d.req.ToolChoice.Mode = infer.ToolMode(mode)
	return nil
}

// readAllowedNames reads the names of tools, which must be some of the request's. Hosted tools are passed over, as
// [readTool] drops them.
func readAllowedNames(d *decoding, v []byte, path string) (map[string]bool, error) {
	known := map[string]bool{}
	for _, t := range d.req.Tools {
		known[t.Name] = true
	}
	names := map[string]bool{}
	err := eachElement(path, "a list of tools", v, func(i int, e []byte) error {
		inner, err := members(at(path, i), "an object", e)
		if err != nil {
			return err
		}
		typ, err := getString(inner, at(path, i), "type")
		if err != nil || typ != "" && typ != "function" {
			return err
		}
		name, where, err := functionName(inner, at(path, i))
		if err == nil && !known[name] {
			err = invalid(where, "%s: %q is not one of the tools", where, clip(name))
		}
		names[name] = true
		return err
	})
	if err == nil && len(names) == 0 {
		err = invalid(path, "%s names no function", path)
	}
	return names, err
}

// readFormat reads response_format: {"type":"json_schema","json_schema":{...}}, and the flat forms that local servers
// know, where the schema stands beside the type.
func readFormat(d *decoding, path string, v []byte) error {
	list, err := members(path, "an object", v)
	if err != nil {
		return err
	}
	typ, err := getString(list, path, "type")
	if err != nil {
		return err
	}
	switch typ {
	case "text":
		return nil
	case "json_object":
		if get(list, "schema") == nil {
			d.req.Format.Kind = infer.FormatJSONObject
			return nil
		}
		return readSchema(d, list, path)
	case "json_schema":
		if inner := get(list, "json_schema"); inner != nil {
			path += ".json_schema"
			if list, err = members(path, "an object", inner); err != nil {
				return err
			}
		}
		return readSchema(d, list, path)
	default:
		return invalid(path+".type", "%s.type: unknown type %q; use text, json_object or json_schema", path, clip(typ))
	}
}

func readSchema(d *decoding, list []member, path string) (err error) {
	f := infer.Format{Kind: infer.FormatJSONSchema}
	schema := get(list, "schema")
	if schema == nil {
		return invalid(path+".schema", "%s.schema is required", path)
	}
	if rawjson.KindOf(schema) != rawjson.ObjectKind {
		return wrongType(path+".schema", "a JSON schema object", schema)
	}
	f.Schema = bytes.Clone(schema)
	if f.Name, err = getString(list, path, "name"); err != nil {
		return err
	}
	if s := get(list, "strict"); s != nil {
		f.Strict, err = readBool(path+".strict", s)
	}
	d.req.Format = f
	return err
}
