package supervise

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one supervised child.
type Process struct {
	spec    Spec
	pid     int
	shim    *exec.Cmd
	control *os.File // write end; only the owner writes and closes it
	tail    *tail
	ooms    int // memory kills seen before the start

	readers sync.WaitGroup
	outputs []*os.File // our read ends; the owner closes them

	reports chan report   // what the shim says; closed when it is gone
	asks    chan string   // words for the shim, to the owner
	climber chan struct{} // holds the one caller of Stop that climbs the ladder
	done    chan struct{}

	mu   sync.Mutex // guards exit
	exit *Exit
}

// drainWait is how long the output of an ended child may still arrive. A grandchild that was missed could hold the pipe open
// for ever; what a process wrote before its end is there at once.
const drainWait = 500 * time.Millisecond

// Bounds of a start.
const (
	// startWait is how long the shim may take to report. It only has to fork and execute, but that may bring in a large program
	// from a cold disk.
	startWait = 30 * time.Second
	// abortWait is how long the shim may take to undo a start that nobody wants any more, before it is killed.
	abortWait = 2 * time.Second
)

// Start starts a child and returns when it runs. The error is a *StartError when the system refused; ctx ends the wait, and
// the child with it, but has no meaning after Start returned. A failed start leaves nothing behind.
func Start(ctx context.Context, s Spec) (*Process, error) {
	p, err := begin(s)
	if err != nil {
		return nil, err
	}
	if err := p.awaitStarted(ctx); err != nil {
		return nil, err
	}
	go p.own()
	p.spec.Log.Debug("process started", "process", s.Name, "pid", p.pid)
	return p, nil
}

// begin starts the shim, which starts the child.
func begin(s Spec) (*Process, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	p := &Process{
		spec: s, tail: newTail(s.TailLines), ooms: oomKills(), reports: make(chan report), asks: make(chan string),
		climber: make(chan struct{}, 1), done: make(chan struct{}),
	}
	status, err := p.launch()
	if err != nil {
		return nil, err
	}
	go readReports(status, p.reports)
	return p, nil
}

// launch starts the shim with its pipes, and the readers of the child's output.
func (p *Process) launch() (status *os.File, err error) {
	var mine, theirs []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(mine)
		}
	}()
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		r, w, err = os.Pipe()
		return r, w
	}
	controlR, controlW := pipe()
	statusR, statusW := pipe()
	mine, theirs = append(mine, controlW, statusR), append(theirs, controlR, statusW)
	var out, errOut *os.File
	if p.spec.LogFile != "" {
		if err == nil {
			out, err = os.OpenFile(p.spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		}
		errOut = out
		theirs = append(theirs, out)
	} else {
		var outR, errR *os.File
		outR, out = pipe()
		errR, errOut = pipe()
		mine, theirs = append(mine, outR, errR), append(theirs, out, errOut)
		p.outputs = []*os.File{outR, errR}
	}
	if err != nil {
		return nil, fmt.Errorf("supervise %s: %w", p.spec.Name, err)
	}
	p.control, p.shim = controlW, p.shimCommand(controlR, statusW, out, errOut)
	if err = p.shim.Start(); err != nil {
		return nil, &StartError{Path: p.spec.Path, Reason: "the shim " + p.spec.Shim[0] + " does not start: " + reasonOf(err)}
	}
	p.read()
	return statusR, nil
}

func (p *Process) shimCommand(control, status, out, errOut *os.File) *exec.Cmd {
	fate := "die"
	if p.spec.Outlive {
		fate = "live"
	}
	args := append(append([]string{}, p.spec.Shim[1:]...), fate, p.spec.Path)
	cmd := exec.Command(p.spec.Shim[0], append(args, p.spec.Args...)...)
	cmd.Env, cmd.Dir = p.spec.Env, p.spec.Dir
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	cmd.Stdout, cmd.Stderr = out, errOut
	cmd.ExtraFiles = []*os.File{control, status}
	// A session of its own: a Ctrl-C on our terminal must reach us only, and we then stop the child in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = drainWait
	return cmd
}

