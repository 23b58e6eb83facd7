package models

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrNoName: a path has no last element that could be a name.
var ErrNoName = errors.New("no model name")

// partSuffix matches the end of a split model's file name, before ".gguf". Sub-matches: number and count.
const partSuffix = `-([0-9]{5})-of-([0-9]{5})$`

// ServedName returns the name under which the model at path is served unless the user gives another: the last element of
// the path or repository id, without a trailing slash, ".gguf", ".safetensors" or a part number ("-00001-of-00003"). For
// a snapshot in a Hub cache it is the repository's name, not the revision.
func ServedName(p string) (string, error) {
	clean := strings.TrimRight(filepath.ToSlash(p), "/")
	name := path.Base(clean)
	if repo, ok := hubRepo(clean); ok {
		name = path.Base(repo)
	}
	name = trimFile(name)
	if clean == "" || name == "" || name == "." || name == ".." {
		return "", fmt.Errorf("%w in %q: give the path of a file or folder, or a name", ErrNoName, p)
	}
	return name, nil
}

// trimFile takes the ending, and a part number before it, off a file's name.
func trimFile(name string) string {
	if n, ok := strings.CutSuffix(name, ".gguf"); ok {
		return regexp.MustCompile(partSuffix).ReplaceAllString(n, "")
	}
	return strings.TrimSuffix(name, ".safetensors")
}

// hubRepo returns the repository id ("org/name") if p is a repository in a Hub cache (".../models--org--name") or one of
// its snapshots. A file in a snapshot is none: it has a name of its own.
func hubRepo(p string) (repo string, ok bool) {
	dir := path.Base(p)
	if path.Base(path.Dir(p)) == "snapshots" {
		dir = path.Base(path.Dir(path.Dir(p)))
	}
	repo, ok = strings.CutPrefix(dir, "models--")
	if !ok || repo == "" {
		return "", false
	}
	return strings.ReplaceAll(repo, "--", "/"), true
}
