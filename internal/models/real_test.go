package models

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// realModel returns the path of a real model.
func realModel(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" && testing.Short() {
		t.Skip("-short: the real model is not needed")
	}
	if path == "" {
		t.Fatalf("no real model: run `make test` (or set %s)", variable)
	}
	return path
}

func inspect(t *testing.T, path string) *Info {
	t.Helper()
	info, err := Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// The fields whose value is tested by itself, or is only sums of others.
func ignoreLong() cmp.Option {
	return cmpopts.IgnoreFields(Info{}, "Path", "Files", "ChatTemplate", "Quantization", "TensorBytes", "Parameters")
}

func TestInspectSmolLM2(t *testing.T) {
	info := inspect(t, realModel(t, "STOKER_TEST_MODEL_CHAT"))
	want := &Info{
		Format: FormatGGUF, FileBytes: 98_362_432, Architecture: "llama", Name: info.Name, Tensors: 272,
		TrainedContext: 8192, Embedding: 576, Layers: 30, Heads: 9, KVHeads: 3, KeyHeadSize: 64, ValueHeadSize: 64,
		Vocab: Vocab{Model: "gpt2", Pre: "smollm", Size: 49152}, HasChatTemplate: true,
		KV:              KV{FullLayers: 30, FullKeys: 30 * 3 * 64, FullValues: 30 * 3 * 64},
		KVBytesPerToken: 23040,
	}
	if diff := cmp.Diff(want, info, ignoreLong()); diff != "" {
		t.Errorf("SmolLM2 (-want +got):\n%s", diff)
	}
	if !strings.Contains(info.ChatTemplate, "<|im_start|>") {
		t.Errorf("the chat template is not ChatML: %.100q", info.ChatTemplate)
	}
	checkTypes(t, info, "Q4_1", map[string]int{"Q4_1": 210, "Q8_0": 1, "F32": 61})
	if info.Parameters != 134_515_008 {
		t.Errorf("%d parameters, want 134515008", info.Parameters)
	}
}

func TestInspectGemma3(t *testing.T) {
	info := inspect(t, realModel(t, "STOKER_TEST_MODEL_BASE"))
	want := &Info{
		Format: FormatGGUF, FileBytes: 253_113_024, Architecture: "gemma3", Name: info.Name, Tensors: info.Tensors,
		TrainedContext: 32768, Embedding: 640, Layers: 18, Heads: 4, KVHeads: 1, KeyHeadSize: 256, ValueHeadSize: 256,
		SlidingWindow: 512, Vocab: Vocab{Model: "llama", Pre: "default", Size: 262144},
		KV: KV{
			FullLayers: 3, SlidingLayers: 15, FullKeys: 3 * 256, FullValues: 3 * 256,
			SlidingKeys: 15 * 256, SlidingValues: 15 * 256, SlidingWindow: 512,
		},
		KVBytesPerToken: 3 * 256 * 2 * 2,
	}
	if diff := cmp.Diff(want, info, ignoreLong()); diff != "" {
		t.Errorf("Gemma 3 (-want +got):\n%s", diff)
	}
	types := map[string]bool{}
	for _, c := range info.Quantization.Types {
		types[c.Type] = true
	}
	if diff := cmp.Diff(map[string]bool{"Q5_0": true, "Q4_K": true, "Q8_0": true, "Q6_K": true, "F32": true}, types); diff != "" {
		t.Errorf("tensor types (-want +got):\n%s", diff)
	}
}

// checkTypes compares the counts by type and what follows from them.
func checkTypes(t *testing.T, info *Info, dominant string, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	var parameters, bytes int64
	tensors := 0
	for _, c := range info.Quantization.Types {
		got[c.Type] = c.Tensors
		tensors += c.Tensors
		parameters += c.Parameters
		bytes += c.Bytes
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tensors by type (-want +got):\n%s", diff)
	}
	if info.Quantization.Name != dominant {
		t.Errorf("quantisation %q, want %q", info.Quantization.Name, dominant)
	}
	if tensors != info.Tensors || parameters != info.Parameters || bytes != info.TensorBytes {
		t.Errorf("sums %d, %d, %d differ from %d tensors, %d parameters, %d bytes",
			tensors, parameters, bytes, info.Tensors, info.Parameters, info.TensorBytes)
	}
	if info.TensorBytes > info.FileBytes {
		t.Errorf("tensors take %d bytes in files of %d", info.TensorBytes, info.FileBytes)
	}
}
