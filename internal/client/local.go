package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/stoker-llm/stoker/internal/buildinfo"
)

// Local speaks to one running server over its local socket.
type Local struct {
	found *Discovery
	http  *http.Client
}

// maxLocalBody bounds what is read from the local socket: a status is a few kilobytes, its log tails included.
const maxLocalBody = 8 << 20

// Open finds the server that owns stateDir. It returns ErrNotRunning when there is none.
func Open(stateDir string) (*Local, error) {
	d, err := Find(stateDir)
	if err != nil {
		return nil, err
	}
	return Dial(d), nil
}

// Dial returns a client for a discovered server. No connection is made yet.
func Dial(d *Discovery) *Local {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.Socket)
	}
	return &Local{found: d, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Discovery returns what the discovery file said.
func (l *Local) Discovery() Discovery { return *l.found }

// Close drops idle connections.
func (l *Local) Close() { l.http.CloseIdleConnections() }

// Status asks the server for its state, and makes sure that the one who answers is the one that was discovered.
func (l *Local) Status(ctx context.Context) (*Status, error) {
	var s Status
	if err := l.call(ctx, http.MethodGet, "/status", &s); err != nil {
		return nil, err
	}
	if s.Product != buildinfo.Product || s.InstanceID != l.found.InstanceID {
		return nil, fmt.Errorf("socket %s is answered by %s instance %q, not by the discovered %q", l.found.Socket, s.Product, s.InstanceID,
			l.found.InstanceID)
	}
	return &s, nil
}

// Stop asks the server to stop and returns when it accepted. AwaitGone waits for the end.
func (l *Local) Stop(ctx context.Context) error { return l.call(ctx, http.MethodPost, "/stop", nil) }

// AwaitGone returns when the server released the lock of stateDir, which is the last thing it does, or when another
// instance has it.
func (l *Local) AwaitGone(ctx context.Context, stateDir string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		held, err := lockHeld(stateDir)
		if err != nil {
			return err
		}
		if !held {
			return nil
		}
		if d, err := Find(stateDir); err == nil && d.InstanceID != l.found.InstanceID {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("instance %s (pid %d) is still there: %w", l.found.InstanceID, l.found.PID, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (l *Local) call(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://stoker"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the server on %s: %w", l.found.Socket, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxLocalBody))
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(b))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
