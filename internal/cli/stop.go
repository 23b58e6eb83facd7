package cli

import (
	"fmt"
	"time"

	"github.com/stoker-llm/stoker/internal/client"
)

type stopCmd struct {
	settingFlags
	Timeout time.Duration `default:"30s" help:"How long to wait for the end. The engines' own stop ladder is shorter."`
}

// Run asks the server to stop and returns when it and its engines are gone.
func (c *stopCmd) Run(e *env) error {
	cfg, err := e.load(c.settingFlags)
	if err != nil {
		return err
	}
	l, err := client.Open(cfg.StateDir)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := e.timeout(c.Timeout)
	defer cancel()
	if err := l.Stop(ctx); err != nil {
		return err
	}
	if err := l.AwaitGone(ctx, cfg.StateDir); err != nil {
		return err
	}
	d := l.Discovery()
	if e.json {
		return e.showJSON(map[string]any{"stopped": true, "instance_id": d.InstanceID, "pid": d.PID})
	}
	_, err = fmt.Fprintf(e.Stdout, "stopped stoker at %s (pid %d) and its engines\n", d.URL, d.PID)
	return err
}
