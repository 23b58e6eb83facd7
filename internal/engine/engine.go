// Package engine is the cut between stoker and the programs that run models. A [Driver] knows one kind of engine: whether
// it can run here, what a model would need, and how to start one. An [Instance] is one running engine with one model
// loaded. A [Stream] is one answer being written.
//
// The package knows no engine by name or option, and imports only infer. Drivers live in folders below it, are listed in
// daemon, and are all held to the suite in enginetest.
//
// # Rules of the cut
//
// Generate returns a Stream or an error. An error means that nothing was sent to the client and the caller still owns the
// status. After that, errors come from the stream. A stream is whole only if it delivered [infer.Done]; io.EOF follows
// it. Every other end is an error. A driver never restarts anything: it reports the typed exit reason and the caller
// decides.
//
// All methods of Driver and Instance may be called concurrently. A Stream belongs to one reader at a time; Close may be
// called from any goroutine. A slow reader holds back its own engine request (through a bounded buffer and then the
// socket) and nobody else's.
package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
)

// Driver knows one kind of engine.
type Driver interface {
	// Name is the engine's word in the config, such as "llamacpp".
	Name() string
	// Fingerprint looks for the engine on this machine. It is cheap after the first call: probes are cached per binary
	// digest. Not finding the engine is not an error: Found is false, Missing says what and Remedy how to get it.
	Fingerprint(ctx context.Context) Fingerprint
	// Demand says what serving m would need, or refuses m by name with an *infer.Error (unknown format, architecture this
	// build does not know, ...). It starts nothing.
	Demand(ctx context.Context, m Model) (Demand, error)
	// Start loads a model and returns when the engine has generated a real token, or with the reason why not. When it
	// fails or ctx ends, nothing is left behind: no process, no socket. ctx bounds the start only.
	Start(ctx context.Context, s StartSpec) (Instance, error)
}

