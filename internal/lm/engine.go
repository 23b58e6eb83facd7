// Package lm is stoker's own inference engine: it loads a GGUF file or a Hugging Face folder and answers requests, in this process,
// on the processor. Its parts stand in packages below it; this one puts them together and runs the loop.
//
//	e, err := lm.Open(ctx, path, lm.Options{Window: 8192, Parallel: 4})
//	defer e.Close()
//	stream, err := e.Generate(ctx, request)
//
// All requests are computed together, step by step (continuous batching): a step takes one token for each answer that is being
// written and a piece of one prompt that is being read. What an answer says does not depend on what else is in its steps: the
// arithmetic is canonical (package kernel), so results are the same bits however the work was cut.
//
// All methods of an Engine may be called concurrently. One goroutine owns the model's state; a slow reader of a stream holds up
// nobody.
package lm

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/chattmpl"
	"github.com/stoker-llm/stoker/internal/lm/cpu"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/kv"
	"github.com/stoker-llm/stoker/internal/lm/mem"
	"github.com/stoker-llm/stoker/internal/lm/pool"
	"github.com/stoker-llm/stoker/internal/lm/tokenizer"
	"github.com/stoker-llm/stoker/internal/lm/weights"
)

// Options say how to run a model. The zero value of each has a default.
type Options struct {
	// Mode is "exact" (the default) or "fast".
	Mode string
	// Kernel is the name of a set of kernels; "" or "auto" takes the best that this machine runs.
	Kernel string
	// Threads is the number of worker threads; 0 means one for each processor.
	Threads int
	// Window is the tokens that one request can use, 0 for what the model was trained for. Parallel is how many requests run at once, 0
	// for 1.
	Window, Parallel int
	// PackDir, if not empty, keeps the packed weights in files there, so that the next start takes milliseconds. A file that cannot be
	// written is passed over.
	PackDir string
	// Progress, if not nil, is called while weights are loaded, with bytes. It must not block.
	Progress func(done, total int64)
	// Plant changes what a gate wants to see caught. Nothing else sets it.
	Plant Plant
}

// Plant holds faults that are planted on purpose, to show that a gate catches them.
type Plant struct {
	// Program changes the steps before the weights are loaded, and Batch each batch before it is computed.
	Program func(*block.Program)
	Batch   func(*cpu.Batch)
}

// Rows of a step. More prompt rows than maxRows at once would not make the kernels faster.
const (
	maxRows     = 256
	maxLogits   = 16
	maxParallel = 256
)

// Engine is one loaded model.
type Engine struct {
	o        Options
	mode     kernel.Mode
	set      *kernel.Set
	file     *weights.File
	cfg      block.Config
	program  *block.Program
	tok      *tokenizer.Tokenizer
	ends     map[int32]bool
	template *chattmpl.Template
	pool     *pool.Pool
	memory   *mem.Counter
	loaded   *cpu.Packed
	cache    *kv.Cache
	machine  *cpu.Machine

	wake chan struct{} // holds one token when the loop has something new to see
	quit chan struct{}
	gone chan struct{}

	mu    sync.Mutex // guards the rest
	queue []*task    // in order of arrival, not yet seen by the loop
	calls []func()   // run by the loop between steps
	stats Stats
	ended bool
}

// Facts are an engine's fixed properties.
type Facts struct {
	Arch, Quantization, Kernel, Mode string
	Threads, Window, Parallel        int
	// Chat reports whether the model has a chat template.
	Chat bool
}

// Stats count what the engine did since its start.
type Stats struct {
	// Requests were accepted; Tokens were written, Prompt tokens computed and Cached ones found in the KV cache.
	Requests, Tokens, Prompt, Cached uint64
	// Steps is the number of runs, and Active and Waiting the requests at work and in line.
	Steps           uint64
	Active, Waiting int
	KV              kv.Stats
	// Memory is the bytes held outside the Go heap, by purpose.
	Memory map[string]int64
}

// ModeOf returns the mode called name; "" means exact.
func ModeOf(name string) (kernel.Mode, error) {
	for _, m := range []kernel.Mode{kernel.Exact, kernel.Fast} {
		if name == m.String() || name == "" {
			return m, nil
		}
	}
	return kernel.Exact, infer.Errorf(infer.ErrInvalid, "mode", "the mode %q is not known: exact or fast", name)
}

// Open loads the model at path and returns an engine that is ready to generate. If ctx ends, the load stops. Errors are
// *infer.Error: ErrUnsupported for an architecture or format that the engine does not know, ErrInvalid for a damaged file or a wrong
// option.
func Open(ctx context.Context, path string, o Options) (*Engine, error) {
	e := &Engine{o: o, memory: mem.NewCounter(), wake: make(chan struct{}, 1), quit: make(chan struct{}), gone: make(chan struct{})}
	if err := e.open(ctx, path); err != nil {
		e.release()
		return nil, err
	}
	go e.run()
	return e, nil
}

