package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/internal/hw"
)

// build builds the program that is measured, as a release is built.
func build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "stoker")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./cmd/stoker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build stoker: %w\n%s", err, out)
	}
	return program, nil
}

func machine() string {
	m, err := hw.Read()
	if err != nil {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	return fmt.Sprintf("%s/%s, %s, %d logical processors, %.1f GiB, %s", m.OS, m.Arch, m.CPU.Model, m.CPU.Logical,
		float64(m.Memory.Total)/(1<<30), strings.Join(m.CPU.SIMD, " "))
}

// bed is a running stoker, and the two ways to its engine.
type bed struct {
	cmd    *exec.Cmd
	url    string
	engine string // version and build
	// through goes to stoker and to the peer, direct to the engine's socket.
	through, direct *http.Client
	peer            *peer
	// peerBroken counts the answers that broke off on the way through the peer.
	peerBroken int
	log        bytes.Buffer
}

// start serves a model with an engine, and finds the engine's socket.
func start(ctx context.Context, home, program, engine string, args ...string) (*bed, error) {
	run, err := os.MkdirTemp(home, "r")
	if err != nil {
		return nil, err
	}
	state := filepath.Join(run, "s")
	b := &bed{}
	b.cmd = exec.CommandContext(ctx, program, append([]string{"serve", "--port", "0", "--log-level", "error"}, args...)...)
	b.cmd.Env = append(os.Environ(), "HOME="+run, "STOKER_LLAMACPP_PATH="+engine, "STOKER_ENGINE=llamacpp", "STOKER_RUN_DIR="+filepath.Join(run, "k"), "STOKER_STATE_DIR="+state)
	b.cmd.Stdout, b.cmd.Stderr = &b.log, &b.log
	b.cmd.Cancel = func() error { return b.cmd.Process.Signal(os.Interrupt) }
	b.cmd.WaitDelay = 15 * time.Second
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	if err := b.await(ctx, state); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	sockets, err := filepath.Glob(filepath.Join(run, "k", "*", "m*", "llama.sock"))
	if err != nil || len(sockets) != 1 {
		return nil, errors.Join(fmt.Errorf("%d engine sockets found, want 1 (%w)", len(sockets), err), b.stop())
	}
	if b.peer, err = startPeer(ctx, sockets[0]); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	b.through = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	b.direct = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sockets[0])
	}}}
	return b, nil
}

func (b *bed) await(ctx context.Context, state string) error {
	limit := time.Now().Add(2 * time.Minute)
	for time.Now().Before(limit) && ctx.Err() == nil {
		if l, err := client.Open(state); err == nil {
			st, err := l.Status(ctx)
			l.Close()
			if err == nil && st.State == "ok" {
				b.url = st.URL
				b.engine = st.Models[0].Facts.Engine + " " + st.Models[0].Facts.Build
				return nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("stoker does not serve:\n%s", b.log.String())
}

func (b *bed) stop() error {
	if b.peer != nil {
		b.peer.stop()
	}
	b.cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may be gone
	if err := b.cmd.Wait(); err != nil {
		return fmt.Errorf("stoker ended with %w\n%s", err, b.log.String())
	}
	return nil
}

// cpu is the processor time that stoker has used.
func (b *bed) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	const tick = 10 * time.Millisecond // Linux's USER_HZ is 100 everywhere
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// memory is what stoker holds now, and the most that it held, in bytes.
func (b *bed) memory() (now, peak int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(f[1], 10, 64)
		switch {
		case f[0] == "VmRSS:" && err == nil:
			now = kib << 10
		case f[0] == "VmHWM:" && err == nil:
			peak = kib << 10
		}
	}
	return now, peak, nil
}

// chat is a request's body. model is left out for the engine itself.
func chat(model, text string, tokens int, stream map[string]any) []byte {
	body := map[string]any{
		"stream": true, "temperature": 0, "max_tokens": tokens, "messages": []any{map[string]string{"role": "user", "content": text}},
	}
	if model != "" {
		body["model"] = model
	}
	for k, v := range stream {
		body[k] = v
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}
