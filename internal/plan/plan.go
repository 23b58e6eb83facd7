// Package plan does the arithmetic of memory: facts in, a window and its reason out. It reads nothing, keeps nothing and
// knows no engine, so everything may be called concurrently and tested with plain numbers.
//
//	r, err := plan.Window(plan.Input{Weights: ..., KVPerToken: ..., Available: ..., Parallel: 1})
//	fmt.Println(r.Reason) // "12288 tokens: 70% of 3.1 GiB available memory less 94 MiB weights"
//
// Every amount carries its origin, and so does every amount of the result: nobody downstream has to guess whether a number
// was measured or estimated.
package plan

import (
	"fmt"
	"math"
	"math/bits"
)

// Origin says where a number comes from.
type Origin string

// The origins, from the surest to the least sure.
const (
	Measured  Origin = "measured"
	Declared  Origin = "declared"
	Estimated Origin = "estimated"
)

// Bytes is an amount of memory with its origin.
type Bytes struct {
	N      int64  `json:"bytes"`
	Origin Origin `json:"origin"`
}

const (
	// share is the part of the available memory, in percent, that an instance may take. Less would waste most small
	// machines; more leaves too little for compute buffers, prompt caches and the person's own programs, none of which are
	// counted before they exist.
	share = 70
	// DefaultMost is the largest window given without being asked for. A larger one would take memory that hardly any
	// request uses; a smaller one is filled by the first prompt of a coding agent.
	DefaultMost = 32768
	// step is what windows are rounded down to: engines round up to it, which would promise memory that was not planned.
	step = 256
)

// Input is what Window needs to know.
type Input struct {
	// Weights is what loading takes, and Overhead what the engine takes beside it, whatever the window.
	Weights, Overhead Bytes
	// KVPerToken is what each token of the window takes, and PerSlot what a parallel request takes besides (sliding layers,
	// recurrent state).
	KVPerToken, PerSlot Bytes
	// Available is the memory that is free now, and Promised what instances already hold the promise of but may not have
	// taken yet.
	Available Bytes
	Promised  int64
	// Trained is the longest context the model was made for, in tokens, 0 if unknown.
	Trained int
	// Requested is the window asked for, in tokens, 0 for none. It is never raised, and an error if it does not fit.
	Requested int
	// Parallel is how many requests may run at once, each with a whole window. 0 means 1.
	Parallel int
}

// Result is a window that fits, and what it takes.
type Result struct {
	// Tokens is the window of one request.
	Tokens   int `json:"window"`
	Parallel int `json:"parallel"`
	// Reason is a sentence that begins with the window and says what bounds it.
	Reason string `json:"reason"`

	Weights  Bytes `json:"weights"`
	Overhead Bytes `json:"overhead"`
	// KV is for all parallel windows together.
	KV    Bytes `json:"kv"`
	Total Bytes `json:"total"`
	// Budget is what the instance may take: 70% of the available memory that is not promised.
	Budget Bytes `json:"budget"`
}

// OverTrainedError is a requested window longer than the model was made for.
type OverTrainedError struct {
	Requested, Trained int
}

// Error gives both numbers.
func (e *OverTrainedError) Error() string {
	return fmt.Sprintf("a window of %d tokens was requested, but the model was trained for %d: ask for at most that", e.Requested, e.Trained)
}

// NoFitError is a window that does not fit the memory.
type NoFitError struct {
	// Tokens is the window that does not fit: the one requested, or the smallest one.
	Tokens, Parallel int
	// Need is what it takes, Budget what there is.
	Need, Budget Bytes
	// Available and Promised are what the budget was made of.
	Available Bytes
	Promised  int64
	// Fits is the largest window that would fit, 0 if none does.
	Fits int
}

// Error gives the figures and the way out.
func (e *NoFitError) Error() string {
	promised := ""
	if e.Promised > 0 {
		promised = fmt.Sprintf(" less %s promised to other models", size(e.Promised))
	}
	way := "use a smaller model or free some memory"
	if e.Fits > 0 {
		way = fmt.Sprintf("%d tokens would fit", e.Fits)
	}
	return fmt.Sprintf("a window of %d tokens%s takes %s (%s), but only %s may be used (%d%% of %s available memory%s): %s",
		e.Tokens, times(e.Parallel), size(e.Need.N), e.Need.Origin, size(e.Budget.N), share, size(e.Available.N), promised, way)
}

