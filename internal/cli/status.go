package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/internal/client"
)

// localTimeout bounds one question on the local socket; the server answers from memory.
const localTimeout = 5 * time.Second

type statusCmd struct {
	settingFlags
}

// Run shows the running server. No server is a failure (exit 1), so that scripts can ask.
func (c *statusCmd) Run(e *env) error {
	cfg, err := e.load(c.settingFlags)
	if err != nil {
		return err
	}
	s, err := e.status(cfg.StateDir)
	if e.json && errors.Is(err, client.ErrNotRunning) {
		return errors.Join(e.showJSON(map[string]any{"running": false}), err)
	}
	if err != nil {
		return err
	}
	if e.json {
		return e.showJSON(s)
	}
	return writeStatus(e.Stdout, s)
}

func (e *env) status(stateDir string) (*client.Status, error) {
	l, err := client.Open(stateDir)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	ctx, cancel := e.timeout(localTimeout)
	defer cancel()
	return l.Status(ctx)
}

func writeStatus(w io.Writer, s *client.Status) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s is %s at %s (pid %d, instance %s, up %s)\n", s.Product, s.Version, s.State, s.URL, s.PID, s.InstanceID,
		time.Since(s.StartedAt).Round(time.Second))
	for i := range s.Models {
		writeModel(&b, &s.Models[i])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeModel(b *strings.Builder, m *client.ModelStatus) {
	fmt.Fprintf(b, "  %s: %s", m.Name, m.State)
	if m.Load != nil {
		fmt.Fprintf(b, " (%s)", loadText(m.Load))
	}
	b.WriteByte('\n')
	if f := m.Facts; f != nil {
		fmt.Fprintf(b, "    engine  %s, pid %d, arithmetic: %s: %s\n", engineText(f), m.EnginePID, f.Mode, m.EngineReason)
		fmt.Fprintf(b, "    window  %d tokens: %s\n", f.Window, m.WindowReason)
		fmt.Fprintf(b, "    load    %d running of %d at once, %d queued, %d restarts\n", m.Running, f.Parallel, m.Queued, m.Restarts)
	}
	if len(m.Aliases) > 0 {
		fmt.Fprintf(b, "    aliases %s\n", strings.Join(m.Aliases, ", "))
	}
	if m.Cause != "" {
		fmt.Fprintf(b, "    cause   %s\n", m.Cause)
		for _, l := range m.LogTail {
			fmt.Fprintf(b, "      | %s\n", l)
		}
	}
}
