package fake

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// flag is a flag of the played engine. A takes of "" is a switch.
type flag struct {
	names       string // comma separated, the main one last
	takes, text string
}

// llamaFlags are flags of llama-server. Their layout in --help is llama-server's.
var llamaFlags = [...]flag{
	{"-h, --help", "", "print usage and exit"},
	{"--version", "", "show version and build info"},
	{"--list-devices", "", "print list of available devices and exit"},
	{"-m, --model", "FNAME", "model path to load"},
	{"-a, --alias", "STRING", "set model name aliases, comma-separated (to be used by API)"},
	{"--host", "HOST", "ip address to listen, or bind to an UNIX socket if the address ends with .sock"},
	{"--port", "PORT", "port to listen"},
	{"-c, --ctx-size", "N", "size of the prompt context"},
	{"-n, --predict, --n-predict", "N", "number of tokens to predict"},
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
	{"--cache-prompt, --no-cache-prompt", "", "whether to enable prompt caching"},
	{"--cache-reuse", "N", "min chunk size to attempt reusing from the cache"},
	{"--context-shift, --no-context-shift", "", "whether to use context shift on infinite text generation"},
	{"--swa-full", "", "use full-size SWA cache"},
	{"--jinja, --no-jinja", "", "use jinja template for chat"},
	{"--chat-template", "TEMPLATE", "set custom jinja chat template"},
	{"--chat-template-file", "FNAME", "set custom jinja chat template file"},
	{"--chat-template-kwargs", "STRING", "additional parameters for the jinja template"},
	{"--reasoning-format", "FORMAT", "controls whether thought tags are extracted"},
	{"--reasoning-budget", "N", "controls the amount of thinking allowed"},
	{"--slots, --no-slots", "", "expose slots monitoring endpoint"},
	{"--slot-save-path", "PATH", "path to save slot kv cache"},
	{"--metrics", "", "enable prometheus compatible metrics endpoint"},
	{"--props", "", "enable changing global properties via POST /props"},
	{"--ui, --no-ui", "", "whether to enable the Web UI"},
	{"--offline", "", "offline mode: prevents network access"},
	{"--sse-ping-interval", "N", "SSE ping interval in seconds"},
	{"-to, --timeout", "N", "server read/write timeout in seconds"},
	{"--threads-http", "N", "number of threads used to process HTTP requests"},
	{"-t, --threads", "N", "number of CPU threads to use during generation"},
	{"-tb, --threads-batch", "N", "number of threads to use during batch and prompt processing"},
	{"--poll", "<0...100>", "use polling level to wait for work"},
	{"-ngl, --gpu-layers, --n-gpu-layers", "N", "max. number of layers to store in VRAM"},
	{"-sm, --split-mode", "{none,layer,row,tensor}", "how to split the model across multiple GPUs"},
	{"-ts, --tensor-split", "N0,N1,N2,...", "fraction of the model to offload to each GPU"},
	{"-mg, --main-gpu", "INDEX", "the GPU to use for the model"},
	{"-dev, --device", "<dev1,dev2,..>", "comma-separated list of devices to use for offloading"},
	{"-ot, --override-tensor", "PATTERN", "override tensor buffer type"},
	{"--mlock", "", "force system to keep model in RAM"},
	{"--mmap, --no-mmap", "", "whether to memory-map model"},
	{"-mm, --mmproj", "FILE", "path to a multimodal projector file"},
	{"--lora", "FNAME", "path to LoRA adapter"},
	{"-s, --seed", "SEED", "RNG seed"},
	{"--temp, --temperature", "N", "temperature"},
	{"-lv, --verbosity", "N", "set the verbosity threshold"},
	{"--log-file", "FNAME", "set log file"},
	{"--log-prefix, --no-log-prefix", "", "enable prefix in log messages"},
	{"--api-key", "KEY", "API key to use for authentication"},
}

