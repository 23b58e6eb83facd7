package llamacpp

import (
	"context"
	"fmt"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/models"
)

// propsPath answers what the engine made of its settings. It is read once per start.
const propsPath = "/props"

// props is what a start learns from the engine.
type props struct {
	Settings struct {
		// Window is the tokens of one slot.
		Window int `json:"n_ctx"`
	} `json:"default_generation_settings"`
	Slots        int    `json:"total_slots"`
	Build        string `json:"build_info"`
	BOS          string `json:"bos_token"`
	ChatTemplate string `json:"chat_template"`
	TemplateCaps struct {
		Tools     bool `json:"supports_tools"`
		ToolCalls bool `json:"supports_tool_calls"`
	} `json:"chat_template_caps"`
	Modalities struct {
		Vision bool `json:"vision"`
	} `json:"modalities"`

	// hasBOS reports whether the engine begins every prompt with a token of its own.
	hasBOS bool
}

// tools reports whether the chat template both shows tools to the model and has a form for its calls.
func (p *props) tools() bool { return p.TemplateCaps.Tools && p.TemplateCaps.ToolCalls }

// readProps asks the engine once, and whether an empty prompt is something to it.
func readProps(ctx context.Context, c *conn) (*props, error) {
	p := &props{}
	if err := c.fetch(ctx, propsPath, nil, p); err != nil {
		return nil, fmt.Errorf("reading %s: %w", propsPath, err)
	}
	var out struct {
		Tokens []int `json:"tokens"`
	}
	if err := c.fetch(ctx, tokenizePath, []byte(`{"content":"","add_special":true}`), &out); err != nil {
		return nil, fmt.Errorf("reading %s: %w", tokenizePath, err)
	}
	p.hasBOS = len(out.Tokens) > 0
	return p, nil
}

// checkPromise compares what the engine runs with what was asked for. A window is rounded up by the engine, and lowered to
// what the model was trained for.
func (p *props) checkPromise(s engine.StartSpec) error {
	if p.Settings.Window < s.Window {
		return infer.Errorf(infer.ErrUnsupported, "ctx", "%s: llama-server gives each request %d tokens where %d were asked for; ask for %d or fewer",
			s.Model.Name, p.Settings.Window, s.Window, p.Settings.Window)
	}
	if p.Slots < s.Parallel {
		return infer.Errorf(infer.ErrUnsupported, "parallel", "%s: llama-server serves %d requests at once where %d were asked for", s.Model.Name, p.Slots, s.Parallel)
	}
	return nil
}

// factsOf says what an instance can do. template reports whether the model can answer chats: an engine whose model has no
// template puts one of its own in the place without a word, so its own report does not tell.
func factsOf(p *props, version string, s engine.StartSpec, template bool) engine.Facts {
	return engine.Facts{
		Engine: Name, Version: version, Build: p.Build, Mode: mode,
		Window: p.Settings.Window, Parallel: s.Parallel,
		Caps: engine.Capabilities{
			Chat: template, Completion: true,
			Tools: template && p.tools(), ForcedTools: template,
			JSONSchema: true, Logprobs: true, Seed: true, LogitBias: true,
			Images: template && p.Modalities.Vision, Tokens: true, CountTokens: true,
		},
	}
}

// hasTemplate reports whether chats can be answered: with the file's template, or one that the user gave.
func hasTemplate(info *models.Info, user []userOption) bool {
	if info.HasChatTemplate {
		return true
	}
	for _, o := range user {
		switch o.flag.long() {
		case "chat-template", "chat-template-file":
			return true
		}
	}
	return false
}
