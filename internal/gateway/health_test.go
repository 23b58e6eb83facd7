package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/infer"
)

type health struct {
	Status, Product, Version string
	InstanceID               string `json:"instance_id"`
	Models                   []struct {
		Name, State, Engine, Cause string
		Load                       *struct {
			Phase string
			Done  int64 `json:"done_bytes"`
			Total int64 `json:"total_bytes"`
		}
		Facts *struct {
			Mode             string
			Window, Parallel int
		}
		LogTail []string `json:"log_tail"`
	}
}

func (b *bed) health(header ...string) (reply, health) {
	b.t.Helper()
	r := b.do("GET", "/health", "", header...)
	var h health
	if err := json.Unmarshal([]byte(r.body), &h); err != nil {
		b.t.Fatal(err)
	}
	return r, h
}

func TestHealthServing(t *testing.T) {
	r, h := start(t, plan{}).health()
	if r.status != 200 || h.Status != "ok" || h.Product != "stoker" || h.InstanceID != "i-1" || h.Version != "v-test" {
		t.Errorf("%d: %s", r.status, r.body)
	}
	m := h.Models[0]
	if m.Name != "m" || m.State != "serving" || m.Engine != "scripted" || m.Facts == nil || m.Facts.Window != 4096 || m.Load != nil {
		t.Errorf("model: %s", r.body)
	}
}

