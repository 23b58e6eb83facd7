package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/mem"
	"github.com/stoker-llm/stoker/internal/lm/pool"
)

// childWord is the role in which this program measures the embedded engine, in a process of its own like llama-bench.
const childWord = "measure-embedded"

// figures are one run's speeds in tokens/s.
type figures struct {
	Kernel                                string
	Prefill128, Prefill512, Decode, Eight float64
	Read                                  float64 // bytes/s
	WeightBytes                           int64
}

func spawn(ctx context.Context, file, mode string) (figures, error) {
	var f figures
	cmd := exec.CommandContext(ctx, os.Args[0], childWord, file, mode)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	return f, err
}

func child(file, mode string) int {
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // as lmserve does
	f, err := measureHere(context.Background(), file, mode)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "enginebench:", err)
		return 1
	}
	return 0
}

func measureHere(ctx context.Context, file, mode string) (figures, error) {
	var f figures
	n, err := lm.Measure(file, mode)
	if err != nil {
		return f, err
	}
	f.WeightBytes = n.WeightBytes
	if f.Read, err = bandwidth(); err != nil {
		return f, err
	}
	e, err := lm.Open(ctx, file, lm.Options{Mode: mode, Window: 1024, Parallel: 8})
	if err != nil {
		return f, err
	}
	defer e.Close()
	f.Kernel = e.Facts().Kernel
	if err := e.Trace(ctx, prompt(64, 0), lm.Trace{}); err != nil { // warm
		return f, err
	}
	for rows, out := range map[int]*float64{128: &f.Prefill128, 512: &f.Prefill512} {
		start := time.Now()
		if err := e.Trace(ctx, prompt(rows, 1), lm.Trace{}); err != nil {
			return f, err
		}
		*out = float64(rows) / time.Since(start).Seconds()
	}
	if f.Decode, err = streams(ctx, e, 1); err != nil {
		return f, err
	}
	f.Eight, err = streams(ctx, e, 8)
	return f, err
}

// prompt makes n tokens that no other prompt begins with.
func prompt(n, salt int) []int32 {
	t := make([]int32, n)
	for i := range t {
		t[i] = int32((i*7919 + salt*104729 + 11) % 2000)
	}
	return t
}

// decoded is how many tokens a stream writes.
const decoded = 64

// streams writes n answers at once and returns their tokens/s together, from the moment that all have begun.
func streams(ctx context.Context, e *lm.Engine, n int) (float64, error) {
	zero := 0.0
	var begun, ended sync.WaitGroup
	begun.Add(n)
	errs := make([]error, n)
	for i := range n {
		ended.Go(func() {
			tokens := make([]int, 4)
			for j, t := range prompt(4, i+2) {
				tokens[j] = int(t)
			}
			s, err := e.Generate(ctx, &infer.Request{
				Kind: infer.Completion, PromptTokens: tokens, MaxTokens: decoded + 32, IgnoreEOS: true, Sampling: infer.Sampling{Temperature: &zero},
			})
			if err != nil {
				errs[i] = err
				begun.Done()
				return
			}
			first := true
			for {
				ev, err := s.Next(ctx)
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					errs[i] = err
					return
				}
				if _, ok := ev.(infer.Text); ok && first {
					first = false
					begun.Done()
				}
			}
		})
	}
	begun.Wait()
	before, start := e.Stats().Tokens, time.Now()
	for e.Stats().Tokens < before+uint64(n*decoded) && errors.Join(errs...) == nil {
		time.Sleep(200 * time.Microsecond)
	}
	made, took := e.Stats().Tokens-before, time.Since(start)
	ended.Wait()
	return float64(made) / took.Seconds(), errors.Join(errs...)
}

// bandwidth reads memory that no cache holds, with all processors: the limit of decoding.
func bandwidth() (float64, error) {
	const size = 512 << 20
	b, err := mem.Alloc(size, "bench", nil)
	if err != nil {
		return 0, err
	}
	defer b.Free()
	all := b.Bytes()
	for i := 0; i < len(all); i += 4096 {
		all[i] = 1
	}
	p := pool.New(runtime.NumCPU())
	defer p.Close()
	s, err := kernel.Choose("")
	if err != nil {
		return 0, err
	}
	const chunk = 1 << 20
	best := 0.0
	for range 3 {
		start := time.Now()
		p.Each(size/chunk, 1, func(_, lo, hi int) { s.Read(all[lo*chunk : hi*chunk]) })
		best = max(best, size/time.Since(start).Seconds())
	}
	return best, nil
}
