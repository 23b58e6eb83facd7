package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stoker-llm/stoker/internal/buildinfo"
	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/supervise"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// Start starts the engine with the model of s and returns when it has generated a token. The error is an *infer.Error or the cause
// of ctx; nothing is left behind then.
func (d *Driver) Start(ctx context.Context, s engine.StartSpec) (engine.Instance, error) {
	d = d.With(s.Options)
	if d.wrong != nil {
		return nil, d.wrong
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	st := &starter{spec: s, set: d.set}
	in, err := st.launch(ctx, d.o)
	if err != nil {
		return nil, err
	}
	if err := st.ready(ctx, in); err != nil {
		return nil, st.giveUp(ctx, in, err)
	}
	return in, nil
}

// starter is one Start.
type starter struct {
	spec engine.StartSpec
	set  settings
}

// launch starts the child. It loads from then on.
func (st *starter) launch(ctx context.Context, o Options) (*instance, error) {
	s := st.spec
	socket := filepath.Join(s.RunDir, "lm.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &infer.Error{Kind: infer.ErrInternal, Message: "the socket of an earlier engine is in the way", Err: err}
	}
	saw := &witness{}
	args := append(append([]string(nil), o.Self[1:]...), st.set.command(s, socket, o.PackDir).Args()...)
	spec := supervise.Spec{
		Name: "embedded engine " + s.Model.Name, Path: o.Self[0], Args: args, Env: scrub(o.Env), Shim: o.Shim, Outlive: s.Outlive, Log: s.Log,
		OnLine: saw.see,
	}
	if s.Outlive {
		spec.LogFile = filepath.Join(s.RunDir, "lm.log")
	}
	s.Log.Debug("the embedded engine starts", "model", s.Model.Name, "args", args)
	proc, err := supervise.Start(ctx, spec)
	switch {
	case err == nil:
		return newInstance(proc, saw, socket), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, &infer.Error{Kind: infer.ErrUnavailable, Message: "the embedded engine cannot be started", Err: err}
}

// tell reports progress, and returns it as text for the stall detector.
func (st *starter) tell(p engine.LoadProgress) string {
	if st.spec.OnLoad != nil {
		st.spec.OnLoad(p)
	}
	return fmt.Sprintf("%s, %d bytes", p.Phase, p.Done)
}

// ready waits until the model is loaded, the engine has confirmed what was asked for, and a token was generated.
func (st *starter) ready(ctx context.Context, in *instance) error {
	p := engine.LoadProgress{Phase: "starting"}
	st.tell(p)
	err := supervise.AwaitReady(ctx, in.proc, supervise.ReadyWait{
		Stall: st.spec.LoadStall,
		Probe: func(ctx context.Context) (bool, string, error) {
			var s native.State
			if err := in.conn.fetch(ctx, native.StatePath, nil, &s); err != nil {
				return false, "starting", nil //nolint:nilerr // not listening yet
			}
			p = engine.LoadProgress{Phase: "weights", Done: s.Done, Total: s.Total}
			if s.Phase != native.PhaseReady {
				return false, st.tell(p), nil
			}
			p.Phase = "warmup"
			progress := st.tell(p)
			if err := st.confirm(ctx, in); err != nil {
				return false, progress, err
			}
			return true, progress, warmUp(ctx, in)
		},
	})
	if err != nil {
		return err
	}
	p.Phase = "ready"
	st.tell(p)
	return nil
}

// confirm compares what the engine says of itself with what was asked for.
func (st *starter) confirm(ctx context.Context, in *instance) error {
	var f native.Facts
	if err := in.conn.fetch(ctx, native.FactsPath, nil, &f); err != nil {
		return err
	}
	s := st.spec
	broken := func(what string, got, want any) error {
		return infer.Errorf(infer.ErrEngine, "", "%s: the embedded engine runs with %s %v where %v was asked for", s.Model.Name, what, got, want)
	}
	set := st.set.command(s, "", "")
	switch {
	case f.Window < s.Window:
		return broken("a window of", f.Window, s.Window)
	case f.Parallel < s.Parallel:
		return broken("requests at once:", f.Parallel, s.Parallel)
	case set.Mode != "" && f.Mode != set.Mode || f.Mode == "":
		return broken("mode", f.Mode, set.Mode)
	case set.Kernel != "" && f.Kernel != set.Kernel:
		return broken("kernels", f.Kernel, set.Kernel)
	}
	in.facts = engine.Facts{
		Engine: Name, Version: buildinfo.Get().Version, Build: build(f.Kernel, f.Threads), Mode: f.Mode, Window: f.Window, Parallel: s.Parallel,
		Caps: engine.Capabilities{Chat: f.Chat, Completion: true, Logprobs: true, Seed: true, LogitBias: true, Tokens: true, CountTokens: true},
	}
	return nil
}

// warmUp has the engine generate a token, which is the only proof that it can. Every vocabulary has a token 0.
func warmUp(ctx context.Context, in *instance) error {
	zero := 0.0
	st, err := in.Generate(ctx, &infer.Request{
		ID: "warmup", Kind: infer.Completion, PromptTokens: []int{0}, MaxTokens: 1, Sampling: infer.Sampling{Temperature: &zero},
	})
	if err != nil {
		return err
	}
	defer st.Close()
	for {
		ev, err := st.Next(ctx)
		if err != nil {
			return err
		}
		if d, whole := ev.(infer.Done); whole && d.Usage.Completion < 1 {
			return errors.New("it answered without generating a token")
		} else if whole {
			return nil
		}
	}
}

// giveUpWait bounds the polite part of ending an engine that did not become ready.
const giveUpWait = time.Second

// giveUp ends an engine that did not become ready, and says why.
func (st *starter) giveUp(ctx context.Context, in *instance, cause error) error {
	polite, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpWait)
	defer cancel()
	if err := in.Stop(polite); err != nil {
		return errors.Join(cause, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	tail := in.proc.Tail()
	said := lastError(tail)
	if said == nil {
		said = st.neverReady(in.proc.Exit(), in.saw.words(tail), cause)
	}
	return &startError{said, tail}
}

// neverReady explains a failed start for which the engine itself gave no reason.
func (st *starter) neverReady(exit *supervise.Exit, words string, cause error) *infer.Error {
	if exit.OutOfMemory || outOfMemory(words) {
		return memoryError(st.spec.Model.Name, words, cause)
	}
	// A connection that broke is not what happened: its cause is the process's end, which AwaitReady and lost found out.
	if e, ok := errors.AsType[*infer.Error](cause); ok {
		return e
	}
	msg := "the embedded engine could not load " + st.spec.Model.Name
	if words != "" {
		msg += "; its own words: " + words
	}
	return &infer.Error{Kind: infer.ErrEngine, Message: msg, Err: cause}
}

func memoryError(model, words string, cause error) *infer.Error {
	msg := "there is not enough memory to load " + model + ": serve it with a smaller --ctx or --parallel, or choose a smaller model"
	if words != "" {
		msg += "; the engine's own words: " + words
	}
	return &infer.Error{Kind: infer.ErrModelTooLarge, Param: "model", Message: msg, Err: cause}
}

// startError is a failed start with the engine's last lines.
type startError struct {
	error
	tail []string
}

// Unwrap returns the error itself, for its kind.
func (e *startError) Unwrap() error { return e.error }

// LogTail returns the engine's last lines, oldest first.
func (e *startError) LogTail() []string { return e.tail }
