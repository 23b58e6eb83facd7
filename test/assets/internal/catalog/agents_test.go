package catalog

import (
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/test/assets/internal/fakes"
)

func TestAgentsFallBackToAnOlderVersion(t *testing.T) {
	f := fakes.New(t)
	f.Add("npm", `
case "$*" in
*claude-code@2.1.332) echo "npm error code ETARGET" >&2; exit 1;;
install*) mkdir -p "$3/node_modules/.bin"; cd "$3/node_modules/.bin"; for p in claude codex opencode; do cp "$here/agent" $p; done;;
esac
exit 0`)
	f.Add("agent", "exit 0")
	opt, _ := options(t)
	c := catalogOf(opt, agents())
	if _, err := c.Get(t.Context(), "agents"); err != nil {
		t.Fatal(err)
	}
	k, _, err := c.key(c.assets[0])
	if err != nil {
		t.Fatal(err)
	}
	m, err := opt.Store.ReadManifest(k)
	if err != nil || m.Details["@anthropic-ai/claude-code"] != "2.1.197" {
		t.Errorf("manifest %+v, %v", m.Details, err)
	}
}

func TestAgentsWithoutNPM(t *testing.T) {
	fakes.New(t)
	opt, _ := options(t)
	_, err := catalogOf(opt, agents()).Get(t.Context(), "agents")
	if err == nil || !strings.Contains(err.Error(), "install Node.js") {
		t.Errorf("got %v, want an error that says what to install", err)
	}
}

func TestAgentThatDoesNotStart(t *testing.T) {
	f := fakes.New(t)
	f.Add("npm", `
case "$1" in
install) mkdir -p "$3/node_modules/.bin"; cp "$here/agent" "$3/node_modules/.bin/claude";;
esac`)
	f.Add("agent", "echo 'Error: native binary not installed.'; exit 1")
	opt, _ := options(t)
	_, err := catalogOf(opt, agents()).Get(t.Context(), "agents")
	if err == nil || !strings.Contains(err.Error(), "native binary not installed") {
		t.Errorf("got %v, want the agent's own words", err)
	}
}
