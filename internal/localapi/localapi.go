// Package localapi is the admin surface of a running server: a few HTTP routes on a unix socket that only the server's
// own user can open. It needs no key. Package client holds its types and the other side.
//
// Serve may be called once per Server; handlers run concurrently and only read what the Backend gives them.
package localapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/stoker-llm/stoker/internal/client"
)

// Backend is what the surface shows and does.
type Backend interface {
	// Status may be called at any time and must not wait for an engine.
	Status() client.Status
	// RequestStop begins the stop and returns at once. Calling it twice is harmless.
	RequestStop()
}

// Listen makes the socket at path, mode 0600. A leftover socket is removed first: the caller holds the lock of the state
// folder, so nobody alive can own it.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove stale socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("local socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("local socket: %w", err), l.Close())
	}
	return l, nil
}

// Serve answers on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, b Backend, log *slog.Logger) error {
	srv := &http.Server{
		Handler: handler(b), ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("local socket: %w", err)
	}
	return nil
}

func handler(b Backend) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(b.Status())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body) //nolint:errcheck // the peer is gone; nobody is left to tell
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		b.RequestStop()
	})
	return mux
}
