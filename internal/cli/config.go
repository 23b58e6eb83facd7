package cli

import (
	"encoding/json"
	"fmt"

	"github.com/stoker-llm/stoker/internal/config"
)

type configCmd struct {
	Show   configShowCmd   `cmd:"" help:"Show each setting, its value and where it comes from."`
	Schema configSchemaCmd `cmd:"" help:"Print the JSON Schema of the config file."`
}

type configShowCmd struct {
	settingFlags
}

// Run shows the settings as serve would take them with the same flags, and refuses what serve would refuse.
func (c *configShowCmd) Run(e *env) error {
	cfg, err := e.loadToListen(c.settingFlags)
	if err != nil {
		return err
	}
	if e.json {
		return e.showJSON(cfg.Show())
	}
	return config.WriteShow(e.Stdout, cfg.Show())
}

type configSchemaCmd struct{}

// Run prints the schema. It is JSON with and without --json.
func (configSchemaCmd) Run(e *env) error {
	var v any
	if err := json.Unmarshal(config.Schema(), &v); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	_, err := fmt.Fprintf(e.Stdout, "%s\n", config.Schema())
	return err
}
