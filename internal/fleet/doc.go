// Package fleet owns the running engines. It loads the models it was given, notices at once when an engine dies, starts it
// again with a pause that grows, and hands out answers: who may have one now is decided by package sched, and what an
// engine is, by package engine.
//
//	f, err := fleet.New(fleet.Options{Models: specs, ...})
//	f.Start()
//	defer f.Stop(ctx)
//	served, err := f.Resolve("my-model")
//	a, err := f.Generate(ctx, served, request) // waits for its turn; an error means that nothing was sent
//	defer a.Close()                            // gives the turn to the next
//	for ev, err := a.Next(); err == nil; ev, err = a.Next() { ... }
//
// All methods of Fleet may be called concurrently. Each model has one goroutine that owns its life; requests only read
// what it published. An Answer belongs to one reader; Close may come from anywhere. A slow reader keeps its own turn and
// holds back nobody else's answer, but while it does not close, one of the model's Parallel turns is taken.
//
// # States
//
// A model is waiting (for the loads before it: two at once would fight for disk and memory), loading, serving, restarting,
// failed or stopped. A request for a model that is not serving is refused with ErrLoading or ErrUnavailable; the queue does
// not wait for a load. A first load that fails is not repeated: the person who started it is looking, and the same
// file fails the same way. A model that has served before is started again as the restart policy allows.
//
// The cause of a failed start is its error; if that has a method LogTail() []string, its lines show in Status too.
package fleet
