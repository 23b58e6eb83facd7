package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/bench"
	"github.com/stoker-llm/stoker/test/kit"
)

// way is one of the ways to the engine: directly, through stoker, and through the peer, which only passes bytes on. It is the same question, in the words that each expects. The first byte of both is that of the
// first token: stoker does not pass the engine's progress events on, so the engine is not asked for them directly.
type way struct {
	b  *bed
	by string
}

// The ways.
const (
	direct  = "direct"
	through = "through stoker"
	byPeer  = "through the peer"
)

var ways = []string{direct, through, byPeer}

func (w way) ask(ctx context.Context, text string, tokens int, more map[string]any) (bench.Sample, error) {
	switch w.by {
	case through:
		return bench.Stream(ctx, w.b.through, w.b.url+"/v1/chat/completions", chat("m", text, tokens, more))
	case byPeer:
		return bench.Stream(ctx, w.b.through, w.b.peer.url+"/v1/chat/completions", chat("", text, tokens, more))
	}
	return bench.Stream(ctx, w.b.direct, "http://engine/v1/chat/completions", chat("", text, tokens, more))
}

// firstBytes asks n times each way in turns, streams at once, and returns the times to the first byte.
func firstBytes(ctx context.Context, b *bed, n, streams int, text string, tokens int) (map[string][]time.Duration, error) {
	round := func(w way) ([]time.Duration, error) {
		var mu sync.Mutex
		var times []time.Duration
		var errs error
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() {
				// Clients do not start in the same microsecond.
				time.Sleep(time.Duration(i) * 3 * time.Millisecond * time.Duration(min(1, streams-1)))
				s, err := w.ask(ctx, text, tokens, nil)
				mu.Lock()
				defer mu.Unlock()
				if err != nil && w.by == byPeer {
					b.peerBroken++ // the peer's own trouble must not end the run; it is printed
					return
				}
				if err != nil {
					err = fmt.Errorf("%s: %w", w.by, err)
				}
				times, errs = append(times, s.First), errors.Join(errs, err)
			})
		}
		wg.Wait()
		return times, errs
	}
	all := map[string][]time.Duration{}
	for i := range n + n/10 {
		for _, by := range ways {
			times, err := round(way{b, by})
			if err != nil {
				return nil, err
			}
			if i >= n/10 { // the rest is warm-up
				all[by] = append(all[by], times...)
			}
		}
	}
	return all, nil
}

// relay asks rounds times each way in turns for a long answer, streams at once, and returns tokens/s each time and stoker's processor
// time per 1,000 tokens.
func relay(ctx context.Context, b *bed, rounds, streams, tokens int, text string, more map[string]any) (map[string][]float64, time.Duration, error) {
	burst := func(w way) (float64, int, error) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var errs error
		total := 0
		start := time.Now()
		for range streams {
			wg.Go(func() {
				_, err := w.ask(ctx, text, tokens, more)
				mu.Lock()
				defer mu.Unlock()
				if err != nil && w.by == byPeer {
					b.peerBroken++
					return
				}
				errs = errors.Join(errs, err)
				total += tokens
			})
		}
		wg.Wait()
		return float64(total) / time.Since(start).Seconds(), total, errs
	}
	before, err := b.cpu()
	if err != nil {
		return nil, 0, err
	}
	relayed := 0
	speeds := map[string][]float64{}
	for range rounds {
		for _, by := range ways {
			speed, n, err := burst(way{b, by})
			if err != nil {
				return nil, 0, err
			}
			speeds[by] = append(speeds[by], speed)
			if by == through {
				relayed += n
			}
		}
	}
	after, err := b.cpu()
	return speeds, (after - before) * 1000 / time.Duration(max(relayed, 1)), err
}