// Fingerprint is what was found out about an engine on this machine.
type Fingerprint struct {
	Engine string `json:"engine"`
	Found  bool   `json:"found"`
	// Path is the binary, and Origin says how it was found: "config", "PATH", "engine folder".
	Path   string `json:"path,omitempty"`
	Origin string `json:"origin,omitempty"`
	// Version and Build are the engine's own words; Digest is the sha256 of the binary.
	Version string   `json:"version,omitempty"`
	Build   string   `json:"build,omitempty"`
	Digest  string   `json:"digest,omitempty"`
	Devices []Device `json:"devices,omitempty"`
	// Notes are further facts, a line each, such as which kernels this machine runs and which it cannot.
	Notes []string `json:"notes,omitempty"`
	// Missing says in a sentence what is not there, Remedy is the one command that gets it.
	Missing string `json:"missing,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// Device is a compute device that the engine sees.
type Device struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	TotalBytes  int64  `json:"total_bytes,omitempty"`
	FreeBytes   int64  `json:"free_bytes,omitempty"`
}

// Model is an artifact to be loaded, with the name that clients use.
type Model struct {
	// Name is the served name. Path never leaves this machine.
	Name string
	Path string
	// Format is "gguf" or "safetensors".
	Format string
}

// Origin says where a number comes from.
type Origin string

// The origins of numbers.
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

// Demand is what one model needs from one engine.
type Demand struct {
	Architecture string `json:"architecture"`
	Quantization string `json:"quantization,omitempty"`
	// Weights is what loading takes; KVPerToken the KV cache for one token of context, over all layers; Overhead the rest
	// (compute buffers, runtime).
	Weights    Bytes `json:"weights"`
	KVPerToken Bytes `json:"kv_per_token"`
	Overhead   Bytes `json:"overhead"`
	// PerSlot is what each request that runs at once takes beside its KV: sliding layers, recurrent state.
	PerSlot Bytes `json:"per_slot"`
	// TrainedContext is the longest context the model was made for, 0 if the file does not say.
	TrainedContext int `json:"trained_context"`
	// HasChatTemplate reports whether the artifact can answer chats.
	HasChatTemplate bool `json:"has_chat_template"`
	// Mode is how the engine computes: "exact", "fast", or "engine's own".
	Mode string `json:"mode"`
}

// StartSpec says what to start.
type StartSpec struct {
	Model Model
	// Window is the tokens that one request can use, and Parallel how many requests may run at once, each with a whole
	// window of its own.
	Window   int
	Parallel int
	// Options are the user's own engine settings (--engine-arg k=v). The driver refuses those it does not know, and those
	// that would break its promises, by name.
	Options []Option
	// Outlive lets the engine live on when stoker is gone. Nothing asks for it yet.
	Outlive bool
	// LoadStall ends a start that shows no progress for so long, 0 for never.
	LoadStall time.Duration
	// RunDir is a folder for sockets and scratch files of this instance, made by the caller (mode 0700, short path). The
	// caller removes it after Stop.
	RunDir string
	Log    *slog.Logger
	// OnLoad, if not nil, is called with loading progress, from one goroutine at a time. It must not block.
	OnLoad func(LoadProgress)
}

// Option is one engine setting of the user.
type Option struct{ Key, Value string }

// LoadProgress says how far a load is. Total is 0 when unknown.
type LoadProgress struct {
	// Phase is "starting", "weights", "warmup" or "ready".
	Phase       string `json:"phase"`
	Done, Total int64
}

// Instance is one running engine with one model.
type Instance interface {
	// Generate starts one answer. It returns when the engine accepted the request, which may take as long as a prefill.
	// The caller never has more than Facts().Parallel answers open. Cancelling ctx stops the work, before and after
	// Generate returned.
	Generate(ctx context.Context, r *infer.Request) (Stream, error)
	// Facts says what this instance can do. It does not change during the instance's life.
	Facts() Facts
	// State reports what is known now, without asking the engine.
	State() State
	// Done is closed when the engine is gone, for whatever reason. State().Exit is set by then.
	Done() <-chan struct{}
	// Stop ends the engine by a ladder with a bound on each rung, and returns when it is gone. ctx may shorten the
	// polite rungs; the engine is dead when Stop returns nil. Stop may be called twice.
	Stop(ctx context.Context) error
}

// Facts are an instance's fixed properties.
type Facts struct {
	Engine string `json:"engine"`
	// Version and Build are the engine's own words.
	Version string `json:"version,omitempty"`
	Build   string `json:"build,omitempty"`
	// Mode is how it computes: "exact", "fast", or "engine's own".
	Mode string `json:"mode"`
	// Window is the tokens one request can really use, as the engine confirmed it.
	Window   int          `json:"window"`
	Parallel int          `json:"parallel"`
	Caps     Capabilities `json:"capabilities"`
}

// Capabilities say what an instance can do, as data. They agree with the optional interfaces it implements.
type Capabilities struct {
	Chat        bool `json:"chat"`
	Completion  bool `json:"completion"`
	Tools       bool `json:"tools"`        // tool calls by the model's own choice
	ForcedTools bool `json:"forced_tools"` // tool_choice required or named
	JSONSchema  bool `json:"json_schema"`
	Logprobs    bool `json:"logprobs"`
	Seed        bool `json:"seed"`
	LogitBias   bool `json:"logit_bias"`
	Suffix      bool `json:"suffix"` // fill in the middle
	Images      bool `json:"images"`
	Tokens      bool `json:"tokens"` // prompts as token ids
	CountTokens bool `json:"count_tokens"`
}

// State is what is known about an instance now.
type State struct {
	// PID is the engine's process id, 0 when it has no process of ours.
	PID int `json:"pid,omitempty"`
	// Exit is nil while the engine lives.
	Exit *Exit `json:"exit,omitempty"`
	// LogTail is the last lines the engine wrote, oldest first. It stays readable after the exit.
	LogTail []string `json:"log_tail,omitempty"`
}

// ExitReason is the typed cause of an engine's end.
type ExitReason string

// The exit reasons.
const (
	ExitStopped     ExitReason = "stopped"       // we asked
	ExitCrashed     ExitReason = "crashed"       // it died by itself
	ExitOutOfMemory ExitReason = "out_of_memory" // it died for want of memory
	ExitNeverReady  ExitReason = "never_ready"   // it ended, or was ended, before its first token
	ExitLost        ExitReason = "lost"          // its process or connection vanished without a word
)

// Exit says how an engine ended.
type Exit struct {
	Reason ExitReason `json:"reason"`
	// Code is the exit status, Signal the signal's name ("SIGKILL") if one killed it.
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
	// Detail is a sentence for people, with the engine's own last words where they explain it.
	Detail string    `json:"detail,omitempty"`
	At     time.Time `json:"at"`
}

// Stream is one answer being written.
type Stream interface {
	// Next returns the next event. After infer.Done it returns io.EOF. Any other error is final and means that the answer
	// is not whole; it is an *infer.Error unless ctx ended.
	Next(ctx context.Context) (infer.Event, error)
	// Close stops the engine's work on this answer, if it still goes on, and frees its resources. It does not wait for the
	// engine. Closing twice is allowed.
	Close() error
}

// TokenCounter is implemented by instances that can count a request's prompt tokens exactly as Generate would
// (Capabilities.CountTokens).
type TokenCounter interface {
	CountTokens(ctx context.Context, r *infer.Request) (int, error)
}
