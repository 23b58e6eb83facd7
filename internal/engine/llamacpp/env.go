package llamacpp

import (
	"slices"
	"strings"
)

// mediaMarker stands for an image in a prompt. Left alone, the server makes a random one per process, which would make
// equal prompts differ between two starts.
const mediaMarker = "<__stoker_media__>"

// droppedPrefixes begin the names of variables that change what the engine does or that it has no business with.
var droppedPrefixes = []string{
	"LLAMA_", "GGML_", "MTMD_", "LLGUIDANCE_", // its own settings
	"AIP_",                                 // makes it serve Vertex AI's routes on another port
	"HF_", "HUGGING_FACE_", "HUGGINGFACE_", // download settings and tokens
}

// droppedNames are single variables of the same kinds. Proxies go because the engine runs offline: it fetches nothing.
var droppedNames = []string{
	"XDG_CONFIG_HOME", "MODEL_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY",
}

// secretWords mark variables that hold credentials. An engine needs none.
var secretWords = []string{"API_KEY", "APIKEY", "_TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"}

// scrub returns parent without the variables that an engine must not see, and with those that every start sets.
// configHome is a folder without a llama.cpp/config.ini; it need not exist.
func scrub(parent []string, configHome string, extra ...string) []string {
	env := make([]string, 0, len(parent)+3+len(extra))
	for _, kv := range parent {
		name, _, ok := strings.Cut(kv, "=")
		if ok && !dropped(strings.ToUpper(name)) {
			env = append(env, kv)
		}
	}
	env = append(env,
		"XDG_CONFIG_HOME="+configHome,
		// On an abort, ggml attaches gdb where it is installed and dies half a second later.
		"GGML_NO_BACKTRACE=1",
		"LLAMA_MEDIA_MARKER="+mediaMarker,
	)
	return append(env, extra...)
}

// dropped reports whether the variable called name (in capitals) is kept from the engine.
func dropped(name string) bool {
	has := func(p string) bool { return strings.HasPrefix(name, p) }
	in := func(w string) bool { return strings.Contains(name, w) }
	return slices.Contains(droppedNames, name) || slices.ContainsFunc(droppedPrefixes, has) || slices.ContainsFunc(secretWords, in)
}
