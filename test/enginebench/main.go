// Command enginebench compares stoker's own engine with llama.cpp's llama-bench and llama-server: `make bench` runs it. Both read the
// same GGUF files with the same number of threads, in turns, so that a machine that is slow for a while is slow for both. It prints
// prefill and decode tokens/s and the ratio of each pair, decode as a share of what the memory can give, what eight streams at once
// make of one, and the time and memory of a cold start.
//
// It never fails because of a figure: these are printed beside the aim. It takes about ten minutes, and wants a machine that does
// nothing else.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/internal/hw"
	"github.com/stoker-llm/stoker/internal/lm/lmserve"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == childWord {
		os.Exit(child(os.Args[2], os.Args[3]))
	}
	if lmserve.Is(os.Args[1:]) {
		os.Exit(lmserve.Main(os.Args[1:], os.Stderr))
	}
	asJSON := flag.Bool("json", false, "print the report as JSON")
	rounds := flag.Int("rounds", 5, "how often each pair is measured")
	only := flag.String("only", "", "only models whose file name holds this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *asJSON, *rounds, *only); err != nil {
		fmt.Fprintln(os.Stderr, "enginebench:", err)
		os.Exit(1)
	}
}

// Report is what was measured.
type Report struct {
	Date    string  `json:"date"`
	Machine string  `json:"machine"`
	Command string  `json:"command"`
	Rounds  int     `json:"rounds"`
	Threads int     `json:"threads"`
	Models  []Model `json:"models"`
}

// Model are the figures of one file.
type Model struct {
	File  string `json:"file"`
	Peer  string `json:"peer"`
	Modes []Mode `json:"modes"`
	// Cold are starts from nothing to the first token, of the real programs.
	Cold []Cold `json:"cold_starts,omitempty"`
}

// Mode compares one mode of the embedded engine. Speeds are medians in tokens/s; ratios are medians of the ratios of the pairs.
type Mode struct {
	Mode   string `json:"mode"`
	Kernel string `json:"kernel"`
	Pairs  []Pair `json:"pairs"`
	// Eight is the tokens/s of eight streams together, and EightRatio how many times one stream's that is.
	Eight      float64 `json:"eight_streams_tokens_per_s"`
	EightRatio float64 `json:"eight_streams_ratio"`
	// Read is what the memory gives in bytes/s, and ReadShare how much of it decoding takes: the bytes of all weights a token.
	Read      float64 `json:"read_bytes_per_s"`
	ReadShare float64 `json:"decode_share_of_reading"`
}

// Pair is one figure of both engines.
type Pair struct {
	What  string  `json:"what"`
	Own   float64 `json:"embedded"`
	Peer  float64 `json:"llama_cpp"`
	Ratio float64 `json:"ratio"`
}

// Cold is one start.
type Cold struct {
	Engine   string        `json:"engine"`
	First    time.Duration `json:"first_token_ns"`
	Resident int64         `json:"resident_bytes"`
}

func run(ctx context.Context, asJSON bool, rounds int, only string) error {
	files, err := files(only)
	if err != nil {
		return err
	}
	peer := peer{dir: filepath.Dir(os.Getenv("STOKER_TEST_LLAMA_SERVER")), threads: runtime.NumCPU()}
	r := &Report{Date: time.Now().UTC().Format(time.RFC3339), Command: "make bench", Machine: machine(), Rounds: rounds, Threads: runtime.NumCPU()}
	for _, f := range files {
		m, err := measure(ctx, f, peer, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(f), err)
		}
		r.Models = append(r.Models, *m)
	}
	if asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.WriteText(os.Stdout)
}

// files are the models to measure.
func files(only string) ([]string, error) {
	var out []string
	for _, name := range []string{"STOKER_TEST_MODEL_CHAT", "STOKER_TEST_MODEL_BASE"} {
		if p := os.Getenv(name); p != "" {
			out = append(out, p)
		}
	}
	large, err := filepath.Glob(filepath.Join(os.Getenv("STOKER_TEST_RANDOM_1B"), "*.gguf"))
	if err != nil {
		return nil, err
	}
	out = append(out, large...)
	out = slices.DeleteFunc(out, func(p string) bool { return !strings.Contains(filepath.Base(p), only) })
	if len(out) == 0 || os.Getenv("STOKER_TEST_LLAMA_SERVER") == "" {
		return nil, fmt.Errorf("no models or no llama-server: run `make bench`")
	}
	return out, nil
}

func machine() string {
	m, err := hw.Read()
	if err != nil {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	return fmt.Sprintf("%s/%s, %s, %d logical processors, %.1f GiB, %s", m.OS, m.Arch, m.CPU.Model, m.CPU.Logical,
		float64(m.Memory.Total)/(1<<30), strings.Join(m.CPU.SIMD, " "))
}

// measure takes turns: peer, exact, fast, over and over.
func measure(ctx context.Context, file string, p peer, rounds int) (*Model, error) {
	var peers []speeds
	own := map[string][]figures{}
	for i := range rounds {
		fmt.Fprintf(os.Stderr, "enginebench: %s, round %d of %d\n", filepath.Base(file), i+1, rounds)
		s, err := p.bench(ctx, file)
		if err != nil {
			return nil, err
		}
		peers = append(peers, s)
		for _, mode := range []string{"exact", "fast"} {
			f, err := spawn(ctx, file, mode)
			if err != nil {
				return nil, err
			}
			own[mode] = append(own[mode], f)
		}
	}
	m := &Model{File: filepath.Base(file), Peer: peers[0].build}
	for _, mode := range []string{"exact", "fast"} {
		m.Modes = append(m.Modes, compare(mode, own[mode], peers))
	}
	var err error
	m.Cold, err = p.coldStarts(ctx, file)
	return m, err
}

func compare(mode string, own []figures, peers []speeds) Mode {
	m := Mode{Mode: mode, Kernel: own[0].Kernel}
	whats := []struct {
		name string
		own  func(figures) float64
		peer func(speeds) float64
	}{
		{"prefill 128", func(f figures) float64 { return f.Prefill128 }, func(s speeds) float64 { return s.prefill128 }},
		{"prefill 512", func(f figures) float64 { return f.Prefill512 }, func(s speeds) float64 { return s.prefill512 }},
		{"decode", func(f figures) float64 { return f.Decode }, func(s speeds) float64 { return s.decode }},
	}
	for _, w := range whats {
		var a, b, ratio []float64
		for i, f := range own {
			a, b = append(a, w.own(f)), append(b, w.peer(peers[i]))
			ratio = append(ratio, w.own(f)/w.peer(peers[i]))
		}
		m.Pairs = append(m.Pairs, Pair{w.name, median(a), median(b), median(ratio)})
	}
	var eight, ratio, read, share []float64
	for _, f := range own {
		eight, ratio = append(eight, f.Eight), append(ratio, f.Eight/f.Decode)
		read, share = append(read, f.Read), append(share, f.Decode*float64(f.WeightBytes)/f.Read)
	}
	m.Eight, m.EightRatio, m.Read, m.ReadShare = median(eight), median(ratio), median(read), median(share)
	return m
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