// Window returns the window that one request can use. Without a request it is the model's trained length, at most
// DefaultMost, lowered to what fits. Windows are rounded down to a multiple of 256; a bound below 256 is taken as it is.
// The errors are *OverTrainedError and *NoFitError; the Result beside a *NoFitError still says what each part takes.
func Window(in Input) (Result, error) {
	in.Parallel = max(in.Parallel, 1)
	if in.Trained > 0 && in.Requested > in.Trained {
		return Result{}, &OverTrainedError{in.Requested, in.Trained}
	}
	want, why := in.wish()
	budget := in.budget()
	fits, bounded := in.fits(budget.N)
	switch {
	case !bounded || round(want) <= fits:
		r := in.result(round(want), budget)
		r.Reason = fmt.Sprintf("%d tokens: %s", r.Tokens, why)
		return r, nil
	case in.Requested > 0 || fits == 0:
		tokens := round(want)
		if in.Requested == 0 {
			tokens = min(tokens, step)
		}
		r := in.result(tokens, budget)
		return r, &NoFitError{
			Tokens: tokens, Parallel: in.Parallel, Need: r.Total, Budget: budget,
			Available: in.Available, Promised: in.Promised, Fits: fits,
		}
	default:
		r := in.result(fits, budget)
		r.Reason = fmt.Sprintf("%d tokens%s: %s", fits, times(in.Parallel), in.memoryReason())
		return r, nil
	}
}

// wish is the window before memory is looked at, and the reason for it.
func (in Input) wish() (tokens int, why string) {
	switch {
	case in.Requested > 0 && in.Requested == round(in.Requested):
		return in.Requested, "as requested"
	case in.Requested > 0:
		return in.Requested, fmt.Sprintf("the %d requested, rounded down to a multiple of %d", in.Requested, step)
	case in.Trained > 0 && in.Trained <= DefaultMost:
		return in.Trained, "the model's trained length"
	case in.Trained > 0:
		return DefaultMost, fmt.Sprintf("the most that is given unless more is requested (the model was trained for %d)", in.Trained)
	default:
		return DefaultMost, "the most that is given unless more is requested (the model does not say its trained length)"
	}
}

func (in Input) budget() Bytes {
	free := max(0, in.Available.N-in.Promised)
	return Bytes{free / 100 * share, in.Available.Origin}
}

// fits is the largest rounded window for which the budget is enough, 0 if none is. bounded is false if every one is, because
// tokens take nothing.
func (in Input) fits(budget int64) (tokens int, bounded bool) {
	left := budget - in.Weights.N - in.Overhead.N
	if left < 0 {
		return 0, true
	}
	left = left/int64(in.Parallel) - in.PerSlot.N
	if left < 0 {
		return 0, true
	}
	if in.KVPerToken.N <= 0 {
		return 0, false
	}
	return round(int(min(left/in.KVPerToken.N, math.MaxInt32))), true
}

// round rounds down to a multiple of step. Models of fewer tokens exist (in tests), and are left as they are.
func round(tokens int) int {
	if tokens < step {
		return tokens
	}
	return tokens / step * step
}

// result is what a window of tokens takes.
func (in Input) result(tokens int, budget Bytes) Result {
	slot := add(product(in.KVPerToken.N, int64(tokens)), in.PerSlot.N)
	kv := Bytes{product(slot, int64(in.Parallel)), in.KVPerToken.Origin}
	if in.PerSlot.N > 0 {
		kv.Origin = weakest(in.KVPerToken.Origin, in.PerSlot.Origin)
	}
	total := Bytes{add(add(in.Weights.N, in.Overhead.N), kv.N), weakest(in.Weights.Origin, in.Overhead.Origin, kv.Origin)}
	return Result{Tokens: tokens, Parallel: in.Parallel, Weights: in.Weights, Overhead: in.Overhead, KV: kv, Total: total, Budget: budget}
}

// weakest is the least sure of the origins. A sum is as sure as its least sure part. An empty origin is that of an amount
// that plays no part.
func weakest(os ...Origin) Origin {
	w := Measured
	for _, o := range os {
		if o == Estimated || o == Declared && w == Measured {
			w = o
		}
	}
	return w
}

func (in Input) memoryReason() string {
	less := fmt.Sprintf("less %s weights", size(in.Weights.N))
	if in.Overhead.N > 0 {
		less += fmt.Sprintf(" and %s overhead", size(in.Overhead.N))
	}
	available := size(in.Available.N) + " available memory"
	if in.Promised > 0 {
		available = fmt.Sprintf("%s available memory (%s of it promised to other models)", size(in.Available.N), size(in.Promised))
	}
	return fmt.Sprintf("%d%% of %s %s", share, available, less)
}

func times(parallel int) string {
	if parallel > 1 {
		return fmt.Sprintf(" for each of %d parallel requests", parallel)
	}
	return ""
}

// size writes an amount as people read it.
func size(n int64) string {
	const mib, gib = 1 << 20, 1 << 30
	if n >= gib {
		return fmt.Sprintf("%.1f GiB", float64(n)/gib)
	}
	return fmt.Sprintf("%.0f MiB", float64(n)/mib)
}

// product and add stay at the largest number instead of overflowing: sizes come out of foreign files.
func product(a, b int64) int64 {
	if hi, lo := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0))); hi == 0 && lo <= math.MaxInt64 {
		return int64(lo)
	}
	return math.MaxInt64
}

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
