package llamacpp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
)

// TestReviewR4StatusBeforeTheStream: what the engine says before its first byte comes as an error of Generate, so the caller can
// still choose the status.
func TestReviewR4StatusBeforeTheStream(t *testing.T) {
	in := startScripted(t, "")
	tests := []struct {
		fault string
		kind  infer.ErrorKind
	}{
		{"status: 400", infer.ErrInvalid},
		{"status: 404", infer.ErrEngine},
		{"status: 500", infer.ErrEngine},
		{"status: 503", infer.ErrLoading},
		{"status: 502, status-body: html", infer.ErrEngine},
		{"status: 500, status-body: empty", infer.ErrEngine},
		{"status: 500, status-body: string", infer.ErrEngine},
		{"close-at: prefill", infer.ErrEngineLost},
		{"close-at: start, close-how: reset", infer.ErrEngineLost},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			st, err := in.Generate(t.Context(), chat("a @fault{"+tt.fault+"}", 8))
			if err == nil {
				// A prefill that shows progress has begun its body; then the failure is the stream's.
				_, _, err = answer(t.Context(), st)
				if !strings.HasPrefix(tt.fault, "close-at: prefill") {
					t.Errorf("Generate gave a stream")
				}
			}
			if infer.KindOf(err) != tt.kind {
				t.Errorf("error %v (%s), want %s", err, infer.KindOf(err), tt.kind)
			}
			wantWell(t, in)
		})
	}
}

// wantWell asks for a good answer.
func wantWell(t *testing.T, in *instance) {
	t.Helper()
	st, err := in.Generate(t.Context(), chat("a b", 4))
	if err != nil {
		t.Fatalf("a good request afterwards: %v", err)
	}
	if text, done, err := answer(t.Context(), st); err != nil || text != "1 a 2 b" || done.Usage.Completion != 4 {
		t.Errorf("a good request afterwards gave %q, %+v, %v", text, done, err)
	}
}

// TestFaultsInTheStream: a stream that is not whole ends with an error, never with io.EOF, and what came before it is kept.
func TestFaultsInTheStream(t *testing.T) {
	in := startScripted(t, "")
	tests := []struct {
		fault string
		kind  infer.ErrorKind
		text  string
	}{
		{"close-at: after:3", infer.ErrEngineLost, "1 a 2"},
		{"close-at: after:3, close-how: half-line", infer.ErrEngineLost, "1 a 2"},
		{"close-at: after:3, close-how: reset", infer.ErrEngineLost, "1 a 2"},
		{"close-at: final", infer.ErrEngineLost, "1 a 2 b"},
		{"bad-json-at: after:3", infer.ErrEngine, "1 a 2"},
		{"error-at: after:3", infer.ErrEngine, "1 a 2"},
		{"omit: [finish]", infer.ErrEngine, "1 a 2 b"},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			st, err := in.Generate(t.Context(), chat("a b @fault{"+tt.fault+"}", 4))
			if err != nil {
				t.Fatal(err)
			}
			text, _, err := answer(t.Context(), st)
			if k := infer.KindOf(err); k != tt.kind && (k != infer.ErrEngineLost || tt.kind != infer.ErrEngine) || text != tt.text {
				t.Errorf("%q, then %v (%s); want %q, then %s", text, err, k, tt.text, tt.kind)
			}
			wantWell(t, in)
		})
	}
}

func TestCutCharactersArriveWhole(t *testing.T) {
	in := startScripted(t, "")
	for _, how := range []string{"events", "writes"} {
		st, err := in.Generate(t.Context(), chat("x @fault{answer: 'größe 東京 🚂 ende', cut-utf8: "+how+"}", 30))
		if err != nil {
			t.Fatal(err)
		}
		if text, _, err := answer(t.Context(), st); err != nil || text != "größe 東京 🚂 ende" {
			t.Errorf("%s: %q, %v", how, text, err)
		}
	}
}

// TestReviewR18DeathKeepsTheLastWords: an engine that dies in an answer fails it with the reason, and its end is typed.
func TestReviewR18DeathKeepsTheLastWords(t *testing.T) {
	tests := []struct {
		fault  string
		reason engine.ExitReason
		says   string
	}{
		{"die-at: after:3, last-words: 'E the last words', die-how: exit:7", engine.ExitCrashed, "the last words"},
		{"die-at: prefill, die-how: kill", engine.ExitCrashed, "SIGKILL"},
		{"die-at: after:3, last-words: 'ggml: CUDA error: out of memory', die-how: abort", engine.ExitOutOfMemory, "out of memory"},
		{"die-at: final", engine.ExitCrashed, "exit status 1"},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			in := startScripted(t, "")
			start := time.Now()
			st, err := in.Generate(t.Context(), chat("a b @fault{"+tt.fault+"}", 8))
			if err == nil {
				_, _, err = answer(t.Context(), st)
			}
			if infer.KindOf(err) != infer.ErrEngineLost || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v (%s), want engine_lost with %q", err, infer.KindOf(err), tt.says)
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("the answer failed after %s", d)
			}
			select {
			case <-in.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("Done is not closed")
			}
			if e := in.State().Exit; e.Reason != tt.reason || !strings.Contains(e.Detail, tt.says) {
				t.Errorf("exit = %+v, want %s with %q", e, tt.reason, tt.says)
			}
		})
	}
}

// TestClientGone: closing a stream, or cancelling the wait for one, ends the engine's work.
func TestClientGone(t *testing.T) {
	in := startScripted(t, "")
	tests := []struct{ name, fault string }{
		{"reading the prompt", "chunk: 1, chunk-delay: 1h"},
		{"silent before a word", "silent-at: start"},
		{"writing", "token-delay: 1h"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				st, err := in.Generate(ctx, chat("a b c @fault{"+tt.fault+"}", 8))
				if err == nil {
					_, _, err = answer(ctx, st)
				}
				ended <- err
			}()
			await(t, in, func(s fakeState) bool { return s.Active == 1 })
			cancel()
			if err := <-ended; infer.KindOf(err) != infer.ErrCanceled {
				t.Errorf("error %v (%s), want canceled", err, infer.KindOf(err))
			}
			await(t, in, func(s fakeState) bool { return s.Active == 0 })
			wantWell(t, in)
		})
	}
}

type fakeState struct {
	Active, Cancelled int
}

// await polls the scripted engine until its state is as wanted.
func await(t *testing.T, in *instance, is func(fakeState) bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		var s fakeState
		if err := in.conn.fetch(t.Context(), "/fake/state", nil, &s); err != nil {
			t.Fatal(err)
		}
		if is(s) {
			return
		}
		select {
		case <-limit:
			t.Fatalf("the engine's state is %+v", s)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
