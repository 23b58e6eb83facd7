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
	"runtime"
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
}

func (s *shim) run(path string, args []string, control io.Reader) int {
	// The parent-death signal is tied to the thread that started the child, so this one must stay.
	runtime.LockOSThread()
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
	state := awaitEnd(cmd, pid)
	ws, ok := state.Sys().(syscall.WaitStatus)
	r := report{Ended: true, Code: state.ExitCode()}
	if ok && ws.Signaled() {
		r.Signal = int(ws.Signal())
	}
	s.tell(r)
	return 0
}

// obey carries out what the control pipe says, until its end, which means that the supervisor is gone.
func (s *shim) obey(control io.Reader, pid int) {
	lines := bufio.NewScanner(control)
	for lines.Scan() {
		switch lines.Text() {
		case askTerm:
			signalGroup(pid, syscall.SIGTERM)
		case askKill:
			signalGroup(pid, syscall.SIGKILL)
		}
	}
	if s.outlive {
		os.Exit(0)
	}
	signalGroup(pid, syscall.SIGKILL)
	// run ends as soon as the child is reaped. A child that cannot die (stuck in the kernel) must not keep the shim for ever.
	time.Sleep(orphanWait)
	os.Exit(1)
}

// orphanWait is how long the shim stays for a killed child after its supervisor is gone.
const orphanWait = 10 * time.Second

// tell reports to the supervisor. If that is gone nobody is left to tell.
func (s *shim) tell(r report) {
	s.status.Encode(r) //nolint:errcheck // see above
}

// signalGroup signals the child's process group. The group exists at least until the child is reaped, which only this
// process does.
func signalGroup(pid int, sig syscall.Signal) {
	syscall.Kill(-pid, sig) //nolint:errcheck // no such group: it is gone already
}

// reasonOf is the system's own word for a failed start.
func reasonOf(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
