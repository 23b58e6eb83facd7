package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/native"
)

// peer is llama.cpp, from the folder of its programs.
type peer struct {
	dir     string
	threads int
}

// speeds are one run of llama-bench, in tokens/s.
type speeds struct {
	build                          string
	prefill128, prefill512, decode float64
}

func (p peer) bench(ctx context.Context, file string) (speeds, error) {
	var s speeds
	cmd := exec.CommandContext(ctx, filepath.Join(p.dir, "llama-bench"), "-m", file, "-p", "128,512", "-n", strconv.Itoa(decoded), "-r", "1",
		"-t", strconv.Itoa(p.threads), "-o", "json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("llama-bench: %w\n%s", err, stderr.String())
	}
	var rows []struct {
		Build  int     `json:"build_number"`
		Prompt int     `json:"n_prompt"`
		Gen    int     `json:"n_gen"`
		Speed  float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return s, fmt.Errorf("llama-bench: %w", err)
	}
	for _, r := range rows {
		s.build = fmt.Sprintf("llama.cpp b%d", r.Build)
		switch {
		case r.Prompt == 128:
			s.prefill128 = r.Speed
		case r.Prompt == 512:
			s.prefill512 = r.Speed
		case r.Gen > 0:
			s.decode = r.Speed
		}
	}
	if s.prefill128 == 0 || s.prefill512 == 0 || s.decode == 0 {
		return s, fmt.Errorf("llama-bench left something out: %s", out)
	}
	return s, nil
}

// coldStarts starts each program and asks for one token: from the start of the process to its first token.
func (p peer) coldStarts(ctx context.Context, file string) ([]Cold, error) {
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ask, err := native.EncodeRequest(&infer.Request{Kind: infer.Completion, PromptTokens: []int{5, 6, 7}, MaxTokens: 1})
	if err != nil {
		return nil, err
	}
	var out []Cold
	for _, start := range []struct {
		name, path string
		body       string
		args       []string
	}{
		{
			"embedded", "/generate", string(ask),
			[]string{os.Args[0], "lm", "--model", file, "--socket", filepath.Join(dir, "own.sock"), "--window", "2048"},
		},
		{
			"llama-server", "/completion", `{"prompt":[5,6,7],"n_predict":1}`,
			[]string{
				filepath.Join(p.dir, "llama-server"), "-m", file, "--host", filepath.Join(dir, "llama.sock"), "-c", "2048", "-np", "1",
				"-t", strconv.Itoa(p.threads),
			},
		},
	} {
		c, err := cold(ctx, start.name, start.path, start.body, start.args)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func cold(ctx context.Context, name, path, body string, args []string) (Cold, error) {
	socket := ""
	for _, a := range args {
		if strings.HasSuffix(a, ".sock") {
			socket = a
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	c := Cold{Engine: name}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return c, err
	}
	defer cmd.Wait()                       //nolint:errcheck // it was told to end
	defer cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may be gone
	for limit := start.Add(time.Minute); ; {
		err := one(ctx, client, path, body)
		if err == nil {
			break
		}
		if time.Now().After(limit) {
			return c, fmt.Errorf("%s gives no token within a minute: %w", name, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	c.First = time.Since(start)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		return c, nil // not every system tells
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			c.Resident = kib << 10
			return c, err
		}
	}
	return c, nil
}

func one(ctx context.Context, client *http.Client, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status + " " + string(b))
	}
	return err
}
