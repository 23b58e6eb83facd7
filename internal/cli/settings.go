package cli

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stoker-llm/stoker/internal/config"
)

// settingFlags are the flags of a command that are settings. Their kong fields are made from the table of package config,
// so help, parser, environment and config file come from one place.
type settingFlags struct {
	kong.Plugins
}

// given collects the values of one flag in their order. It never is a boolean, so it always takes exactly one value.
type given []string

// Decode implements kong.MapperValue.
func (g *given) Decode(ctx *kong.DecodeContext) error {
	t := ctx.Scan.Pop()
	if t.IsEOL() {
		return fmt.Errorf("missing value")
	}
	text, ok := t.Value.(string)
	if !ok {
		text = t.String()
	}
	*g = append(*g, text)
	return nil
}

// newSettingFlags makes the flags of the named settings, or of all.
func newSettingFlags(only ...string) settingFlags {
	var fields []reflect.StructField
	for _, f := range config.Flags() {
		if len(only) > 0 && !contains(only, f.Name) {
			continue
		}
		tag := fmt.Sprintf("name:%q help:%q placeholder:%q", f.Name, f.Help, strings.ToUpper(f.Type))
		fields = append(fields, reflect.StructField{
			Name: exported(f.Name), Type: reflect.TypeFor[given](), Tag: reflect.StructTag(tag),
		})
	}
	return settingFlags{kong.Plugins{reflect.New(reflect.StructOf(fields)).Interface()}}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// exported turns a flag's name into a field's: engine-arg into EngineArg.
func exported(flag string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(flag, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// settings returns the flags that were given, in the order of the table and, per flag, of the command line.
func (f settingFlags) settings() []config.Setting {
	var out []config.Setting
	for _, p := range f.Plugins {
		v := reflect.ValueOf(p).Elem()
		for i := range v.NumField() {
			values, ok := v.Field(i).Interface().(given)
			if !ok {
				continue
			}
			for _, text := range values {
				out = append(out, config.Setting{Key: v.Type().Field(i).Tag.Get("name"), Value: text})
			}
		}
	}
	return out
}

// load reads the settings of a command that does not listen on the address in them; warnings go to stderr.
func (e *env) load(f settingFlags) (*config.Config, error) {
	return e.loadInput(config.Input{Flags: f.settings(), Host: e.Host, NoListen: true})
}

// loadToListen reads the settings of a server: its address must be safe.
func (e *env) loadToListen(f settingFlags) (*config.Config, error) {
	return e.loadInput(config.Input{Flags: f.settings(), Host: e.Host})
}

func (e *env) loadInput(in config.Input) (*config.Config, error) {
	cfg, err := config.Load(in)
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(e.Stderr, "stoker: warning: %s\n", w)
	}
	return cfg, nil
}

// timeout bounds a question to a running server.
func (e *env) timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(e.ctx, d, fmt.Errorf("no answer within %s", d))
}

// modelFlags are the settings that matter where a model is chosen or started without being offered to others.
var modelFlags = []string{"config", "ctx", "parallel", "engine", "engine-arg", "state-dir", "data-dir", "log-level"}

// stateFlags are the settings that say which server is meant.
var stateFlags = []string{"config", "state-dir"}
