package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func key(t *testing.T, recipe any) Key {
	t.Helper()
	k, err := NewKey("thing", recipe)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// writes is a build that puts text into the file called "file".
func writes(text string) func(context.Context, *Work) error {
	return func(_ context.Context, w *Work) error {
		return os.WriteFile(filepath.Join(w.Out, "file"), []byte(text), 0o644)
	}
}

func TestKeyFollowsTheRecipe(t *testing.T) {
	type recipe struct {
		Flags []string
		CPU   string
	}
	base := recipe{Flags: []string{"-O3"}, CPU: "zen3"}
	a, b := key(t, base), key(t, base)
	if a != b {
		t.Errorf("equal recipes have the keys %v and %v", a, b)
	}
	for name, other := range map[string]recipe{
		"flags": {Flags: []string{"-O2"}, CPU: "zen3"},
		"cpu":   {Flags: []string{"-O3"}, CPU: "zen4"},
	} {
		if key(t, other).Folder() == a.Folder() {
			t.Errorf("other %s, same folder %s", name, a.Folder())
		}
	}
	if _, err := NewKey("thing", func() {}); err == nil {
		t.Error("a recipe that does not encode has a key")
	}
}

func TestGetBuildsOnceAndLeavesNothingElse(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "cache"))
	builds := 0
	req := Request{Key: key(t, 1), Recipe: 1, Build: func(ctx context.Context, w *Work) error {
		builds++
		w.Details["compiler"] = "cc 1"
		return writes("content")(ctx, w)
	}}
	for range 2 {
		dir, err := s.Get(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if dir != s.Path(req.Key) {
			t.Errorf("folder %s, want %s", dir, s.Path(req.Key))
		}
	}
	if builds != 1 {
		t.Errorf("built %d times, want once", builds)
	}
	if b, err := os.ReadFile(filepath.Join(s.Path(req.Key), "file")); err != nil || string(b) != "content" {
		t.Errorf("read %q, %v", b, err)
	}
	if exists(s.workPath(req.Key)) {
		t.Error("the work folder is still there")
	}
	m, err := s.ReadManifest(req.Key)
	if err != nil || m.Digest != req.Key.Digest || m.Details["compiler"] != "cc 1" {
		t.Errorf("manifest %+v, %v", m, err)
	}
}

func TestFailedBuildIsNoAssetAndGoesOnLater(t *testing.T) {
	s := New(t.TempDir())
	broken := errors.New("broken")
	req := Request{Key: key(t, 1), Build: func(_ context.Context, w *Work) error {
		if err := os.WriteFile(filepath.Join(w.Dir, "object"), []byte("half"), 0o644); err != nil {
			return err
		}
		if err := writes("wrong")(t.Context(), w); err != nil {
			return err
		}
		return broken
	}}
	if _, err := s.Get(t.Context(), req); !errors.Is(err, broken) {
		t.Fatalf("got %v, want the build's error", err)
	}
	if s.Has(req.Key) || exists(s.Path(req.Key)) {
		t.Error("a failed build left an asset")
	}
	if _, err := s.ReadManifest(req.Key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("manifest of nothing: %v", err)
	}
	req.Build = func(_ context.Context, w *Work) error {
		if b, err := os.ReadFile(filepath.Join(w.Dir, "object")); err != nil || string(b) != "half" {
			t.Errorf("the first try's work is lost: %q, %v", b, err)
		}
		if exists(filepath.Join(w.Out, "file")) {
			t.Error("the first try's output is still there")
		}
		return nil
	}
	if _, err := s.Get(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func TestFolderWithoutManifestIsReplaced(t *testing.T) {
	s := New(t.TempDir())
	k := key(t, 1)
	if err := os.MkdirAll(filepath.Join(s.Path(k), "stale"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), Request{Key: k, Build: writes("new")}); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(s.Path(k), "stale")) || !exists(filepath.Join(s.Path(k), "file")) {
		t.Error("the damaged folder was not replaced")
	}
}

// Each Get opens the lock file anew, so two of them exclude each other within a
// process just as two processes do.
func TestSecondWaitsForTheFirst(t *testing.T) {
	root := t.TempDir()
	started, finish := make(chan struct{}), make(chan struct{})
	waiting := make(chan struct{})
	var builds atomic.Int32
	var wg sync.WaitGroup
	get := func(r Request) {
		if _, err := New(root).Get(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	first := Request{Key: key(t, 1), Build: func(context.Context, *Work) error {
		builds.Add(1)
		close(started)
		<-finish
		return nil
	}}
	wg.Go(func() { get(first) })
	<-started
	second := Request{
		Key: first.Key, Waiting: func() { close(waiting) },
		Build: func(context.Context, *Work) error { builds.Add(1); return nil },
	}
	wg.Go(func() { get(second) })
	<-waiting
	close(finish)
	wg.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times, want once", n)
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	root := t.TempDir()
	started, finish := make(chan struct{}), make(chan struct{})
	k := key(t, 1)
	done := make(chan error)
	go func() {
		_, err := New(root).Get(context.Background(), Request{Key: k, Build: func(context.Context, *Work) error {
			close(started)
			<-finish
			return nil
		}})
		done <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	_, err := New(root).Get(ctx, Request{Key: k, Waiting: cancel, Build: writes("never")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	close(finish)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
