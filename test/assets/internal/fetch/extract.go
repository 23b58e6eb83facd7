package fetch

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// AppendZipFile appends the file called name in the zip archive (a wheel is one) to w.
func AppendZipFile(w io.Writer, archive, name string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	defer z.Close()
	f, err := z.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	defer f.Close()
	if _, err := io.Copy(w, f); err != nil {
		return fmt.Errorf("%s: %s: %w", archive, name, err)
	}
	return nil
}

// Untar unpacks the files below prefix of a gzipped tar archive into dir, with
// prefix taken off. Names that would leave dir are an error ([os.Root] sees to
// it); links and devices are not unpacked, the archives we use hold none.
func Untar(archive, prefix, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := untar(tar.NewReader(gz), prefix, root); err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	return nil
}

func untar(t *tar.Reader, prefix string, root *os.Root) error {
	found := false
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(h.Name, prefix)
		if !ok || name == "" || h.Typeflag != tar.TypeReg {
			continue
		}
		found = true
		if err := writeMember(root, name, h, t); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("no files below %s", prefix)
	}
	return nil
}

func writeMember(root *os.Root, name string, h *tar.Header, from io.Reader) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, h.FileInfo().Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
