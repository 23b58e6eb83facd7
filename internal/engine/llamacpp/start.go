package llamacpp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/models"
	"github.com/stoker-llm/stoker/internal/supervise"
)

// Start starts llama-server with the model of s and returns when it has generated a token. The error is an *infer.Error or the
// cause of ctx; nothing is left behind then.
func (d *Driver) Start(ctx context.Context, s engine.StartSpec) (engine.Instance, error) {
	f, err := d.find(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	info, err := inspect(s.Model)
	if err != nil {
		return nil, err
	}
	user, err := userOptions(f.flags, s.Options)
	if err != nil {
		return nil, err
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	st := &starter{d: d, found: f, info: info, user: user, spec: s, phase: "starting"}
	for range portTries {
		var in *instance
		in, err = st.try(ctx)
		if err == nil {
			return in, nil
		}
		if !errors.Is(err, errLostRace) {
			break
		}
		s.Log.Info("the chosen port was taken by somebody else; trying another", "model", s.Model.Name)
	}
	return nil, err
}

// errLostRace is a start whose port somebody else took between choice and bind.
var errLostRace = errors.New("every port that was tried was taken by somebody else")

// starter is one Start.
type starter struct {
	d     *Driver
	found *found
	info  *models.Info
	user  []userOption
	spec  engine.StartSpec
	// phase is where the start is. It is read and written by one goroutine at a time: that of the probe.
	phase string
}

// try starts the engine once.
func (st *starter) try(ctx context.Context) (*instance, error) {
	addr, err := newAddress(st.found.flags, st.spec.RunDir)
	if err != nil {
		return nil, err
	}
	if err := addr.clear(); err != nil {
		return nil, err
	}
	proc, err := st.launch(ctx, addr)
	if err != nil {
		return nil, st.notStarted(ctx, err)
	}
	in := &instance{spec: st.spec, proc: proc, conn: newConn(addr), addr: addr, done: make(chan struct{})}
	in.life, in.end = context.WithCancel(context.Background())
	go in.watch()
	if err := st.ready(ctx, in); err != nil {
		return nil, st.giveUp(ctx, in, err)
	}
	return in, nil
}

func (st *starter) launch(ctx context.Context, addr address) (*supervise.Process, error) {
	plan := startPlan{
		modelPath: st.info.Files[0], servedName: st.spec.Model.Name, window: st.spec.Window, parallel: st.spec.Parallel,
		threads: st.d.opts.Threads, weights: st.info.FileBytes, devices: st.found.devices, host: addr.host(), port: addr.port,
	}
	words, err := args(st.found.flags, plan.settings(), st.user)
	if err != nil {
		return nil, err
	}
	spec := supervise.Spec{
		Name: "llama-server " + st.spec.Model.Name, Path: st.found.path, Args: words,
		Env:  scrub(st.d.opts.Env, filepath.Join(st.spec.RunDir, "no-config"), addr.env()...),
		Shim: st.d.opts.Shim, Outlive: st.spec.Outlive, Log: st.spec.Log,
	}
	if st.spec.Outlive {
		spec.LogFile = filepath.Join(st.spec.RunDir, "llama-server.log")
	}
	st.spec.Log.Debug("llama-server starts", "model", st.spec.Model.Name, "args", words)
	return supervise.Start(ctx, spec)
}

// notStarted is the error of an engine that never ran.
func (st *starter) notStarted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*infer.Error](err); ok {
		return err
	}
	return &infer.Error{Kind: infer.ErrUnavailable, Message: "llama-server cannot be started", Err: err}
}

// ready returns when the engine has proved itself: it is ours, it keeps its promise, and it has generated a token.
func (st *starter) ready(ctx context.Context, in *instance) error {
	err := supervise.AwaitReady(ctx, in.proc, supervise.ReadyWait{
		Stall: st.spec.LoadStall,
		Probe: func(ctx context.Context) (bool, string, error) { return st.probe(ctx, in) },
	})
	if err != nil {
		return err
	}
	st.tell("ready", in)
	return nil
}

// probe makes the next step of becoming ready, and says how far it is. Steps that take their time are bounded by the stall of
// the wait around it, since nothing changes meanwhile.
func (st *starter) probe(ctx context.Context, in *instance) (bool, string, error) {
	if st.phase != "warmup" {
		if err := st.healthy(ctx, in); err != nil {
			return false, st.tell("weights", in), nil //nolint:nilerr // not yet: still loading, or not listening
		}
		if err := st.prove(ctx, in); err != nil {
			return false, "", err
		}
	}
	progress := st.tell("warmup", in)
	if err := warmUp(ctx, in); err != nil {
		return false, progress, err
	}
	return true, progress, nil
}

