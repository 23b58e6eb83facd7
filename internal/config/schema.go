package config

import (
	"encoding/json"
	"strings"
)

// SchemaID names the published schema of the config file.
const SchemaID = "https://github.com/stoker-llm/stoker/config.schema.json"

// Schema is the JSON Schema (2020-12) of the config file. Editors use it to complete and check. Load is stricter in places
// that a schema cannot express, and reads a quoted number like a bare one.
func Schema() []byte {
	text, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		panic("config: the schema is made of words and numbers only: " + err.Error())
	}
	return text
}

func schema() map[string]any {
	root := object("Settings of stoker. Flags and environment count over this file; a key without a value is the default.")
	root["$schema"], root["$id"], root["title"] = "https://json-schema.org/draft/2020-12/schema", SchemaID, "stoker config file"
	for _, s := range settings() {
		if s.notInFile {
			continue
		}
		at, rest := root, s.key
		for name, more, deeper := strings.Cut(rest, "."); deeper; name, more, deeper = strings.Cut(rest, ".") {
			at, rest = child(at, name), more
		}
		if s.shape == entries {
			s.schema = modelsSchema()
		}
		properties(at)[rest] = settingSchema(s)
	}
	return root
}

func object(help string) map[string]any {
	return map[string]any{"type": []string{"object", "null"}, "description": help, "additionalProperties": false, "properties": map[string]any{}}
}

func properties(object map[string]any) map[string]any { return object["properties"].(map[string]any) }

func child(at map[string]any, name string) map[string]any {
	p := properties(at)
	if p[name] == nil {
		p[name] = object("Settings of " + name + ".")
	}
	return p[name].(map[string]any)
}

func modelsSchema() map[string]any {
	m := object("One model.")
	m["type"], m["required"] = "object", []string{"name"}
	for _, s := range modelFields() {
		properties(m)[s.key] = settingSchema(s)
	}
	return map[string]any{"type": "array", "items": m}
}

// settingSchema adds the empty value, and none where it is allowed, to the values of a setting. Where none is not allowed,
// it must not pass as a word either.
func settingSchema[C any](s setting[C]) map[string]any {
	values := s.schema
	out := anyOf(values, map[string]any{"type": "null"}, map[string]any{"const": ""})
	if s.off != "" {
		out["anyOf"] = append(out["anyOf"].([]any), map[string]any{"const": none})
	} else {
		out["not"] = map[string]any{"const": none}
	}
	out["description"] = s.help
	return out
}
