// Command bench measures what stoker adds to an engine: `make bench` runs it. It starts the real program with an engine behind it,
// asks that same engine process directly and through stoker in turns, and prints both and the difference. First comes the scripted
// engine, which costs next to nothing, so that all there is to see is stoker; then the real llama-server with a real model.
//
// It never fails because of a figure: these are printed beside the aim. It takes about two minutes, and wants a machine that does
// nothing else.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == peerWord {
		fmt.Fprintln(os.Stderr, servePeer(os.Args[2]))
		os.Exit(1)
	}
	asJSON := flag.Bool("json", false, "print the report as JSON")
	quick := flag.Bool("quick", false, "a tenth of the work, to see that it runs")
	only := flag.Bool("scripted-only", false, "leave the real engine out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *asJSON, *quick, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, asJSON, quick, scriptedOnly bool) error {
	scale := 1
	if quick {
		scale = 10
	}
	home, err := os.MkdirTemp("", "b")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	program, err := build(ctx, home)
	if err != nil {
		return err
	}
	r := &Report{Date: time.Now().UTC().Format(time.RFC3339), Command: "make bench", Machine: machine()}
	say := func(what string) { fmt.Fprintln(os.Stderr, "bench:", what) }
	if err := scripted(ctx, home, program, scale, r, say); err != nil {
		return fmt.Errorf("scripted engine: %w", err)
	}
	if !scriptedOnly {
		if err := real(ctx, home, program, scale, r, say); err != nil {
			return fmt.Errorf("real engine: %w", err)
		}
	}
	if asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.WriteText(os.Stdout)
}
