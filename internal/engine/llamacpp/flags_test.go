package llamacpp

import (
	"errors"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// oldHelp is a build from before most of the settings existed, with other spellings and a switch in place of a value.
const oldHelp = `-m,    --model FNAME                    model path
-c,    --ctx-size N                     size of the prompt context
-fa,   --flash-attn                     enable Flash Attention
-np,   --parallel N                     number of parallel sequences
--host HOST                             ip address to listen
--port PORT                             port to listen
--no-webui                              disable the Web UI
--no-context-shift                      disables context shift
`

func TestArgs(t *testing.T) {
	base := startPlan{modelPath: "/m/x.gguf", servedName: "a,b", window: 4096, parallel: 3, threads: 2, host: "/run/e/llama.sock", weights: 100 << 20}
	port := base
	port.host, port.port = "127.0.0.1", 20001
	gpu := base
	gpu.devices = []engine.Device{{Name: "CUDA0"}}
	big := base
	big.weights = 8 << 30
	tests := []struct {
		name string
		help string
		plan startPlan
		user []engine.Option
		want []string // each must be in the command line, as one run of words
		not  []string
	}{
		{
			name: "explicit window and slots", help: recordedHelp(t), plan: base,
			want: []string{
				"--model /m/x.gguf", "--alias a_b", "--host /run/e/llama.sock", "--ctx-size 12288", "--parallel 3", "--no-kv-unified", "--cache-type-k f16",
				"--cache-type-v f16", "--flash-attn auto", "--fit off", "--batch-size 64", "--ubatch-size 64", "--poll 0", "--cache-ram 512", "--ctx-checkpoints 4",
				"--no-context-shift", "--jinja", "--reasoning-format deepseek", "--no-slots", "--no-ui", "--offline", "--sse-ping-interval 5", "--threads 2",
			},
			not: []string{"--port", "--n-gpu-layers", "--tools"},
		},
		{name: "old build gets what it knows", help: oldHelp, plan: port, want: []string{"--port 20001", "--no-webui", "--no-context-shift", "--ctx-size 12288"}, not: []string{"--fit", "--flash-attn", "--cache-ram", "--jinja", "--alias"}},
		{name: "GPU", help: recordedHelp(t), plan: gpu, want: []string{"--n-gpu-layers 999", "--batch-size 2048", "--ubatch-size 512"}},
		{name: "larger model on a CPU", help: recordedHelp(t), plan: big, want: []string{"--batch-size 32"}},
		{
			name: "the user's value replaces ours", help: recordedHelp(t), plan: gpu,
			user: []engine.Option{{Key: "ngl", Value: "7"}, {Key: "threads", Value: "1"}, {Key: "threads", Value: "5"}, {Key: "warmup", Value: "false"}},
			want: []string{"-ngl 7", "--threads 5", "--no-warmup"}, not: []string{"--n-gpu-layers", "--threads 2", "--threads 1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := parseHelp(tt.help)
			user, err := userOptions(fs, tt.user)
			if err != nil {
				t.Fatal(err)
			}
			words, err := args(fs, tt.plan.settings(), user)
			if err != nil {
				t.Fatal(err)
			}
			line := " " + strings.Join(words, " ") + " "
			for _, w := range tt.want {
				if strings.Count(line, " "+w+" ") != 1 {
					t.Errorf("%q is not there once in %s", w, line)
				}
			}
			for _, w := range tt.not {
				if strings.Contains(line, " "+w+" ") {
					t.Errorf("%q is in %s", w, line)
				}
			}
		})
	}
}

func TestArgsRefusesSharedWindow(t *testing.T) {
	_, err := args(parseHelp(oldHelp+"-kvu,  --kv-unified                     use one KV buffer\n"), startPlan{}.settings(), nil)
	if infer.KindOf(err) != infer.ErrUnsupported || !strings.Contains(err.Error(), "--no-kv-unified") {
		t.Errorf("err = %v, want one that names --no-kv-unified", err)
	}
}

func TestUserOptionsRefused(t *testing.T) {
	tests := []struct{ key, value, want string }{
		{"host", "0.0.0.0", "address"},
		{"--port", "1", "address"},
		{"m", "x.gguf", "model"},
		{"ctx_size", "9", "--ctx"},
		{"np", "9", "--parallel"},
		{"no-kv-unified", "", "window"},
		{"tools", "all", "does not let"},
		{"media-path", "/", "does not let"},
		{"thread", "4", "threads"},
		{"draft-max", "4", "--spec-draft-n-max"},
		{"no-such-thing-at-all", "4", "no such setting"},
		{"threads", "", "needs a value"},
		{"warmup", "maybe", "true or false"},
		{"lora", "/no/such/file", "/no/such/file"},
	}
	fs := parseHelp(recordedHelp(t))
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			_, err := userOptions(fs, []engine.Option{{Key: tt.key, Value: tt.value}})
			e, ok := errors.AsType[*infer.Error](err)
			if !ok || e.Kind != infer.ErrInvalid || e.Param != tt.key {
				t.Fatalf("err = %#v, want an invalid %s", err, tt.key)
			}
			if !strings.Contains(e.Message, tt.want) || !strings.Contains(e.Message, tt.key) {
				t.Errorf("message = %q, want %q and %q in it", e.Message, tt.key, tt.want)
			}
		})
	}
}
