package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// The file descriptors that the shim inherits.
const (
	controlFD = 3 // read: what to do with the child; its end means that the supervisor is gone
	statusFD  = 4 // write: what became of the child
)

// shimWord is the argument that makes a process a shim.
const shimWord = "shim"

// The words on the control pipe.
const (
	askTerm = "term"
	askKill = "kill"
)

// report is one line on the status pipe.
type report struct {
	PID      int    `json:"pid,omitempty"`
	Error    string `json:"error,omitempty"`
	NotFound bool   `json:"not_found,omitempty"`
	Ended    bool   `json:"ended,omitempty"`
	Code     int    `json:"code,omitempty"`
	Signal   int    `json:"signal,omitempty"`
}

// IsShim reports whether args, without the program's own name, ask for the shim role.
func IsShim(args []string) bool { return len(args) > 0 && args[0] == shimWord }

// ShimMain is the shim role: args are shimWord, "live" or "die" (with the supervisor), and the command. It returns the exit
// status for the process.
func ShimMain(args []string) int {
	if len(args) < 3 || (args[1] != "live" && args[1] != "die") {
		fmt.Fprintln(os.Stderr, "stoker shim: this role is for stoker itself")
		return 2
	}
	s := &shim{outlive: args[1] == "live", status: json.NewEncoder(os.NewFile(statusFD, "status"))}
	return s.run(args[2], args[3:], os.NewFile(controlFD, "control"))
}

type shim struct {
	outlive bool
	status  *json.Encoder

	mu   sync.Mutex // guards over, and holds back the reaping while a signal is sent
	over bool       // the child is dead and its group was killed: its id may belong to anybody from now on
}

func (s *shim) run(path string, args []string, control io.Reader) int {
	// The parent-death signal is tied to the thread that started the child, so this one must stay.
	runtime.LockOSThread()
	heedNobody()
	becomeReaper()
	// The child must not inherit the pipes: it would keep them open, and nobody would notice the shim's end.
	syscall.CloseOnExec(controlFD)
	syscall.CloseOnExec(statusFD)
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = childAttr(s.outlive)
	if err := cmd.Start(); err != nil {
		s.tell(report{Error: reasonOf(err), NotFound: errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)})
		return 1
	}
	pid := cmd.Process.Pid
	s.tell(report{PID: pid})
	go s.obey(control, pid)
	state := s.awaitEnd(cmd, pid)
	endTree(pid, time.Now().Add(treeWait))
	s.tell(endReport(state))
	return 0
}

// treeWait is how long the rest of a tree may take to die of SIGKILL before the shim reports the child's end all the same.
const treeWait = 2 * time.Second

// heedNobody makes signals to the shim mean nothing. A service manager sends SIGTERM to every process of a service; the shim must
// not end before the child was asked. Nobody reads the channel: a signal that does not fit in is dropped. Ignoring
// signals instead would be inherited by the child.
func heedNobody() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
}

func endReport(state *os.ProcessState) report {
	r := report{Ended: true, Code: state.ExitCode()}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.Signal = int(ws.Signal())
	}
	return r
}

// obey carries out what the control pipe says, until its end, which means that the supervisor is gone.
func (s *shim) obey(control io.Reader, pid int) {
	lines := bufio.NewScanner(control)
	for lines.Scan() {
		switch lines.Text() {
		case askTerm:
			s.signal(pid, syscall.SIGTERM)
		case askKill:
			s.signal(pid, syscall.SIGKILL)
		}
	}
	if s.outlive {
		os.Exit(0)
	}
	s.signal(pid, syscall.SIGKILL)
	// run ends as soon as the child is reaped. A child that cannot die (stuck in the kernel) must not keep the shim for ever.
	time.Sleep(orphanWait)
	os.Exit(1)
}

// orphanWait is how long the shim stays for a killed child after its supervisor is gone.
const orphanWait = 10 * time.Second

// signal signals the child's group, unless the group's id is free again.
func (s *shim) signal(pid int, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		signalGroup(pid, sig)
	}
}

// finish kills what is left of the group after its leader's end, and lets nobody signal it afterwards. The leader does not get
// on without its helpers and they not without it; waiting for them would only keep the port and the memory taken.
func (s *shim) finish(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	signalGroup(pid, syscall.SIGKILL)
	s.over = true
}

// tell reports to the supervisor. If that is gone nobody is left to tell.
func (s *shim) tell(r report) {
	s.status.Encode(r) //nolint:errcheck // see above
}

// signalGroup signals the child's process group.
func signalGroup(pid int, sig syscall.Signal) {
	syscall.Kill(-pid, sig) //nolint:errcheck // no such group: it is gone already
}

// awaitGroup waits until the process group has no member, at most until limit, and reports whether that came true. A dead
// member that nobody reaps counts as a member.
func awaitGroup(pid int, limit time.Time) bool {
	for syscall.Kill(-pid, 0) == nil {
		if time.Now().After(limit) {
			return false
		}
		time.Sleep(pollPause)
	}
	return true
}

// pollPause is the pause between looks at processes that cannot be waited for, because they are not our children.
const pollPause = 2 * time.Millisecond

// reasonOf is the system's own word for a failed start.
func reasonOf(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
