// Package buildinfo says what program this is: product, version, commit, compiler, platform.
//
// [Get] reads what the Go linker stored in the binary, so that `go build` and `go install` of a tag both know their commit.
// A release build sets the three variables below with -ldflags -X; they are the one package-level state of the program and
// nothing writes them at run time. Get may be called from many goroutines.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Product is the name every instance of this program gives itself.
const Product = "stoker"

// Set by a release build: -ldflags "-X github.com/stoker-llm/stoker/internal/buildinfo.version=v1.2.3 ...".
var (
	version string // "v1.2.3"
	commit  string // full hash
	date    string // time of the commit, RFC 3339
)

// Info is what is known about this build. A field that nobody recorded is "".
type Info struct {
	Product string `json:"product"`
	// Version is the release's tag, or "devel".
	Version string `json:"version"`
	// Commit is the full hash, and Modified reports whether the tree had changes that are in no commit.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Date is the time of the commit, RFC 3339.
	Date string `json:"date,omitempty"`
	// Go is the compiler's version, Platform the system and processor, such as "linux/arm64".
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns what is known about the running program.
func Get() Info {
	var settings []debug.BuildSetting
	module := ""
	if bi, ok := debug.ReadBuildInfo(); ok {
		settings, module = bi.Settings, bi.Main.Version
	}
	return assemble(Info{Version: version, Commit: commit, Date: date}, module, settings)
}

// assemble completes what the release build said with what the linker stored. module is the main module's version.
func assemble(said Info, module string, settings []debug.BuildSetting) Info {
	i := said
	i.Product, i.Go, i.Platform = Product, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			fill(&i.Commit, s.Value)
		case "vcs.time":
			fill(&i.Date, s.Value)
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	if module != "(devel)" {
		fill(&i.Version, module)
	}
	fill(&i.Version, "devel")
	return i
}

func fill(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// String is the line that `stoker version` prints.
func (i Info) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", i.Product, i.Version)
	if i.Commit != "" {
		fmt.Fprintf(&b, " (%.12s", i.Commit)
		if i.Modified {
			b.WriteString(" with changes")
		}
		if i.Date != "" {
			b.WriteString(", " + i.Date)
		}
		b.WriteByte(')')
	}
	fmt.Fprintf(&b, " %s %s", i.Go, i.Platform)
	return b.String()
}
