package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/internal/engine"
)

type serveCmd struct {
	settingFlags
	Models []string `arg:"" optional:"" name:"model" help:"Model files, folders or names; none serves every model of the config."`
}

// Run serves until the context ends (a signal, or stoker stop).
func (c *serveCmd) Run(e *env) error {
	cfg, err := e.loadToListen(c.settingFlags)
	if err != nil {
		return err
	}
	p := newProgress(e)
	printed := false
	return e.Verbs.Serve(e.ctx, ServeInput{
		Config: cfg, Models: c.Models, LogTo: e.Stderr,
		Notify: func(s client.Status) {
			p.show(&s)
			if printed || !settled(&s) {
				return
			}
			printed = true
			p.end()
			e.welcome(&s, cfg.APIKey.Set())
		},
	})
}

// settled reports whether every model is either serving or failed, and one serves.
func settled(s *client.Status) bool {
	serving := 0
	for _, m := range s.Models {
		switch m.State {
		case "serving":
			serving++
		case "failed":
		default:
			return false
		}
	}
	return serving > 0
}

// welcome says what is served, with which engine and window and why, and what to paste.
func (e *env) welcome(s *client.Status, needsKey bool) {
	if e.json {
		if b, err := json.Marshal(s); err == nil {
			fmt.Fprintf(e.Stdout, "%s\n", b)
		}
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "stoker %s serves at %s\n", s.Version, s.URL)
	for i := range s.Models {
		m := &s.Models[i]
		if m.Facts == nil {
			fmt.Fprintf(&b, "  %s: %s: %s\n", m.Name, m.State, m.Cause)
			continue
		}
		fmt.Fprintf(&b, "  %s\n    engine  %s, arithmetic: %s: %s\n    window  %d tokens%s: %s\n", m.Name, engineText(m.Facts), m.Facts.Mode,
			m.EngineReason, m.Facts.Window,
			atOnce(m.Facts.Parallel), m.WindowReason)
	}
	fmt.Fprintf(&b, "Try it:\n  %s\n", curlLine(s, needsKey))
	b.WriteString("Stop with Ctrl-C, or with stoker stop.\n")
	io.WriteString(e.Stdout, b.String()) //nolint:errcheck // a closed stdout is no reason to stop serving
}

// engineText names an engine with its own words for its version.
func engineText(f *engine.Facts) string {
	text := f.Engine
	if f.Version != "" {
		text += " " + f.Version
	}
	if f.Build != "" {
		text += " (build " + f.Build + ")"
	}
	return text
}

func atOnce(parallel int) string {
	if parallel == 1 {
		return " for the one request that runs at a time"
	}
	return fmt.Sprintf(" for each of %d requests at once", parallel)
}

// curlLine is a request to paste. The prompt is one that also a very small model answers sensibly.
func curlLine(s *client.Status, needsKey bool) string {
	key := ""
	if needsKey {
		key = ` -H "Authorization: Bearer $STOKER_API_KEY"`
	}
	var m *client.ModelStatus
	for i := range s.Models {
		if s.Models[i].Facts != nil {
			m = &s.Models[i]
			break
		}
	}
	head := "curl -N " + s.URL + "%s" + key + ` -H "Content-Type: application/json" -d '{"model": %s, "stream": true, "temperature": 0, `
	name, err := json.Marshal(m.Name)
	if err != nil {
		name = []byte(`""`)
	}
	quoted := strings.ReplaceAll(string(name), "'", `'\''`)
	if m.Facts.Caps.Chat {
		return fmt.Sprintf(head, "/v1/chat/completions", quoted) +
			`"messages": [{"role": "user", "content": "Explain in two sentences what a steam engine does."}]}'`
	}
	return fmt.Sprintf(head, "/v1/completions", quoted) + `"max_tokens": 40, "prompt": "A steam engine is a machine that"}'`
}
