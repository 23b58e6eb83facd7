package gateway_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/engine/scripted"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/gateway"
	"github.com/stoker-llm/stoker/internal/infer"
)

// benchServer serves an engine that says n tokens at once, to 32 clients at a time.
func benchServer(b *testing.B, n int) *httptest.Server {
	b.Helper()
	var tokens []scripted.Step
	for range n {
		tokens = append(tokens, scripted.Say(" token"))
	}
	tokens = append(tokens, scripted.Finish(n))
	d := &scripted.Driver{Answer: func(*infer.Request) []scripted.Step { return tokens }}
	f, err := fleet.New(fleet.Options{
		Models: []fleet.ModelSpec{{Name: "m", Driver: d, Start: engine.StartSpec{Window: 4096, Parallel: 32}}}, QueueLimit: 1000,
		RunDir: func(string) (string, error) { return os.MkdirTemp(b.TempDir(), "r") },
	})
	if err != nil {
		b.Fatal(err)
	}
	f.Start()
	<-f.Loaded()
	srv := httptest.NewServer(gateway.New(gateway.Options{Fleet: f, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}))
	b.Cleanup(func() {
		srv.Close()
		f.Stop(b.Context())
	})
	return srv
}

func ask(b *testing.B, url string) {
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chatBody(streaming)))
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Error(err)
	}
}

// BenchmarkRequest is a whole request of one token, the client's side included.
func BenchmarkRequest(b *testing.B) {
	srv := benchServer(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		ask(b, srv.URL)
	}
}

// BenchmarkTokens is the relay of an answer of 1000 tokens from an engine that never waits.
func BenchmarkTokens(b *testing.B) {
	srv := benchServer(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		ask(b, srv.URL)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/token")
}
