// Package config turns flags, environment, one YAML file and defaults into one checked [Config], and says for each value
// where it came from.
//
//	cfg, err := config.Load(config.Input{Flags: flags, Host: config.System()})
//	models, err := cfg.Select(words) // what to serve: the words of the command line, or all models of the file
//
// Everything comes from one declared table of settings (table.go): the flags ([Flags]), the environment names, the keys of
// the file, the defaults, the JSON Schema ([Schema]), the listing of `stoker config show` ([Config.Show]) and the page
// docs/configuration.md. A setting that is not in the table does not exist.
//
// # Which value counts
//
// A flag beats the environment, the environment beats the file, the file beats the default; the last of two equal flags
// wins. In each source a setting may be in one of four states:
//
//	unset            the next lower source decides
//	empty            ("" or, in YAML, a key without a value) the built-in default, whatever lower sources say
//	none             switched off, where the setting can be off; else an error
//	anything else    the value
//
// Every value of every source is checked, also one that a higher source overrides, and all problems are reported at once in
// an [*Error]: each with its place, what is wrong, and the way out.
//
// This is the only package that reads the environment ([System]); tests fill a [Host] by hand. Load keeps no state and may
// run many times at once; a Config is not changed after Load and may be shared.
package config
