package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/test/kit"
)

// The scripts run this test binary as the program, by the name of stoker.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stoker": main})
}

// TestScripts runs the command line as a user does: the scripts are in test/script. Each has a home of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "test", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			run, err := os.MkdirTemp("", "s") // a socket's path must be short
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(run) })
			e.Vars = append(e.Vars, "HOME="+e.WorkDir, "STOKER_RUN_DIR="+run, "STATE="+filepath.Join(e.WorkDir, "state"),
				"STOKER_STATE_DIR="+filepath.Join(e.WorkDir, "state"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"model": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(kit.WriteModel(ts.MkAbs(args[0]), !slices.Contains(args, "no-template")))
			},
			"fake-engine": fakeEngine,
			"await-state": awaitState,
			"no-process":  noProcess,
		},
	})
}

// fakeEngine makes the scripted engine the llama-server of the script: fake-engine [SCRIPT-FILE].
func fakeEngine(ts *testscript.TestScript, _ bool, args []string) {
	script := ""
	if len(args) > 0 {
		script = ts.ReadFile(args[0])
	}
	program, err := exec.LookPath("stoker")
	ts.Check(err)
	path, err := kit.WriteFakeLlama(ts.Getenv("WORK"), program, script)
	ts.Check(err)
	ts.Setenv("STOKER_LLAMACPP_PATH", path)
}

// awaitState waits until the running server is in a state: await-state ok|loading|error|gone.
func awaitState(ts *testscript.TestScript, _ bool, args []string) {
	limit := time.Now().Add(30 * time.Second)
	state := ts.Getenv("STATE")
	last := ""
	for time.Now().Before(limit) {
		s, err := status(state)
		switch {
		case errors.Is(err, client.ErrNotRunning):
			last = "gone"
		case err == nil:
			last = s.State
			ts.Setenv("URL", s.URL)
		}
		if last == args[0] {
			return
		}
		time.Sleep(10 * time.Millisecond) // polls another process
	}
	ts.Fatalf("the server is %q, want %q", last, args[0])
}

func status(stateDir string) (*client.Status, error) {
	l, err := client.Open(stateDir)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return l.Status(ctx)
}

// noProcess fails if a process still has the words of the script's work folder among its arguments.
func noProcess(ts *testscript.TestScript, _ bool, _ []string) {
	limit := time.Now().Add(10 * time.Second)
	for {
		out, err := exec.Command("ps", "-eo", "pid,args").Output()
		ts.Check(err)
		var left []string
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, ts.Getenv("WORK")) {
				left = append(left, line)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(limit) {
			ts.Fatalf("left behind:\n%s", strings.Join(left, ""))
		}
		time.Sleep(10 * time.Millisecond) // polls the system
	}
}

// TestReviewR11LightStart: what needs no engine starts fast without one, with an empty PATH and home. The aim is 50 ms; the bound here
// is ten times that, for the fastest of five runs on a machine that may be busy.
func TestReviewR11LightStart(t *testing.T) {
	program, err := exec.LookPath("stoker")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	tests := []struct {
		name string
		args []string
		exit int
	}{
		{"help", []string{"--help"}, 0},
		{"version", []string{"version"}, 0},
		{"status", []string{"status"}, 1},
		{"stop", []string{"stop"}, 1},
		{"unknown flag", []string{"serve", "--prot", "1"}, 2},
		{"unknown command", []string{"sevre"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fastest := time.Hour
			for range 5 {
				cmd := exec.Command(program, tt.args...)
				cmd.Env = []string{"HOME=" + home, "PATH="}
				start := time.Now()
				out, err := cmd.CombinedOutput()
				fastest = min(fastest, time.Since(start))
				if code := cmd.ProcessState.ExitCode(); code != tt.exit {
					t.Fatalf("exit %d (%v), want %d; output:\n%s", code, err, tt.exit, out)
				}
			}
			if fastest > 500*time.Millisecond {
				t.Errorf("the fastest of five runs took %s", fastest)
			}
			t.Logf("fastest of five: %s", fastest)
		})
	}
}
