package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// becomeReaper makes the shim the parent of grandchildren whose parent ends, so that they can be found and ended too.
func becomeReaper() {
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) //nolint:errcheck // an old kernel; groups still work
}

// childAttr puts the child into a group of its own, and has the kernel kill it when the shim dies.
func childAttr(outlive bool) *syscall.SysProcAttr {
	if outlive {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd returns when the child ended, with the rest of its group killed. They are killed while the child is dead but not
// reaped, so its id, which is the group's, cannot belong to anybody else. Adopted orphans are reaped as they end.
func (s *shim) awaitEnd(cmd *exec.Cmd, pid int) *os.ProcessState {
	ended := make(chan os.Signal, 1) // one is enough: it means that at least one child ended since the last look
	signal.Notify(ended, syscall.SIGCHLD)
	for !reapOrphans(pid) {
		<-ended
	}
	s.finish(pid)
	cmd.Wait() //nolint:errcheck // the state says it all
	return cmd.ProcessState
}

// reapOrphans reaps dead children other than pid, and reports whether pid is dead; pid itself is not reaped.
func reapOrphans(pid int) bool {
	for _, child := range children() {
		if child != pid {
			unix.Wait4(child, nil, unix.WNOHANG, nil) //nolint:errcheck // it may well live
		}
	}
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err != nil || info.Signo != 0 // no error and no signal number: it lives
		}
	}
}

// endTree kills the descendants that became our children when their parents died, until none is left or limit. Killing one may
// give us its children, so one pass is not enough; each such death is a SIGCHLD.
func endTree(_ int, limit time.Time) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	late := time.NewTimer(time.Until(limit))
	defer late.Stop()
	for {
		for _, orphan := range children() {
			syscall.Kill(orphan, syscall.SIGKILL) //nolint:errcheck // ours and not reaped, so it is the right one
		}
		if !reapAll() {
			return
		}
		select {
		case <-ended:
		case <-late.C:
			return
		}
	}
}

// reapAll reaps all dead children, and reports whether there are others.
func reapAll() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.ECHILD:
			return false
		case err == nil && pid == 0:
			return true
		}
	}
}

// children lists the processes whose parent is this one: descendants that were orphaned.
func children() []int {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	if err != nil {
		return nil
	}
	var pids []int
	for _, f := range lists {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// oomKills is how often the memory killer acted in our control group, which the child shares; -1 if that cannot be known.
func oomKills() int {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return -1
	}
	path, ok := unifiedGroup(string(b))
	if !ok {
		return -1
	}
	events, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "memory.events"))
	if err != nil {
		return -1
	}
	return countKills(string(events))
}

// unifiedGroup finds our control group in /proc/self/cgroup: the line of hierarchy 0 (cgroups(7)).
func unifiedGroup(self string) (path string, ok bool) {
	for line := range strings.Lines(self) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path, true
		}
	}
	return "", false
}

// countKills reads the line "oom_kill N" of memory.events, -1 if there is none.
func countKills(events string) int {
	for line := range strings.Lines(events) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			if v, err := strconv.Atoi(n); err == nil && v >= 0 {
				return v
			}
		}
	}
	return -1
}
