package daemon

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/stoker-llm/stoker/internal/client"
)

// home is a server's hold on its state folder: the lock that makes it the only one, the discovery file, and the folder for
// sockets.
type home struct {
	stateDir string
	runDir   string
	lock     *flock.Flock
}

// takeHome locks the state folder, or says who has it. The lock dies with this process.
func takeHome(stateDir, runDir string) (*home, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	l := flock.New(client.LockPath(stateDir), flock.SetPermissions(0o600))
	got, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the state folder %s: %w", stateDir, err)
	}
	if !got {
		return nil, occupied(stateDir)
	}
	// Whoever was here before is dead: its discovery file is about nobody.
	if err := remove(client.DiscoveryPath(stateDir)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	h := &home{stateDir: stateDir, lock: l}
	if h.runDir, err = freshDir(runDir, stateDir); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return h, nil
}

func occupied(stateDir string) error {
	d, err := client.Find(stateDir)
	if err != nil {
		return fmt.Errorf("another stoker is starting or stopping in state folder %s; wait for it, or choose another --state-dir", stateDir)
	}
	return fmt.Errorf("stoker already runs in state folder %s: %v at %s (pid %d); use it, end it with stoker stop, or choose another --state-dir "+
		"and --port", stateDir, d.Models, d.URL, d.PID)
}

// freshDir empties and makes the folder below base for the sockets of the server that owns stateDir. Its name follows from
// stateDir, so that what a killed server left behind is removed by the next one, and it is short, since a socket's path is
// limited to about 104 bytes.
func freshDir(base, stateDir string) (string, error) {
	sum := sha256.Sum256([]byte(stateDir))
	if err := privateDir(base); err != nil {
		return "", err
	}
	dir := filepath.Join(base, hex.EncodeToString(sum[:4]))
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("folder for sockets: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("folder for sockets: %w", err)
	}
	return dir, nil
}

// privateDir makes a folder that only this user can open, or makes sure that it is one: below /tmp anybody could have made it
// first.
func privateDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("folder for sockets: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("folder for sockets: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("folder for sockets: %s is not a folder that only you can open (mode 0700); set run_dir (STOKER_RUN_DIR) to one", path)
	}
	return nil
}

// socket is the path of the local admin socket.
func (h *home) socket() string { return filepath.Join(h.runDir, "admin.sock") }

// modelDir makes a folder for one start of a model.
func (h *home) modelDir(string) (string, error) { return os.MkdirTemp(h.runDir, "m") }

// announce writes the discovery file. It appears whole or not at all.
func (h *home) announce(d client.Discovery) error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	path := client.DiscoveryPath(h.stateDir)
	tmp := path + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("discovery file: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("discovery file: %w", err)
	}
	return nil
}

// leave removes what the server put into its folders and gives the lock back, as the last thing a server does.
func (h *home) leave() error {
	return errors.Join(remove(client.DiscoveryPath(h.stateDir)), os.RemoveAll(h.runDir), h.lock.Close())
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func newInstanceID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}
