// Package sched decides who may use an engine instance now, who waits, and who is refused. It is decisions only: facts and
// the time go in, verdicts come out. It starts nothing, waits for nothing and reads no clock; package fleet carries its
// verdicts out.
//
//	l := sched.NewLine(sched.Limits{Parallel: 2, Queue: 8})
//	d := l.Arrive(now)        // Admit, Wait or Refuse
//	next := l.Leave(d.Ticket, now) // the ticket that may begin now, or 0
//
// Nothing here is safe for concurrent use: the owner holds its own lock around every call.
package sched

import "time"

// Ticket names one request in a Line. 0 is no ticket.
type Ticket uint64

// Verdict is what happens to a request that arrives.
type Verdict string

// The verdicts.
const (
	Admit  Verdict = "admit"  // it may begin now
	Wait   Verdict = "wait"   // it stands in the queue: Leave of another one will name its ticket
	Refuse Verdict = "refuse" // the queue is full; there is no ticket
)

// Limits bound a Line.
type Limits struct {
	// Parallel is how many requests may run at once, at least 1.
	Parallel int
	// Queue is how many more may wait. 0 means that nobody waits.
	Queue int
}

// Decision is the answer to an arrival.
type Decision struct {
	Verdict Verdict
	Ticket  Ticket
	// Ahead is the number of requests that wait before this one.
	Ahead int
	// RetryAfter estimates when a refused request would find room.
	RetryAfter time.Duration
}

// Line is the queue of one instance: first come, first served.
type Line struct {
	limits  Limits
	last    Ticket
	running map[Ticket]time.Time // when it began
	waiting []Ticket
	// mean is the moving average of how long a request runs; 0 until one has ended.
	mean time.Duration
}

// NewLine returns an empty line.
func NewLine(l Limits) *Line {
	l.Parallel, l.Queue = max(l.Parallel, 1), max(l.Queue, 0)
	return &Line{limits: l, running: make(map[Ticket]time.Time, l.Parallel)}
}

// Running counts the requests that run.
func (l *Line) Running() int { return len(l.running) }

// Waiting counts the requests that stand in the queue.
func (l *Line) Waiting() int { return len(l.waiting) }

// Arrive decides about a new request.
func (l *Line) Arrive(now time.Time) Decision {
	switch {
	case len(l.running) < l.limits.Parallel:
		l.last++
		l.running[l.last] = now
		return Decision{Verdict: Admit, Ticket: l.last}
	case len(l.waiting) < l.limits.Queue:
		l.last++
		l.waiting = append(l.waiting, l.last)
		return Decision{Verdict: Wait, Ticket: l.last, Ahead: len(l.waiting) - 1}
	}
	return Decision{Verdict: Refuse, Ahead: len(l.waiting), RetryAfter: l.retryAfter()}
}

// Leave takes t out of the line: it has ended, or no longer wants to wait. It returns the ticket that may begin because of
// it, or 0. A ticket that is not in the line changes nothing.
func (l *Line) Leave(t Ticket, now time.Time) Ticket {
	began, ran := l.running[t]
	if !ran {
		l.drop(t)
		return 0
	}
	delete(l.running, t)
	l.note(now.Sub(began))
	if len(l.waiting) == 0 {
		return 0
	}
	next := l.waiting[0]
	l.drop(next)
	l.running[next] = now
	return next
}

func (l *Line) drop(t Ticket) {
	for i, w := range l.waiting {
		if w == t {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return
		}
	}
}

// note moves the mean an eighth of the way: quick enough to follow a change of clients, slow enough for one odd request.
func (l *Line) note(d time.Duration) {
	if l.mean == 0 {
		l.mean = d
		return
	}
	l.mean += (d - l.mean) / 8
}

// retryAfter is when the queue has moved on by one place: somebody runs for mean, and Parallel of them do at once.
func (l *Line) retryAfter() time.Duration {
	return clampRetry(l.mean / time.Duration(l.limits.Parallel))
}

// Load says how far a load is. Total is 0 when unknown.
type Load struct {
	Elapsed     time.Duration
	Done, Total int64
}

// RetryAfterLoad estimates when a load will be over: as fast as so far, or a few seconds where nothing is known.
func RetryAfterLoad(l Load) time.Duration {
	if l.Done <= 0 || l.Total <= l.Done {
		return unknownLoad
	}
	rest := float64(l.Elapsed) * float64(l.Total-l.Done) / float64(l.Done)
	return clampRetry(time.Duration(min(rest, float64(maxRetry))))
}

// unknownLoad is short enough not to leave a ready model idle, and long enough not to be a busy loop. maxRetry keeps a wrong
// estimate from sending clients away for good.
const (
	unknownLoad = 3 * time.Second
	maxRetry    = time.Minute
)

// clampRetry rounds up to whole seconds, the unit of the Retry-After header, between 1 s and maxRetry.
func clampRetry(d time.Duration) time.Duration {
	d = (d + time.Second - 1).Truncate(time.Second)
	return min(max(d, time.Second), maxRetry)
}

// Failures counts the answers in a row that an engine failed, while it says of itself that it is well (a GPU that ran out
// of memory once may fail every later request: ggml-org/llama.cpp#27309).
type Failures struct {
	// Limit is how many in a row make the engine sick. 0 means never.
	Limit int
	row   int
}

// Note takes the result of one answer and reports whether the engine should be restarted. It says so once per row.
func (f *Failures) Note(ok bool) bool {
	if ok {
		f.row = 0
		return false
	}
	f.row++
	return f.row == f.Limit
}
