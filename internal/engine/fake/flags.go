package fake

import (
	"fmt"
	"os"
	"strings"
)

// flag is a flag of the played engine. A takes of "" is a switch.
type flag struct {
	names       string // comma separated, the main one last
	takes, text string
}

// llamaFlags are the flags of llama-server that a supervisor passes. Their layout in --help is llama-server's.
var llamaFlags = [...]flag{
	{"-h, --help", "", "print usage and exit"},
	{"--version", "", "show version and build info"},
	{"--list-devices", "", "print list of available devices and exit"},
	{"-m, --model", "FNAME", "model path to load"},
	{"-a, --alias", "STRING", "set alias for model name"},
	{"--host", "HOST", "ip address to listen, or bind to an UNIX socket if the address ends with .sock"},
	{"--port", "PORT", "port to listen"},
	{"-c, --ctx-size", "N", "size of the prompt context"},
	{"-np, --parallel", "N", "number of server slots"},
	{"-kvu, --kv-unified, -no-kvu, --no-kv-unified", "", "use single unified KV buffer shared across all sequences"},
	{"-ctk, --cache-type-k", "TYPE", "KV cache data type for K"},
	{"-ctv, --cache-type-v", "TYPE", "KV cache data type for V"},
	{"-fa, --flash-attn", "[on|off|auto]", "set Flash Attention use"},
	{"--fit", "[on|off]", "whether to adjust unset arguments to fit in device memory"},
	{"-b, --batch-size", "N", "logical maximum batch size"},
	{"-ub, --ubatch-size", "N", "physical maximum batch size"},
	{"-cram, --cache-ram", "N", "set the maximum cache size in MiB"},
	{"-ctxcp, --ctx-checkpoints", "N", "max number of context checkpoints per slot"},
	{"--context-shift, --no-context-shift", "", "whether to use context shift on infinite text generation"},
	{"--jinja, --no-jinja", "", "use jinja template for chat"},
	{"--reasoning-format", "FORMAT", "controls whether thought tags are extracted"},
	{"--slots, --no-slots", "", "expose slots monitoring endpoint"},
	{"--ui, --no-ui", "", "whether to enable the Web UI"},
	{"--offline", "", "offline mode: prevents network access"},
	{"--sse-ping-interval", "N", "SSE ping interval in seconds"},
	{"-t, --threads", "N", "number of CPU threads to use during generation"},
	{"-ngl, --n-gpu-layers", "N", "max. number of layers to store in VRAM"},
	{"-lv, --verbosity", "N", "set the verbosity threshold"},
	{"--api-key", "KEY", "API key to use for authentication"},
}

// mlxFlags are the flags of mlx_lm.server.
var mlxFlags = [...]flag{
	{"-h, --help", "", "show this help message and exit"},
	{"--model", "MODEL", "the path to the MLX model"},
	{"--host", "HOST", "host for the HTTP server"},
	{"--port", "PORT", "port for the HTTP server"},
	{"--log-level", "LEVEL", "set the logging level"},
	{"--max-tokens", "N", "default maximum number of tokens to generate"},
	{"--decode-concurrency", "N", "when a request is batchable, decode that many in parallel"},
	{"--prompt-concurrency", "N", "when a request is batchable, process that many prompts in parallel"},
	{"--prefill-step-size", "N", "step size for prefill"},
	{"--prompt-cache-size", "N", "maximum number of distinct KV caches to hold"},
	{"--prompt-cache-bytes", "N", "maximum size in bytes of the KV caches"},
}

// engineFlags reads the words behind --. done reports that the process has nothing more to do.
func (p *process) engineFlags() (values map[string]string, code int, done bool) {
	values = map[string]string{"--host": "127.0.0.1", "--port": "8080", "--ctx-size": "4096", "--parallel": "1", "--api-key": os.Getenv("LLAMA_API_KEY")}
	table := llamaFlags[:]
	if p.opts.as == MLX {
		table = mlxFlags[:]
	}
	words := p.opts.engine
	for i := 0; i < len(words); i++ {
		f := find(table, words[i])
		if f == nil {
			fmt.Fprintf(p.stderr, "error: invalid argument: %s\n", words[i])
			return nil, 1, true
		}
		name := f.main()
		switch {
		case name == "--help" || name == "--version" || name == "--list-devices":
			p.tell(name, table)
			return nil, 0, true
		case f.takes == "":
			values[name] = "true"
		case i+1 >= len(words):
			fmt.Fprintf(p.stderr, "error: expected value for argument: %s\n", words[i])
			return nil, 1, true
		default:
			i++
			values[name] = words[i]
		}
	}
	return values, 0, false
}

func (p *process) tell(what string, table []flag) {
	switch what {
	case "--version":
		fmt.Fprintln(p.stderr, "version: 0.0.0-fake (build 0, commit fake)\nbuilt with nothing for nothing")
	case "--list-devices":
		fmt.Fprintln(p.stdout, "Available devices:")
	default:
		fmt.Fprintln(p.stdout, "----- common params -----")
		for _, f := range table {
			if p.opts.script.NoSocket {
				f.text = strings.ReplaceAll(f.text, ".sock", "...")
			}
			fmt.Fprintf(p.stdout, "%-39s %s\n", strings.TrimSpace(strings.ReplaceAll(f.names, ", ", ",    ")+" "+f.takes)+" ", f.text)
		}
	}
}

func find(table []flag, name string) *flag {
	for i := range table {
		if has(strings.Split(table[i].names, ", "), name) {
			return &table[i]
		}
	}
	return nil
}

// main is the long name that values are kept under.
func (f flag) main() string {
	all := strings.Split(f.names, ", ")
	return all[len(all)-1]
}
