//go:build unix && !linux

package supervise

import (
	"os"
	"os/exec"
	"syscall"
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

// awaitEnd returns when the child ended, with the rest of its group killed. The group's id stays taken while it has members,
// so the signal cannot hit anybody else.
func awaitEnd(cmd *exec.Cmd, pid int) *os.ProcessState {
	cmd.Wait() //nolint:errcheck // the state says it all
	signalGroup(pid, syscall.SIGKILL)
	return cmd.ProcessState
}

// oomKills is unknown here.
func oomKills() int { return -1 }
