package gateway

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/stoker-llm/stoker/internal/fleet"
)

// loadingHint is when to look again at a model that is not ready.
const loadingHint = 3 * time.Second

// healthReport is the body of /health. Its fields only grow.
type healthReport struct {
	// Status is "ok" if at least one model serves, else "loading" if one may soon, else "error".
	Status     string        `json:"status"`
	Product    string        `json:"product"`
	InstanceID string        `json:"instance_id"`
	Version    string        `json:"version"`
	Models     []modelHealth `json:"models"`
}

type modelHealth struct {
	Name   string       `json:"name"`
	State  fleet.State  `json:"state"`
	Since  time.Time    `json:"since"`
	Engine string       `json:"engine"`
	Load   *loadHealth  `json:"load,omitempty"`
	Facts  *engineFacts `json:"facts,omitempty"`
	// Running and Queued count requests, Restarts the starts after the first.
	Running  int `json:"running"`
	Queued   int `json:"queued"`
	Restarts int `json:"restarts"`
	// Cause and LogTail are about the last engine that ended. They may name files, so they need the key, if there is one.
	Cause   string   `json:"cause,omitempty"`
	LogTail []string `json:"log_tail,omitempty"`
}

type loadHealth struct {
	Phase      string `json:"phase"`
	DoneBytes  int64  `json:"done_bytes"`
	TotalBytes int64  `json:"total_bytes"`
}

type engineFacts struct {
	Mode     string `json:"mode"`
	Window   int    `json:"window"`
	Parallel int    `json:"parallel"`
}

// health answers 200 if a model serves and 503 if none does, so that whoever looks at nothing but the status sends requests
// only to a server that can answer them.
func (g *Gateway) health(x *exchange) error {
	all := g.opts.Fleet.Status()
	report := healthReport{
		Status: statusOf(all), Product: "stoker", InstanceID: g.opts.InstanceID, Version: g.opts.Version, Models: []modelHealth{},
	}
	detailed := g.opts.Auth.Known(x.r.Header)
	for i := range all {
		report.Models = append(report.Models, healthOf(&all[i], detailed))
	}
	code := http.StatusOK
	if report.Status != "ok" {
		code = http.StatusServiceUnavailable
	}
	if report.Status == "loading" {
		x.w.Header().Set("Retry-After", retryAfter(loadingHint))
	}
	x.w.Header().Set("Cache-Control", "no-store")
	return x.sendJSON(code, report)
}

func statusOf(all []fleet.Status) string {
	status := "error"
	for _, st := range all {
		switch st.State {
		case fleet.Serving:
			return "ok"
		case fleet.Waiting, fleet.Loading, fleet.Restarting:
			status = "loading"
		}
	}
	return status
}

func healthOf(st *fleet.Status, detailed bool) modelHealth {
	h := modelHealth{
		Name: st.Name, State: st.State, Since: st.Since, Engine: st.Engine,
		Running: st.Running, Queued: st.Queued, Restarts: st.Restarts,
	}
	if st.State == fleet.Loading || st.State == fleet.Restarting {
		h.Load = &loadHealth{st.Load.Phase, st.Load.Done, st.Load.Total}
	}
	if f := st.Facts; f != nil {
		h.Facts = &engineFacts{f.Mode, f.Window, f.Parallel}
	}
	if detailed {
		h.Cause, h.LogTail = st.Cause, st.LogTail
	}
	return h
}

func (g *Gateway) version(x *exchange) error {
	if g.opts.Build == nil {
		return x.sendJSON(http.StatusOK, map[string]string{"product": "stoker", "version": g.opts.Version})
	}
	return x.sendJSON(http.StatusOK, g.opts.Build)
}

const helloText = `stoker: OpenAI-compatible answers from local models.

POST /v1/chat/completions   POST /v1/completions
GET  /v1/models             GET  /health    GET /version
`

func (g *Gateway) hello(x *exchange) error {
	return x.send(http.StatusOK, "text/plain; charset=utf-8", []byte(helloText))
}

func (x *exchange) sendJSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return x.send(status, "application/json", body)
}
