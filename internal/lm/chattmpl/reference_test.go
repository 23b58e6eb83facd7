package chattmpl

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// reference is testdata/reference.json.gz, which testdata/make_reference.py writes with jinja2.
type reference struct {
	Templates []struct {
		Name    string
		SHA256  string
		Renders map[string]render
	}
	Snippets []struct {
		Source string
		render
	}
}

// render is what jinja2 made of a conversation: one of a text, the words of raise_exception, and another error.
type render struct {
	Text   *string
	Raised string
	Error  string
}

// conversation is an entry of testdata/conversations.json.
type conversation struct {
	Name       string
	Generation bool
	Tools      string
	Args       map[string]json.RawMessage
	Messages   []struct {
		Role       infer.Role
		Content    string
		Name       string
		Reasoning  string `json:"reasoning_content"`
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string
			Function struct {
				Name      string
				Arguments json.RawMessage
			}
		} `json:"tool_calls"`
	}
}

func (c conversation) prompt(tools []infer.Tool) Prompt {
	p := Prompt{AddGenerationPrompt: c.Generation, Args: c.Args, Now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	switch c.Tools {
	case "all":
		p.Tools = tools
	case "first":
		p.Tools = tools[:1]
	}
	for _, m := range c.Messages {
		message := say(m.Role, m.Content)
		message.Name, message.Reasoning, message.ToolCallID = m.Name, m.Reasoning, m.ToolCallID
		for _, call := range m.ToolCalls {
			message.ToolCalls = append(message.ToolCalls, infer.ToolCall{
				ID: call.ID, Name: call.Function.Name, Arguments: string(call.Function.Arguments),
			})
		}
		p.Messages = append(p.Messages, message)
	}
	return p
}

func readJSON(t testing.TB, name string, to any) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		d = json.NewDecoder(z)
	}
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func readTools(t testing.TB) []infer.Tool {
	t.Helper()
	var list []struct {
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	readJSON(t, "tools.json", &list)
	var out []infer.Tool
	for _, e := range list {
		out = append(out, infer.Tool{Name: e.Function.Name, Description: e.Function.Description, Parameters: e.Function.Parameters})
	}
	return out
}

// real returns the sources of the real templates by the names that the reference gives them.
func real(t testing.TB) map[string]string {
	t.Helper()
	need := func(name string) string {
		v := os.Getenv(name)
		if v == "" {
			t.Fatalf("%s is not set: run `make test`, or set it to what `go run ./test/assets path` prints", name)
		}
		return v
	}
	out := map[string]string{}
	folder := os.DirFS(filepath.Join(need("STOKER_TEST_LLAMA_SRC"), "models", "templates"))
	names, err := fs.Glob(folder, "*.jinja")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(folder, name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(b)
	}
	f, err := gguf.Open(need("STOKER_TEST_MODEL_CHAT"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out["SmolLM2.gguf"], _ = f.String("tokenizer.chat_template")
	return out
}

// known are the conversations that a real template renders otherwise than with jinja2, and why. The list is exact: the test fails when
// one is missing, too.
var known = map[string]struct {
	why           string
	conversations []string
}{
	"CohereForAI-c4ai-command-r-plus-tool_use.jinja": {
		"jinja2 fails on a parameter without additionalProperties, the library takes it for empty", withTools,
	},
	"llama-cpp-deepseek-r1.jinja": {"jinja2 fails on tojson of a filter's result, the library writes the list", withTools},
	"meetkai-functionary-medium-v3.1.jinja": {
		"a description beside a string that went through safe is escaped as HTML by jinja2, and stays as it is here", withTools,
	},
	"meetkai-functionary-medium-v3.2.jinja": {
		"jinja2 cannot add an object to a string, the library writes it as Python would", []string{
			"a call and its result", "a call without arguments", "two calls",
		},
	},
	"fireworks-ai-llama-3-firefunction-v2.jinja": {
		"jinja2 fails on a variable of the template's own engine, functions, the library takes it for empty", []string{
			"a call and its result", "a call without arguments", "empty content", "ends with the assistant", "one question", "reasoning",
			"system", "thinking off", "thinking on", "tools and system", "tools offered", "turns", "turns out of order", "two calls",
			"unicode and markup",
		},
	},
}

var withTools = []string{"a call and its result", "a call without arguments", "tools and system", "tools offered", "two calls"}

func TestRealTemplates(t *testing.T) {
	var want reference
	readJSON(t, "reference.json.gz", &want)
	var conversations []conversation
	readJSON(t, "conversations.json", &conversations)
	tools := readTools(t)
	sources := real(t)
	if len(sources) != len(want.Templates) {
		t.Errorf("%d templates, the reference has %d: run testdata/make_reference.py again", len(sources), len(want.Templates))
	}
	for _, r := range want.Templates {
		t.Run(r.Name, func(t *testing.T) {
			source := sources[r.Name]
			if sum := sha256.Sum256([]byte(source)); hex.EncodeToString(sum[:]) != r.SHA256 {
				t.Fatalf("the template is not the one of the reference: run testdata/make_reference.py again")
			}
			tmpl, err := Parse(source, Tokens{"<BOS>", "<EOS>"})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range conversations {
				got, err := tmpl.Render(c.prompt(tools))
				d := r.Renders[c.Name].difference(got, err)
				expected := slices.Contains(known[r.Name].conversations, c.Name)
				if d != "" && !expected {
					t.Errorf("%s: %s", c.Name, d)
				}
				if d == "" && expected {
					t.Errorf("%s: as jinja2 has it, so it is no known difference any more", c.Name)
				}
			}
		})
	}
}

// difference says how a render differs from jinja2's, "" if it does not.
func (r render) difference(got string, err error) string {
	switch {
	case r.Text != nil && err != nil:
		return err.Error()
	case r.Text != nil && got != *r.Text:
		i := 0
		for i < len(got) && i < len(*r.Text) && got[i] == (*r.Text)[i] {
			i++
		}
		cut := func(s string) string { return s[max(0, i-40):min(len(s), i+60)] }
		return fmt.Sprintf("at byte %d\n got %q\nwant %q", i, cut(got), cut(*r.Text))
	case r.Raised != "" && (infer.KindOf(err) != infer.ErrInvalid || !strings.HasSuffix(err.Error(), ": "+r.Raised)):
		return fmt.Sprintf("got %q, %v, want the words %q", got, err, r.Raised)
	case r.Error != "" && err == nil:
		return fmt.Sprintf("got %q, jinja2 has %s", got, r.Error)
	}
	return ""
}

func TestSnippets(t *testing.T) {
	var want reference
	readJSON(t, "reference.json.gz", &want)
	p := Prompt{
		Messages: []infer.Message{say(infer.System, "S"), say(infer.User, "U")}, Now: conversation{}.prompt(nil).Now,
		Args: map[string]json.RawMessage{"d": json.RawMessage(`{"a":1,"b":"x","é":[1,null]}`), "s": json.RawMessage(`"<think>a</think>\n\nb"`)},
	}
	for _, s := range want.Snippets {
		var got string
		tmpl, err := Parse(s.Source, Tokens{BOS: "<BOS>"})
		if err == nil {
			got, err = tmpl.Render(p)
		}
		d := s.difference(got, err)
		why, expected := knownSnippets[s.Source]
		if d != "" && !expected {
			t.Errorf("%q: %s", s.Source, d)
		}
		if d == "" && expected {
			t.Errorf("%q: as jinja2 has it, so %q is no known difference any more", s.Source, why)
		}
	}
	t.Logf("%d snippets, %d of them known differences", len(want.Snippets), len(knownSnippets))
}

func TestUses(t *testing.T) {
	sources := real(t)
	tests := []struct {
		template             string
		tools, system, calls bool
	}{
		{"SmolLM2.gguf", false, true, false},
		{"google-gemma-2-2b-it.jinja", false, false, false},
		{"Qwen-Qwen3-0.6B.jinja", true, true, true},
		{"meta-llama-Llama-3.1-8B-Instruct.jinja", true, true, true},
		{"CohereForAI-c4ai-command-r-plus-tool_use.jinja", true, true, true},
		{"ibm-granite-granite-3.3-2B-Instruct.jinja", true, true, false},
	}
	for _, tt := range tests {
		tmpl, err := Parse(sources[tt.template], Tokens{})
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]bool{tmpl.UsesTools(), tmpl.UsesSystem(), tmpl.UsesToolCalls()}; got != [3]bool{tt.tools, tt.system, tt.calls} {
			t.Errorf("%s: uses tools, system, calls: %v, want %v", tt.template, got, [3]bool{tt.tools, tt.system, tt.calls})
		}
	}
}
