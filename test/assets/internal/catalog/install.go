package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// InstallEngine gets llama-server and copies it and its companions into a folder,
// from where stoker finds it. Copies and no links: the cache may be cleared
// at any time, and an installed engine has to survive that. It returns the path
// of the installed engine.
func (c *Catalog) InstallEngine(ctx context.Context, into string) (string, error) {
	engine, err := c.Get(ctx, "llama-server")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return "", fmt.Errorf("install into %s: %w", into, err)
	}
	for _, p := range llamaPrograms {
		if err := copyFile(filepath.Join(filepath.Dir(engine), p), filepath.Join(into, p)); err != nil {
			return "", fmt.Errorf("install into %s: %w", into, err)
		}
	}
	return filepath.Join(into, llamaPrograms[0]), nil
}

// copyFile copies an executable. The new file takes the old one's place in one
// step, so that it works even while the old one is running.
func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	tmp, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(tmp, src)
	if err := errors.Join(err, tmp.Chmod(0o755), tmp.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return os.Rename(tmp.Name(), to)
}
