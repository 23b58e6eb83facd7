package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/stoker-llm/stoker/internal/models/filemap"
)

// The kinds of failure of a folder's Tensor, for errors.Is.
var (
	// ErrNoTensor: no file of the folder holds a tensor of this name.
	ErrNoTensor = errors.New("no such tensor")
	// ErrDType: the tensor's elements are neither F32 nor F16 nor BF16.
	ErrDType = errors.New("unsupported dtype")
)

// singleName is the file of a model that lies in one file.
const singleName = "model.safetensors"

// Folder is a model's folder, its weights mapped into memory. It is immutable; all methods may be called concurrently, but not after
// or during Close.
type Folder struct {
	// Dir is the folder, Text the bytes of its config.json, and Config what they say.
	Dir    string
	Text   []byte
	Config *Decoder

	files []*mappedFile
	at    map[string]place
}

// mappedFile is one file of weights.
type mappedFile struct {
	name   string
	header *Header
	bytes  *filemap.Map
}

// place is where a tensor lies.
type place struct {
	file   *mappedFile
	tensor Tensor
}

// OpenFolder opens the model in dir: its config.json, and model.safetensors or the files that model.safetensors.index.json names. Every
// header is read and checked and every file is mapped; the weights are not read. Errors name the file, and the tensor or the byte. The
// files must not be cut off or written to until Close (see [filemap]).
func OpenFolder(dir string) (*Folder, error) {
	f := &Folder{Dir: dir, at: map[string]place{}}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Folder) open() error {
	path := filepath.Join(f.Dir, "config.json")
	var err error
	if f.Text, err = ReadFile(path); err != nil {
		return err
	}
	if f.Config, err = ParseDecoder(f.Text); err != nil {
		return fmt.Errorf("safetensors: %s: %w", path, err)
	}
	index, err := readFolderIndex(f.Dir)
	if err != nil {
		return err
	}
	names := []string{singleName}
	if index != nil {
		names = index.Files()
	}
	for _, name := range names {
		if err := f.add(name); err != nil {
			return err
		}
	}
	return f.checkIndex(index)
}

