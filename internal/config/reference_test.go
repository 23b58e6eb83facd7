package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md from the table")

const (
	exampleFile   = "../../docs/config.example.yaml"
	referenceFile = "../../docs/configuration.md"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7) // the schema must say itself that it is 2020-12
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	if s.DraftVersion != 2020 {
		t.Fatalf("the schema is of draft %d", s.DraftVersion)
	}
	return s
}

// validate checks YAML text against the schema.
func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestExample(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, compiled(t), string(text)); err != nil {
		t.Errorf("the example does not fit the schema: %v", err)
	}
	file, err := filepath.Abs(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, Input{Host: testHost(t), Flags: []Setting{{"config", file}}})
	want := mustLoad(t, Input{Host: testHost(t)})
	if d := cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{}), cmpopts.IgnoreFields(Config{}, "File", "Models")); d != "" {
		t.Errorf("the example differs from the defaults, -default +example:\n%s", d)
	}
	if len(c.Models) != 1 {
		t.Errorf("the example has %d models, want 1", len(c.Models))
	}
	checkKeys(t, string(text))
}

// checkKeys holds that the example sets every key of the table, at its level.
func checkKeys(t *testing.T, text string) {
	t.Helper()
	l := &loader{host: testHost(t), table: settings(), file: map[string]raw{}}
	l.parseFile(exampleFile, []byte(text))
	for _, s := range settings() {
		if _, ok := l.file[s.key]; !ok && !s.notInFile {
			t.Errorf("the example lacks %s", s.key)
		}
	}
	for _, s := range modelFields() {
		if _, ok := l.file[keyModels].entries[0].fields[s.key]; !ok {
			t.Errorf("the example's model lacks %s", s.key)
		}
	}
}

// TestSchemaAgreesWithLoad: what Load takes and refuses in a file, the schema takes and refuses.
func TestSchemaAgreesWithLoad(t *testing.T) {
	s := compiled(t)
	docs := map[string]bool{ // text: is it good
		"prot: 1\n": false, "engines: {lamacpp: {}}\n": false, "engines: {llamacpp: {pth: x}}\n": false, "models: [{ctx: 1}]\n": false,
		"models: [{name: a, x: 1}]\n": false, "models: [{name: a, aliases: x}]\n": false, "models: a\n": false, "port: 70000\n": false,
		"port: [1]\n": false, "ctx: 0\n": false, "ctx: 32k\n": true, "ctx: 5x\n": false, "heartbeat: 5\n": false, "heartbeat: 1m30s\n": true,
		"max_body_bytes: 1 MiB\n": true, "max_body_bytes: 1MB\n": false, "log_level: loud\n": false, "engines:\n": true, "models: [{name: /x}]\n": false,
		"engines: {llamacpp: {args: {a: [1]}}}\n": false, "engines: {llamacpp: {args: {a: 1, b: true, c: x, d: }}}\n": true, "[]\n": false,
	}
	all := samples(t)
	for _, row := range settings() {
		if row.notInFile {
			continue
		}
		for _, sample := range all[row.key] {
			docs[yamlOf(row.key, sample.yaml)] = true
		}
		docs[yamlOf(row.key, "")], docs[yamlOf(row.key, `""`)], docs[yamlOf(row.key, none)] = true, true, row.off != ""
	}
	for text, good := range docs {
		file := writeFile(t, "stoker.yaml", text)
		_, loadErr := Load(Input{Host: testHost(t), Flags: []Setting{{"config", file}}, NoListen: true})
		schemaErr := validate(t, s, text)
		if (loadErr == nil) != good || (schemaErr == nil) != good {
			t.Errorf("%q: Load says %v, the schema says %v, want good: %v", text, loadErr, schemaErr, good)
		}
	}
}

