package llamacpp

import "strings"

// flag is one entry of --help: a setting with all its spellings.
type flag struct {
	// names are all spellings, as printed: "-c", "--ctx-size".
	names []string
	// value is the placeholder behind the names ("N", "[on|off|auto]"), empty for a switch.
	value string
	// text is the description.
	text string
}

// flagSet is what a build's --help lists, by spelling.
type flagSet struct {
	byName map[string]*flag
	// removed are spellings that the build knows only to refuse them, with its words.
	removed map[string]string
}

// parseHelp reads the output of --help. An entry begins with a dash in the first column; lines that are indented belong to
// the entry above. One space between the last spelling and what follows makes that the value's placeholder; two or more
// begin the description. Lines of any other shape are ignored.
func parseHelp(out string) flagSet {
	fs := flagSet{byName: map[string]*flag{}, removed: map[string]string{}}
	var cur *flag
	add := func() {
		if cur == nil {
			return
		}
		gone := strings.Contains(cur.text, "argument has been removed")
		for _, n := range cur.names {
			if gone {
				fs.removed[n] = cur.text
			} else {
				fs.byName[n] = cur
			}
		}
	}
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "-----"):
			// a section title
		case strings.HasPrefix(line, "-"):
			add()
			cur = parseHelpHead(line)
		case cur != nil && strings.HasPrefix(line, " "):
			cur.text = strings.TrimSpace(cur.text + " " + strings.TrimSpace(line))
		}
	}
	add()
	return fs
}

// parseHelpHead reads the first line of an entry.
func parseHelpHead(line string) *flag {
	f := &flag{}
	for {
		name, rest, _ := strings.Cut(line, " ")
		f.names = append(f.names, strings.TrimSuffix(name, ","))
		if strings.HasSuffix(name, ",") {
			line = strings.TrimLeft(rest, " ")
			if strings.HasPrefix(line, "-") {
				continue
			}
			return f // the list of spellings breaks off; nothing else can be read from this line
		}
		if rest == "" {
			return f
		}
		if !strings.HasPrefix(rest, " ") {
			f.value, rest, _ = strings.Cut(rest, "  ")
		}
		f.text = strings.TrimSpace(rest)
		return f
	}
}

// get returns the entry that knows one of names, nil if there is none.
func (fs flagSet) get(names ...string) *flag {
	for _, n := range names {
		if f := fs.byName[n]; f != nil {
			return f
		}
	}
	return nil
}

// first returns the first of names that the build knows, "" if it knows none.
func (fs flagSet) first(names ...string) string {
	for _, n := range names {
		if fs.byName[n] != nil {
			return n
		}
	}
	return ""
}

// unixSocket reports whether the build can listen on a unix socket.
func (fs flagSet) unixSocket() bool {
	f := fs.get("--host")
	return f != nil && strings.Contains(f.text, ".sock")
}

// long returns the longest spelling of f without its dashes: the name that people use for it.
func (f *flag) long() string {
	var best string
	for _, n := range f.names {
		n = strings.TrimLeft(n, "-")
		if !strings.HasPrefix(n, "no-") && len(n) > len(best) {
			best = n
		}
	}
	return best
}

// negative returns the spelling that switches f off, "" if it has none.
func (f *flag) negative() string {
	for _, n := range f.names {
		if strings.HasPrefix(n, "--no-") {
			return n
		}
	}
	return ""
}

// positive returns a long spelling that switches f on, "" if it has none.
func (f *flag) positive() string {
	for _, n := range f.names {
		if strings.HasPrefix(n, "--") && !strings.HasPrefix(n, "--no-") {
			return n
		}
	}
	return ""
}
