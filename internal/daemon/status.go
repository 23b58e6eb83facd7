package daemon

import (
	"context"
	"os"

	"github.com/stoker-llm/stoker/internal/buildinfo"
	"github.com/stoker-llm/stoker/internal/client"
	"github.com/stoker-llm/stoker/internal/fleet"
	"github.com/stoker-llm/stoker/internal/localapi"
)

var _ localapi.Backend = (*server)(nil)

// RequestStop implements localapi.Backend.
func (s *server) RequestStop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// Status implements localapi.Backend.
func (s *server) Status() client.Status {
	all := s.fleet.Status()
	st := client.Status{
		Product: buildinfo.Product, Version: buildinfo.Get().Version, InstanceID: s.id, PID: os.Getpid(), StartedAt: s.started, URL: s.url,
		State: s.state(all), Models: make([]client.ModelStatus, len(all)),
	}
	for i := range all {
		st.Models[i] = modelStatus(&all[i])
	}
	return st
}

// state sums up the models: one that serves makes the server useful.
func (s *server) state(all []fleet.Status) string {
	select {
	case <-s.stopping:
		return "stopping"
	default:
	}
	sum := "error"
	for _, m := range all {
		switch m.State {
		case fleet.Serving:
			return "ok"
		case fleet.Failed, fleet.Stopped:
		default:
			sum = "loading"
		}
	}
	return sum
}

func modelStatus(f *fleet.Status) client.ModelStatus {
	m := client.ModelStatus{
		Name: f.Name, Aliases: f.Aliases, State: string(f.State), Facts: f.Facts, EnginePID: f.PID, Running: f.Running, Queued: f.Queued,
		Restarts: f.Restarts, EngineReason: f.EngineReason, WindowReason: f.WindowReason, Cause: f.Cause, LogTail: f.LogTail,
	}
	if f.State == fleet.Loading || f.State == fleet.Restarting {
		load := f.Load
		m.Load = &load
	}
	return m
}

// discovery is what the discovery file says of this server.
func (s *server) discovery() client.Discovery {
	d := client.Discovery{
		Product: buildinfo.Product, Version: buildinfo.Get().Version, InstanceID: s.id, PID: os.Getpid(), StartedAt: s.started, URL: s.url,
		Socket: s.home.socket(),
	}
	for _, m := range s.fleet.Status() {
		d.Models = append(d.Models, m.Name)
	}
	return d
}

// notify passes each change of the status on, until ctx ends.
func (s *server) notify(ctx context.Context) {
	if s.in.Notify == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			s.in.Notify(s.Status())
		}
	}
}
