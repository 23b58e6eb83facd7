package embedded

import (
	"regexp"
	"strings"
	"sync"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/supervise"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// exitOf types the end of a process that had served. words are what explains it, if anything does.
func exitOf(e *supervise.Exit, words string) engine.Exit {
	out := engine.Exit{Reason: engine.ExitCrashed, Code: e.Code, Signal: e.Signal, Detail: e.String(), At: e.At}
	switch {
	case e.Asked:
		out.Reason = engine.ExitStopped
		return out
	case e.OutOfMemory || outOfMemory(words):
		out.Reason = engine.ExitOutOfMemory
	case e.ShimLost:
		out.Reason = engine.ExitLost
	}
	if words != "" {
		out.Detail += ": " + words
	}
	return out
}

// crashLine begins what Go's runtime says when a program ends badly. Stacks follow it.
var crashLine = regexp.MustCompile(`^(panic:|fatal error:|runtime: |SIG[A-Z]+:|unexpected fault address)`)

// witness remembers the first line of a crash: the stacks behind it may be longer than the log's tail.
type witness struct {
	mu   sync.Mutex // guards line
	line string
}

// see looks at a line of output, as it comes.
func (w *witness) see(_ supervise.Output, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.line == "" && crashLine.MatchString(line) {
		w.line = line
	}
}

// words is the line that explains an end: the first of a crash, or the last one at all. The engine says nothing while it is well.
func (w *witness) words(tail []string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.line != "" {
		return w.line
	}
	last := ""
	for _, line := range tail {
		if crashLine.MatchString(line) {
			return line
		}
		if strings.TrimSpace(line) != "" {
			last = line
		}
	}
	if e := parseError(last); e != nil {
		return e.Message
	}
	return last
}

// memoryWords are how Go's runtime and the system's calls say that there is no memory.
var memoryWords = regexp.MustCompile(`(?i)out of memory|cannot allocate memory`)

func outOfMemory(words string) bool { return memoryWords.MatchString(words) }

// lastError is the reason that the child gave on its last line, nil if it gave none.
func lastError(tail []string) *infer.Error {
	if len(tail) == 0 {
		return nil
	}
	return parseError(tail[len(tail)-1])
}

func parseError(line string) *infer.Error {
	if !strings.HasPrefix(line, "{") {
		return nil
	}
	e, _ := native.DecodeError([]byte(line)) // a line of another kind says nothing here
	return e
}
