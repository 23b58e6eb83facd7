package supervise

import "time"

// Restarts decides whether and when a child that ended by itself is started again. It is a pure policy for one goroutine: it
// keeps the times of the ends it was told.
type Restarts struct {
	// Most ends within Window are answered with a restart; one more gives up. Zero Most never restarts.
	Most   int
	Window time.Duration
	// First is the pause before the first restart; it doubles with each end in the window, up to Max.
	First, Max time.Duration

	ends []time.Time
}

// DefaultRestarts gives an engine three new starts in ten minutes. Fewer would give up on a machine that was short of memory for
// a moment; more would load a large model over and over for a fault that stays.
func DefaultRestarts() *Restarts {
	return &Restarts{Most: 3, Window: 10 * time.Minute, First: time.Second, Max: 30 * time.Second}
}

// Next takes the time of an end and returns the pause before the next start, or false to give up. Ends older than Window
// are forgotten: a child that ran well for so long starts with a clean record.
func (r *Restarts) Next(now time.Time) (wait time.Duration, ok bool) {
	kept := r.ends[:0]
	for _, t := range r.ends {
		if now.Sub(t) < r.Window {
			kept = append(kept, t)
		}
	}
	r.ends = append(kept, now)
	if len(r.ends) > r.Most {
		return 0, false
	}
	wait = r.First
	for range len(r.ends) - 1 {
		wait = min(2*wait, r.Max)
	}
	return min(wait, r.Max), true
}
