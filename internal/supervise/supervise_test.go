package supervise

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var quick = Ladder{Ask: 200 * time.Millisecond, Again: 200 * time.Millisecond, Kill: 10 * time.Second}

func TestExitIsTyped(t *testing.T) {
	tests := []struct {
		name string
		spec Spec
		want Exit
	}{
		{"status", spec("exit", "3"), Exit{Code: 3}},
		{"success", spec("exit", "0"), Exit{Code: 0}},
		{"signal", spec("suicide"), Exit{Code: -1, Signal: "SIGKILL"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := awaitDone(t, start(t, tt.spec))
			if d := cmp.Diff(tt.want, *got, cmpopts.IgnoreFields(Exit{}, "At")); d != "" {
				t.Errorf("exit (-want +got):\n%s", d)
			}
			if got.At.IsZero() {
				t.Error("the time of the end is missing")
			}
		})
	}
}

func TestReviewR18LastLinesStayAfterTheEnd(t *testing.T) {
	p := start(t, spec("exit", "1"))
	awaitDone(t, p)
	if got := p.Tail(); !slices.Contains(got, "E the last words") {
		t.Errorf("tail = %q, want the child's last words in it", got)
	}
}

func TestStopLadder(t *testing.T) {
	tests := []struct {
		part string
		want Exit
	}{
		{"polite", Exit{Asked: true, Code: -1, Signal: "SIGTERM"}},
		{"once-more", Exit{Asked: true, Code: 7}},
		{"stubborn", Exit{Asked: true, Code: -1, Signal: "SIGKILL"}},
	}
	for _, tt := range tests {
		t.Run(tt.part, func(t *testing.T) {
			got := make(lines, 10)
			s := spec(tt.part)
			s.OnLine = got.onLine
			p := start(t, s)
			got.await(t, "ready")
			errs := make(chan error, 2)
			for range 2 { // at the same time
				go func() { errs <- p.Stop(t.Context(), quick) }()
			}
			for range 2 {
				if err := <-errs; err != nil {
					t.Errorf("Stop: %v", err)
				}
			}
			if d := cmp.Diff(tt.want, *p.Exit(), cmpopts.IgnoreFields(Exit{}, "At")); d != "" {
				t.Errorf("exit (-want +got):\n%s", d)
			}
			if err := p.Stop(t.Context(), quick); err != nil {
				t.Errorf("Stop after the end: %v", err)
			}
		})
	}
}

func TestReviewR2StopKillsTheTree(t *testing.T) {
	tests := []struct{ name, session string }{{"grandchild in the group", "group"}}
	if runtime.GOOS == "linux" { // only Linux has sub-reapers
		tests = append(tests, struct{ name, session string }{"grandchild in a session of its own", "own-session"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := make(lines, 10)
			s := spec("family", tt.session, "stay")
			s.OnLine = got.onLine
			p := start(t, s)
			pid, addr := portHolder(t, got.await(t, "port"))
			if err := p.Stop(t.Context(), quick); err != nil {
				t.Fatalf("Stop: %v", err)
			}
			awaitGone(t, p.PID())
			awaitGone(t, pid)
			mustBind(t, addr)
		})
	}
}

func TestReviewR2TreeGoesWithItsDeadLeader(t *testing.T) {
	got := make(lines, 10)
	s := spec("family", "group", "end")
	s.OnLine = got.onLine
	p := start(t, s)
	pid, addr := portHolder(t, got.await(t, "port"))
	if e := awaitDone(t, p); e.Code != 0 || e.Asked {
		t.Errorf("exit = %+v, want status 0, not asked", e)
	}
	awaitGone(t, pid)
	mustBind(t, addr)
}

