package config

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// finishKey makes api_key and api_key_file one setting: whichever comes from the higher source counts.
func (l *loader) finishKey(c *Config) {
	text, file := l.decided[keyAPIKey], l.decided[keyAPIKeyFile]
	switch {
	case c.APIKey.Set() && c.APIKeyFile != "" && text.source == file.source:
		l.problem(file.where, "%s and %s are both set (%s): keep one", keyAPIKey, keyAPIKeyFile, text.where)
	case c.APIKeyFile == "" && (!file.off() || text.source.rank() >= file.source.rank()):
		// The key itself, or none at all.
	case c.APIKeyFile == "":
		c.APIKey = Secret{}
	case text.source.rank() > file.source.rank():
		c.APIKeyFile = ""
	default:
		c.APIKey = l.readKey(file, c.APIKeyFile)
	}
}

// readKey reads the key file. A file that anybody may write is refused, since then anybody chooses the key. One that others
// may read is only warned about: secrets are mounted into containers with mode 0444, where nobody else is, and a refusal
// would drive the key into a place that is worse.
func (l *loader) readKey(at raw, path string) Secret {
	text, mode, err := readLimited(path, maxKey+1)
	if err != nil {
		l.problem(at.where, "%s: %v", keyAPIKeyFile, err)
		return Secret{}
	}
	l.checkKeyMode(at, path, mode.Perm())
	key := strings.TrimRight(string(text), "\r\n")
	if key == "" {
		l.problem(at.where, "%s: %s is empty: put the key into it, or take the setting out", keyAPIKeyFile, path)
		return Secret{}
	}
	secret, err := keyText().parse(key, place{})
	if err != nil {
		l.problem(at.where, "%s: %s does not hold %s", keyAPIKeyFile, path, keyText().takes)
	}
	return secret
}

func (l *loader) checkKeyMode(at raw, path string, mode fs.FileMode) {
	if mode&0o002 != 0 {
		l.problem(at.where, "%s: every user can change %s (mode %04o): chmod 600 it, and choose a new key", keyAPIKeyFile, path, mode)
	} else if mode&0o077 != 0 {
		l.warn(at.where, "other users can read the key in %s (mode %04o): chmod 600 it", path, mode)
	}
}

// checkBind holds the rule that nobody else's machine gets in without a key.
func (l *loader) checkBind(c *Config) {
	at, decided := l.decided[keyHost]
	_, key := l.decided[keyAPIKey]
	_, file := l.decided[keyAPIKeyFile]
	if !decided || !key || !file || c.Loopback() || c.APIKey.Set() || c.APIKeyFile != "" {
		return
	}
	l.problem(at.where, "host %s can be reached from other machines, and no key is set: set STOKER_API_KEY (or api_key_file), or "+
		"listen on 127.0.0.1 only", c.Host)
}

// checkRunDir keeps sockets within what the system can address.
func (l *loader) checkRunDir(c *Config) {
	if at, ok := l.decided[keyRunDir]; ok && !socketsFit(c.RunDir) {
		l.problem(at.where, "run_dir %s has %d bytes, and sockets in it need a path of at most %d: choose a shorter one, such as /tmp/stoker",
			c.RunDir, len(c.RunDir), sunPath-SocketRoom)
	}
}

// finishModels makes the models that the file declares.
func (l *loader) finishModels(c *Config) {
	at := l.decided[keyModels]
	i := slices.IndexFunc(l.table, func(s setting[Config]) bool { return s.key == keyModels })
	defer func() {
		l.shown = append(append(l.shown, shownValue(l.table[i], keyModels, c, at)), l.shownModels...)
	}()
	seen := map[string]string{}
	for i, rm := range at.entries {
		m := l.model(c, i, rm)
		for _, name := range append([]string{m.Name}, m.Aliases...) {
			if other, ok := seen[name]; ok && name != "" {
				l.problem(rm.where, "the name %s reaches two models, this one and the one at %s: choose another", name, other)
			}
			seen[name] = rm.where
		}
		c.Models = append(c.Models, m)
	}
}

// model applies flags, environment, its own entry, the rest of the file and defaults to one entry, in this order.
func (l *loader) model(c *Config, i int, rm rawModel) Model {
	m := Model{Ctx: c.Ctx, Parallel: c.Parallel, Engine: c.Engine}
	label := fmt.Sprintf("models[%d]", i)
	if rm.fields["name"].text == "" {
		l.problem(rm.where, "%s has no name: add name: and what clients shall call it", label)
	} else {
		label = "models." + rm.fields["name"].text
	}
	for _, s := range modelFields() {
		name := label + "." + s.key
		if r, given := rm.fields[s.key]; given && report(l, s, name, r) && !l.commanded(s.key) {
			l.shownModels = append(l.shownModels, shownValue(s, name, &m, store(l, s, name, &m, r)))
		}
	}
	m.EngineArgs = overlay(m.EngineArgs, c.engineArgs)
	return m
}

// commanded reports whether a flag or the environment decided a setting that an entry of models has as well. Options are
// not decided as a whole: those of the flags are laid over.
func (l *loader) commanded(key string) bool {
	if key == keyEngineArgs {
		return false
	}
	for _, r := range l.said(key) {
		if r.source.rank() > FromFile.rank() {
			return true
		}
	}
	return false
}
