package llamacpp

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/supervise"
)

// instance is one running llama-server with its model.
type instance struct {
	spec  engine.StartSpec
	proc  *supervise.Process
	conn  *conn
	addr  address
	props *props
	facts engine.Facts

	// life is the instance's own lifetime: it ends when a stop is asked for and when the process is gone.
	life context.Context
	end  context.CancelFunc
	done chan struct{}

	mu   sync.Mutex // guards exit
	exit *engine.Exit
}

var _ engine.Instance = (*instance)(nil)

// watch records the end of the process. It is the goroutine that the instance owns.
func (in *instance) watch() {
	<-in.proc.Done()
	exit := exitOf(in.proc.Exit(), in.proc.Tail())
	in.mu.Lock()
	in.exit = &exit
	in.mu.Unlock()
	in.end()
	in.addr.clear() //nolint:errcheck // the caller removes the whole folder
	close(in.done)
}

// Facts returns what the engine confirmed.
func (in *instance) Facts() engine.Facts { return in.facts }

// State says what is known of the process.
func (in *instance) State() engine.State {
	in.mu.Lock()
	defer in.mu.Unlock()
	return engine.State{PID: in.proc.PID(), Exit: in.exit, LogTail: in.proc.Tail()}
}

// Done is closed when the process is gone.
func (in *instance) Done() <-chan struct{} { return in.done }

// Stop closes our own connections first: llama-server waits for them before it ends. Then comes the ladder.
func (in *instance) Stop(ctx context.Context) error {
	in.end()
	if err := in.proc.Stop(ctx, supervise.DefaultLadder); err != nil {
		return err
	}
	<-in.done
	return nil
}

// stopping reports whether the instance's life is over.
func (in *instance) stopping() bool { return in.life.Err() != nil }

// gone is the error of asking an engine whose life is over, or nil.
func (in *instance) gone() error {
	if !in.stopping() {
		return nil
	}
	return in.lostError(nil)
}

// lifetime returns ctx bounded by the instance's life.
func (in *instance) lifetime(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(in.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// exitWait is how long a broken connection waits for the process's end that may explain it.
const exitWait = time.Second

// lostError is the error of an answer that broke off, with the engine's end if there was one.
func (in *instance) lostError(err error) error {
	t := time.NewTimer(exitWait)
	defer t.Stop()
	select {
	case <-in.done:
		return lost(in.State().Exit.Detail, err)
	case <-t.C:
		return lost("", err)
	}
}

// exitOf types the end of a process that had served.
func exitOf(e *supervise.Exit, tail []string) engine.Exit {
	out := engine.Exit{Reason: engine.ExitCrashed, Code: e.Code, Signal: e.Signal, Detail: e.String(), At: e.At}
	words := errorLines(tail)
	switch {
	case e.Asked:
		out.Reason = engine.ExitStopped
		return out
	case e.OutOfMemory || slices.ContainsFunc(words, outOfMemory):
		out.Reason = engine.ExitOutOfMemory
	case e.ShimLost:
		out.Reason = engine.ExitLost
	}
	if len(words) > 0 {
		out.Detail += ": " + words[len(words)-1]
	}
	return out
}

// logPrefix is what llama-server puts before a line: time, level, and sometimes a component.
var logPrefix = regexp.MustCompile(`^[0-9.]+ ([A-Z]) +`)

// errorLines picks the lines of a log that say what went wrong, without their prefix, oldest first. Lines without a prefix
// come from libraries and from aborts, and count if they speak of an error.
func errorLines(tail []string) []string {
	var out []string
	for _, line := range tail {
		m := logPrefix.FindStringSubmatch(line)
		switch {
		case m != nil && m[1] == "E":
			out = append(out, line[len(m[0]):])
		case m == nil && (speaksOfError(line) || strings.HasPrefix(line, "E ")):
			out = append(out, strings.TrimPrefix(line, "E "))
		}
	}
	return out
}

var errorWords = regexp.MustCompile(`(?i)error|failed|abort|assert|out of memory|cannot|couldn't|invalid`)

func speaksOfError(line string) bool { return errorWords.MatchString(line) }

// oomWords are how the back ends say that memory ran out: CUDA, Metal, Vulkan and the CPU allocator.
var oomWords = regexp.MustCompile(`(?i)out of memory|OutOfMemory|failed to allocate|ErrorOutOfDeviceMemory|std::bad_alloc|insufficient memory`)

func outOfMemory(line string) bool { return oomWords.MatchString(line) }
