package llamacpp

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/nearest"
)

// userOption is a setting of the user (--engine-arg key=value) that was checked against the build.
type userOption struct {
	flag *flag
	args []string
}

// allowedOptions are the settings that a user may change: they trade speed, memory and style and break no promise of the
// driver. Names are the long ones without dashes. Others are refused, so that a new flag of llama.cpp is looked at before
// it is let through.
var allowedOptions = strings.Fields(`
	threads threads-batch threads-http cpu-mask cpu-range cpu-strict prio poll numa
	batch-size ubatch-size swa-full flash-attn cache-type-k cache-type-v
	n-gpu-layers device split-mode tensor-split main-gpu override-tensor cpu-moe n-cpu-moe n-cpu-ffn
	kv-offload op-offload repack no-host load-mode lazy-mode mmap mlock direct-io check-tensors warmup
	cache-ram cache-prompt cache-reuse cache-idle-slots ctx-checkpoints checkpoint-min-step slot-prompt-similarity
	rope-scaling rope-scale rope-freq-base rope-freq-scale
	yarn-orig-ctx yarn-ext-factor yarn-attn-factor yarn-beta-slow yarn-beta-fast override-kv
	lora lora-scaled lora-init-without-apply control-vector control-vector-scaled
	mmproj mmproj-auto mmproj-offload image-min-tokens image-max-tokens
	chat-template chat-template-file chat-template-kwargs prefill-assistant
	reasoning reasoning-effort reasoning-budget reasoning-budget-message reasoning-preserve
	samplers sampler-seq seed temperature temp top-k top-p min-p top-n-sigma typical-p repeat-last-n repeat-penalty
	presence-penalty frequency-penalty dry-multiplier dry-base dry-allowed-length dry-penalty-last-n
	xtc-probability xtc-threshold dynatemp-range dynatemp-exp mirostat mirostat-lr mirostat-ent
	adaptive-target adaptive-decay backend-sampling
	spec-type spec-default spec-draft-model spec-draft-n-max spec-draft-n-min spec-draft-p-min spec-draft-p-split
	spec-draft-ngl spec-draft-device spec-draft-type-k spec-draft-type-v spec-draft-threads
	spec-draft-sampling spec-draft-backend-sampling
	spec-ngram-mod-n-match spec-ngram-mod-n-min spec-ngram-mod-n-max model-draft draft-max draft-min draft-p-min
	log-verbosity verbosity
`)

// pathOptions name files, which are looked for before the start: the engine would say the same later and less clearly.
var pathOptions = []string{"lora", "mmproj", "chat-template-file", "spec-draft-model", "model-draft", "control-vector"}

// ownedOptions are set by stoker; the text says by what.
var ownedOptions = map[string]string{
	"model": "the model is chosen by its name", "alias": "the served name is --served-model-name",
	"ctx-size": "the window is --ctx", "parallel": "the number of requests at once is --parallel",
	"host": "stoker gives the engine an address of its own", "port": "stoker gives the engine an address of its own",
	"kv-unified": "each request has a window of its own", "context-shift": "nothing is cut from a request silently",
	"fit": "stoker plans the memory", "reasoning-format": "clients get thinking apart from the answer",
	"jinja": "chat templates need it", "offline": "an engine downloads nothing",
}

// userOptions checks the user's options against the build. Every error names the option and the way out.
func userOptions(fs flagSet, opts []engine.Option) ([]userOption, error) {
	var out []userOption
	seen := map[*flag]int{}
	for _, o := range opts {
		u, err := userOptionOf(fs, o)
		if err != nil {
			return nil, err
		}
		if i, ok := seen[u.flag]; ok {
			out[i] = u // the last of two wins, as everywhere
			continue
		}
		seen[u.flag] = len(out)
		out = append(out, u)
	}
	return out, nil
}

func userOptionOf(fs flagSet, o engine.Option) (userOption, error) {
	key := strings.ReplaceAll(strings.TrimLeft(o.Key, "-"), "_", "-")
	refuse := func(format string, args ...any) (userOption, error) {
		return userOption{}, infer.Errorf(infer.ErrInvalid, o.Key, "--engine-arg "+o.Key+": "+format, args...)
	}
	f := fs.get("--"+key, "-"+key)
	if f == nil {
		for name, why := range fs.removed {
			if strings.TrimLeft(name, "-") == key {
				return refuse("%s", why)
			}
		}
		return refuse("this llama-server has no such setting%s", didYouMean(key, fs))
	}
	if why := ownedBy(f); why != "" {
		return refuse("not for the user: %s", why)
	}
	if !isAllowed(f) {
		return refuse("stoker does not let this setting through")
	}
	spelled := "--" + key
	if fs.byName[spelled] == nil {
		spelled = "-" + key
	}
	words, err := optionArgs(f, spelled, o.Value)
	if err != nil {
		return refuse("%v", err)
	}
	if err := checkFiles(f, o.Value); err != nil {
		return refuse("%v", err)
	}
	return userOption{flag: f, args: words}, nil
}

// optionArgs spells an option for the command line.
func optionArgs(f *flag, spelled, value string) ([]string, error) {
	if f.value != "" {
		if value == "" {
			return nil, fmt.Errorf("needs a value, %s", f.value)
		}
		return []string{spelled, value}, nil
	}
	on := true
	switch strings.ToLower(value) {
	case "", "true", "on", "1", "yes":
	case "false", "off", "0", "no":
		on = false
	default:
		return nil, fmt.Errorf("is a switch: true or false, not %q", value)
	}
	if strings.HasPrefix(spelled, "--no-") {
		on = !on
	}
	switch name := f.positive(); {
	case on && name != "":
		return []string{name}, nil
	case !on && f.negative() != "":
		return []string{f.negative()}, nil
	}
	return nil, fmt.Errorf("cannot be switched that way in this build; it knows %s", strings.Join(f.names, ", "))
}

// checkFiles looks for the files that an option names.
func checkFiles(f *flag, value string) error {
	if !slices.ContainsFunc(f.names, func(n string) bool { return slices.Contains(pathOptions, strings.TrimLeft(n, "-")) }) {
		return nil
	}
	for path := range strings.SplitSeq(value, ",") {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	return nil
}

// isAllowed reports whether users may set f.
func isAllowed(f *flag) bool {
	return slices.ContainsFunc(f.names, func(n string) bool {
		n = strings.TrimPrefix(strings.TrimLeft(n, "-"), "no-")
		return len(n) > 3 && slices.Contains(allowedOptions, n)
	})
}

// ownedBy says what sets f in the user's place, "" for nothing.
func ownedBy(f *flag) string {
	for _, n := range f.names {
		if why, ok := ownedOptions[strings.TrimPrefix(strings.TrimLeft(n, "-"), "no-")]; ok {
			return why
		}
	}
	return ""
}

// didYouMean names settings of the build close to key.
func didYouMean(key string, fs flagSet) string {
	var known []string
	for _, f := range fs.byName {
		if isAllowed(f) {
			known = append(known, f.long())
		}
	}
	slices.Sort(known)
	near := nearest.Of(key, slices.Compact(known))
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(near, ", ") + "?"
}
