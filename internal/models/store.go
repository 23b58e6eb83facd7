package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/stoker-llm/stoker/internal/models/safetensors"
	"github.com/stoker-llm/stoker/internal/nearest"
)

// Artifact is a model on this machine.
type Artifact struct {
	// Name is how clients call it unless the user says otherwise.
	Name string `json:"name"`
	// ID is the repository id of a model in a Hub cache, or the path below the store's folder, such as "org/name": the other
	// word by which it is found. It is empty for a model that was given by another path.
	ID string `json:"id,omitempty"`
	// Path is a GGUF file or a folder of safetensors files. It is never shown to clients.
	Path string `json:"path"`
	// Format is "gguf" or "safetensors".
	Format string `json:"format"`
}

// Store finds models in folders. Below each folder it knows NAME.gguf, NAME/ (a folder with one GGUF model or with
// safetensors files), ORG/NAME in both forms, and a Hub cache's models--ORG--NAME. It keeps nothing in memory.
type Store struct {
	// Dirs are searched in order. One that does not exist is empty.
	Dirs []string
}

// NotFoundError is a name or path for which there is no artifact.
type NotFoundError struct {
	// Arg is what was asked for.
	Arg string
	// Nearest are the names of artifacts that are close to it, the closest first.
	Nearest []string
	// Dirs are the folders that were searched.
	Dirs []string
}

// Error says what was searched and what is near.
func (e *NotFoundError) Error() string {
	where := "no model folder is set"
	if len(e.Dirs) > 0 {
		where = "searched " + strings.Join(e.Dirs, ", ")
	}
	if len(e.Nearest) > 0 {
		return fmt.Sprintf("no model %q (%s): did you mean %s?", e.Arg, where, strings.Join(e.Nearest, " or "))
	}
	return fmt.Sprintf("no model %q: it is no path, and no name in the store (%s); nothing is downloaded", e.Arg, where)
}

// Resolve finds the artifact that arg means: an existing path first, then a name in the store's folders. It gives a
// *NotFoundError if there is none, a *ChoiceError if there are several in one folder, and an error that is ErrNotAModel if
// there is something else at that path.
func (s *Store) Resolve(arg string) (Artifact, error) {
	if strings.TrimSpace(arg) == "" {
		return Artifact{}, fmt.Errorf("%w: the model argument is empty", ErrNoName)
	}
	atPath, pathErr := artifactAt(arg)
	if pathErr == nil {
		return atPath, nil
	}
	// A folder that happens to be called like a model in the store does not hide it, a broken model at the path does.
	absent := errors.Is(pathErr, fs.ErrNotExist) || errors.Is(pathErr, syscall.ENOTDIR)
	if !absent && !errors.Is(pathErr, ErrNotAModel) {
		return Artifact{}, pathErr
	}
	a, err := s.byName(arg)
	if !absent && errors.As(err, new(*NotFoundError)) {
		return Artifact{}, pathErr
	}
	return a, err
}

