package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/internal/config"
	"github.com/stoker-llm/stoker/internal/infer"
)

type runCmd struct {
	settingFlags
	Model       string   `arg:"" help:"A model file or folder, or a model's name. A running server that serves the name is used."`
	Prompt      string   `arg:"" optional:"" help:"The prompt; - reads it from standard input."`
	System      string   `help:"A system message before the prompt."`
	MaxTokens   int      `name:"max-tokens" help:"End the answer after this many tokens; 0 means up to the window."`
	Temperature *float64 `help:"Sampling temperature; 0 takes the likeliest token each time. Unset: the engine's own default."`
	Seed        *int64   `help:"Sampling seed."`
	Raw         bool     `help:"Continue the prompt as it is, without the chat template."`
}

// Run answers one prompt. The answer streams to stdout, progress to stderr.
func (c *runCmd) Run(e *env) error {
	prompt, err := c.prompt(e)
	if err != nil {
		return err
	}
	cfg, err := e.load(c.settingFlags)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	s, stop, err := c.server(ctx, e, cfg)
	if err != nil {
		return err
	}
	err = c.answer(ctx, e, cfg, s, prompt)
	return errors.Join(err, stop())
}

func (c *runCmd) prompt(e *env) (string, error) {
	switch c.Prompt {
	case "-":
		b, err := io.ReadAll(e.Stdin)
		if err != nil {
			return "", fmt.Errorf("read the prompt from standard input: %w", err)
		}
		if strings.TrimSpace(string(b)) == "" {
			return "", usageError{errors.New("the prompt on standard input is empty")}
		}
		return strings.TrimSuffix(string(b), "\n"), nil
	case "":
		return "", usageError{errors.New(`no prompt: give one behind the model, such as stoker run MODEL "Say hello.", or - to read standard input`)}
	}
	return c.Prompt, nil
}

// served is the one model that answers.
type served struct {
	url   string
	model *client.ModelStatus
}

// server finds the running server that serves the model, or becomes one for this command. stop ends what was started.
func (c *runCmd) server(ctx context.Context, e *env, cfg *config.Config) (*served, func() error, error) {
	nothing := func() error { return nil }
	s, err := e.status(cfg.StateDir)
	if err == nil {
		if m := s.Model(c.Model); m != nil && m.Facts != nil {
			return &served{s.URL, m}, nothing, nil
		}
	} else if !errors.Is(err, client.ErrNotRunning) {
		fmt.Fprintf(e.Stderr, "the running server cannot be used: %v\n", err)
	}
	return c.start(ctx, e, cfg)
}

// start serves the model from this process until stop is called.
func (c *runCmd) start(ctx context.Context, e *env, cfg *config.Config) (*served, func() error, error) {
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan *served, 1), make(chan error, 1)
	progress := newProgress(e)
	go func() {
		ended <- e.Verbs.Serve(ctx, ServeInput{
			Config: cfg, Models: []string{c.Model}, Ephemeral: true, LogTo: io.Discard,
			Notify: func(s client.Status) {
				progress.show(&s)
				if len(s.Models) == 1 && s.Models[0].Facts != nil {
					select {
					case ready <- &served{s.URL, &s.Models[0]}:
					default:
					}
				}
			},
		})
	}()
	stop := func() error { cancel(); return <-ended }
	select {
	case s := <-ready:
		progress.end()
		return s, stop, nil
	case err := <-ended:
		cancel()
		if err == nil {
			err = context.Canceled
		}
		return nil, nil, err
	}
}

func (c *runCmd) request(s *served, prompt string) *infer.Request {
	r := &infer.Request{
		MaxTokens: c.MaxTokens, Sampling: infer.Sampling{Temperature: c.Temperature, Seed: c.Seed},
	}
	if c.Raw || !s.model.Facts.Caps.Chat {
		r.Kind, r.Prompt = infer.Completion, prompt
		return r
	}
	r.Kind = infer.Chat
	if c.System != "" {
		r.Messages = append(r.Messages, infer.Message{Role: infer.System, Parts: []infer.Part{{Text: c.System}}})
	}
	r.Messages = append(r.Messages, infer.Message{Role: infer.User, Parts: []infer.Part{{Text: prompt}}})
	return r
}

func (c *runCmd) answer(ctx context.Context, e *env, cfg *config.Config, s *served, prompt string) error {
	r := c.request(s, prompt)
	if r.Kind == infer.Completion && !c.Raw {
		fmt.Fprintf(e.Stderr, "%s has no chat template: continuing the prompt as it is\n", s.model.Name)
		if c.System != "" {
			return usageError{fmt.Errorf("--system needs a chat template, and %s has none", s.model.Name)}
		}
	}
	h := &client.HTTP{URL: s.url, Key: cfg.APIKey.Reveal()}
	start := time.Now()
	a, err := h.Generate(ctx, s.model.Name, r, func(ev infer.Event) {
		if t, ok := ev.(infer.Text); ok && !e.json {
			io.WriteString(e.Stdout, t.Text) //nolint:errcheck // a closed stdout ends the program by itself
		}
	})
	if !e.json {
		fmt.Fprintln(e.Stdout)
	}
	if err != nil {
		return err
	}
	if e.json {
		return e.showJSON(a)
	}
	if a.Stop == infer.StopLength {
		fmt.Fprintln(e.Stderr, "the answer was ended by its token limit, not by the model")
	}
	fmt.Fprintf(e.Stderr, "%d prompt and %d answer tokens in %s · %s, %s arithmetic, window %s\n", a.Usage.Prompt, a.Usage.Completion,
		time.Since(start).Round(time.Millisecond), a.Engine, a.Mode, a.Window)
	return nil
}