// tell reports progress, and returns it as text for the stall detector. The bytes are those that the process holds: the
// weights are mapped and come in as they are read.
func (st *starter) tell(phase string, in *instance) string {
	st.phase = phase
	p := engine.LoadProgress{Phase: phase, Total: st.info.FileBytes, Done: min(in.proc.Resident(), st.info.FileBytes)}
	if phase == "ready" || phase == "warmup" {
		p.Done = p.Total
	}
	if st.spec.OnLoad != nil {
		st.spec.OnLoad(p)
	}
	const mib = 1 << 20
	return fmt.Sprintf("%s, %d MiB", phase, p.Done/mib)
}

func (st *starter) healthy(ctx context.Context, in *instance) error {
	var out struct{}
	return in.conn.fetch(ctx, "/health", nil, &out)
}

// prove makes sure that our own child answers, and reads what it says of itself. On a port anybody could answer: only our child
// knows the key, so it alone accepts the right one and refuses a wrong one. A socket lies in a folder that only we can open.
func (st *starter) prove(ctx context.Context, in *instance) error {
	if in.addr.port != 0 {
		stranger := *in.conn
		stranger.key = "not-" + in.addr.key
		var out json.RawMessage
		err := stranger.fetch(ctx, propsPath, nil, &out)
		if a, ok := errors.AsType[*answerError](err); !ok || a.Status != http.StatusUnauthorized {
			return errLostRace
		}
	}
	p, err := readProps(ctx, in.conn)
	if err != nil {
		return err
	}
	if err := p.checkPromise(st.spec); err != nil {
		return err
	}
	in.props = p
	in.facts = factsOf(p, st.found.version, st.spec, hasTemplate(st.info, st.user))
	if in.facts.Build == "" {
		in.facts.Build = st.found.build
	}
	return nil
}

// warmUp has the engine generate a token, which is the only proof that it can.
func warmUp(ctx context.Context, in *instance) error {
	var out struct {
		Predicted int `json:"tokens_predicted"`
	}
	body := []byte(`{"prompt":"Hello","n_predict":1,"temperature":0,"cache_prompt":false,"stream":false}`)
	if err := in.conn.fetch(ctx, completionPath, body, &out); err != nil {
		return err
	}
	if out.Predicted < 1 {
		return errors.New("it answered without generating a token")
	}
	return nil
}

// giveUpWait bounds the polite part of ending an engine that did not become ready.
const giveUpWait = time.Second

// giveUp ends an engine that did not become ready, and says why.
func (st *starter) giveUp(ctx context.Context, in *instance, cause error) error {
	polite, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpWait)
	defer cancel()
	died := in.proc.Exit() != nil
	if err := in.Stop(polite); err != nil {
		return errors.Join(cause, err)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(cause, errLostRace) || died && in.addr.port != 0 && (in.addr.taken() || slices.ContainsFunc(in.proc.Tail(), cannotBind)):
		return errLostRace
	}
	if e, ok := errors.AsType[*infer.Error](cause); ok {
		return e
	}
	return st.neverReady(in, cause)
}

// cannotBind reports whether a log line says that the address was taken. Whoever had it may have left it again.
func cannotBind(line string) bool { return strings.Contains(line, "couldn't bind HTTP server socket") }

// neverReady explains a failed start in the engine's own words.
func (st *starter) neverReady(in *instance, cause error) error {
	tail := in.proc.Tail()
	words := errorLines(tail)
	kind := infer.ErrEngine
	if slices.ContainsFunc(words, outOfMemory) {
		kind = infer.ErrModelTooLarge
	}
	what := fmt.Sprintf("llama-server (%s %s) could not load %s (architecture %s)", st.found.version, st.found.build, st.spec.Model.Name,
		st.info.Architecture)
	if len(words) == 0 {
		words = tail
	}
	// The first complaint is the cause; those behind it are functions passing it on.
	if n := len(words); n > 0 {
		what += "; its own words: " + strings.Join(words[:min(n, 2)], " | ")
	}
	return &startError{error: &infer.Error{Kind: kind, Message: what, Err: cause}, tail: tail}
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
