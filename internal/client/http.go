package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/openai"
	"github.com/stoker-llm/stoker/internal/wire/sse"
)

// HTTP speaks to the public surface of a server in the OpenAI dialect.
type HTTP struct {
	// URL is the server's address without /v1, Key the API key or empty.
	URL string
	Key string
}

// Answer is a whole answer, with what the server said about its origin.
type Answer struct {
	Model     string           `json:"model"`
	Engine    string           `json:"engine"`
	Mode      string           `json:"mode"`
	Window    string           `json:"window"`
	RequestID string           `json:"request_id"`
	Text      string           `json:"text"`
	Reasoning string           `json:"reasoning,omitempty"`
	Stop      infer.StopReason `json:"stop"`
	Usage     infer.Usage      `json:"usage"`
}

// Generate asks model for one answer and calls each with every piece of it as it comes (it may be nil). A chat request goes
// to the chat route, a completion to the completions route. An answer that was cut off is an error, with the part that
// came in the returned Answer.
func (h *HTTP) Generate(ctx context.Context, model string, r *infer.Request, each func(infer.Event)) (*Answer, error) {
	resp, err := h.post(ctx, model, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &Answer{
		Model: model, Engine: resp.Header.Get("x-stoker-engine"), Mode: resp.Header.Get("x-stoker-mode"),
		Window: resp.Header.Get("x-stoker-window"), RequestID: resp.Header.Get("x-request-id"),
	}
	err = readEvents(resp.Body, func(ev infer.Event) {
		switch e := ev.(type) {
		case infer.Text:
			a.Text += e.Text
		case infer.Reasoning:
			a.Reasoning += e.Text
		case infer.Done:
			a.Stop, a.Usage = e.Reason, e.Usage
		}
		if each != nil {
			each(ev)
		}
	})
	return a, err
}

func (h *HTTP) post(ctx context.Context, model string, r *infer.Request) (*http.Response, error) {
	encode, path := openai.EncodeChat, "/v1/chat/completions"
	if r.Kind == infer.Completion {
		encode, path = openai.EncodeCompletion, "/v1/completions"
	}
	body, err := encode(model, r)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(h.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if h.Key != "" {
		req.Header.Set("Authorization", "Bearer "+h.Key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", h.URL, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxLocalBody))
	if err != nil {
		return nil, fmt.Errorf("read the error of %s: %w", h.URL, err)
	}
	return nil, serverError(resp.Status, b)
}

// serverError is the error in a body or event of our own server, in its words. what stands for one that has none.
func serverError(what string, body []byte) error {
	var b struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &b) == nil && b.Error.Message != "" {
		return errors.New(b.Error.Message)
	}
	return fmt.Errorf("the server failed: %s", what)
}

// chunk is an event of our own server's streams, chats and completions alike.
type chunk struct {
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// readEvents hands on what a stream of our server says, and returns nil only if its end mark came. An error event is returned as
// the error that it is.
func readEvents(body io.Reader, each func(infer.Event)) error {
	done := infer.Done{Reason: infer.StopEnd}
	for r := sse.NewReader(body, sse.Limits{}); ; {
		item, err := r.Next()
		if err != nil {
			return fmt.Errorf("the answer was cut off: %w", err)
		}
		if item.Kind != sse.Event {
			continue
		}
		if string(item.Data) == "[DONE]" {
			each(done)
			return nil
		}
		var c chunk
		if err := json.Unmarshal(item.Data, &c); err != nil {
			return fmt.Errorf("the server sent an event that cannot be read: %w", err)
		}
		if c.Error != nil {
			return serverError("the answer broke off", item.Data)
		}
		c.tell(each, &done)
	}
}

// tell hands on what the chunk says, and collects the end.
func (c *chunk) tell(each func(infer.Event), done *infer.Done) {
	for _, ch := range c.Choices {
		if ch.Delta.Reasoning != "" {
			each(infer.Reasoning{Text: ch.Delta.Reasoning})
		}
		if text := ch.Delta.Content + ch.Text; text != "" {
			each(infer.Text{Text: text})
		}
		if ch.FinishReason == "length" {
			done.Reason = infer.StopLength
		}
	}
	if u := c.Usage; u != nil {
		done.Usage = infer.Usage{Prompt: u.Prompt, Cached: u.Details.Cached, Completion: u.Completion}
	}
}
