package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
	"strings"
)

// maxHeader is the longest header the format allows.
const maxHeader = 100_000_000

// The kinds of failure, for errors.Is.
var (
	// ErrInvalid: the bytes are not what the format says.
	ErrInvalid = errors.New("invalid safetensors file")
	// ErrTruncated: the file ends before what its header promises.
	ErrTruncated = errors.New("safetensors file is cut off")
)

// Header is the table of tensors of one file.
type Header struct {
	// Tensors are sorted by their place in the file.
	Tensors []Tensor
	// Metadata is the free text map "__metadata__"; nil if there is none.
	Metadata map[string]string
	// DataOffset is the byte in the file from which tensor offsets count.
	DataOffset int64
	// Size is the bytes of the whole file.
	Size int64
}

// Tensor is one tensor of a file.
type Tensor struct {
	Name string
	// DType is the element format, such as "BF16" or "U32".
	DType string
	// Shape are the elements along each axis, the contiguous one last.
	Shape []int64
	// Offset is the tensor's first byte, counted from DataOffset, and Size its bytes.
	Offset, Size int64
}

// Elements is the number of elements of t.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Open reads the header of the file at path.
func Open(path string) (*Header, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading: nothing can be lost
	return readHeaderOf(f, path)
}

// openRegular opens the file at path if it is a regular one.
func openRegular(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	st, err := f.Stat()
	if err == nil && st.Mode().IsRegular() {
		return f, nil
	}
	_ = f.Close() // opened for reading: nothing can be lost
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return nil, fmt.Errorf("safetensors: %s is not a regular file: %w", path, ErrInvalid)
}

