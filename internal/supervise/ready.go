package supervise

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ReadyWait says how to wait for readiness.
type ReadyWait struct {
	// Probe asks the child. progress is any text that changes while the start moves on; an unready child without progress is
	// what Stall counts. An error ends the wait. Probe must respect its context: AwaitReady does not return before it does.
	Probe func(ctx context.Context) (ready bool, progress string, err error)
	// Every is the time between probes, 0 for 50 ms.
	Every time.Duration
	// Stall ends the wait after so long without progress, 0 for never. There is no bound on the whole: a large model on a slow
	// disk takes as long as it takes.
	Stall time.Duration
}

// NotReady says why a wait for readiness ended without it.
type NotReady string

// The causes.
const (
	NotReadyExited  NotReady = "exited"  // the child ended
	NotReadyStalled NotReady = "stalled" // no progress for too long
)

// NotReadyError is a child that did not become ready. It may still live: the caller stops it.
type NotReadyError struct {
	Cause NotReady
	// Exit is set for NotReadyExited, and so is Err if a probe failed over it.
	Exit *Exit
	Err  error
	// Stalled is the time without progress, and Progress the last one seen.
	Stalled  time.Duration
	Progress string
	Tail     []string
}

// Error says it in a sentence.
func (e *NotReadyError) Error() string {
	if e.Cause == NotReadyExited {
		return fmt.Sprintf("ended before it was ready: %s", e.Exit)
	}
	return fmt.Sprintf("no progress for %s while starting (last: %s)", e.Stalled, e.Progress)
}

// Unwrap returns the probe's error, nil if there was none.
func (e *NotReadyError) Unwrap() error { return e.Err }

// AwaitReady returns nil when the child is ready. Other ends are a *NotReadyError, the probe's own error, and ctx's cause.
func AwaitReady(ctx context.Context, p *Process, w ReadyWait) error {
	if w.Every <= 0 {
		w.Every = 50 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(ctx)
	// A probe that hangs must not hide the child's end or a stall.
	answers := make(chan answer)
	var probing sync.WaitGroup
	probing.Go(func() { w.probe(ctx, answers) })
	defer probing.Wait()
	defer cancel()
	last, since := "", time.Now()
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	for {
		select {
		case <-p.Done():
			return exited(p, nil)
		case <-ctx.Done():
			return context.Cause(ctx)
		case a := <-answers:
			if a.err != nil {
				return failed(p, a.err)
			}
			if a.ready {
				return nil
			}
			if a.progress != last {
				last, since = a.progress, time.Now()
			}
		case <-tick.C:
			if idle := time.Since(since); w.Stall > 0 && idle > w.Stall {
				return &NotReadyError{Cause: NotReadyStalled, Stalled: w.Stall, Progress: last, Tail: p.Tail()}
			}
		}
	}
}

// endGrace is how long after a probe's failure the child's end may become known that explains it: the end of a connection is seen
// at once, that of the process only when it is reaped and its output was read.
const endGrace = 300 * time.Millisecond

// failed says why a probe failed: its own error, unless the child's end explains it.
func failed(p *Process, err error) error {
	select {
	case <-p.Done():
		return exited(p, err)
	case <-time.After(endGrace):
		return err
	}
}

func exited(p *Process, err error) error {
	return &NotReadyError{Cause: NotReadyExited, Exit: p.Exit(), Err: err, Tail: p.Tail()}
}

type answer struct {
	ready    bool
	progress string
	err      error
}

// probe asks again and again, until it has an answer that ends the wait or ctx ends.
func (w ReadyWait) probe(ctx context.Context, to chan<- answer) {
	for {
		var a answer
		a.ready, a.progress, a.err = w.Probe(ctx)
		select {
		case to <- a:
		case <-ctx.Done():
			return
		}
		if a.ready || a.err != nil {
			return
		}
		select {
		case <-time.After(w.Every):
		case <-ctx.Done():
			return
		}
	}
}
