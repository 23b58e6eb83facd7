package chattmpl

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
)

// uses is what a template was seen to write into prompts.
type uses struct{ tools, system, calls bool }

// UsesTools reports whether tools that a request offers get into the prompt. Many templates drop them without a word.
func (t *Template) UsesTools() bool { return t.uses().tools }

// UsesSystem reports whether a system message gets into the prompt. Some templates refuse one.
func (t *Template) UsesSystem() bool { return t.uses().system }

// UsesToolCalls reports whether an assistant's earlier tool calls and their results get into the prompt.
func (t *Template) UsesToolCalls() bool { return t.uses().calls }

// The words that probes look for.
const (
	probeSystem = "Probe of the system text."
	probeTool   = "probe_tool_name"
	probeValue  = "probe argument"
	probeResult = "probe result"
)

// probe renders small conversations and looks for their words in the prompts.
func (t *Template) probe() uses {
	say := func(role infer.Role, text string) infer.Message {
		return infer.Message{Role: role, Parts: []infer.Part{{Text: text}}}
	}
	system, user := say(infer.System, probeSystem), say(infer.User, "Hello.")
	tools := []infer.Tool{{Name: probeTool, Description: "A tool.", Parameters: json.RawMessage(
		`{"type":"object","properties":{"a":{"type":"string","description":"A text."}},"required":["a"],"additionalProperties":false}`)}}
	call, result := say(infer.Assistant, ""), say(infer.ToolRole, probeResult)
	call.ToolCalls = []infer.ToolCall{{ID: "probecall", Name: probeTool, Arguments: `{"a":"` + probeValue + `"}`}}
	result.Name, result.ToolCallID = probeTool, "probecall"

	writes := func(p Prompt, words ...string) bool {
		p.Now, p.AddGenerationPrompt = time.Unix(0, 0).UTC(), true
		out, err := t.Render(p)
		for _, word := range words {
			if err != nil || !strings.Contains(out, word) {
				return false
			}
		}
		return true
	}
	return uses{
		system: writes(Prompt{Messages: []infer.Message{system, user}}, probeSystem),
		tools: writes(Prompt{Messages: []infer.Message{user}, Tools: tools}, probeTool) ||
			writes(Prompt{Messages: []infer.Message{system, user}, Tools: tools}, probeTool),
		calls: writes(Prompt{Messages: []infer.Message{user, call, result}, Tools: tools}, probeValue, probeResult),
	}
}
