package lint

import (
	"path"
	"regexp"
	"strings"
)

// nobody are the owners of homes that examples and tests may name, since they are no one's.
const nobody = `(?:x|me|you|user|name|u|h)\b`

// machine is what belongs to the machine that somebody worked on. The patterns are put together here so that this file does
// not contain what it looks for.
var machine = []*regexp.Regexp{
	regexp.MustCompile(`(?:^|[^A-Za-z0-9._/~$}-])/` + `work/`),
	regexp.MustCompile(`(?:^|[^A-Za-z0-9._/~$}-])/` + `root/`),
	regexp.MustCompile(`(?:^|[^A-Za-z0-9._/~$}-])/` + `(?:home|Users)/[A-Za-z]`),
}

// someHome are homes that are no one's.
var someHome = regexp.MustCompile(`/` + `(?:home|Users)/` + nobody)

// registries are hosts of package registries: which one is used is the business of the machine's own settings.
var registries = []string{"py" + "pi.org", "files.python" + "hosted.org", "registry." + "npmjs", "proxy." + "golang.org", "sum." + "golang.org"}

// link is a link of Markdown to a place in the tree.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func textRules() []rule {
	bad := func(text, want string) planted { return one("docs/x.md", text, want) }
	return []rule{
		{
			name: "no paths of a machine, no registry hosts", check: checkHosts,
			bad: []planted{
				bad("see /"+"work/x\n", "path of a machine"), bad("\"/"+"root/go\"\n", "path of a machine"), bad("at /"+"home/alice/m.gguf\n", "path of a machine"),
				bad("/"+"Users/bob\n", "path of a machine"), bad("from https://"+registries[0]+"/simple\n", "registry"), bad(registries[2]+".org\n", "registry"),
				one("internal/x/x.go", "package x // /"+"work/x\n", "path of a machine"),
			},
			good: map[string]string{"docs/x.md": "net/" + "work/x, $HOME/" + "work/y, /" + "home/x/m, /work" + "-of-test/z, ~/" + "root/x, pypi, /" + "Users/u/Library\n"},
		},
		{
			name: "links lead somewhere", check: checkLinks,
			bad: []planted{
				bad("[a](nowhere.md)\n", "nowhere.md"), bad("[a](../internal/x.go#L1)\n", "internal/x.go"),
			},
			good: map[string]string{
				"docs/x.md": "[a](y.md#part), [b](../internal/), [c](https://example.org/z.md), [d](#here), [e](mailto:a@b)\n", "docs/y.md": "", "internal/x.go": "package x\n",
			},
		},
	}
}

func checkHosts(t tree) []finding {
	var out []finding
	for _, f := range t.files {
		n := 0
		for line := range strings.Lines(f.text) {
			n++
			if what := foreign(line); what != "" {
				out = append(out, finding{f.path, n, what})
			}
		}
	}
	return out
}

// foreign says what in a line belongs to one machine, or "".
func foreign(line string) string {
	for _, r := range registries {
		if strings.Contains(line, r) {
			return "the host of a package registry (" + r + ") does not belong into the tree"
		}
	}
	line = someHome.ReplaceAllString(line, "")
	for _, m := range machine {
		if found := m.FindString(line); found != "" {
			return "the path of a machine (" + strings.TrimSpace(found) + ") does not belong into the tree"
		}
	}
	return ""
}

func checkLinks(t tree) []finding {
	there := map[string]bool{".": true}
	for _, f := range t.files {
		for p := f.path; p != "."; p = path.Dir(p) {
			there[p] = true
		}
	}
	var out []finding
	for _, f := range t.files {
		if !strings.HasSuffix(f.path, ".md") {
			continue
		}
		n := 0
		for line := range strings.Lines(f.text) {
			n++
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, _, _ := strings.Cut(m[1], "#")
				if target == "" || strings.Contains(target, ":") {
					continue
				}
				if p := path.Join(f.dir(), target); !there[p] {
					out = append(out, finding{f.path, n, "the link to " + p + " leads nowhere"})
				}
			}
		}
	}
	return out
}
