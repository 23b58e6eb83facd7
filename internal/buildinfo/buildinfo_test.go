package buildinfo

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAssemble(t *testing.T) {
	goVersion, platform := runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		name     string
		said     Info
		module   string
		settings []debug.BuildSetting
		want     Info
	}{
		{"nothing recorded", Info{}, "", nil, Info{Version: "devel"}},
		{
			"go build in a tree with changes",
			Info{},
			"(devel)", vcs,
			Info{Version: "devel", Commit: "abc", Date: "2026-01-02T03:04:05Z", Modified: true},
		},
		{"go install of a tag", Info{}, "v1.2.3", nil, Info{Version: "v1.2.3"}},
		{
			"a release build counts over the linker",
			Info{Version: "v2.0.0", Commit: "def", Date: "d"},
			"v1.2.3", vcs[:2],
			Info{Version: "v2.0.0", Commit: "def", Date: "d"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Product, c.want.Go, c.want.Platform = "stoker", goVersion, platform
			if d := cmp.Diff(c.want, assemble(c.said, c.module, c.settings)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestString(t *testing.T) {
	i := Info{Product: "stoker", Version: "v1.2.3", Commit: "0123456789abcdef", Date: "2026-01-02T03:04:05Z", Go: "go1.27.3", Platform: "linux/arm64"}
	if got, want := i.String(), "stoker v1.2.3 (0123456789ab, 2026-01-02T03:04:05Z) go1.27.3 linux/arm64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	i.Modified, i.Date = true, ""
	if got, want := i.String(), "stoker v1.2.3 (0123456789ab with changes) go1.27.3 linux/arm64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	i.Commit = ""
	if got, want := i.String(), "stoker v1.2.3 go1.27.3 linux/arm64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGet(t *testing.T) {
	b, err := json.Marshal(Get())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"product":"stoker"`, `"go":"go1.`, `"platform":"` + runtime.GOOS + "/" + runtime.GOARCH + `"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s lacks %s", b, want)
		}
	}
}
