package client

import (
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
)

// Status is what a running server says of itself on its local socket.
type Status struct {
	Product    string    `json:"product"`
	Version    string    `json:"version"`
	InstanceID string    `json:"instance_id"`
	PID        int       `json:"pid"`
	StartedAt  time.Time `json:"started_at"`
	// URL is the effective address: the one that is bound, whatever was asked for.
	URL string `json:"url"`
	// State is "loading", "ok", "error" or "stopping".
	State  string        `json:"state"`
	Models []ModelStatus `json:"models"`
}

// ModelStatus is the state of one served model.
type ModelStatus struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	// State is "waiting", "loading", "serving", "restarting", "failed" or "stopped".
	State string `json:"state"`
	// Load is set while loading.
	Load *engine.LoadProgress `json:"load,omitempty"`
	// Facts are set while serving.
	Facts *engine.Facts `json:"facts,omitempty"`
	// WindowReason says where the window comes from, EngineReason why this engine was chosen.
	WindowReason string `json:"window_reason,omitempty"`
	EngineReason string `json:"engine_reason,omitempty"`
	EnginePID    int    `json:"engine_pid,omitempty"`
	Running      int    `json:"running"`
	Queued       int    `json:"queued"`
	Restarts     int    `json:"restarts"`
	// Cause and LogTail say why a model is not serving, with the engine's own last lines.
	Cause   string   `json:"cause,omitempty"`
	LogTail []string `json:"log_tail,omitempty"`
}

// Model returns the status of the model that name reaches by its served name or an exact alias, or nil.
func (s *Status) Model(name string) *ModelStatus {
	for i := range s.Models {
		m := &s.Models[i]
		if m.Name == name {
			return m
		}
		for _, a := range m.Aliases {
			if a == name {
				return m
			}
		}
	}
	return nil
}
