// Package supervise starts and ends processes so that none is left behind. It does not know what an engine is.
//
//	p, err := supervise.Start(ctx, supervise.Spec{Path: "/opt/bin/llama-server", Args: args, Shim: []string{self, "shim"}})
//	err = supervise.AwaitReady(ctx, p, supervise.ReadyWait{Probe: probe, Stall: time.Minute})
//	defer p.Stop(ctx, supervise.DefaultLadder)
//
// # The shim
//
// A child is started through a second process, the shim, which is our own binary in another role ([IsShim], [ShimMain]).
// The shim holds the read end of a pipe whose write end only this process has. When this process is gone, for whatever
// reason, the pipe ends and the shim kills the child's process group. The shim is the child's parent, so it alone signals
// and reaps it, and a signal cannot hit a recycled process id. It reports over a second pipe: started, could not start,
// ended. Signals to the shim itself mean nothing to it: a service manager that signals every process of a service must not
// take the child away before it was asked to end. Should the shim vanish all the same, the child's group is killed from here.
//
// A child's end is the end of its leader; the rest of its group is killed then. On Linux the shim also becomes the parent of
// orphaned descendants, reaps them while the child lives, and kills them with it even if they moved to another session.
// Elsewhere such a process escapes.
//
// # Concurrency
//
// One goroutine owns a Process's state; all methods may be called concurrently and twice. Exactly one goroutine reads
// each output pipe, from start to end, whether anybody listens or not: a child that prints without pause or without
// newlines is never held up, and memory for its output is bounded. OnLine runs on that goroutine, so a slow OnLine does hold
// the child up.
package supervise
