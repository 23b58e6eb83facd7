package native

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/stoker-llm/stoker/internal/infer"
)

// Role is the first word of a command line that asks for the child's role.
const Role = "lm"

// The child's routes.
const (
	GeneratePath = "/generate" // POST a request, answers with a stream of events
	CountPath    = "/count"    // POST a request, answers with a Count
	StatePath    = "/state"    // GET, answers with a State, also while the model loads
	FactsPath    = "/facts"    // GET, answers with Facts once the model is loaded
)

// The phases of a child.
const (
	PhaseWeights = "weights"
	PhaseReady   = "ready"
)

// State is what a child is doing.
type State struct {
	Phase string `json:"phase"`
	// Done and Total are the bytes of the load.
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
	// Requests were accepted since the start; Tokens were written, Prompt ones computed and Cached ones found in the cache; Steps
	// were computed for them.
	Requests uint64 `json:"requests"`
	Tokens   uint64 `json:"tokens"`
	Prompt   uint64 `json:"prompt"`
	Cached   uint64 `json:"cached"`
	Steps    uint64 `json:"steps"`
	// Active requests are at work now, Waiting ones in line.
	Active  int `json:"active"`
	Waiting int `json:"waiting"`
	// Memory is the bytes held outside the Go heap, by purpose.
	Memory map[string]int64 `json:"memory,omitempty"`
}

// Facts are a child's fixed properties.
type Facts struct {
	Architecture string `json:"architecture"`
	Quantization string `json:"quantization"`
	// Mode is "exact" or "fast", Kernel the set of kernels that computes.
	Mode     string `json:"mode"`
	Kernel   string `json:"kernel"`
	Threads  int    `json:"threads"`
	Window   int    `json:"window"`
	Parallel int    `json:"parallel"`
	// Chat reports whether the model has a chat template.
	Chat bool `json:"chat"`
}

// Count is the tokens of a prompt.
type Count struct {
	Tokens int `json:"tokens"`
}

// Status is the HTTP status of a refusal. The kind in its body says more.
func Status(k infer.ErrorKind) int {
	switch k {
	case infer.ErrLoading, infer.ErrUnavailable:
		return http.StatusServiceUnavailable
	case infer.ErrInternal, infer.ErrEngine, infer.ErrEngineLost:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// Command is what a child is started with. The zero value of Window, Mode, Kernel and Threads leaves the choice to the engine.
type Command struct {
	// Model is a GGUF file or a Hugging Face folder, Socket the path of the unix socket to serve on.
	Model, Socket    string
	Window, Parallel int
	Mode, Kernel     string
	Threads          int
	// PackDir is the folder of the repacked cache files; empty for none.
	PackDir string
}

// Args is the command line, without the program's own name.
func (c Command) Args() []string {
	args := []string{Role, "--model", c.Model, "--socket", c.Socket, "--parallel", strconv.Itoa(c.Parallel)}
	add := func(name, value, zero string) {
		if value != zero {
			args = append(args, name, value)
		}
	}
	add("--window", strconv.Itoa(c.Window), "0")
	add("--mode", c.Mode, "")
	add("--kernel", c.Kernel, "")
	add("--threads", strconv.Itoa(c.Threads), "0")
	add("--pack-dir", c.PackDir, "")
	return args
}

// IsChild reports whether args, without the program's own name, ask for the child's role.
func IsChild(args []string) bool { return len(args) > 0 && args[0] == Role }

// ErrHelp says that help was asked for, and written.
var ErrHelp = flag.ErrHelp

// ParseCommand reads a command line that begins with Role. What is wrong with it, or the help that was asked for, is written to help too.
func ParseCommand(args []string, help io.Writer) (Command, error) {
	var c Command
	if !IsChild(args) {
		return c, fmt.Errorf("the command line does not begin with %s", Role)
	}
	f := flag.NewFlagSet("stoker "+Role, flag.ContinueOnError)
	f.SetOutput(help)
	f.StringVar(&c.Model, "model", "", "GGUF file or Hugging Face folder")
	f.StringVar(&c.Socket, "socket", "", "unix socket to serve on")
	f.IntVar(&c.Window, "window", 0, "tokens that one request can use; 0: what the model was trained for")
	f.IntVar(&c.Parallel, "parallel", 1, "requests that are answered at once")
	f.StringVar(&c.Mode, "mode", "", "exact or fast")
	f.StringVar(&c.Kernel, "kernel", "", "set of kernels; empty: the best that runs here")
	f.IntVar(&c.Threads, "threads", 0, "threads that compute; 0: one for each processor that may be used")
	f.StringVar(&c.PackDir, "pack-dir", "", "folder for repacked weights; empty: none are kept")
	if err := f.Parse(args[1:]); err != nil {
		return c, err
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case c.Model == "" || c.Socket == "":
		return c, errors.New("--model and --socket are needed")
	}
	return c, nil
}
