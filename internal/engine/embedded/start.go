package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
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
	set, err := d.settings(s.Options)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(s.RunDir, "lm.sock")
	spec := supervise.Spec{
		Name: "embedded engine " + s.Model.Name, Path: d.o.Self[0], Args: append(d.o.Self[1:len(d.o.Self):len(d.o.Self)], set.args(s, socket)...),
		Env: scrub(d.o.Env), Shim: d.o.Shim, Outlive: s.Outlive, Log: discard(s.Log),
	}
	if s.Outlive {
		spec.LogFile = filepath.Join(s.RunDir, "lm.log")
	}
	proc, err := supervise.Start(ctx, spec)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &infer.Error{Kind: infer.ErrUnavailable, Message: "the embedded engine cannot be started", Err: err}
	}
	in := newInstance(proc, socket)
	if err := in.ready(ctx, s); err != nil {
		return nil, in.giveUp(ctx, s, err)
	}
	return in, nil
}

// state is what the child says of itself.
type state struct {
	Phase       string `json:"phase"`
	Done, Total int64
	Stats       struct {
		Requests, Tokens uint64
		Active, Waiting  int
	} `json:"stats"`
}

// childFacts are the child's fixed properties.
type childFacts struct {
	Arch, Quantization, Kernel, Mode string
	Threads, Window, Parallel        int
	Chat                             bool
}

// ready waits until the model is loaded and a token was generated.
func (in *instance) ready(ctx context.Context, s engine.StartSpec) error {
	tell := func(p engine.LoadProgress) string {
		if s.OnLoad != nil {
			s.OnLoad(p)
		}
		return fmt.Sprintf("%s, %d bytes", p.Phase, p.Done)
	}
	tell(engine.LoadProgress{Phase: "starting"})
	err := supervise.AwaitReady(ctx, in.proc, supervise.ReadyWait{
		Stall: s.LoadStall,
		Probe: func(ctx context.Context) (bool, string, error) {
			var st state
			if err := in.conn.get(ctx, "/state", &st); err != nil {
				return false, "starting", nil //nolint:nilerr // not listening yet
			}
			p := engine.LoadProgress{Phase: st.Phase, Done: st.Done, Total: st.Total}
			if st.Phase != "ready" {
				return false, tell(p), nil
			}
			p.Phase = "warmup"
			progress := tell(p)
			return true, progress, in.prove(ctx, s)
		},
	})
	if err != nil {
		return err
	}
	tell(engine.LoadProgress{Phase: "ready", Done: 1, Total: 1})
	return nil
}

// prove compares what the engine confirms with what was asked for, and has it generate a token.
func (in *instance) prove(ctx context.Context, s engine.StartSpec) error {
	var f childFacts
	if err := in.conn.get(ctx, "/facts", &f); err != nil {
		return err
	}
	if f.Window != s.Window || f.Parallel != s.Parallel {
		return infer.Errorf(infer.ErrEngine, "", "the embedded engine gives %d requests a window of %d, asked for were %d and %d", f.Parallel, f.Window, s.Parallel, s.Window)
	}
	in.facts = engine.Facts{
		Engine: Name, Version: buildinfo.Get().Version, Build: fmt.Sprintf("kernels %s, %d threads", f.Kernel, f.Threads), Mode: f.Mode,
		Window: f.Window, Parallel: f.Parallel,
		Caps: engine.Capabilities{Chat: f.Chat, Completion: true, Logprobs: true, Seed: true, LogitBias: true, Tokens: true, CountTokens: true},
	}
	zero := 0.0
	st, err := in.Generate(ctx, &infer.Request{Kind: infer.Completion, PromptTokens: []int{0}, MaxTokens: 1, Sampling: infer.Sampling{Temperature: &zero}})
	if err != nil {
		return err
	}
	defer st.Close()
	for {
		ev, err := st.Next(ctx)
		if err != nil {
			return err
		}
		if d, ok := ev.(infer.Done); ok {
			if d.Usage.Completion < 1 {
				return errors.New("it answered without generating a token")
			}
			return nil
		}
	}
}

// giveUpWait bounds the polite part of ending an engine that did not become ready.
const giveUpWait = time.Second

// giveUp ends an engine that did not become ready, and says why.
func (in *instance) giveUp(ctx context.Context, s engine.StartSpec, cause error) error {
	polite, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpWait)
	defer cancel()
	exit := in.proc.Exit()
	if err := in.Stop(polite); err != nil {
		return errors.Join(cause, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e := lastError(in.proc.Tail()); e != nil {
		return e
	}
	if e, ok := errors.AsType[*infer.Error](cause); ok {
		return e
	}
	kind, what := infer.ErrEngine, "the embedded engine could not load "+s.Model.Name
	if exit != nil && exit.OutOfMemory {
		kind, what = infer.ErrModelTooLarge, "the embedded engine was killed for want of memory while it loaded "+s.Model.Name
	}
	return &infer.Error{Kind: kind, Message: what, Err: cause}
}

// lastError is the reason that the child gave on its last line, nil if it gave none.
func lastError(tail []string) *infer.Error {
	for i := len(tail) - 1; i >= 0; i-- {
		var e native.Error
		if strings.HasPrefix(tail[i], "{") && json.Unmarshal([]byte(tail[i]), &e) == nil && e.Kind != "" {
			return e.Infer()
		}
	}
	return nil
}