func TestReviewR2TreeGoesWithAKilledSupervisor(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	boss := exec.Command(self, "play", "supervisor", "group", "stay")
	out, err := boss.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := boss.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(lines, 10)
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			said <- sc.Text()
		}
	}()
	child, grandchild, addr := 0, 0, ""
	for child == 0 || grandchild == 0 {
		line := said.await(t, "")
		if word, n, _ := strings.Cut(line, " "); word == "child" {
			child, err = strconv.Atoi(n)
		} else {
			grandchild, addr = portHolder(t, line)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := boss.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	boss.Wait() //nolint:errcheck // killed
	awaitGone(t, child)
	awaitGone(t, grandchild)
	mustBind(t, addr)
}

func TestReviewR2TreeGoesWithAKilledShim(t *testing.T) {
	got := make(lines, 10)
	s := spec("family", "group", "stay")
	s.OnLine = got.onLine
	p := start(t, s)
	pid, addr := portHolder(t, got.await(t, "port"))
	if err := p.shim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if e := awaitDone(t, p); !e.ShimLost || e.Asked {
		t.Errorf("exit = %+v, want the shim lost", e)
	}
	awaitGone(t, p.PID())
	awaitGone(t, pid)
	mustBind(t, addr)
}

func TestReviewR12OneReaderPerPipe(t *testing.T) {
	got := make(lines, 10)
	s := spec("noise", "100")
	s.OnLine = got.onLine
	p := start(t, s)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cut := got.await(t, "xxx")
	got.await(t, "after the noise")
	runtime.ReadMemStats(&after)
	if !strings.HasSuffix(cut, cutMark) || len(cut) != lineMax+len(cutMark) {
		t.Errorf("the long line came as %d bytes, want %d and the mark", len(cut), lineMax)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("100 MB of output allocated %d bytes here, want at most 4 MiB", grown)
	}
	if err := p.Stop(t.Context(), quick); err != nil {
		t.Fatal(err)
	}
}

func TestReviewR12NobodyListensAndNothingStops(t *testing.T) {
	p := start(t, spec("noise", "20"))
	probed := 0
	err := AwaitReady(t.Context(), p, ReadyWait{Every: time.Millisecond, Probe: func(context.Context) (bool, string, error) {
		probed++
		return slices.Contains(p.Tail(), "after the noise"), "", nil
	}})
	if err != nil || probed == 0 {
		t.Fatalf("AwaitReady = %v after %d probes", err, probed)
	}
	if err := p.Stop(t.Context(), quick); err != nil {
		t.Fatal(err)
	}
}

func TestReviewR16FailedLaunchLeavesNothing(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	noShim := spec("silent")
	noShim.Shim = []string{"/nonexistent/shim"}
	missing, denied := spec("silent"), spec("silent")
	missing.Path, denied.Path = "/nonexistent/engine", plain
	tests := []struct {
		name     string
		spec     Spec
		notFound bool
		reason   string
	}{
		{"missing", missing, true, "no such file"},
		{"not executable", denied, false, "permission denied"},
		{"no shim", noShim, false, "/nonexistent/shim does not start: no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := openFiles(t)
			_, err := Start(t.Context(), tt.spec)
			se, ok := errors.AsType[*StartError](err)
			if !ok || se.NotFound != tt.notFound || !strings.Contains(se.Reason, tt.reason) {
				t.Fatalf("Start = %v, want a StartError with %q, not found: %v", err, tt.reason, tt.notFound)
			}
			if after := openFiles(t); after > before {
				t.Errorf("%d open files after the failure, %d before", after, before)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		cancel(stop)
		before := openFiles(t)
		if p, err := Start(ctx, spec("silent")); err == nil {
			// The start may win; then it is a running child like any other.
			if err := p.Stop(ctx, quick); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, stop) {
			t.Fatalf("Start = %v, want the context's cause", err)
		}
		if after := openFiles(t); after > before {
			t.Errorf("%d open files afterwards, %d before", after, before)
		}
	})
}

// openFiles counts this process's open files, -1 where that cannot be known.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

func TestOutliveSurvivesAKilledSupervisor(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	boss := exec.Command(self, "play", "outliver", log)
	out, err := boss.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := boss.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	shim, child, ok := strings.Cut(strings.TrimSpace(line), " ")
	shimPID, err1 := strconv.Atoi(shim)
	childPID, err2 := strconv.Atoi(child)
	if !ok || err1 != nil || err2 != nil {
		t.Fatalf("line %q is not: SHIM CHILD", line)
	}
	t.Cleanup(func() {
		syscall.Kill(childPID, syscall.SIGKILL) //nolint:errcheck // awaitGone tells
		awaitGone(t, childPID)
	})
	if err := boss.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	boss.Wait() //nolint:errcheck // killed
	awaitGone(t, shimPID)
	if !alive(childPID) {
		t.Error("the child did not outlive its supervisor")
	}
	if got := fileTail(log, 10); !slices.Contains(got, "ready") {
		t.Errorf("the log's tail is %q, want the child's line in it", got)
	}
}

func TestOutliveNeedsALogFile(t *testing.T) {
	s := spec("polite")
	s.Outlive = true
	if _, err := Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "LogFile") {
		t.Errorf("Start = %v, want an error that names LogFile", err)
	}
}

func TestAwaitReady(t *testing.T) {
	t.Run("exited", func(t *testing.T) {
		p := start(t, spec("exit", "1"))
		err := AwaitReady(t.Context(), p, ReadyWait{Probe: func(context.Context) (bool, string, error) { return false, "", nil }})
		e, ok := errors.AsType[*NotReadyError](err)
		if !ok || e.Cause != NotReadyExited || e.Exit.Code != 1 || !slices.Contains(e.Tail, "E the last words") {
			t.Errorf("AwaitReady = %+v, want exited with status 1 and the last words", err)
		}
	})
	t.Run("exited while the probe hangs", func(t *testing.T) {
		p := start(t, spec("exit", "1"))
		err := AwaitReady(t.Context(), p, ReadyWait{Probe: func(ctx context.Context) (bool, string, error) {
			<-ctx.Done()
			return false, "", nil
		}})
		if e, ok := errors.AsType[*NotReadyError](err); !ok || e.Cause != NotReadyExited {
			t.Errorf("AwaitReady = %v, want exited", err)
		}
	})
	t.Run("stalled", func(t *testing.T) {
		p := start(t, spec("silent"))
		steps := 0
		err := AwaitReady(t.Context(), p, ReadyWait{
			Every: time.Millisecond, Stall: 100 * time.Millisecond,
			Probe: func(context.Context) (bool, string, error) {
				steps = min(steps+1, 5)
				return false, "step " + strconv.Itoa(steps), nil
			},
		})
		e, ok := errors.AsType[*NotReadyError](err)
		if !ok || e.Cause != NotReadyStalled || e.Progress != "step 5" {
			t.Errorf("AwaitReady = %v, want stalled at step 5", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		p := start(t, spec("silent"))
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		err := AwaitReady(ctx, p, ReadyWait{Probe: func(context.Context) (bool, string, error) { return false, "", nil }})
		if !errors.Is(err, enough) {
			t.Errorf("AwaitReady = %v, want the context's cause", err)
		}
	})
}

func TestRestarts(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &Restarts{Most: 3, Window: 10 * time.Minute, First: time.Second, Max: 3 * time.Second}
	steps := []struct {
		at   time.Duration
		wait time.Duration
		ok   bool
	}{
		{0, time.Second, true},
		{time.Minute, 2 * time.Second, true},
		{2 * time.Minute, 3 * time.Second, true},
		{3 * time.Minute, 0, false},
		{20 * time.Minute, time.Second, true}, // a clean record again
	}
	for _, s := range steps {
		wait, ok := r.Next(t0.Add(s.at))
		if wait != s.wait || ok != s.ok {
			t.Errorf("at %s: Next = %s, %v; want %s, %v", s.at, wait, ok, s.wait, s.ok)
		}
	}
	if _, ok := (&Restarts{}).Next(t0); ok {
		t.Error("the zero policy restarts")
	}
}
