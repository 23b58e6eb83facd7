// Package command runs other people's programs (pip, cmake, ninja, npm) for the
// asset builder: all output goes to a log file, each line may be looked at for
// progress, and a failure is one readable line instead of pages of output.
//
// [Run] blocks until the program has ended. Cancelling its context interrupts
// the program's whole process group, so that no compiler is left behind, and
// kills what is still there a while later. Runs may go on at the same time;
// a slow Line callback slows the program that it listens to.
package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// defaultGrace is how long an interrupted program may take: ninja waits for the
// compilers it started, and removes what they left half written.
const defaultGrace = 10 * time.Second

// maxLine bounds one line of output that is looked at. Longer ones are cut there;
// the log has them whole.
const maxLine = 64 << 10

// Spec is one program to run.
type Spec struct {
	Path string
	Args []string
	Dir  string    // empty: the current folder
	Env  []string  // added to this process's environment
	Log  io.Writer // receives all that the program writes
	Line func(string)

	// Grace is how long the program may take to end when it is interrupted; 0
	// means ten seconds.
	Grace time.Duration
}

// Error is a program that could not be started or did not end well.
type Error struct {
	Command string // the command line
	Detail  string // the program's own last words, one line; may be empty
	Err     error
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s: %v", e.Command, e.Err)
	}
	return fmt.Sprintf("%s: %v: %s", e.Command, e.Err, e.Detail)
}

func (e *Error) Unwrap() error { return e.Err }

// Run runs the program to its end.
func Run(ctx context.Context, s Spec) error {
	cmd := exec.CommandContext(ctx, s.Path, s.Args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = cmp.Or(s.Grace, defaultGrace)

	var last lastWords
	fmt.Fprintf(s.Log, "$ %s\n", commandLine(s))
	pr, pw := io.Pipe()
	cmd.Stdout, cmd.Stderr = pw, pw // one writer for both: exec then copies them in order
	read := make(chan struct{})
	go func() {
		defer close(read)
		eachLine(pr, s.Log, func(line string) {
			last.see(line)
			if s.Line != nil {
				s.Line(line)
			}
		})
	}()
	err := cmd.Run()
	_ = pw.Close() // never fails
	<-read
	killGroup(cmd)
	if err != nil {
		return failure(ctx, s, last, err)
	}
	return nil
}

func failure(ctx context.Context, s Spec, last lastWords, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return &Error{Command: shortCommand(s), Detail: last.text(), Err: err}
}

// killGroup ends what the program started and left behind.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // no such group is the usual, good case
	}
}

// eachLine copies r to log and hands each line, cut to maxLine, to see.
func eachLine(r io.Reader, log io.Writer, see func(string)) {
	br := bufio.NewReaderSize(io.TeeReader(r, log), maxLine)
	for {
		line, err := br.ReadSlice('\n')
		text := strings.TrimRight(string(line), "\r\n")
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = br.ReadSlice('\n') // the rest of an over-long line
		}
		if text != "" {
			see(text)
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, r) // a log that cannot be written must not block the program
			return
		}
	}
}

// lastWords remembers the line that best says why a program failed.
type lastWords struct{ marked, last string }

func (l *lastWords) see(line string) {
	line = strings.TrimSpace(line)
	if line == "" {
		return
	}
	l.last = line
	lower := strings.ToLower(line)
	for _, mark := range []string{"error:", "fatal error", "cmake error", "npm error"} {
		if strings.HasPrefix(lower, mark) || strings.Contains(lower, " error: ") {
			l.marked = line
			return
		}
	}
}

func (l *lastWords) text() string {
	const most = 240
	t := l.marked
	if t == "" {
		t = l.last
	}
	if len(t) > most {
		t = strings.ToValidUTF8(t[:most], "") + "..."
	}
	return t
}

func commandLine(s Spec) string { return strings.Join(append([]string{s.Path}, s.Args...), " ") }

// shortCommand names the program and its first words: enough to know which
// command failed. The log has the whole line.
func shortCommand(s Spec) string {
	words := append([]string{s.Path}, s.Args...)
	if len(words) > 4 {
		words = append(words[:4:4], "...")
	}
	return strings.Join(words, " ")
}

// Output runs path and returns what it writes to standard output, for questions
// such as "which version are you". It gives up after 30 seconds.
func Output(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", &Error{Command: shortCommand(Spec{Path: path, Args: args}), Err: err}
	}
	return strings.TrimSpace(string(out)), nil
}
