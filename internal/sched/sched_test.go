package sched_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/sched"
)

var t0 = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// op is one call: arrive (leave 0), or leave of the given ticket.
type op struct {
	leave sched.Ticket
	after time.Duration
	want  sched.Decision
	next  sched.Ticket
}

func TestLine(t *testing.T) {
	admit := func(n sched.Ticket) op {
		return op{want: sched.Decision{Verdict: sched.Admit, Ticket: n}}
	}
	wait := func(n sched.Ticket, ahead int) op {
		return op{want: sched.Decision{Verdict: sched.Wait, Ticket: n, Ahead: ahead}}
	}
	refuse := func(ahead int, retry time.Duration) op {
		return op{want: sched.Decision{Verdict: sched.Refuse, Ahead: ahead, RetryAfter: retry}}
	}
	leave := func(n, next sched.Ticket, after time.Duration) op { return op{leave: n, next: next, after: after} }

	for _, c := range []struct {
		name    string
		limits  sched.Limits
		ops     []op
		running int
		waiting int
	}{
		{"one after the other", sched.Limits{Parallel: 1}, []op{admit(1), leave(1, 0, time.Second), admit(2)}, 1, 0},
		{"no queue", sched.Limits{Parallel: 2}, []op{admit(1), admit(2), refuse(0, time.Second)}, 2, 0},
		{"zero limits still let one in", sched.Limits{}, []op{admit(1), refuse(0, time.Second)}, 1, 0},
		{
			"first come, first served",
			sched.Limits{Parallel: 1, Queue: 2},
			[]op{admit(1), wait(2, 0), wait(3, 1), leave(1, 2, 0), leave(2, 3, 0), leave(3, 0, 0)},
			0, 0,
		},
		{
			"who leaves the queue frees its place and nobody's turn changes",
			sched.Limits{Parallel: 1, Queue: 2},
			[]op{admit(1), wait(2, 0), wait(3, 1), leave(2, 0, 0), wait(4, 1), leave(1, 3, 0), leave(3, 4, 0)},
			1, 0,
		},
		{
			"leaving twice frees one slot",
			sched.Limits{Parallel: 1, Queue: 2},
			[]op{admit(1), wait(2, 0), wait(3, 1), leave(1, 2, 0), leave(1, 0, 0)},
			1, 1,
		},
		{
			"a stranger's ticket changes nothing",
			sched.Limits{Parallel: 1, Queue: 1},
			[]op{admit(1), wait(2, 0), leave(99, 0, 0), refuse(1, time.Second)},
			1, 1,
		},
		{
			"retry after follows how long requests run",
			sched.Limits{Parallel: 2, Queue: 0},
			[]op{admit(1), leave(1, 0, 41*time.Second), admit(2), admit(3), refuse(0, 21*time.Second)},
			2, 0,
		},
		{
			"retry after is bounded",
			sched.Limits{Parallel: 1, Queue: 0},
			[]op{admit(1), leave(1, 0, time.Hour), admit(2), refuse(0, time.Minute)},
			1, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, now := sched.NewLine(c.limits), t0
			for i, o := range c.ops {
				now = now.Add(o.after)
				if o.leave != 0 {
					if got := l.Leave(o.leave, now); got != o.next {
						t.Fatalf("step %d: Leave(%d) let %d in, want %d", i, o.leave, got, o.next)
					}
					continue
				}
				if diff := cmp.Diff(o.want, l.Arrive(now)); diff != "" {
					t.Fatalf("step %d: Arrive (-want +got):\n%s", i, diff)
				}
			}
			if l.Running() != c.running || l.Waiting() != c.waiting {
				t.Errorf("running %d, waiting %d; want %d, %d", l.Running(), l.Waiting(), c.running, c.waiting)
			}
		})
	}
}

// Whatever happens: never more than Parallel run, never more than Queue wait, nobody waits beside a free slot, and the order
// is the order of arrival.
func TestLineKeepsItsPromises(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		lim := sched.Limits{Parallel: 1 + rng.IntN(3), Queue: rng.IntN(4)}
		l := sched.NewLine(lim)
		var running, waiting []sched.Ticket
		take := func(from *[]sched.Ticket) sched.Ticket {
			i := rng.IntN(len(*from))
			tk := (*from)[i]
			*from = append((*from)[:i:i], (*from)[i+1:]...)
			return tk
		}
		for range 100 {
			switch p := rng.IntN(3); {
			case p == 0 && len(running) > 0:
				next := l.Leave(take(&running), t0)
				want := sched.Ticket(0)
				if len(waiting) > 0 {
					want, waiting = waiting[0], waiting[1:]
					running = append(running, want)
				}
				if next != want {
					t.Fatalf("let %d in, want %d", next, want)
				}
			case p == 1 && len(waiting) > 0:
				if next := l.Leave(take(&waiting), t0); next != 0 {
					t.Fatalf("leaving the queue let %d in", next)
				}
			default:
				switch d := l.Arrive(t0); d.Verdict {
				case sched.Admit:
					running = append(running, d.Ticket)
				case sched.Wait:
					waiting = append(waiting, d.Ticket)
				case sched.Refuse:
					if len(waiting) != lim.Queue {
						t.Fatalf("refused with %d of %d waiting", len(waiting), lim.Queue)
					}
				}
			}
			if len(running) > lim.Parallel || len(waiting) > lim.Queue || len(waiting) > 0 && len(running) < lim.Parallel {
				t.Fatalf("limits %+v: %d run, %d wait", lim, len(running), len(waiting))
			}
			if l.Running() != len(running) || l.Waiting() != len(waiting) {
				t.Fatalf("line says %d and %d, want %d and %d", l.Running(), l.Waiting(), len(running), len(waiting))
			}
		}
	}
}

func TestRetryAfterLoad(t *testing.T) {
	for _, c := range []struct {
		name string
		load sched.Load
		want time.Duration
	}{
		{"nothing known", sched.Load{Elapsed: time.Minute}, 3 * time.Second},
		{"no bytes yet", sched.Load{Elapsed: time.Minute, Total: 100}, 3 * time.Second},
		{"all bytes read, still warming up", sched.Load{Elapsed: time.Minute, Done: 100, Total: 100}, 3 * time.Second},
		{"a quarter read", sched.Load{Elapsed: 5 * time.Second, Done: 25, Total: 100}, 15 * time.Second},
		{"nearly over", sched.Load{Elapsed: 10 * time.Second, Done: 99, Total: 100}, time.Second},
		{"for ever", sched.Load{Elapsed: time.Hour, Done: 1, Total: 1 << 40}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sched.RetryAfterLoad(c.load); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int
		notes []bool // true: the answer was whole
		sick  int    // how often it said restart
	}{
		{"three in a row", 3, []bool{false, false, false}, 1},
		{"a good one between", 3, []bool{false, false, true, false, false}, 0},
		{"says it once", 2, []bool{false, false, false, false}, 1},
		{"again after it was well", 2, []bool{false, false, true, false, false}, 2},
		{"never", 0, []bool{false, false, false}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, sick := sched.Failures{Limit: c.limit}, 0
			for _, ok := range c.notes {
				if f.Note(ok) {
					sick++
				}
			}
			if sick != c.sick {
				t.Errorf("sick %d times, want %d", sick, c.sick)
			}
		})
	}
}
