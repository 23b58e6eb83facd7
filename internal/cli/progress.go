package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/internal/engine"
)

// progress shows loading on stderr: one line that rewrites itself on a terminal, else a line for each change of phase.
type progress struct {
	w        io.Writer
	terminal bool
	quiet    bool
	last     map[string]string
	open     bool
}

func newProgress(e *env) *progress {
	return &progress{w: e.Stderr, terminal: e.StderrIsTerminal, quiet: e.json, last: map[string]string{}}
}

// show prints what changed since the last call. It belongs to one goroutine.
func (p *progress) show(s *client.Status) {
	if p.quiet {
		return
	}
	for i := range s.Models {
		m := &s.Models[i]
		text := m.State
		if m.Load != nil && m.Load.Phase != "" {
			text = loadText(m.Load)
		}
		key := text
		if !p.terminal && m.Load != nil {
			key = m.Load.Phase
		}
		if m.State == "serving" || m.State == "stopped" || p.last[m.Name] == key {
			continue
		}
		p.last[m.Name] = key
		p.line(m.Name + ": " + text)
	}
}

func (p *progress) line(text string) {
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		p.open = true
		return
	}
	fmt.Fprintln(p.w, text)
}

// end leaves the rewritten line, so that other output starts on a line of its own.
func (p *progress) end() {
	if p.open {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}

func loadText(l *engine.LoadProgress) string {
	var b strings.Builder
	b.WriteString(l.Phase)
	if l.Total > 0 {
		fmt.Fprintf(&b, " %d%% of %.1f MiB", 100*l.Done/l.Total, float64(l.Total)/(1<<20))
	}
	return b.String()
}
