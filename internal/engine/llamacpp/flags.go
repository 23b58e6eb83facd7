package llamacpp

import (
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// setting is one thing that a start tells the engine.
type setting struct {
	// names are the spellings, best first. The first that the build lists is used; a build that lists none does not get
	// the setting.
	names []string
	// value is passed behind the name; empty for a switch.
	value string
	// needs, if not empty, must appear in the build's placeholder for the value: some settings grew a value over time.
	needs string
}

const (
	// cacheRAMMiB bounds the prompts that the engine keeps in memory beside its slots. Its own default of 8 GiB is outside
	// every plan and fills up within a day (ollama/ollama#18264); none at all would make a conversation that lost its slot
	// to another read its whole prompt again. 512 MiB hold some ten thousand tokens of a mid-sized model.
	cacheRAMMiB = 512
	// checkpoints bounds the saved states for each slot of models with windowed or recurrent layers. Each costs up to
	// hundreds of MiB; with none such models would read every prompt from its start. The default is 32.
	checkpoints = 4
	// pingSeconds is the engine's own keep-alive, which is also how often it looks at open streams when it is told to
	// stop. Its default of 30 s would make each stop last as long.
	pingSeconds = 5
)

// startPlan is what the flags of one start are made from.
type startPlan struct {
	modelPath  string
	servedName string
	window     int
	parallel   int
	threads    int
	// weights is the model's size in bytes.
	weights int64
	// devices are what the build can compute on beside the CPU.
	devices []engine.Device
	// host is a path ending in .sock or an address; port is 0 for a socket.
	host string
	port int
}

// settings lists what a start says, in the order of the command line.
func (p startPlan) settings() []setting {
	batch, micro := p.batch()
	s := []setting{
		{names: []string{"--model"}, value: p.modelPath},
		// A comma would make two names of it; nobody reads the name back.
		{names: []string{"--alias"}, value: strings.ReplaceAll(p.servedName, ",", "_")},
		{names: []string{"--host"}, value: p.host},
		{names: []string{"--ctx-size"}, value: strconv.Itoa(p.window * p.parallel)},
		{names: []string{"--parallel", "-np"}, value: strconv.Itoa(p.parallel)},
		{names: []string{"--no-kv-unified"}},
		{names: []string{"--cache-type-k"}, value: "f16"},
		{names: []string{"--cache-type-v"}, value: "f16"},
		{names: []string{"--flash-attn"}, value: "auto", needs: "auto"},
		{names: []string{"--fit"}, value: "off"}, // it would change what was planned, seeing only its own memory
		{names: []string{"--batch-size"}, value: strconv.Itoa(batch)},
		{names: []string{"--ubatch-size"}, value: strconv.Itoa(micro)},
		// Threads that spin while they wait cost nothing alone, but with two engines on the same two cores each decoded 5 tokens/s
		// where it could do 10; alone both values gave 62.
		{names: []string{"--poll"}, value: "0"},
		{names: []string{"--cache-ram"}, value: strconv.Itoa(cacheRAMMiB)},
		{names: []string{"--ctx-checkpoints", "--swa-checkpoints"}, value: strconv.Itoa(checkpoints)},
		{names: []string{"--no-context-shift"}},
		{names: []string{"--jinja"}},
		{names: []string{"--reasoning-format"}, value: "deepseek"}, // thinking comes in a field of its own
		{names: []string{"--no-slots"}},                            // nobody asks, and it shows prompts
		{names: []string{"--no-ui", "--no-webui"}},
		{names: []string{"--offline"}},
		{names: []string{"--sse-ping-interval"}, value: strconv.Itoa(pingSeconds)},
	}
	if p.port != 0 {
		s = append(s, setting{names: []string{"--port"}, value: strconv.Itoa(p.port)})
	}
	if p.threads > 0 {
		s = append(s, setting{names: []string{"--threads"}, value: strconv.Itoa(p.threads)})
	}
	if len(p.devices) > 0 {
		s = append(s, setting{names: []string{"--n-gpu-layers"}, value: "999"}) // all, in the words of every build
	}
	return s
}

// batch returns the logical and physical batch size. The engine looks for clients that left only between logical batches,
// so one batch must take well under a second. Measured on two AMD Zen 3 cores with a 135M model at Q4_1: 2048/512 (the
// defaults) read 194 tokens/s and were busy for 11.7 s after a client left; 128/128 read 219 and were busy for up to
// 1.0 s; 64/64 read 202 and were busy for 0.6 s; 32/32 read 141 and were busy for 0.35 s. Larger models are slower in
// proportion to their weights, so they get the smallest batch that still uses the matrix kernels well. A GPU reads
// thousands of tokens in a second, and there the defaults are needed to keep it busy.
func (p startPlan) batch() (logical, micro int) {
	const mib = 1 << 20
	switch {
	case len(p.devices) > 0:
		return 2048, 512
	case p.weights < 512*mib:
		return 64, 64
	default:
		return 32, 32
	}
}

// args turns settings into a command line for a build. User options replace the settings they name, whatever the spelling.
func args(fs flagSet, settings []setting, user []userOption) ([]string, error) {
	replaced := map[*flag]bool{}
	for _, o := range user {
		replaced[o.flag] = true
	}
	var out []string
	for _, s := range settings {
		name := fs.first(s.names...)
		f := fs.byName[name]
		if f == nil || replaced[f] || !strings.Contains(f.value, s.needs) {
			continue
		}
		out = append(out, name)
		if s.value != "" {
			out = append(out, s.value)
		}
	}
	for _, o := range user {
		out = append(out, o.args...)
	}
	return out, checkWindowFlags(fs)
}

// checkWindowFlags refuses builds that share one KV cache between requests and cannot be told otherwise: there, one long
// request would fail all others.
func checkWindowFlags(fs flagSet) error {
	if fs.first("--kv-unified") != "" && fs.first("--no-kv-unified") == "" {
		return infer.Errorf(infer.ErrUnsupported, "", "this llama-server has no --no-kv-unified, so its requests would share one window; another build is needed")
	}
	return nil
}
