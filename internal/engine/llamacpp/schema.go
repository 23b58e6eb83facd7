package llamacpp

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// noParameters is the schema of a tool that declares none.
const noParameters = `{"type":"object","properties":{}}`

// callSchema returns a JSON schema that only a call of one of tools fulfils: {"name": ..., "arguments": ...}.
func callSchema(tools []infer.Tool) []byte {
	if len(tools) == 1 {
		return appendCall(nil, tools[0], "")
	}
	b := []byte(`{"anyOf":[`)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCall(b, t, "/anyOf/"+strconv.Itoa(i))
	}
	return append(b, `]}`...)
}

// appendCall appends the schema of a call of t. root is where it stands in the whole schema.
func appendCall(b []byte, t infer.Tool, root string) []byte {
	b = append(b, `{"type":"object","properties":{"name":{"const":`...)
	b = rawjson.AppendString(b, t.Name)
	b = append(b, `},"arguments":`...)
	b = append(b, moveRefs(parameters(t), root+"/properties/arguments")...)
	return append(b, `},"required":["name","arguments"],"additionalProperties":false}`...)
}

// parameters returns the schema of t's arguments.
func parameters(t infer.Tool) string {
	if s := string(t.Parameters); s != "" && s != "null" {
		return s
	}
	return noParameters
}

// localRef finds references into the same document. Inside a JSON string the quotes would be escaped, so only real
// members match.
var localRef = regexp.MustCompile(`("\$ref"\s*:\s*"#)/`)

// moveRefs makes references in a schema hold after the schema was put into another at the given JSON pointer.
func moveRefs(schema, pointer string) string {
	if !strings.Contains(schema, `"$ref"`) {
		return schema
	}
	return localRef.ReplaceAllString(schema, "${1}"+strings.ReplaceAll(pointer, "$", "$$")+"/")
}

// checkPatterns refuses look-around in a schema's patterns. The engine reads such a pattern as something else and goes on,
// so the answer would break the schema without a word (ggml-org/llama.cpp#19051).
func checkPatterns(schema []byte) error {
	var err error
	walkStrings(schema, "", func(key, value string) {
		if key == "pattern" && (strings.Contains(value, "(?=") || strings.Contains(value, "(?!") || strings.Contains(value, "(?<")) {
			err = infer.Errorf(infer.ErrInvalid, "response_format", "the pattern %q looks ahead or back, which llama-server cannot enforce; leave it out", value)
		}
	})
	return err
}

// walkStrings calls visit for each member of an object, at any depth, whose value is a string.
func walkStrings(v []byte, key string, visit func(key, value string)) {
	switch rawjson.KindOf(v) {
	case rawjson.String:
		visit(key, rawjson.Text(v))
	case rawjson.ObjectKind:
		for o := rawjson.Object(v); o.Next(); {
			walkStrings(o.Value(), string(o.Key()), visit)
		}
	case rawjson.ArrayKind:
		for a := rawjson.Array(v); a.Next(); {
			walkStrings(a.Value(), "", visit)
		}
	}
}