// TestTable holds what every row has to say.
func TestTable(t *testing.T) {
	seen := map[string]string{}
	for _, s := range settings() {
		for _, name := range []string{s.key, "--" + s.flag, s.env} {
			if other, ok := seen[name]; ok && name != "" && name != "--" {
				t.Errorf("%s belongs to %s and %s", name, other, s.key)
			}
			seen[name] = s.key
		}
		if s.help == "" || s.why == "" || s.takes == "" || s.kindName == "" {
			t.Errorf("%s lacks help, why, or what it takes", s.key)
		}
		if s.env != "" && !strings.HasPrefix(s.env, envPrefix) {
			t.Errorf("%s has the variable %s", s.key, s.env)
		}
		if s.secret && s.flag != "" {
			t.Errorf("%s is a secret with a flag: arguments are visible to every user of the machine", s.key)
		}
		if s.notInFile && s.flag == "" {
			t.Errorf("%s cannot be set", s.key)
		}
		if s.computed == nil && s.def != "" {
			if err := s.check(s.def, place{}); err != nil {
				t.Errorf("%s does not take its own default: %v", s.key, err)
			}
		}
	}
	i := slices.IndexFunc(settings(), func(s setting[Config]) bool { return s.key == keyRunDir })
	if want := fmt.Sprint(sunPath-SocketRoom, " bytes"); !strings.Contains(settings()[i].help, want) {
		t.Errorf("the help of run_dir does not say %q", want)
	}
}

// TestFlags holds that the command line knows exactly the flags of the table.
func TestFlags(t *testing.T) {
	got := map[string]Flag{}
	for _, f := range Flags() {
		got[f.Name] = f
	}
	for _, name := range []string{"config", "host", "port", "served-model-name", "ctx", "parallel", "engine", "engine-arg", "api-key-file", "state-dir", "data-dir", "log-level"} {
		f, ok := got[name]
		if !ok {
			t.Errorf("no flag --%s", name)
		}
		if f.Repeat != (name == "engine-arg") || f.Help == "" || f.Type == "" {
			t.Errorf("--%s is %+v", name, f)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("flags that no test knows: %v", got)
	}
	if f := Flags()[1]; f.Name != "port" || f.Default != "1919" || f.Env != "STOKER_PORT" {
		t.Errorf("got %+v for the port", f)
	}
}

// TestReference holds docs/configuration.md to the table. `go test ./internal/config -run Reference -update` rewrites it.
func TestReference(t *testing.T) {
	want := reference()
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("the page is not what the table says; rewrite it with -update. -table +page:\n%s", d)
	}
}

const referenceHead = `# Settings

This page is made from the table in ` + "`internal/config/table.go`" + ` (` + "`go test ./internal/config -run Reference -update`" + `). The
[example file](config.example.yaml) sets every key; ` + "`stoker config show`" + ` says for each value where it came from, and
` + "`stoker config schema`" + ` prints the JSON Schema of the file.

A flag counts over the environment, the environment over the file, the file over the default; the last of two equal flags counts.
In each of them, a setting that is

- **not there** is left to the next lower source;
- **empty** (` + "`--port ''`, `STOKER_PORT=`, `port:`" + `) goes back to the default, whatever lower sources say;
- **none** is switched off, if the setting can be off, and is an error otherwise.

Unknown flags and keys are errors, unknown ` + "`STOKER_`" + ` variables are warnings, and all problems are reported at once. A relative path
starts at the working folder, or in the file at the folder of the file; ` + "`~/`" + ` is the home folder.

`

func reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, s := range settings() {
		entry(&b, s)
		fmt.Fprintf(&b, "- why this default: %s\n\n", s.why)
	}
	b.WriteString("# Keys of a model\n\nEach entry of `models` has these. Flags and environment count over an entry; what it does not set comes from above.\n\n")
	for _, s := range modelFields() {
		entry(&b, s)
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func entry[C any](b *strings.Builder, s setting[C]) {
	fmt.Fprintf(b, "## `%s`\n\n%s\n\n", s.key, s.help)
	var names []string
	for _, n := range []string{flagName(s.flag), s.env} {
		if n != "" {
			names = append(names, "`"+n+"`")
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "- also: %s\n", strings.Join(names, ", "))
	}
	if s.notInFile {
		b.WriteString("- not in the file\n")
	}
	fmt.Fprintf(b, "- takes: %s\n", s.takes)
	if s.off != "" {
		fmt.Fprintf(b, "- none: %s\n", s.off)
	}
	if s.def != "" {
		fmt.Fprintf(b, "- default: %s\n", s.def)
	}
}

func flagName(flag string) string {
	if flag == "" {
		return ""
	}
	return "--" + flag
}