// readHeaderOf reads the header of an open file.
func readHeaderOf(f *os.File, path string) (*Header, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	h, err := Read(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	return h, nil
}

// Read reads the header of a file of size bytes.
func Read(r io.ReaderAt, size int64) (*Header, error) {
	text, err := headerText(r, size)
	if err != nil {
		return nil, err
	}
	h := &Header{DataOffset: 8 + int64(len(text)), Size: size}
	err = eachMember(text, func(name string, raw json.RawMessage) error {
		if name == "__metadata__" {
			return unmarshal(raw, &h.Metadata, "byte 8: __metadata__")
		}
		t, err := parseTensor(name, raw)
		h.Tensors = append(h.Tensors, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h, h.check()
}

// headerText returns the JSON text behind the length.
func headerText(r io.ReaderAt, size int64) ([]byte, error) {
	var b [8]byte
	if size < int64(len(b)) {
		return nil, fmt.Errorf("%d bytes are too few for a header: %w", size, ErrTruncated)
	}
	if _, err := r.ReadAt(b[:], 0); err != nil {
		return nil, fmt.Errorf("read the header's length: %w", err)
	}
	n := binary.LittleEndian.Uint64(b[:])
	if n > maxHeader {
		return nil, fmt.Errorf("byte 0: a header of %d bytes; the format allows %d: %w", n, maxHeader, ErrInvalid)
	}
	if int64(n) > size-8 {
		return nil, fmt.Errorf("byte 0: a header of %d bytes in a file of %d: %w", n, size, ErrTruncated)
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, 8); err != nil && (err != io.EOF || int64(n) < size-8) {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	return text, nil
}

// eachMember calls f for each member of a JSON object. A name that appears twice is an error: the ordinary decoder would
// keep the last one silently.
func eachMember(text []byte, f func(name string, raw json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return fmt.Errorf("byte 8: the header is not a JSON object: %w", ErrInvalid)
	}
	seen := map[string]bool{}
	for d.More() {
		tok, err := d.Token()
		name, ok := tok.(string)
		if err != nil || !ok {
			return fmt.Errorf("byte %d: the header is not valid JSON: %w", 8+d.InputOffset(), ErrInvalid)
		}
		if seen[name] {
			return fmt.Errorf("byte %d: tensor %q appears twice: %w", 8+d.InputOffset(), clip(name), ErrInvalid)
		}
		seen[name] = true
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return fmt.Errorf("byte %d: tensor %q: the header is not valid JSON: %w", 8+d.InputOffset(), clip(name), ErrInvalid)
		}
		if err := f(name, raw); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("byte %d: the header's JSON does not end: %w", 8+d.InputOffset(), ErrInvalid)
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("byte %d: text behind the header's JSON: %w", 8+d.InputOffset(), ErrInvalid)
	}
	return nil
}

func parseTensor(name string, raw json.RawMessage) (Tensor, error) {
	var j struct {
		DType       string  `json:"dtype"`
		Shape       []int64 `json:"shape"`
		DataOffsets []int64 `json:"data_offsets"`
	}
	if err := unmarshal(raw, &j, fmt.Sprintf("tensor %q", clip(name))); err != nil {
		return Tensor{}, err
	}
	t := Tensor{Name: name, DType: j.DType, Shape: j.Shape}
	if len(j.DataOffsets) != 2 || j.DataOffsets[0] < 0 || j.DataOffsets[1] < j.DataOffsets[0] {
		return t, fmt.Errorf("tensor %q: data_offsets %v is not a range: %w", clip(name), j.DataOffsets, ErrInvalid)
	}
	t.Offset, t.Size = j.DataOffsets[0], j.DataOffsets[1]-j.DataOffsets[0]
	want, ok := tensorBits(t.DType, t.Shape)
	if !ok {
		return t, fmt.Errorf("tensor %q: unknown dtype %q, or a shape of %v that no file holds: %w", clip(name), clip(t.DType), t.Shape, ErrInvalid)
	}
	if want != uint64(t.Size)*8 {
		return t, fmt.Errorf("tensor %q: %s%v takes %d bits, but its range has %d bytes: %w", clip(name), t.DType, t.Shape, want, t.Size, ErrInvalid)
	}
	return t, nil
}

// tensorBits is the bits that a tensor takes. ok is false for an unknown dtype, a negative dimension, or a size (or number
// of elements, even behind a dimension of zero) that does not fit.
func tensorBits(dtype string, shape []int64) (total uint64, ok bool) {
	each := dtypeBits(dtype)
	if each == 0 || len(shape) > 16 {
		return 0, false
	}
	total, span := each, each
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(span, uint64(max(d, 1)))
		if hi != 0 || lo > 1<<62 {
			return 0, false
		}
		span = lo
		total *= uint64(d)
	}
	return total, true
}

// dtypeBits is the bits of one element, 0 for an unknown dtype.
func dtypeBits(dtype string) uint64 {
	switch dtype {
	case "F4", "F4_E2M1", "F4_E2M1FN_X2":
		return 4
	case "F6_E2M3", "F6_E3M2":
		return 6
	case "BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ":
		return 8
	case "F16", "BF16", "U16", "I16":
		return 16
	case "F32", "U32", "I32":
		return 32
	case "F64", "U64", "I64", "C64":
		return 64
	default:
		return 0
	}
}

// check sorts the tensors by place and checks that they lie in the file, apart from each other.
func (h *Header) check() error {
	slices.SortStableFunc(h.Tensors, func(a, b Tensor) int {
		if a.Offset != b.Offset {
			return int(min(max(a.Offset-b.Offset, -1), 1))
		}
		return int(min(max(a.Size-b.Size, -1), 1)) // an empty tensor may share the place of the next one
	})
	data := h.Size - h.DataOffset
	var end int64
	for _, t := range h.Tensors {
		if t.Offset > data || t.Size > data-t.Offset {
			return fmt.Errorf("tensor %q ends %d bytes into the data, but the file has only %d bytes of data: get it again: %w",
				clip(t.Name), uint64(t.Offset)+uint64(t.Size), data, ErrTruncated)
		}
		if t.Offset < end {
			return fmt.Errorf("tensor %q overlaps the one before it: %w", clip(t.Name), ErrInvalid)
		}
		end = t.Offset + t.Size
	}
	return nil
}

// unmarshal decodes JSON and says what it was decoding when that fails. The decoder's own text would quote foreign bytes.
func unmarshal(raw []byte, into any, what string) error {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return fmt.Errorf("%s: field %q is of the wrong kind (%s): %w", what, clip(e.Field), clip(e.Value), ErrInvalid)
	}
	return fmt.Errorf("%s: not the JSON that the format asks for: %w", what, ErrInvalid)
}

// clip shortens a foreign name for an error text.
func clip(s string) string {
	if len(s) > 100 {
		s = s[:100] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
