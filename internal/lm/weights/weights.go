// Package weights opens a model for the embedded engine: a GGUF file, or a Hugging Face folder with safetensors. It hides which of
// the two it is: shape, tensors by one set of names, tokenizer and chat template come out alike.
//
//	f, err := weights.Open(path)
//	defer f.Close()
//	program, err := f.Program(kernel.Exact)
//
// Tensors are mapped from the files, not read. A File is immutable and may be used concurrently until it is closed.
package weights

import (
	"errors"
	"fmt"
	"os"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/arch"
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/tokenizer"
)

// File is an opened model.
type File struct {
	// Path is what was opened, and Size the bytes of all weight files.
	Path string
	Size int64
	Meta block.Meta
	// Template is the chat template's text; empty if the model has none.
	Template string
	// Quantization names the format that most weights are stored in.
	Quantization string

	src   block.Source
	arch  arch.Arch
	vocab func() (*tokenizer.Tokenizer, error)
	close func() error
}

// Open opens the model at path, a GGUF file or a folder. Errors are *infer.Error: what is not there or damaged is ErrInvalid, what
// this engine does not know is ErrUnsupported, with what it does know.
func Open(path string) (*File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, infer.Errorf(infer.ErrInvalid, "model", "the model cannot be opened: %v", err)
	}
	var f *File
	if st.IsDir() {
		f, err = openFolder(path)
	} else {
		f, err = openGGUF(path)
	}
	if err == nil {
		return f, nil
	}
	if e, ok := errors.AsType[*infer.Error](err); ok {
		return nil, e
	}
	return nil, &infer.Error{Kind: infer.ErrInvalid, Param: "model", Message: "the model cannot be read", Err: err}
}

// Close unmaps the files. Tensors and programs of f must not be used afterwards.
func (f *File) Close() error { return f.close() }

// Tokenizer makes the model's tokenizer.
func (f *File) Tokenizer() (*tokenizer.Tokenizer, error) { return f.vocab() }

// Config returns the model's checked shape.
func (f *File) Config() (block.Config, error) {
	c, err := f.arch.Config(f.Meta)
	if err != nil {
		return c, infer.Errorf(infer.ErrUnsupported, "model", "this %s model cannot be served by the embedded engine: %v", f.Meta.Arch, err)
	}
	return c, nil
}

// Program returns the model's steps for a mode. Its matrices are not loaded.
func (f *File) Program(m kernel.Mode) (*block.Program, error) {
	c, err := f.Config()
	if err != nil {
		return nil, err
	}
	p, err := block.Build(c, m, f.src, f.arch.Build)
	if err != nil {
		return nil, infer.Errorf(infer.ErrUnsupported, "model", "this %s model cannot be served by the embedded engine: %v", f.Meta.Arch, err)
	}
	return p, nil
}

// dims checks that a tensor has one or two dimensions that a matrix can have.
func dims(name string, rows, cols int64) (r, c int, err error) {
	const limit = 1 << 31
	if rows < 1 || cols < 1 || rows > limit || cols > limit {
		return 0, 0, fmt.Errorf("tensor %s has the shape %d x %d", name, rows, cols)
	}
	return int(rows), int(cols), nil
}