func scripted(ctx context.Context, home, program string, scale int, r *Report, say func(string)) error {
	engine, err := kit.WriteFakeLlama(home, program, "tokens: 1000000\n")
	if err != nil {
		return err
	}
	model := filepath.Join(home, "m.gguf")
	if err := kit.WriteModel(model, true); err != nil {
		return err
	}
	b, err := start(ctx, home, program, engine, model, "--parallel", "32")
	if err != nil {
		return err
	}
	r.Scripted.Engine = b.engine
	idle, _, err := b.memory()
	if err != nil {
		return errors.Join(err, b.stop())
	}
	say("scripted engine: time to first byte, one stream")
	t, err := firstBytes(ctx, b, 2000/scale, 1, "hello", 1)
	if err != nil {
		return errors.Join(err, b.stop())
	}
	r.Scripted.First1 = compare(t)
	say("scripted engine: time to first byte, 32 streams of 20 tokens/s")
	if t, err = firstBytes(ctx, b, max(2, 12/scale), 32, "hello @fault{token-delay: 50ms}", 20); err != nil {
		return errors.Join(err, b.stop())
	}
	r.Scripted.First32 = compare(t)
	say("scripted engine: as fast as it can, one stream and eight")
	if err := r.Scripted.relays(ctx, b, scale); err != nil {
		return errors.Join(err, b.stop())
	}
	if _, r.PeakMemory, err = b.memory(); err != nil {
		return errors.Join(err, b.stop())
	}
	r.IdleMemory = idle
	r.PeerBroken += b.peerBroken
	return b.stop()
}

func (e *EngineReport) relays(ctx context.Context, b *bed, scale int) error {
	s, cpu, err := relay(ctx, b, 7, 1, 20000/scale, "hello", nil)
	if err != nil {
		return err
	}
	e.Relay1 = ratios(s, cpu)
	if s, cpu, err = relay(ctx, b, 7, 8, 200/scale, "hello @fault{token-delay: 10ms}", nil); err != nil {
		return err
	}
	e.Relay8 = ratios(s, cpu)
	return nil
}

func real(ctx context.Context, home, program string, scale int, r *Report, say func(string)) error {
	engine, model := os.Getenv("STOKER_TEST_LLAMA_SERVER"), os.Getenv("STOKER_TEST_MODEL_CHAT")
	if engine == "" || model == "" {
		return errors.New("STOKER_TEST_LLAMA_SERVER and STOKER_TEST_MODEL_CHAT are not set: run `make bench`")
	}
	b, err := start(ctx, home, program, engine, model, "--served-model-name", "m", "--ctx", "2k", "--parallel", "1")
	if err != nil {
		return err
	}
	r.Real.Engine = b.engine + ", " + filepath.Base(model)
	say("llama-server: time to first byte")
	t, err := firstBytes(ctx, b, 60/min(scale, 6), 1, "Say hello.", 1)
	if err != nil {
		return errors.Join(err, b.stop())
	}
	r.Real.First1 = compare(t)
	say("llama-server: answers of 128 tokens")
	s, cpu, err := relay(ctx, b, max(2, 7/scale), 1, 128, "Tell a story about a mill.", map[string]any{"ignore_eos": true})
	if err != nil {
		return errors.Join(err, b.stop())
	}
	r.Real.Relay1 = ratios(s, cpu)
	r.PeerBroken += b.peerBroken
	return b.stop()
}

func compare(times map[string][]time.Duration) *FirstByte {
	d, t, p := bench.Summarize(times[direct]), bench.Summarize(times[through]), bench.Summarize(times[byPeer])
	return &FirstByte{
		N: d.N, Direct50: d.P50, Direct99: d.P99, Through50: t.P50, Through99: t.P99, Added50: t.P50 - d.P50, Added99: t.P99 - d.P99,
		PeerAdded50: p.P50 - d.P50, PeerAdded99: p.P99 - d.P99,
	}
}

func ratios(speeds map[string][]float64, cpu time.Duration) *Relay {
	d := speeds[direct]
	ratio := func(by string) float64 {
		pairs := make([]float64, len(d))
		for i := range d {
			pairs[i] = speeds[by][i] / d[i]
		}
		return bench.Median(pairs)
	}
	return &Relay{
		Rounds: len(d), Direct: bench.Median(d), Through: bench.Median(speeds[through]), Ratio: ratio(through), PeerRatio: ratio(byPeer), CPUPer1000: cpu,
	}
}
