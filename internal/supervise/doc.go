// Package supervise starts and ends processes so that none is left behind. It does not know what an engine is.
//
//	p, err := supervise.Start(ctx, supervise.Spec{Path: "llama-server", Args: args, Shim: []string{self, "shim"}})
//	err = supervise.AwaitReady(ctx, p, supervise.ReadyWait{Probe: probe, Stall: time.Minute})
//	defer p.Stop(ctx, supervise.DefaultLadder)
//
// # The shim
//
// A child is started through a second process, the shim, which is our own binary in another role ([IsShim], [ShimMain]).
// The shim holds the read end of a pipe whose write end only this process has. When this process is gone, for whatever
// reason, the pipe ends and the shim kills the child's process group. The shim is the child's parent, so it alone signals
// and reaps it, and a signal cannot hit a recycled process id. It reports over a second pipe: started, could not start,
// ended.
//
// # Concurrency
//
// One goroutine owns a Process's state; all methods may be called concurrently and twice. Exactly one goroutine reads
// each output pipe, from start to end, whether anybody listens or not: a child that prints without pause or without
// newlines is never held up, and memory for its output is bounded. OnLine runs on that goroutine, so a slow OnLine does hold
// the child up.
package supervise
