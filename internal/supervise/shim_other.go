//go:build unix && !linux

package supervise

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// becomeReaper does nothing: only Linux has sub-reapers. A grandchild that leaves the group escapes.
func becomeReaper() {}

// childAttr puts the child into a group of its own.
func childAttr(outlive bool) *syscall.SysProcAttr {
	if outlive {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitEnd returns when the child ended, with the rest of its group killed. The group's id stays taken while it has members;
// without any it is free for the moment between the two calls, which is too short for the ids to come round.
func (s *shim) awaitEnd(cmd *exec.Cmd, pid int) *os.ProcessState {
	cmd.Wait() //nolint:errcheck // the state says it all
	s.finish(pid)
	return cmd.ProcessState
}

// endTree waits until the killed group is empty, at most until limit.
func endTree(pid int, limit time.Time) { awaitGroup(pid, limit) }

// oomKills is unknown here.
func oomKills() int { return -1 }