// byName finds arg in the store: as the beginning of a file's path, then as any artifact's name or id.
func (s *Store) byName(arg string) (Artifact, error) {
	if a, err := s.byPath(arg); !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	all, err := s.List(context.Background())
	if err != nil {
		return Artifact{}, err
	}
	var names []string
	for _, a := range all {
		if a.Name == arg || a.ID == arg {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return Artifact{}, &NotFoundError{Arg: arg, Nearest: nearest.Of(arg, names), Dirs: s.Dirs}
}

// byPath looks for the files that a name stands for. A name that would lead out of the folder is not looked for.
func (s *Store) byPath(name string) (Artifact, error) {
	name = strings.TrimRight(name, "/")
	if !filepath.IsLocal(name) || name == "." {
		return Artifact{}, fs.ErrNotExist
	}
	hub := "models--" + strings.ReplaceAll(name, "/", "--")
	for _, dir := range s.Dirs {
		for _, try := range []string{name + ".gguf", name, hub} {
			a, err := s.at(dir, filepath.Join(dir, try))
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotAModel) {
				continue // not there, or a folder of folders, such as ORG
			}
			return a, err
		}
	}
	return Artifact{}, fs.ErrNotExist
}

// at returns the artifact at p, which lies below the store's folder dir, with its id.
func (s *Store) at(dir, p string) (Artifact, error) {
	a, err := artifactAt(p)
	if err != nil || a.ID != "" {
		return a, err
	}
	rel, err := filepath.Rel(dir, p)
	if err != nil {
		return Artifact{}, fmt.Errorf("model %q: %w", p, err)
	}
	a.ID = trimFile(filepath.ToSlash(rel))
	return a, nil
}

// List returns all artifacts below the store's folders, by name. What cannot be read is left out: one broken folder must
// not hide the rest. It ends early with ctx's error.
func (s *Store) List(ctx context.Context) ([]Artifact, error) {
	var out []Artifact
	seen := map[string]bool{}
	for _, dir := range s.Dirs {
		for _, p := range candidates(dir) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if a, err := s.at(dir, p); err == nil && !seen[a.Path] {
				seen[a.Path] = true
				out = append(out, a)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Artifact) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// candidates lists the paths one and two levels below dir, what a folder holds before the folder itself: a single file in
// it is then known by its own path. A repository of a Hub cache and a folder of safetensors files are one model each.
func candidates(dir string) []string {
	var out []string
	for _, p := range below(dir) {
		if !strings.HasPrefix(filepath.Base(p), "models--") && !isSafetensors(p) {
			out = append(out, below(p)...)
		}
		out = append(out, p)
	}
	return out
}

// below lists the paths directly below dir. Hidden ones and those of later parts of a split model are left out.
func below(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if n := e.Name(); !strings.HasPrefix(n, ".") && !laterPart(n) && !sideFile(n) {
			out = append(out, filepath.Join(dir, n))
		}
	}
	return out
}

// laterPart reports whether name is a part of a split model other than the first.
func laterPart(name string) bool {
	n, ok := strings.CutSuffix(name, ".gguf")
	m := regexp.MustCompile(partSuffix).FindStringSubmatch(n)
	return ok && m != nil && m[1] != "00001"
}

// sideFile reports whether name is a GGUF file that goes with a model and is none: the picture encoder.
func sideFile(name string) bool {
	return strings.HasPrefix(name, "mmproj") && strings.HasSuffix(name, ".gguf")
}

// artifactAt returns the artifact at an existing path.
func artifactAt(p string) (Artifact, error) {
	st, err := os.Stat(p)
	if err != nil {
		return Artifact{}, fmt.Errorf("model %q: %w", p, err)
	}
	if st.IsDir() {
		return artifactInFolder(p)
	}
	switch {
	case strings.HasSuffix(p, ".gguf"):
		return newArtifact(p, FormatGGUF)
	case strings.HasSuffix(p, ".safetensors"):
		return newArtifact(p, FormatSafetensors)
	default:
		return Artifact{}, fmt.Errorf("model %q is neither a .gguf nor a .safetensors file: %w", p, ErrNotAModel)
	}
}

// artifactInFolder looks into a folder: a repository in a Hub cache, safetensors files, or exactly one GGUF model.
func artifactInFolder(dir string) (Artifact, error) {
	if snap, err := hubSnapshot(dir); err != nil {
		return Artifact{}, err
	} else if snap != dir {
		return artifactInFolder(snap)
	}
	if isSafetensors(dir) {
		return newArtifact(dir, FormatSafetensors)
	}
	var files []string
	for _, p := range below(dir) {
		if strings.HasSuffix(p, ".gguf") {
			files = append(files, p)
		}
	}
	switch len(files) {
	case 0:
		return Artifact{}, fmt.Errorf("folder %q holds no model (no .gguf, no model*.safetensors): %w", dir, ErrNotAModel)
	case 1:
		return newArtifact(files[0], FormatGGUF)
	default:
		return Artifact{}, &ChoiceError{Dir: dir, Files: files}
	}
}

// ChoiceError is a folder that holds several GGUF models.
type ChoiceError struct {
	Dir   string
	Files []string
}

// Error lists the files to choose from.
func (e *ChoiceError) Error() string {
	return fmt.Sprintf("folder %q holds %d models: name one of %s", e.Dir, len(e.Files), strings.Join(e.Files, ", "))
}

// newArtifact names the artifact at p. Its id is that of its repository, if it lies in a Hub cache.
func newArtifact(p, format string) (Artifact, error) {
	named := filepath.ToSlash(p)
	name, err := ServedName(named)
	if err != nil {
		// "." and the like: the folder's real name serves.
		if named, err = filepath.Abs(p); err != nil {
			return Artifact{}, err
		}
		if name, err = ServedName(named); err != nil {
			return Artifact{}, err
		}
	}
	repo, ok := hubRepo(named)
	if !ok {
		repo, _ = hubRepo(path.Dir(named)) // a file in a snapshot
	}
	return Artifact{Name: name, ID: repo, Path: p, Format: format}, nil
}

func isSafetensors(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, safetensors.IndexName)); err == nil {
		return true
	}
	files, err := weightFiles(dir)
	return err == nil && len(files) > 0
}
