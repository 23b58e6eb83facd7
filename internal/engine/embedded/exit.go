package embedded

import (
	"regexp"
	"strings"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/supervise"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// exitOf types the end of a process that had served.
func exitOf(e *supervise.Exit, tail []string) engine.Exit {
	out := engine.Exit{Reason: engine.ExitCrashed, Code: e.Code, Signal: e.Signal, Detail: e.String(), At: e.At}
	words := lastWords(tail)
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

// lastWords is the line that explains an end: the first of a crash, or the last one at all. The engine says nothing while it is well.
func lastWords(tail []string) string {
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