// mlxFlags are the flags of mlx_lm.server.
var mlxFlags = [...]flag{
	{"-h, --help", "", "show this help message and exit"},
	{"--model", "MODEL", "the path to the MLX model"},
	{"--adapter-path", "ADAPTER_PATH", "optional path for the trained adapter weights and config"},
	{"--host", "HOST", "host for the HTTP server"},
	{"--port", "PORT", "port for the HTTP server"},
	{"--allowed-origins", "ALLOWED_ORIGINS", "allowed origins"},
	{"--draft-model", "DRAFT_MODEL", "a model to be used for speculative decoding"},
	{"--num-draft-tokens", "NUM_DRAFT_TOKENS", "number of tokens to draft when using speculative decoding"},
	{"--trust-remote-code", "", "enable trusting remote code for tokenizer"},
	{"--log-level", "{DEBUG,INFO,WARNING,ERROR,CRITICAL}", "set the logging level"},
	{"--chat-template", "CHAT_TEMPLATE", "specify a chat template for the tokenizer"},
	{"--use-default-chat-template", "", "use the default chat template"},
	{"--temp", "TEMP", "default sampling temperature"},
	{"--top-p", "TOP_P", "default nucleus sampling top-p"},
	{"--top-k", "TOP_K", "default top-k sampling"},
	{"--min-p", "MIN_P", "default min-p sampling"},
	{"--max-tokens", "MAX_TOKENS", "default maximum number of tokens to generate"},
	{"--chat-template-args", "CHAT_TEMPLATE_ARGS", "a JSON formatted string of arguments for the tokenizer's apply_chat_template"},
	{"--decode-concurrency", "DECODE_CONCURRENCY", "when a request is batchable, decode that many in parallel"},
	{"--prompt-concurrency", "PROMPT_CONCURRENCY", "when a request is batchable, process that many prompts in parallel"},
	{"--prefill-step-size", "PREFILL_STEP_SIZE", "step size for prefill"},
	{"--prompt-cache-size", "PROMPT_CACHE_SIZE", "maximum number of distinct KV caches to hold"},
	{"--prompt-cache-bytes", "PROMPT_CACHE_BYTES", "maximum size in bytes of the KV caches"},
	{"--kv-bits", "KV_BITS", "number of bits for KV cache quantization"},
	{"--kv-group-size", "KV_GROUP_SIZE", "group size for KV cache quantization"},
	{"--quantized-kv-start", "QUANTIZED_KV_START", "step to begin using a quantized KV cache"},
	{"--pipeline", "", "use pipelining instead of tensor parallelism"},
}

// engineFlags reads the words behind --. done reports that the process has nothing more to do.
func (p *process) engineFlags() (values map[string]string, code int, done bool) {
	if p.opts.as == LM {
		return p.lmFlags()
	}
	values = map[string]string{"--host": "127.0.0.1", "--port": "8080", "--parallel": "1", "--api-key": os.Getenv("LLAMA_API_KEY")}
	table := llamaFlags[:]
	if p.opts.as == MLX {
		table = mlxFlags[:]
		values["--parallel"] = "32" // it answers that many at once
	}
	words := p.opts.engine
	for i := 0; i < len(words); i++ {
		word, value, joined := words[i], "", false
		if p.opts.as == MLX {
			word, value, joined = strings.Cut(word, "=")
		}
		f := find(table, word)
		if f == nil {
			return nil, p.complain("invalid argument: "+words[i], "unrecognized arguments: "+words[i]), true
		}
		name := f.main()
		switch {
		case name == "--help" || name == "--version" || name == "--list-devices":
			p.tell(name, table)
			return nil, 0, true
		case f.takes == "":
			values[name] = strconv.FormatBool(!strings.HasPrefix(word, "--no-") && !strings.HasPrefix(word, "-no-"))
		case joined:
			values[name] = value
		case i+1 >= len(words):
			return nil, p.complain("expected value for argument: "+word, "argument "+word+": expected one argument"), true
		default:
			i++
			values[name] = words[i]
		}
	}
	return values, 0, false
}

// complain says what is wrong with the flags, as the played engine does, and returns its exit status.
func (p *process) complain(llama, mlx string) int {
	if p.opts.as == MLX {
		fmt.Fprintf(p.stderr, "usage: mlx_lm.server [-h] [--model MODEL] ...\nmlx_lm.server: error: %s\n", mlx)
		return 2
	}
	fmt.Fprintf(p.stderr, "error: %s\n", llama)
	return 1
}

func (p *process) tell(what string, table []flag) {
	switch what {
	case "--version":
		fmt.Fprintln(p.stderr, "version: 0.0.0-fake (build 0, commit fake)\nbuilt with nothing for nothing")
	case "--list-devices":
		fmt.Fprintln(p.stdout, "Available devices:\n  (none)")
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

// main is the last name that does not switch off: values are kept under it.
func (f flag) main() string {
	all := strings.Split(f.names, ", ")
	for i := len(all) - 1; i > 0; i-- {
		if !strings.HasPrefix(all[i], "--no-") && !strings.HasPrefix(all[i], "-no-") {
			return all[i]
		}
	}
	return all[0]
}