func (p *Process) read() {
	for i, f := range p.outputs {
		from := []Output{Stdout, Stderr}[i]
		p.readers.Go(func() {
			readLines(f, func(line string) {
				p.tail.add(line)
				if p.spec.OnLine != nil {
					p.spec.OnLine(from, line)
				}
			})
		})
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// readReports hands on what the shim reports, until its end.
func readReports(status *os.File, to chan<- report) {
	defer close(to)
	defer status.Close()
	lines := bufio.NewReader(status)
	for {
		b, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r report
		if json.Unmarshal(b, &r) == nil {
			to <- r
		}
	}
}

// awaitStarted takes the first report. Without a good one nothing is left behind.
func (p *Process) awaitStarted(ctx context.Context) error {
	limit := time.NewTimer(startWait)
	defer limit.Stop()
	var err error
	select {
	case first, ok := <-p.reports:
		switch {
		case first.PID > 0:
			p.pid = first.PID
			return nil
		case ok:
			err = &StartError{Path: p.spec.Path, Reason: first.Error, NotFound: first.NotFound}
		default:
			err = &StartError{Path: p.spec.Path, Reason: "the shim ended without a word"}
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-limit.C:
		err = &StartError{Path: p.spec.Path, Reason: fmt.Sprintf("the shim was silent for %s", startWait)}
	}
	p.abort()
	return err
}

// abort undoes a start whose outcome nobody knows or wants. The word comes before the end of the control pipe, because that
// end alone would let a child live that may outlive us.
func (p *Process) abort() {
	p.word(askKill)
	late := time.AfterFunc(abortWait, func() { p.shim.Process.Kill() }) //nolint:errcheck // gone already
	defer late.Stop()
	lost := true
	for r := range p.reports {
		p.pid = max(p.pid, r.PID)
		lost = lost && !r.Ended && r.Error == ""
	}
	p.settle(lost)
}

// own is the goroutine that owns the child's state: it passes asks on until the child's end, and records that.
func (p *Process) own() {
	end := Exit{Code: -1, ShimLost: true}
	for open := true; open; {
		select {
		case word := <-p.asks:
			end.Asked = end.Asked || end.ShimLost // asks that come after the end did not cause it
			p.word(word)
		case r, more := <-p.reports:
			open = more
			if r.Ended {
				end.Code, end.ShimLost, end.At = r.Code, false, time.Now()
			}
			if r.Ended && r.Signal > 0 {
				end.Signal = unix.SignalName(syscall.Signal(r.Signal))
			}
		}
	}
	p.settle(end.ShimLost)
	if end.ShimLost {
		end.At = time.Now()
	}
	end.OutOfMemory = end.Signal == "SIGKILL" && !end.Asked && p.ooms >= 0 && oomKills() > p.ooms
	p.mu.Lock()
	p.exit = &end
	p.mu.Unlock()
	close(p.done)
	p.spec.Log.Debug("process ended", "process", p.spec.Name, "pid", p.pid, "exit", end.String())
}

// word sends a word to the shim. If that is gone, its report or its silence tells. The pipe takes thousands of words before a
// shim that does not read would block us.
func (p *Process) word(word string) {
	io.WriteString(p.control, word+"\n") //nolint:errcheck // see above
}

// settle cleans up when the shim has said its last. A lost shim leaves the child to us.
func (p *Process) settle(lost bool) {
	if lost {
		// Its status pipe is closed, so it is dead or not a shim at all.
		p.shim.Process.Kill() //nolint:errcheck // gone already
	}
	p.control.Close()
	p.shim.Wait() //nolint:errcheck // its reports say what matters
	if lost && p.pid > 0 {
		// Nobody reaped the child yet, or init did a moment ago; the group's id stays taken as long as it has a member.
		signalGroup(p.pid, syscall.SIGKILL)
		awaitGroup(p.pid, time.Now().Add(treeWait))
	}
	p.drain()
}

// drain waits, within a bound, for the rest of the output, and closes our ends.
func (p *Process) drain() {
	read := make(chan struct{})
	go func() { p.readers.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(drainWait):
	}
	closeAll(p.outputs)
	<-read
}

// PID is the child's process id.
func (p *Process) PID() int { return p.pid }

// Done is closed when the child is gone and its output was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the child ended, nil while it lives.
func (p *Process) Exit() *Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Tail returns the last lines of output, oldest first. It works after the end too.
func (p *Process) Tail() []string {
	if p.spec.LogFile != "" {
		return fileTail(p.spec.LogFile, p.spec.TailLines)
	}
	return p.tail.all()
}

// ask has the owner pass a word to the shim. It reports whether the child still lived.
func (p *Process) ask(word string) bool {
	select {
	case p.asks <- word:
		return true
	case <-p.done:
		return false
	}
}
