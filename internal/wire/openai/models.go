package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// ModelCard describes a model that is served. In JSON it is one object for the clients of all families.
type ModelCard struct {
	// ID is the served name or an alias.
	ID string
	// Created is in seconds since 1970.
	Created int64
	OwnedBy string
	// DisplayName is for people; empty means ID.
	DisplayName string
	// Window is the tokens that one request can use, prompt and answer together; 0 when not known yet.
	Window int
	// Capabilities are words such as "completion", "tools" and "vision".
	Capabilities []string
}

// card is the JSON form. Each family of clients looks for the window under another name, so it is there under all of
// them. There is no max_tokens: where clients know that name, they read it as the longest answer.
type card struct {
	ID            string    `json:"id"`
	Object        string    `json:"object"`
	Created       int64     `json:"created"`
	OwnedBy       string    `json:"owned_by"`
	Type          string    `json:"type"`
	DisplayName   string    `json:"display_name"`
	CreatedAt     string    `json:"created_at"`
	ContextLength int       `json:"context_length,omitempty"`
	MaxModelLen   int       `json:"max_model_len,omitempty"`
	MaxInput      int       `json:"max_input_tokens,omitempty"`
	ContextWindow int       `json:"context_window,omitempty"`
	MaxContext    int       `json:"max_context_length,omitempty"`
	Meta          *cardMeta `json:"meta,omitempty"`
	Capabilities  []string  `json:"capabilities"`
}

type cardMeta struct {
	NCtx int `json:"n_ctx"`
}

// MarshalJSON writes the card.
func (c ModelCard) MarshalJSON() ([]byte, error) {
	out := card{
		ID: c.ID, Object: "model", Created: c.Created, OwnedBy: c.OwnedBy, Type: "model", DisplayName: c.DisplayName,
		CreatedAt:     time.Unix(c.Created, 0).UTC().Format(time.RFC3339),
		ContextLength: c.Window, MaxModelLen: c.Window, MaxInput: c.Window, ContextWindow: c.Window, MaxContext: c.Window,
		Capabilities: c.Capabilities,
	}
	if out.DisplayName == "" {
		out.DisplayName = c.ID
	}
	if out.Capabilities == nil {
		out.Capabilities = []string{}
	}
	if c.Window > 0 {
		out.Meta = &cardMeta{NCtx: c.Window}
	}
	return marshal(out)
}

// ModelList returns the body of the model list.
func ModelList(cards []ModelCard) ([]byte, error) {
	list := struct {
		Object  string      `json:"object"`
		Data    []ModelCard `json:"data"`
		HasMore bool        `json:"has_more"`
		FirstID *string     `json:"first_id"`
		LastID  *string     `json:"last_id"`
	}{Object: "list", Data: cards}
	if len(cards) == 0 {
		list.Data = []ModelCard{}
	} else {
		list.FirstID, list.LastID = &cards[0].ID, &cards[len(cards)-1].ID
	}
	return marshal(list)
}

// marshal is json.Marshal without the escapes for HTML, which make names hard to read.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("model card: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