func (e *Engine) open(ctx context.Context, path string) error {
	var err error
	if e.mode, err = ModeOf(e.o.Mode); err != nil {
		return err
	}
	if e.set, err = kernel.Choose(e.o.Kernel); err != nil {
		return infer.Errorf(infer.ErrInvalid, "kernel", "%v", err)
	}
	if e.file, err = weights.Open(path); err != nil {
		return err
	}
	if e.program, err = e.file.Program(e.mode); err != nil {
		return err
	}
	if e.o.Plant.Program != nil {
		e.o.Plant.Program(e.program)
	}
	e.cfg = e.program.Config
	if err := e.defaults(); err != nil {
		return err
	}
	if err := e.text(); err != nil {
		return err
	}
	e.pool = pool.New(e.o.Threads)
	if e.loaded, err = cpu.Load(ctx, e.program, cpu.LoadOptions{Pool: e.pool, Memory: e.memory, CacheDir: e.o.PackDir, Progress: e.o.Progress}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &infer.Error{Kind: infer.ErrInvalid, Param: "model", Message: "the weights cannot be loaded", Err: err}
	}
	return e.start()
}

// defaults fills and checks the numbers.
func (e *Engine) defaults() error {
	o := &e.o
	if o.Threads == 0 {
		o.Threads = runtime.NumCPU()
	}
	if o.Parallel == 0 {
		o.Parallel = 1
	}
	if o.Window == 0 {
		o.Window = e.cfg.Context
	}
	switch {
	case o.Threads < 1 || o.Threads > 1024:
		return infer.Errorf(infer.ErrInvalid, "threads", "%d threads: want 1 to 1024", o.Threads)
	case o.Parallel < 1 || o.Parallel > maxParallel:
		return infer.Errorf(infer.ErrInvalid, "parallel", "%d requests at once: want 1 to %d", o.Parallel, maxParallel)
	case o.Window < 2:
		return infer.Errorf(infer.ErrInvalid, "ctx", "a window of %d tokens: want at least 2", o.Window)
	}
	return nil
}

// text makes tokenizer and template.
func (e *Engine) text() error {
	var err error
	if e.tok, err = e.file.Tokenizer(); err != nil {
		return &infer.Error{Kind: infer.ErrUnsupported, Param: "model", Message: "the model's tokenizer cannot be used", Err: err}
	}
	if n := e.tok.Size(); n > e.cfg.Vocab {
		return infer.Errorf(infer.ErrInvalid, "model", "the tokenizer has %d tokens, the model only %d", n, e.cfg.Vocab)
	}
	e.ends = map[int32]bool{}
	for _, id := range e.tok.Ends() {
		e.ends[id] = true
	}
	if e.file.Template == "" {
		return nil
	}
	e.template, err = chattmpl.Parse(e.file.Template, chattmpl.Tokens{BOS: e.piece(e.tok.BOS()), EOS: e.piece(e.tok.EOS())})
	if err != nil {
		return &infer.Error{Kind: infer.ErrUnsupported, Param: "model", Message: "the model's chat template cannot be used", Err: err}
	}
	return nil
}

func (e *Engine) piece(id int32, ok bool) string {
	if !ok {
		return ""
	}
	return e.tok.Piece(id)
}

// start makes what a loaded model needs to run.
func (e *Engine) start() error {
	perSeq := (e.o.Window + kv.PageLen - 1) / kv.PageLen
	shape := kv.Shape{Layers: e.cfg.Layers, Heads: e.cfg.KVHeads, HeadDim: e.cfg.HeadDim}
	var err error
	if e.cache, err = kv.New(shape, e.o.Parallel*perSeq, e.memory); err != nil {
		return noMemory("the KV cache", err)
	}
	e.machine, err = cpu.New(e.program, cpu.Options{
		Set: e.set, Pool: e.pool, KV: e.cache, MaxRows: max(maxRows, e.o.Parallel), MaxLogits: max(maxLogits, e.o.Parallel), MaxContext: e.o.Window,
		Memory: e.memory,
	})
	if err != nil {
		return noMemory("the buffers", err)
	}
	return nil
}

func noMemory(what string, err error) error {
	return &infer.Error{Kind: infer.ErrModelTooLarge, Param: "model", Message: fmt.Sprintf("there is no memory for %s", what), Err: err}
}

// Facts returns the engine's fixed properties.
func (e *Engine) Facts() Facts {
	return Facts{
		Arch: e.cfg.Arch, Quantization: e.file.Quantization, Kernel: e.set.Name(), Mode: e.mode.String(), Threads: e.o.Threads, Window: e.o.Window,
		Parallel: e.o.Parallel, Chat: e.template != nil,
	}
}

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Waiting += len(e.queue)
	s.Memory = e.memory.Bytes()
	return s
}

// Tokenizer returns the model's tokenizer.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.tok }

// Close ends all answers with an error and frees the model. It returns when nothing runs any more.
func (e *Engine) Close() error {
	e.mu.Lock()
	again := e.ended
	e.ended = true
	e.mu.Unlock()
	if !again {
		close(e.quit)
	}
	<-e.gone
	return nil
}

// release frees what was made, in any state.
func (e *Engine) release() {
	if e.machine != nil {
		e.machine.Free()
	}
	if e.cache != nil {
		e.cache.Free()
	}
	if e.pool != nil {
		e.pool.Close()
	}
	if e.loaded != nil {
		e.loaded.Free()
	}
	if e.file != nil {
		e.file.Close() // it was only read
	}
}