func TestHealthLoading(t *testing.T) {
	ready := make(chan struct{})
	d := &scripted.Driver{Load: func(ctx context.Context, _ int, s engine.StartSpec) error {
		s.OnLoad(engine.LoadProgress{Phase: "weights", Done: 1, Total: 3})
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	b := start(t, plan{driver: d, loading: true})
	waitFor(t, "the load begins", func() bool { return b.fleet.Status()[0].Load.Total == 3 })
	r, h := b.health()
	if l := h.Models[0].Load; r.status != 503 || h.Status != "loading" || l == nil || l.Phase != "weights" || l.Done != 1 || l.Total != 3 {
		t.Errorf("%d: %s", r.status, r.body)
	}
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	for _, mode := range []string{streaming, `"stream":false`} {
		got := b.chat(mode)
		got.wantError(t, 503, "server_is_overloaded", "loading", "weights")
		if got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	b.do("GET", "/v1/models", "").wantError(t, 503, "server_is_overloaded", "loading")
	b.do("GET", "/v1/models/m", "").wantError(t, 503, "server_is_overloaded", "loading")
	close(ready)
	<-b.fleet.Loaded()
	if r, _ := b.health(); r.status != 200 {
		t.Errorf("after the load: %d", r.status)
	}
}

// The last words of a dead engine stay visible, for those who may see them.
func TestReviewR18LastWordsStayInHealth(t *testing.T) {
	const key = "sk-right"
	b := start(t, plan{driver: steps(scripted.Say("a"), scripted.Crash(
		engine.Exit{Reason: engine.ExitCrashed, Code: 134, Detail: "GGML_ASSERT failed"}, "loading /secret/place/m.gguf", "GGML_ASSERT failed")), key: key})
	b.do("POST", "/v1/chat/completions", chatBody(), "X-Api-Key", key).wantError(t, 502, "engine_error", "GGML_ASSERT")
	waitFor(t, "the model fails", func() bool { return b.fleet.Status()[0].State == fleet.Failed })
	r, h := b.health("X-Api-Key", key)
	if r.status != 503 || h.Status != "error" || h.Models[0].State != "failed" || !strings.Contains(h.Models[0].Cause, "GGML_ASSERT") {
		t.Errorf("%d: %s", r.status, r.body)
	}
	if diff := cmp.Diff([]string{"loading /secret/place/m.gguf", "GGML_ASSERT failed"}, h.Models[0].LogTail); diff != "" {
		t.Error(diff)
	}
	r, h = b.health()
	if r.status != 503 || h.Status != "error" || h.Models[0].State != "failed" {
		t.Errorf("without the key: %d %s", r.status, r.body)
	}
	if strings.Contains(r.body, "secret") || strings.Contains(r.body, "GGML") {
		t.Errorf("without the key the details are shown: %s", r.body)
	}
}

func TestHealthFailedLoad(t *testing.T) {
	d := &scripted.Driver{Load: func(context.Context, int, engine.StartSpec) error {
		return infer.Errorf(infer.ErrUnsupported, "", "unknown architecture in /secret/place/m.gguf")
	}}
	b := start(t, plan{driver: d})
	r, h := b.health()
	if r.status != 503 || h.Status != "error" || !strings.Contains(h.Models[0].Cause, "unknown architecture") {
		t.Errorf("%d: %s", r.status, r.body)
	}
	b.chat().wantError(t, 503, "server_is_overloaded", "unknown architecture")
	b.do("GET", "/v1/models", "").wantError(t, 503, "server_is_overloaded")
}

// One of two: the server is of use, and says which is not.
func TestHealthOfSeveral(t *testing.T) {
	bad := &scripted.Driver{Load: func(context.Context, int, engine.StartSpec) error { return infer.Errorf(infer.ErrEngine, "", "no") }}
	b := start(t, plan{more: []fleet.ModelSpec{{Name: "n", Driver: bad}}})
	r, h := b.health()
	if r.status != 200 || h.Status != "ok" || h.Models[1].State != "failed" {
		t.Errorf("%d: %s", r.status, r.body)
	}
	if got := modelIDs(t, b); cmp.Diff([]string{"m"}, got) != "" {
		t.Errorf("listed: %q", got)
	}
}

func modelIDs(t *testing.T, b *bed) []string {
	t.Helper()
	r := b.do("GET", "/v1/models", "")
	var l struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(r.body), &l); err != nil || r.status != 200 {
		t.Fatalf("%d %v: %s", r.status, err, r.body)
	}
	var ids []string
	for _, m := range l.Data {
		ids = append(ids, m.ID)
	}
	return ids
}

// The window is there under every name that clients read, is the one that holds, and no output cap is taken for it.
func TestCaseM1WindowOfModels(t *testing.T) {
	b := start(t, plan{alias: []string{"org/alias", "claude-*"}, driver: &scripted.Driver{Facts: engine.Facts{Window: 2048}}})
	if diff := cmp.Diff([]string{"m", "org/alias"}, modelIDs(t, b)); diff != "" {
		t.Errorf("listed: %s", diff)
	}
	for _, path := range []string{"/v1/models/m", "/v1/models/org/alias", "/v1/models/org%2Falias", "/v1/models/claude-x"} {
		r := b.do("GET", path, "")
		var card map[string]any
		if err := json.Unmarshal([]byte(r.body), &card); err != nil || r.status != 200 {
			t.Fatalf("%d %v: %s", r.status, err, r.body)
		}
		for _, name := range []string{"context_length", "max_model_len", "max_input_tokens", "context_window", "max_context_length"} {
			if card[name] != float64(2048) {
				t.Errorf("%s: %s is %v", path, name, card[name])
			}
		}
		if card["meta"].(map[string]any)["n_ctx"] != float64(2048) {
			t.Errorf("%s: meta is %v", path, card["meta"])
		}
		if _, has := card["max_tokens"]; has {
			t.Errorf("%s: has max_tokens", path)
		}
		if want := strings.ReplaceAll(strings.TrimPrefix(path, "/v1/models/"), "%2F", "/"); card["id"] != want {
			t.Errorf("%s: id %v", path, card["id"])
		}
	}
}

func TestVersionAndHello(t *testing.T) {
	b := start(t, plan{key: "k"})
	if r := b.do("GET", "/version", ""); !strings.Contains(r.body, "v-test") {
		t.Errorf("version: %s", r.body)
	}
	if r := b.do("GET", "/", ""); !strings.Contains(r.body, "/v1/chat/completions") {
		t.Errorf("hello: %s", r.body)
	}
}
