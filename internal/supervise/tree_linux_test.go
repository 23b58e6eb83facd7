package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A tree is found to its last leaf: the leaf's parent must die before the shim becomes its parent.
func TestReviewR2StopKillsTheTreeBelowAHelper(t *testing.T) {
	got := make(lines, 10)
	s := spec("clan", "own-session", "stay")
	s.OnLine = got.onLine
	p := start(t, s)
	pid, addr := portHolder(t, got.await(t, "port"))
	if err := p.Stop(t.Context(), quick); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if alive(pid) {
		t.Error("the tree still lives when Stop says that it is gone")
	}
	mustBind(t, addr)
}

// The shim must not collect the dead for as long as an engine lives.
func TestShimReapsOrphans(t *testing.T) {
	got := make(lines, 10)
	s := spec("orphans")
	s.OnLine = got.onLine
	p := start(t, s)
	got.await(t, "ready")
	eventually(t, "the engine is the shim's only child", func() bool { return childrenOf(t, p.shim.Process.Pid) == 1 })
}

// childrenOf counts a process's children, dead ones included.
func childrenOf(t *testing.T, pid int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		t.Fatalf("no lists of children of %d: %v", pid, err)
	}
	n := 0
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		n += len(strings.Fields(string(b)))
	}
	return n
}

func TestEngineInheritsOnlyItsOwnPipes(t *testing.T) {
	got := make(lines, 10)
	s := spec("pipes")
	s.OnLine = got.onLine
	p := start(t, s)
	if line := got.await(t, "pipes"); line != "pipes 2 loose 0" {
		t.Errorf("the child says %q, want 2 pipes (stdout, stderr), all of them blocking", line)
	}
	awaitDone(t, p)
}

func TestMemoryKillsAreCounted(t *testing.T) {
	tests := []struct {
		name, events string
		want         int
	}{
		{"none yet", "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n", 0},
		{"some", "max 12\noom 4\noom_kill 3\noom_group_kill 1\n", 3},
		{"not said", "max 12\noom 4\n", -1},
		{"no number", "oom_kill many\n", -1},
		{"empty", "", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := countKills(tt.events); got != tt.want {
				t.Errorf("countKills = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestControlGroupIsFound(t *testing.T) {
	tests := []struct {
		name, self, want string
		ok               bool
	}{
		{"unified", "0::/user.slice/stoker.service\n", "/user.slice/stoker.service", true},
		{"beside old hierarchies", "4:memory:/x\n1:name=systemd:/y\n0::/z\n", "/z", true},
		{"old hierarchies only", "4:memory:/a/10::/b\n", "", false},
		{"empty", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := unifiedGroup(tt.self); got != tt.want || ok != tt.ok {
				t.Errorf("unifiedGroup = %q, %v; want %q, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func FuzzMemoryEvents(f *testing.F) {
	f.Add("max 12\noom_kill 3\n", "0::/z\n")
	f.Add("oom_kill -3", "0::")
	f.Fuzz(func(t *testing.T, events, self string) {
		if n := countKills(events); n < -1 {
			t.Errorf("countKills(%q) = %d", events, n)
		}
		if path, ok := unifiedGroup(self); ok && strings.Contains(path, "\n") {
			t.Errorf("unifiedGroup(%q) = %q, want one line", self, path)
		}
	})
}