// readFolderIndex returns nil for a model of one file.
func readFolderIndex(dir string) (*Index, error) {
	_, err := os.Stat(filepath.Join(dir, singleName))
	if err == nil {
		return nil, nil // Hugging Face's loader prefers it too
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	x, err := ReadIndex(filepath.Join(dir, IndexName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("safetensors: %s holds neither %s nor %s: %w", dir, singleName, IndexName, err)
	}
	return x, err
}

// add opens one file of weights.
func (f *Folder) add(name string) error {
	path := filepath.Join(f.Dir, name)
	m, err := openMapped(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("safetensors: file %s of the model is missing (the download did not finish, get it again): %w", path, err)
	}
	if err != nil {
		return err
	}
	m.name = name
	f.files = append(f.files, m)
	for _, t := range m.header.Tensors {
		if other, dup := f.at[t.Name]; dup {
			return fmt.Errorf("safetensors: %s: byte %d: tensor %q is in %s too: %w",
				path, m.header.DataOffset+t.Offset, clip(t.Name), other.file.name, ErrInvalid)
		}
		f.at[t.Name] = place{m, t}
	}
	return nil
}

// openMapped reads the header of the file at path and maps the file. Both see the same file, whatever the path leads to meanwhile.
func openMapped(path string) (*mappedFile, error) {
	r, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // opened for reading: nothing can be lost
	h, err := readHeaderOf(r, path)
	if err != nil {
		return nil, err
	}
	m, err := filemap.Of(r, h.Size)
	if e, ok := errors.AsType[*filemap.SizeError](err); ok {
		return nil, fmt.Errorf("safetensors: %s: %w: %w", path, e, ErrTruncated)
	}
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	return &mappedFile{header: h, bytes: m}, nil
}

// checkIndex checks that each tensor lies where the index says. A tensor that it does not list is no harm.
func (f *Folder) checkIndex(x *Index) error {
	if x == nil {
		return nil
	}
	for name, file := range x.Weights {
		p, ok := f.at[name]
		if !ok {
			return fmt.Errorf("safetensors: %s: tensor %q is not in %s: %w", filepath.Join(f.Dir, IndexName), clip(name), file, ErrInvalid)
		}
		if p.file.name != file {
			return fmt.Errorf("safetensors: %s: tensor %q is in %s, not in %s: %w",
				filepath.Join(f.Dir, IndexName), clip(name), p.file.name, file, ErrInvalid)
		}
	}
	return nil
}

// Close unmaps the files. What Tensor returned must not be used afterwards. Closing twice does nothing.
func (f *Folder) Close() error {
	var errs []error
	for _, m := range f.files {
		errs = append(errs, m.bytes.Close())
	}
	f.files, f.at = nil, nil
	return errors.Join(errs...)
}

// Size is the bytes of all files of weights.
func (f *Folder) Size() int64 {
	var n int64
	for _, m := range f.files {
		n += m.header.Size
	}
	return n
}

// Names returns the names of all tensors, sorted.
func (f *Folder) Names() []string {
	names := make([]string, 0, len(f.at))
	for name := range f.at {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Unsupported returns the tensors that Tensor refuses with ErrDType, sorted by name. Old files hold a few that no engine needs, such as
// I64 position numbers; in a quantised model they are the weights.
func (f *Folder) Unsupported() []Tensor {
	var out []Tensor
	for _, name := range f.Names() {
		if t := f.at[name].tensor; !Plain(t.DType) {
			out = append(out, t)
		}
	}
	return out
}

// Plain reports whether dtype is one of the formats that Tensor gives out: F32, F16 and BF16.
func Plain(dtype string) bool { return dtype == "F32" || dtype == "F16" || dtype == "BF16" }

// Tensor returns the tensor called name and its bytes, little-endian, rows one after another, valid until Close. The bytes may begin at
// any address. Writing to them kills the process. Errors are ErrNoTensor and ErrDType.
func (f *Folder) Tensor(name string) (Tensor, []byte, error) {
	p, ok := f.at[name]
	if !ok {
		return Tensor{}, nil, fmt.Errorf("safetensors: %s: tensor %q: %w", f.Dir, clip(name), ErrNoTensor)
	}
	t, at := p.tensor, p.begin()
	if !Plain(t.DType) {
		return t, nil, fmt.Errorf("safetensors: %s: byte %d: tensor %q is %s, not F32, F16 or BF16: %w",
			filepath.Join(f.Dir, p.file.name), at, clip(name), t.DType, ErrDType)
	}
	return t, p.file.bytes.Bytes()[at : at+t.Size : at+t.Size], nil
}

func (p place) begin() int64 { return p.file.header.DataOffset + p.tensor.Offset }

// Advise tells the system what is about to happen to the bytes of the tensor called name: [filemap.WillNeed] before they are read,
// [filemap.DontNeed] once they were copied into a layout of one's own.
func (f *Folder) Advise(name string, a filemap.Advice) error {
	p, ok := f.at[name]
	if !ok {
		return fmt.Errorf("safetensors: %s: tensor %q: %w", f.Dir, clip(name), ErrNoTensor)
	}
	if err := p.file.bytes.Advise(p.begin(), p.tensor.Size, a); err != nil {
		return fmt.Errorf("safetensors: %s: %w", filepath.Join(f.Dir, p.file.name), err)
	}
	return nil
}

// AdviseAll tells the system what is about to happen to the bytes of all tensors, such as [filemap.Sequential].
func (f *Folder) AdviseAll(a filemap.Advice) error {
	for _, m := range f.files {
		if err := m.bytes.Advise(m.header.DataOffset, m.header.Size-m.header.DataOffset, a); err != nil {
			return fmt.Errorf("safetensors: %s: %w", filepath.Join(f.Dir, m.name), err)
		}
	}
	return nil
}
