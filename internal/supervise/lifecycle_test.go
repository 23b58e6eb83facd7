package supervise

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A service manager signals every process of the service, the shim included.
func TestShimHeedsNobodyButItsSupervisor(t *testing.T) {
	got := make(lines, 10)
	s := spec("polite")
	s.OnLine = got.onLine
	p := start(t, s)
	got.await(t, "ready")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := p.shim.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Stop(t.Context(), DefaultLadder); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if e := p.Exit(); e.ShimLost || e.Signal != "SIGTERM" {
		t.Errorf("exit = %+v, want SIGTERM from the ladder", e)
	}
}

func TestStopWithAStuckShim(t *testing.T) {
	got := make(lines, 10)
	s := spec("family", "group", "stay")
	s.OnLine = got.onLine
	p := start(t, s)
	pid, addr := portHolder(t, got.await(t, "port"))
	if err := p.shim.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l := quick
	l.Kill = 6 * time.Second
	if err := p.Stop(t.Context(), l); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if e := p.Exit(); !e.ShimLost || !e.Asked {
		t.Errorf("exit = %+v, want asked, and the shim lost", e)
	}
	if alive(pid) || alive(p.PID()) {
		t.Error("the tree still lives when Stop says that it is gone")
	}
	mustBind(t, addr)
}

// Many servers take a second SIGTERM as "at once", so two callers must not send two at the same time.
func TestStopsShareOneLadder(t *testing.T) {
	got := make(lines, 20)
	s := spec("count")
	s.OnLine = got.onLine
	p := start(t, s)
	got.await(t, "ready")
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- p.Stop(t.Context(), quick) }()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Errorf("Stop: %v", err)
		}
	}
	if n := len(got); n != 2 {
		t.Errorf("the child counted %d SIGTERMs, want 2", n)
	}
}

func TestStopEndsEarlyWithItsContext(t *testing.T) {
	for _, climbing := range []bool{false, true} {
		name := map[bool]string{false: "alone", true: "while another call climbs"}[climbing]
		t.Run(name, func(t *testing.T) {
			got := make(lines, 10)
			s := spec("stubborn")
			s.OnLine = got.onLine
			p := start(t, s)
			got.await(t, "ready")
			patient := make(chan error, 1)
			if !climbing {
				patient <- nil
			} else {
				go func() { patient <- p.Stop(t.Context(), Ladder{Ask: time.Hour, Again: time.Hour, Kill: time.Hour}) }()
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := p.Stop(ctx, Ladder{Ask: time.Hour, Again: time.Hour, Kill: 20 * time.Second}); err != nil {
				t.Errorf("Stop: %v", err)
			}
			if err := <-patient; err != nil {
				t.Errorf("patient Stop: %v", err)
			}
			if e := p.Exit(); e.Signal != "SIGKILL" {
				t.Errorf("exit = %+v, want SIGKILL", e)
			}
		})
	}
}

func TestReviewR16FailedLaunchLeavesNothingOfADumbShim(t *testing.T) {
	s := spec("silent")
	s.Shim = append([]string{s.Path}, "play", "silent") // never reads, never reports
	before := openFiles(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() {
		_, err := Start(ctx, s)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Start = %v, want the context's cause", err)
		}
	case <-time.After(10 * abortWait):
		t.Fatal("Start still waits for its shim")
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files afterwards, %d before", after, before)
	}
}

// A cancelled start leaves nothing, also when the child was to outlive us.
func TestReviewR16CancelledStartKillsWhatWouldOutlive(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // the child's first report can win the race; then it just has to be stopped
		s := spec("silent")
		s.Outlive, s.LogFile = true, filepath.Join(t.TempDir(), "log")
		p, err := begin(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.awaitStarted(canceled); err != nil {
			if alive(p.pid) {
				t.Errorf("process %d lives on after a cancelled start", p.pid)
			}
			return
		}
		go p.own()
		if err := p.Stop(canceled, quick); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no start was cancelled in time in 20 tries")
}

func TestStartNamesTheFolder(t *testing.T) {
	s := spec("silent")
	s.Dir = filepath.Join(t.TempDir(), "missing")
	_, err := Start(t.Context(), s)
	e, ok := errors.AsType[*StartError](err)
	if !ok || e.NotFound || !strings.Contains(e.Error(), s.Dir) {
		t.Errorf("Start = %v, want an error that names the folder and does not say that the program is missing", err)
	}
}

// A probe sees a broken connection before anybody knows that the child is dead; the end is the better answer.
func TestAwaitReadyPrefersTheEndToTheProbesError(t *testing.T) {
	broken := errors.New("connection reset")
	t.Run("died", func(t *testing.T) {
		p := start(t, spec("exit", "4"))
		err := AwaitReady(t.Context(), p, ReadyWait{Probe: func(context.Context) (bool, string, error) {
			<-p.Done()
			return false, "", broken
		}})
		e, ok := errors.AsType[*NotReadyError](err)
		if !ok || e.Cause != NotReadyExited || e.Exit.Code != 4 {
			t.Errorf("AwaitReady = %v, want exited with status 4", err)
		}
	})
	t.Run("lives", func(t *testing.T) {
		p := start(t, spec("silent"))
		err := AwaitReady(t.Context(), p, ReadyWait{Probe: func(context.Context) (bool, string, error) { return false, "", broken }})
		if !errors.Is(err, broken) {
			t.Errorf("AwaitReady = %v, want the probe's own error", err)
		}
	})
}

// A stop after the end did not cause it.
func TestStopAfterTheEndIsNotAsked(t *testing.T) {
	p := start(t, spec("exit", "3"))
	awaitDone(t, p)
	if err := p.Stop(t.Context(), quick); err != nil {
		t.Fatal(err)
	}
	if e := p.Exit(); e.Asked || e.Code != 3 {
		t.Errorf("exit = %+v, want status 3, not asked", e)
	}
}
