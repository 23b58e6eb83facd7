package safetensors

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// IndexName is the file that lists which tensor lies in which file of a folder.
const IndexName = "model.safetensors.index.json"

// maxJSON bounds the JSON files beside the weights. The largest seen, indexes of models with thousands of experts, have
// some 10 MB.
const maxJSON = 64 << 20

// Index is what model.safetensors.index.json says.
type Index struct {
	// Weights maps a tensor's name to the file that holds it.
	Weights map[string]string
	// TotalSize is the bytes of all tensors and TotalParameters the elements, both 0 if not said.
	TotalSize, TotalParameters int64
}

// Files returns the names of the files, sorted, each once.
func (x *Index) Files() []string {
	var files []string
	for _, f := range x.Weights {
		files = append(files, f)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// ReadIndex reads the index at path.
func ReadIndex(path string) (*Index, error) {
	text, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	x, err := ParseIndex(text)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	return x, nil
}

// ParseIndex decodes an index. File names that lead out of the folder are refused.
func ParseIndex(text []byte) (*Index, error) {
	var j struct {
		Metadata struct {
			// Numbers, which some writers print as floats.
			TotalSize       float64 `json:"total_size"`
			TotalParameters float64 `json:"total_parameters"`
		} `json:"metadata"`
		Weights map[string]string `json:"weight_map"`
	}
	if err := unmarshal(text, &j, "index"); err != nil {
		return nil, err
	}
	if len(j.Weights) == 0 {
		return nil, fmt.Errorf("index: weight_map names no tensor: %w", ErrInvalid)
	}
	for name, file := range j.Weights {
		if file != filepath.Base(file) || !strings.HasSuffix(file, ".safetensors") {
			return nil, fmt.Errorf("index: tensor %q lies in %q, which is not a file of this folder: %w", clip(name), clip(file), ErrInvalid)
		}
	}
	return &Index{
		Weights:         j.Weights,
		TotalSize:       whole(j.Metadata.TotalSize),
		TotalParameters: whole(j.Metadata.TotalParameters),
	}, nil
}

// whole returns a count as an integer, 0 if it is none.
func whole(f float64) int64 {
	if f < 0 || f > 1<<62 {
		return 0
	}
	return int64(f)
}

// ReadFile reads a JSON or text file beside the weights, of at most 64 MiB.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	defer func() { _ = f.Close() }() // opened for reading: nothing can be lost
	text, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if len(text) > maxJSON {
		return nil, fmt.Errorf("safetensors: %s has more than %d bytes: %w", path, maxJSON, ErrInvalid)
	}
	return text, nil
}
