package supervise

import (
	"context"
	"fmt"
	"time"
)

// Ladder bounds the rungs of Stop. Each time starts when its rung's signal was sent, not when Stop was called, so a slow
// first rung does not eat the second.
type Ladder struct {
	// Ask is how long the group has after the first SIGTERM. It is for finishing by itself: closing files, freeing a GPU.
	Ask time.Duration
	// Again is how long it has after the second SIGTERM, which many servers take as "at once".
	Again time.Duration
	// Kill is how long SIGKILL may take. A process stuck in the kernel may not die at all, and we must not wait for ever.
	Kill time.Duration
}

// DefaultLadder suits engines: they have no state to save, and their clients were already told.
var DefaultLadder = Ladder{Ask: 3 * time.Second, Again: 2 * time.Second, Kill: 5 * time.Second}

// StuckError is a child that did not die of SIGKILL within the ladder's bound.
type StuckError struct {
	Name  string
	PID   int
	After time.Duration
}

// Error names the process.
func (e *StuckError) Error() string {
	return fmt.Sprintf("%s (pid %d) did not end within %s of SIGKILL", e.Name, e.PID, e.After)
}

// Stop ends the child and its group: SIGTERM, wait, SIGTERM, wait, SIGKILL, wait. It returns nil when the child is gone, and
// a *StuckError when even SIGKILL did not help in time. The end of ctx skips the polite rungs.
//
// Many servers take a second SIGTERM as "at once", so concurrent calls share one ladder: the first climbs, and the others wait
// for it, each until its own ctx ends.
func (p *Process) Stop(ctx context.Context, l Ladder) error {
	select {
	case p.climber <- struct{}{}:
		defer func() { <-p.climber }()
		if p.askPolitely(ctx, l) {
			return nil
		}
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	return p.kill(l.Kill)
}

// askPolitely climbs the rungs that leave the end to the child, and reports whether it is gone.
func (p *Process) askPolitely(ctx context.Context, l Ladder) bool {
	for _, rung := range []time.Duration{l.Ask, l.Again} {
		if ctx.Err() != nil {
			return false
		}
		if !p.ask(askTerm) || p.gone(ctx, rung) {
			return true
		}
	}
	return false
}

// kill is the last rung. A shim that does not carry it out in half the time is killed itself: the owner then kills the group.
func (p *Process) kill(limit time.Duration) error {
	ctx := context.Background() // nothing may cut this rung short: the child is dead when Stop returns nil
	if !p.ask(askKill) || p.gone(ctx, limit/2) {
		return nil
	}
	p.shim.Process.Kill() //nolint:errcheck // it is gone already, and the owner learns that
	if p.gone(ctx, limit-limit/2) {
		return nil
	}
	return &StuckError{p.spec.Name, p.pid, limit}
}

// gone waits for the child's end, at most d.
func (p *Process) gone(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}
