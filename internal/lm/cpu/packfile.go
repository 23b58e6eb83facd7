package cpu

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/models/filemap"
)

// packAlign is where the matrices begin in a cache file: behind the header, on a page.
const packAlign = 4096

// packMagic begins a cache file; its number goes up with every change of a layout.
const packMagic = "stoker packed matrices 1\n"

// packKey names the packed form of a program's matrices: what they are called, how they lie, and pieces of each tensor's bytes. Two
// models that differ in none of these are the same model to anybody who did not make them so on purpose.
func packKey(prog *block.Program) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s%s\n", packMagic, prog.Mode)
	for _, m := range prog.Matrices {
		fmt.Fprintf(h, "%s %d %d %d\n", m.Name, m.Layout, m.Rows, m.Cols)
		for _, part := range m.Parts {
			t := part.Tensor
			fmt.Fprintf(h, "%s %d %d %d %t\n", t.Name, t.Type, t.Rows, t.Cols, part.Row != nil)
			const piece = 4096
			for _, at := range []int{0, len(t.Data) / 2, len(t.Data) - piece} {
				at = max(0, at)
				h.Write(t.Data[at:min(len(t.Data), at+piece)])
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// packHeader is the first bytes of a cache file.
func packHeader(key string) []byte {
	b := make([]byte, packAlign)
	copy(b, packMagic+key+"\n")
	return b
}

// openPacked maps a cache file, if there is a good one.
func openPacked(path, key string, size int64) (*filemap.Map, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, packAlign)
	if _, err := io.ReadFull(f, head); err != nil || string(head) != string(packHeader(key)) {
		return nil, errors.New("another version, or cut off")
	}
	return filemap.Of(f, packAlign+size)
}

// writePacked writes a cache file, which appears under its name only when it is whole.
func writePacked(path, key string, packed []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".packing-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	for _, b := range [][]byte{packHeader(key), packed} {
		if _, err := f.Write(b); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Packed are a program's matrices in memory: packed there, or mapped from a cache file.
type Packed struct {
	free func()
	// FromCache reports whether they were found in a cache file.
	FromCache bool
	// CacheErr says why a cache file that was asked for could not be written. Everything works without it.
	CacheErr error
}

// Free gives the memory back.
func (p *Packed) Free() { p.free() }

// place gives every matrix its part of all.
func place(prog *block.Program, offsets []int64, all []byte) error {
	for i, m := range prog.Matrices {
		size := kernel.PackedBytes(m.Layout, m.Rows, m.Cols)
		var err error
		if m.W, err = kernel.NewMatrix(m.Layout, m.Rows, m.Cols, all[offsets[i]:offsets[i]+size]); err != nil {
			return fmt.Errorf("matrix %s: %w", m.Name, err)
		}
	}
	return nil
}
