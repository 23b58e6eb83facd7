package kernel

import (
	"fmt"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// GroupRows is how many rows of a matrix lie interleaved: so many outputs are computed at once, each in a lane of its own.
const GroupRows = 32

// Layout is how a packed matrix lies in memory. A group of GroupRows rows is a row of super-blocks; a super-block is a header with
// one entry for each row (scales), and sub-blocks of some columns each. A sub-block may begin with entries of its own; then come
// lines, one for each column (or two columns, in the halves of a byte), with one element for each row.
type Layout uint8

// The layouts. Numbers are bytes per row: header | sub-block's own + lines.
const (
	layF32  Layout = iota // | 4 a column
	layF16                // | 2 a column, IEEE half
	layBF16               // | 2 a column
	lay8                  // scale f16 | 1 a column, signed: w = d*q. Q8_0, Q5_0
	lay4                  // scale f16, minimum f16 | half a column: w = d*q + m. Q4_1, Q4_0 (m = -8d)
	lay5                  // scale f16, minimum f16 | 1 a column: w = d*q + m. Q5_1
	layK4                 // d f16, dmin f16 | scale u8, minimum u8, half a column: w = d*s*q - dmin*m. Q4_K
	layK5                 // d f16, dmin f16 | scale u8, minimum u8, 1 a column. Q5_K
	layK6                 // d f16 | scale i8, 1 a column, signed: w = (d*s)*q. Q6_K
	fast8                 // scale f16 | 1 a column, 4 columns of a row side by side. Q8_0, Q5_0
	fast4                 // scale f16, minimum f16 | half a column, 8 columns of a row side by side. Q4_0, Q4_1
	layouts
)

// shape is the geometry of a layout: columns of a super-block and of a sub-block, bytes of a header and of a sub-block for a group.
type shape struct {
	superCols, subCols int
	header, sub        int
}

func (l Layout) shape() shape {
	switch l {
	case layF32:
		return shape{32, 32, 0, 32 * 128}
	case layF16, layBF16:
		return shape{32, 32, 0, 32 * 64}
	case lay8, fast8:
		return shape{32, 32, 64, 32 * 32}
	case lay4, fast4:
		return shape{32, 32, 128, 16 * 32}
	case lay5:
		return shape{32, 32, 128, 32 * 32}
	case layK4:
		return shape{256, 32, 128, 64 + 16*32}
	case layK5:
		return shape{256, 32, 128, 64 + 32*32}
	case layK6:
		return shape{256, 16, 64, 32 + 16*32}
	}
	panic(fmt.Sprintf("kernel: layout %d", l))
}

// super is the bytes of a super-block.
func (s shape) super() int { return s.header + s.superCols/s.subCols*s.sub }

// rounded reports whether the layout wants activations of 8 bits.
func (l Layout) rounded() bool { return l == fast8 || l == fast4 }

// LayoutOf returns how matrices of format t are packed in mode m. Matrices of one layout may be joined.
func LayoutOf(t gguf.Type, m Mode) (Layout, error) {
	switch t {
	case gguf.F32:
		return layF32, nil
	case gguf.F16:
		return layF16, nil
	case gguf.BF16:
		return layBF16, nil
	case gguf.Q8_0, gguf.Q5_0:
		if m == Fast {
			return fast8, nil
		}
		return lay8, nil
	case gguf.Q4_0, gguf.Q4_1:
		if m == Fast {
			return fast4, nil
		}
		return lay4, nil
	case gguf.Q5_1:
		return lay5, nil
	case gguf.Q4_K:
		return layK4, nil
	case gguf.Q5_K:
		return layK5, nil
	case gguf.Q6_K:
		return layK6, nil
	}
	return 0, fmt.Errorf("there is no kernel for the format %s", t)
}

// PackedBytes is the memory of a packed matrix. cols is a multiple of 32, and of 256 for K formats; others give 0.
func PackedBytes(l Layout, rows, cols int) int64 {
	s := l.shape()
	groups := int64((rows + GroupRows - 1) / GroupRows)
	return groups * int64(cols/s.superCols) * int64(s.super())
}

// Matrix is a packed weight of rows x cols.
type Matrix struct {
	layout             Layout
	rows, cols, supers int
	shape              shape
	stride             int // bytes of a group
	mem                []byte
}

// NewMatrix makes a matrix over mem, which is PackedBytes long, aligned to 64 bytes, and stays alive as long as the matrix is used.
// Its weights are what mem holds: zero, if mem is.
func NewMatrix(l Layout, rows, cols int, mem []byte) (*Matrix, error) {
	s := l.shape()
	m := &Matrix{layout: l, rows: rows, cols: cols, supers: cols / s.superCols, shape: s, stride: cols / s.superCols * s.super(), mem: mem}
	switch {
	case rows < 1 || cols < 1 || cols%s.superCols != 0:
		return nil, fmt.Errorf("a matrix of %d x %d, want columns in multiples of %d", rows, cols, s.superCols)
	case int64(len(mem)) != PackedBytes(l, rows, cols):
		return nil, fmt.Errorf("%d bytes for a packed matrix, want %d", len(mem), PackedBytes(l, rows, cols))
	}
	return m, nil
}

// Rows is the number of outputs, Cols of inputs, Groups of GroupRows outputs each, the last one padded.
func (m *Matrix) Rows() int { return m.rows }

// Cols is the number of inputs.
func (m *Matrix) Cols() int { return m.cols }

// Groups is the number of groups of GroupRows rows, of which the last may be padded.
func (m *Matrix) Groups() int { return (m.rows + GroupRows - 1) / GroupRows }

// Layout is how the matrix lies in memory.
func (m *Matrix) Layout() Layout { return m.layout }
