package llamacpp

import (
	"slices"
	"strings"
	"testing"
)

func TestScrub(t *testing.T) {
	parent := []string{
		"PATH=/bin", "HOME=/home/x", "LD_LIBRARY_PATH=/opt/lib", "CUDA_VISIBLE_DEVICES=1", "LANG=C", "EMPTY=",
		"LLAMA_ARG_PORT=1", "llama_arg_host=0.0.0.0", "LLAMA_SERVER_ROUTER_PORT=1", "GGML_VK_VISIBLE_DEVICES=0", "MTMD_BACKEND_DEVICE=x",
		"AIP_MODE=PREDICTION", "HF_TOKEN=secret", "HF_HOME=/x", "XDG_CONFIG_HOME=/home/x/.config",
		"http_proxy=http://p", "HTTPS_PROXY=http://p", "no_proxy=*",
		"STOKER_API_KEY=secret", "OPENAI_API_KEY=secret", "AWS_SECRET_ACCESS_KEY=secret", "GITHUB_TOKEN=secret", "DB_PASSWORD=secret",
		"malformed",
	}
	got := scrub(parent, "/run/none", "LLAMA_API_KEY=ours")
	want := []string{
		"PATH=/bin", "HOME=/home/x", "LD_LIBRARY_PATH=/opt/lib", "CUDA_VISIBLE_DEVICES=1", "LANG=C", "EMPTY=",
		"XDG_CONFIG_HOME=/run/none", "GGML_NO_BACKTRACE=1", "LLAMA_MEDIA_MARKER=" + mediaMarker, "LLAMA_API_KEY=ours",
	}
	if !slices.Equal(got, want) {
		t.Errorf("scrub =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
