package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shell(script string) Spec {
	return Spec{Path: "/bin/sh", Args: []string{"-c", script}, Log: &bytes.Buffer{}}
}

func TestRunHandsOnLinesAndLogsAll(t *testing.T) {
	var lines []string
	s := shell(`echo one; echo two >&2; printf three`)
	s.Line = func(l string) { lines = append(lines, l) }
	if err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if want := []string{"one", "two", "three"}; !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
	if log := s.Log.(*bytes.Buffer).String(); !strings.Contains(log, "one\ntwo\nthree") {
		t.Errorf("the log lacks output: %q", log)
	}
}

func TestRunPassesEnvironmentAndFolder(t *testing.T) {
	dir := t.TempDir()
	s := shell(`echo "$KEY" > out`)
	s.Dir, s.Env = dir, []string{"KEY=value"}
	if err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || string(b) != "value\n" {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestFailureIsTheProgramsOwnReason(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"pip", `echo Collecting x; echo "ERROR: No matching distribution found for x"; echo "[notice] new pip"; exit 1`, "ERROR: No matching distribution found for x"},
		{"compiler", `echo "a.cpp:3:1: error: expected ;"; echo "ninja: build stopped"; exit 1`, "a.cpp:3:1: error: expected ;"},
		{"no mark", `echo first; echo last; exit 3`, "last"},
		{"silent", `exit 4`, ""},
		{"long", `printf 'error: '; head -c 5000 /dev/zero | tr '\0' x; exit 1`, "error: " + strings.Repeat("x", 233) + "..."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Run(t.Context(), shell(tt.script))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want *Error", err)
			}
			if e.Detail != tt.want {
				t.Errorf("detail %q, want %q", e.Detail, tt.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestMissingProgram(t *testing.T) {
	err := Run(t.Context(), Spec{Path: filepath.Join(t.TempDir(), "none"), Log: &bytes.Buffer{}})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want one that is os.ErrNotExist", err)
	}
}

func TestVeryLongLineIsCutForTheCallbackOnly(t *testing.T) {
	s := shell(`head -c 300000 /dev/zero | tr '\0' x; echo; echo after`)
	var lengths []int
	s.Line = func(l string) { lengths = append(lengths, len(l)) }
	if err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if want := []int{maxLine, len("after")}; !slices.Equal(lengths, want) {
		t.Errorf("line lengths %v, want %v", lengths, want)
	}
	if n := s.Log.(*bytes.Buffer).Len(); n < 300000 {
		t.Errorf("the log has %d bytes, want all 300000", n)
	}
}

// fullDisk fails every write.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestUnwritableLogDoesNotBlockTheProgram(t *testing.T) {
	s := shell(`head -c 1000000 /dev/zero | tr '\0' '\n'; exit 0`)
	s.Log = fullDisk{}
	if err := Run(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func TestCancelEndsTheWholeGroup(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop it")
	// The inner shell ignores the interrupt and must be killed all the same.
	s := shell(`sh -c 'trap "" INT; echo pid $$; exec sleep 300' & wait`)
	s.Grace = 200 * time.Millisecond
	pid := 0
	s.Line = func(l string) {
		if text, ok := strings.CutPrefix(l, "pid "); ok {
			pid, _ = strconv.Atoi(text)
			cancel(stop)
		}
	}
	err := Run(ctx, s)
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want the cause of the cancellation", err)
	}
	if pid == 0 {
		t.Fatal("the grandchild did not start")
	}
	if !gone(pid) {
		t.Errorf("process %d outlived its group", pid)
	}
}

// gone waits until no process has the id: a killed one is reaped by init a
// moment later, or stays a zombie where no init reaps.
func gone(pid int) bool {
	for range 1000 {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && strings.Contains(string(b), ") Z ") {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

func TestOutput(t *testing.T) {
	got, err := Output(t.Context(), "/bin/sh", "-c", "echo ' hello '; echo noise >&2")
	if err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Output(t.Context(), "/bin/sh", "-c", "exit 1"); err == nil {
		t.Error("a failure went unnoticed")
	}
}
