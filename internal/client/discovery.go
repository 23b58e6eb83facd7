package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/stoker-llm/stoker/internal/buildinfo"
)

// Discovery is the content of the discovery file: who serves from a state folder, and where.
type Discovery struct {
	Product    string    `json:"product"`
	Version    string    `json:"version"`
	InstanceID string    `json:"instance_id"`
	PID        int       `json:"pid"`
	StartedAt  time.Time `json:"started_at"`
	URL        string    `json:"url"`
	Socket     string    `json:"socket"`
	Models     []string  `json:"models"`
}

// ErrNotRunning means that no server owns the state folder.
var ErrNotRunning = errors.New("no stoker server is running")

// DiscoveryPath and LockPath name the files of a state folder. The lock is held by the running server for its whole life
// and is released by the system when it dies; the discovery file counts only while the lock is held.
func DiscoveryPath(stateDir string) string { return filepath.Join(stateDir, "server.json") }

// LockPath names the lock file of a state folder.
func LockPath(stateDir string) string { return filepath.Join(stateDir, "server.lock") }

// Find reads the discovery file of the server that owns stateDir. It returns ErrNotRunning when nobody holds the lock,
// even if a dead server left its file behind.
func Find(stateDir string) (*Discovery, error) {
	held, err := lockHeld(stateDir)
	if err != nil {
		return nil, err
	}
	if !held {
		return nil, fmt.Errorf("%w in state folder %s", ErrNotRunning, stateDir)
	}
	path := DiscoveryPath(stateDir)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w yet in state folder %s: one is starting or stopping", ErrNotRunning, stateDir)
	}
	if err != nil {
		return nil, fmt.Errorf("read discovery file: %w", err)
	}
	var d Discovery
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("discovery file %s: %w", path, err)
	}
	if d.Product != buildinfo.Product || d.Socket == "" {
		return nil, fmt.Errorf("discovery file %s is not from stoker (product %q)", path, d.Product)
	}
	return &d, nil
}

// lockHeld reports whether some process holds the lock of stateDir.
func lockHeld(stateDir string) (bool, error) {
	path := LockPath(stateDir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	l := flock.New(path)
	got, err := l.TryRLock()
	if err != nil {
		return false, fmt.Errorf("look at lock %s: %w", path, err)
	}
	if got {
		return false, l.Close()
	}
	return true, nil
}
