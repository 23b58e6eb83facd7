// Package store is the cache of assets on disk, outside the source tree.
//
// An asset lives in a folder named after it and the digest of its recipe, so a
// changed recipe is a new folder and two checkouts can share one cache. [Store.Get]
// returns the folder, and builds it first if it is not there: in a work folder,
// which is renamed into place when it is whole. A folder that exists is therefore
// complete. The work folder outlives a failure or an interruption, so that the
// next try goes on from there.
//
// Get may be called by several goroutines and several processes: a file lock per
// asset lets one build while the others wait. A slow build holds up only those
// who want the same asset.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// manifestName is the file in each finished folder that says what it holds.
const manifestName = "asset.json"

// lockRetry is how often a waiting process looks whether the lock is free.
const lockRetry = 250 * time.Millisecond

// Key names one version of one asset.
type Key struct {
	Name   string
	Digest string // of the recipe, hexadecimal
}

// NewKey makes the key of a recipe: any value that encodes as JSON and holds
// all that decides what the finished asset contains.
func NewKey(name string, recipe any) (Key, error) {
	b, err := json.Marshal(recipe)
	if err != nil {
		return Key{}, fmt.Errorf("recipe of %s: %w", name, err)
	}
	sum := sha256.Sum256(b)
	return Key{Name: name, Digest: hex.EncodeToString(sum[:])}, nil
}

// Folder is the name of the asset's folder in the cache.
func (k Key) Folder() string { return k.Name + "-" + k.Digest[:12] }

// Manifest is written beside each finished asset, for people and for tests.
type Manifest struct {
	Name    string            `json:"name"`
	Digest  string            `json:"digest"`
	Recipe  any               `json:"recipe"`
	Seconds float64           `json:"seconds"`           // time the last build run took
	Details map[string]string `json:"details,omitempty"` // what the build found out: versions, compiler
}

// Store is a cache rooted at one folder.
type Store struct {
	root string
}

// New makes a Store at root, an absolute path. The folder is made when needed.
func New(root string) *Store { return &Store{root: root} }

// Root is the folder of the cache.
func (s *Store) Root() string { return s.root }

// Path is where the finished asset is or will be.
func (s *Store) Path(k Key) string { return filepath.Join(s.root, k.Folder()) }

// LogPath is the file that records what building the asset printed.
func (s *Store) LogPath(k Key) string { return filepath.Join(s.root, "logs", k.Folder()+".log") }

func (s *Store) workPath(k Key) string { return filepath.Join(s.root, "work", k.Folder()) }

func (s *Store) lockPath(k Key) string { return filepath.Join(s.root, "locks", k.Folder()+".lock") }

// Has reports whether the finished asset is there.
func (s *Store) Has(k Key) bool {
	_, err := os.Stat(filepath.Join(s.Path(k), manifestName))
	return err == nil
}

// Work is what a build function gets.
type Work struct {
	// Dir keeps what is worth keeping after an interruption: downloads, object
	// files. It is removed when the asset is finished.
	Dir string
	// Out becomes the asset. It is empty at the start of each build.
	Out string
	// Final is where Out will be when the build is done.
	Final string
	// Log receives the output of the programs that the build runs.
	Log *os.File
	// Details go into the manifest.
	Details map[string]string
}

// Request is one call of Get.
type Request struct {
	Key     Key
	Recipe  any
	Waiting func() // called once if another process holds the lock
	Build   func(ctx context.Context, w *Work) error
}

// Get returns the asset's folder, building it if it is not there.
func (s *Store) Get(ctx context.Context, r Request) (string, error) {
	if s.Has(r.Key) {
		return s.Path(r.Key), nil
	}
	unlock, err := s.lock(ctx, r)
	if err != nil {
		return "", err
	}
	defer unlock()
	if !s.Has(r.Key) { // another process may have finished it while we waited
		if err := s.build(ctx, r); err != nil {
			return "", err
		}
	}
	return s.Path(r.Key), nil
}

// lock waits for the asset's lock. The lock belongs to the open file, so it goes
// away with a process that dies.
func (s *Store) lock(ctx context.Context, r Request) (unlock func(), err error) {
	path := s.lockPath(r.Key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	l := flock.New(path)
	got, err := l.TryLock()
	if err == nil && !got {
		if r.Waiting != nil {
			r.Waiting()
		}
		_, err = l.TryLockContext(ctx, lockRetry)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = l.Unlock() }, nil // the process ending would release it too
}

func (s *Store) build(ctx context.Context, r Request) error {
	w, err := s.open(r.Key)
	if err != nil {
		return err
	}
	defer w.Log.Close()
	started := time.Now()
	if err := r.Build(ctx, w); err != nil {
		return err
	}
	m := Manifest{
		Name: r.Key.Name, Digest: r.Key.Digest, Recipe: r.Recipe,
		Seconds: time.Since(started).Round(time.Millisecond).Seconds(), Details: w.Details,
	}
	if err := writeJSON(filepath.Join(w.Out, manifestName), m); err != nil {
		return err
	}
	return s.publish(r.Key, w)
}

// open prepares the work folder, keeping what an earlier try left in it.
func (s *Store) open(k Key) (*Work, error) {
	w := &Work{Dir: s.workPath(k), Final: s.Path(k), Details: map[string]string{}}
	w.Out = filepath.Join(w.Dir, "out")
	if err := os.RemoveAll(w.Out); err != nil {
		return nil, err
	}
	for _, dir := range []string{w.Out, filepath.Dir(s.LogPath(k))} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(s.LogPath(k), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	w.Log = log
	return w, nil
}

// publish renames the finished folder into place and drops the work folder. A
// folder without a manifest at that place can only be damage, so it gives way.
func (s *Store) publish(k Key, w *Work) error {
	if err := os.RemoveAll(w.Final); err != nil {
		return err
	}
	if err := os.Rename(w.Out, w.Final); err != nil {
		return err
	}
	return os.RemoveAll(w.Dir)
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// ReadManifest reads the manifest of a finished asset. [fs.ErrNotExist] means that
// the asset is not there.
func (s *Store) ReadManifest(k Key) (Manifest, error) {
	var m Manifest
	b, err := os.ReadFile(filepath.Join(s.Path(k), manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s is not in the cache: %w", k.Name, err)
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(s.Path(k), manifestName), err)
	}
	return m, nil
}
