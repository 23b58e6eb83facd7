package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

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

// awaitEnd returns when the child ended, with the rest of its group and its other descendants killed. They are killed while
// the child is dead but not reaped, so its id, which is the group's, cannot belong to anybody else.
func awaitEnd(cmd *exec.Cmd, pid int) *os.ProcessState {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	signalGroup(pid, syscall.SIGKILL)
	for _, orphan := range children() {
		if orphan != pid {
			syscall.Kill(orphan, syscall.SIGKILL) //nolint:errcheck // gone already
		}
	}
	cmd.Wait() //nolint:errcheck // the state says it all
	return cmd.ProcessState
}

// children lists the processes whose parent is this one: the child, and descendants that were orphaned.
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

// oomKills is how often the memory killer acted in our control group; -1 if that cannot be known.
func oomKills() int {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return -1
	}
	_, path, ok := strings.Cut(strings.TrimSpace(string(b)), "0::")
	if !ok {
		return -1
	}
	events, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "memory.events"))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(events)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			if v, err := strconv.Atoi(n); err == nil {
				return v
			}
		}
	}
	return -1
}
