// Package report tells a person what the asset program is doing: one line per
// step with the time it took, and while a step is long, how far it has got.
//
// Use [New] once, [Reporter.Note] for a plain remark and [Reporter.Step] for work that
// takes time; end each step with [Step.Done] or [Step.Fail]. On a terminal the
// running step is one line that is rewritten each second. Elsewhere a line is
// added every 30 seconds, so that a build log stays short and still shows life.
//
// A Reporter may be used by several goroutines. Writes happen under its lock,
// so a writer that blocks holds up the work that reports to it.
package report

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	terminalEvery = time.Second
	plainEvery    = 30 * time.Second
	clearLine     = "\r\x1b[K"
)

// Reporter writes the lines.
type Reporter struct {
	terminal bool

	mu sync.Mutex // guards w: whole lines only
	w  io.Writer
}

// New makes a Reporter that writes to w; terminal says whether w can rewrite a line.
func New(w io.Writer, terminal bool) *Reporter {
	return &Reporter{w: w, terminal: terminal}
}

// Note writes one line about subject, the name of an asset.
func (r *Reporter) Note(subject, format string, args ...any) {
	r.line(subject + ": " + fmt.Sprintf(format, args...))
}

func (r *Reporter) line(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal {
		text = clearLine + text
	}
	fmt.Fprintln(r.w, text)
}

// rewrite shows text on the line that the next write replaces.
func (r *Reporter) rewrite(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprint(r.w, clearLine+text)
}

// Step is one piece of work under way. End it with Done or Fail, once.
type Step struct {
	r       *Reporter
	text    string
	started time.Time
	stop    chan struct{}
	ended   chan struct{}

	mu          sync.Mutex // guards the counts
	done, total int
}

// Step begins a step of subject and says so from time to time until it ends.
func (r *Reporter) Step(subject, format string, args ...any) *Step {
	s := &Step{
		r:       r,
		text:    subject + ": " + fmt.Sprintf(format, args...),
		started: time.Now(),
		stop:    make(chan struct{}),
		ended:   make(chan struct{}),
	}
	if r.terminal {
		r.rewrite(s.text)
	}
	go s.tick()
	return s
}

func (s *Step) tick() {
	defer close(s.ended)
	every := plainEvery
	if s.r.terminal {
		every = terminalEvery
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.show()
		}
	}
}

func (s *Step) show() {
	text := s.text + ": " + s.progress()
	if s.r.terminal {
		s.r.rewrite(text)
		return
	}
	s.r.line(text)
}

// Progress records that done of total parts are finished. The next line shows it.
func (s *Step) Progress(done, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.total = done, total
}

// progress describes how far the step is. The time left is a straight line
// through what is done, so it is an estimate and says "about".
func (s *Step) progress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed := time.Since(s.started)
	if s.total <= 0 || s.done <= 0 {
		return Round(elapsed) + " so far"
	}
	left := time.Duration(float64(elapsed) / float64(s.done) * float64(s.total-s.done))
	return fmt.Sprintf("%d/%d, %s so far, about %s left", s.done, s.total, Round(elapsed), Round(left))
}

// Elapsed is the time since the step began.
func (s *Step) Elapsed() time.Duration { return time.Since(s.started) }

// Done ends the step and writes its line with the time it took.
func (s *Step) Done() { s.end("") }

// Fail ends the step and writes that it failed. The reason travels in the
// error that the caller returns, and is printed once, at the end.
func (s *Step) Fail() { s.end("failed after ") }

func (s *Step) end(prefix string) {
	close(s.stop)
	<-s.ended
	s.r.line(fmt.Sprintf("%s (%s%s)", s.text, prefix, Round(s.Elapsed())))
}

// Round writes d with no more digits than a person wants: "0.4s", "12s", "12m5s".
func Round(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
