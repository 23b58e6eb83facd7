package lm

import (
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
)

// writer turns tokens into the events of one answer. Text that may be the beginning of a stop text is held back until it is known
// what follows.
type writer struct {
	stops []string
	// held is text that was not sent yet, and tokens are the tokens behind it with the bytes of each that are still held.
	held   string
	tokens []heldToken
	emit   func(infer.Event)
	probs  bool
}

type heldToken struct {
	n    int
	prob infer.TokenLogprob
}

// add takes one token's bytes. It returns the stop text that ended the answer, if one did: of several the one that is whole first,
// so that the answer is the same however its bytes were cut into tokens.
func (w *writer) add(b []byte, prob infer.TokenLogprob) (stop string, stopped bool) {
	w.held += string(b)
	w.tokens = append(w.tokens, heldToken{len(b), prob})
	at, end := 0, len(w.held)+1
	for _, s := range w.stops {
		i := strings.Index(w.held, s)
		if i < 0 || s == "" {
			continue
		}
		if e := i + len(s); e < end || e == end && i < at {
			at, end, stop, stopped = i, e, s, true
		}
	}
	if stopped {
		w.send(at)
		w.held, w.tokens = "", nil
		return stop, true
	}
	w.send(len(w.held) - w.risky())
	return "", false
}

// flush sends what is held.
func (w *writer) flush() { w.send(len(w.held)) }

// risky is the length of the longest end of held that begins a stop text.
func (w *writer) risky() int {
	most := 0
	for _, s := range w.stops {
		for n := min(len(s)-1, len(w.held)); n > most; n-- {
			if strings.HasSuffix(w.held, s[:n]) {
				most = n
			}
		}
	}
	return most
}

// send emits the first n held bytes, with the log probabilities of the tokens that end in them. A token without bytes belongs to
// the text before it.
func (w *writer) send(n int) {
	ev := infer.Text{Text: w.held[:n]}
	done := 0
	left := n
	for ; done < len(w.tokens) && w.tokens[done].n <= left; done++ {
		left -= w.tokens[done].n
		if w.probs {
			ev.Logprobs = append(ev.Logprobs, w.tokens[done].prob)
		}
	}
	if left > 0 {
		w.tokens[done].n -= left
	}
	w.held, w.tokens = w.held[n:], w.tokens[done:]
	if ev.Text != "" || len(ev.Logprobs) > 0 {
		w.emit(ev)
	}
}
