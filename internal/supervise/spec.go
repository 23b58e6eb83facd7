package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Output says which pipe a line came from.
type Output string

// The outputs.
const (
	Stdout Output = "stdout"
	Stderr Output = "stderr"
)

// Spec says what to start.
type Spec struct {
	// Name is for logs.
	Name string
	// Path is the program, absolute or relative to Dir; Args are without the program's own name.
	Path string
	Args []string
	// Env is the whole environment, as "NAME=value". nil is an empty environment, not the parent's.
	Env []string
	// Dir is the working folder, empty for the parent's.
	Dir string
	// Shim is the command that runs ShimMain in a fresh process: our binary and what makes it the shim.
	Shim []string
	// Outlive leaves the child alone when this process is gone. It needs LogFile, since a pipe would end with us.
	Outlive bool
	// LogFile, if set, takes the child's output instead of pipes. OnLine is then not called and Tail reads the file's end.
	LogFile string
	Log     *slog.Logger
	// OnLine is called with each whole line, without its end. A line over 64 KiB is cut and marked. It must not block.
	OnLine func(o Output, line string)
	// TailLines is how many last lines Tail keeps, 0 for 50.
	TailLines int
}

// check refuses a Spec that cannot work, before anything is started.
func (s *Spec) check() error {
	if len(s.Shim) == 0 {
		return errors.New("supervise: Spec.Shim is not set")
	}
	if s.Outlive && s.LogFile == "" {
		return errors.New("supervise: a child that outlives us needs Spec.LogFile")
	}
	if s.Dir == "" {
		return nil
	}
	// The system reports a missing folder in the same words as a missing program.
	if st, err := os.Stat(s.Dir); err != nil || !st.IsDir() {
		return &StartError{Path: s.Path, Reason: fmt.Sprintf("working folder %s is not there", s.Dir)}
	}
	return nil
}

// Exit says how a child ended.
type Exit struct {
	// Asked reports whether Stop had been called before the end.
	Asked bool
	// Code is the exit status, -1 if a signal ended the child; Signal is then its name ("SIGKILL").
	Code   int
	Signal string
	// OutOfMemory reports whether the kernel's memory killer acted in our control group at that time (Linux).
	OutOfMemory bool
	// ShimLost reports whether the shim vanished, so that the child's own end was not seen; the child's group was then killed.
	// What had left the group escapes, since only the shim can find it.
	ShimLost bool
	At       time.Time
}

// String says it in a few words.
func (e Exit) String() string {
	how := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		how = "killed by " + e.Signal
	}
	switch {
	case e.ShimLost:
		how = "lost with its shim"
	case e.OutOfMemory:
		how += " (out of memory)"
	}
	return how
}

// StartError is a child that could not be started. Nothing is left of it.
type StartError struct {
	Path string
	// Reason is the system's own word, such as "permission denied".
	Reason string
	// NotFound reports whether there is no program at Path.
	NotFound bool
}

// Error names the program and the reason.
func (e *StartError) Error() string { return fmt.Sprintf("start %s: %s", e.Path, e.Reason) }
