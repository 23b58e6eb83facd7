package models

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hubSnapshot returns the snapshot that a Hub cache folder stands for, or dir itself if it is no such folder. The layout
// is that of huggingface_hub: models--ORG--NAME/refs/main holds the revision, snapshots/REVISION the files.
func hubSnapshot(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(filepath.Base(abs), "models--") {
		return dir, nil
	}
	snapshots := filepath.Join(dir, "snapshots")
	rev, err := os.ReadFile(filepath.Join(dir, "refs", "main"))
	if err == nil {
		snap := filepath.Join(snapshots, filepath.Base(strings.TrimSpace(string(rev))))
		if st, err := os.Stat(snap); err == nil && st.IsDir() && snap != snapshots {
			return snap, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("model %q: %w", dir, err)
	}
	found := below(snapshots)
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%q is a Hub cache folder without a snapshot (the download did not finish): %w", dir, ErrNotAModel)
	case 1:
		return found[0], nil
	default:
		return "", &ChoiceError{Dir: snapshots, Files: found}
	}
}
