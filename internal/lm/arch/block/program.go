// Package block holds what all architectures of the embedded engine share: the shape of a decoder ([Config]), the steps one is
// made of ([Step]), and the [Builder] with which an architecture's package lists them.
//
// A model is a [Program]: a list of steps over a few named buffers, in the order in which they run. There is no graph and no
// interpreter of one: a step is plain data, and whoever executes it (package cpu) knows each kind. That makes it easy to tap any
// step by its label, to plant a fault in tests, and to run the same list on other hardware.
//
// A Program is made by one goroutine. Once its weights are loaded it is read-only and may be shared.
package block

import (
	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// Buf names a buffer. Each holds one row of floats for each token of a batch.
type Buf uint8

// The buffers. Widths are in floats.
const (
	Hidden Buf = iota // the residual stream: Hidden wide
	Normed            // what goes into a matrix: Hidden wide
	QKV               // queries, keys and values: (Heads + 2 KVHeads) x HeadDim wide
	Mixed             // attention's output: Heads x HeadDim wide
	Branch            // what is added to the residual stream: Hidden wide
	GateUp            // both halves of a gated feed-forward part: 2 FFN wide
	Gated             // their product: FFN wide
	Logits            // Vocab wide, only for the rows whose logits are wanted
	buffers
)

// Buffers is the number of buffers.
const Buffers = int(buffers)

// Program is a model as a list of steps.
type Program struct {
	Config Config
	Mode   kernel.Mode
	Steps  []Step
	// Widths are the floats of a row of each buffer.
	Widths [Buffers]int
	// Matrices, Vectors and Table are the weights that the steps refer to, in the order of their use.
	Matrices []*Matrix
	Vectors  []*Vector
	Table    *Table
}

// Step is one thing to do for all rows of a batch. Label names it for people and taps, such as "blk.3.attn_out"; empty labels are
// not tapped.
type Step interface{ Label() string }

// Name is a step's label.
type Name string

// Label returns the name.
func (n Name) Label() string { return string(n) }

// The kinds of steps.
type (
	// Embed writes the embedding of each token to Out, times Scale if it is not 0.
	Embed struct {
		Name
		Out   Buf
		Table *Table
		Scale float32
	}
	// Norm is RMSNorm over whole rows: Out = In / rms(In) * W.
	Norm struct {
		Name
		In, Out Buf
		W       *Vector
		Eps     float32
	}
	// Linear is Out[:, Off:Off+W.Rows] = In * W^T + Bias (Bias may be nil).
	Linear struct {
		Name
		In, Out Buf
		Off     int
		W       *Matrix
		Bias    *Vector
	}
	// HeadNorm is RMSNorm in place over each of Heads pieces of Dim floats from Off on, all with the same weights.
	HeadNorm struct {
		Name
		Buf             Buf
		Off, Heads, Dim int
		W               *Vector
		Eps             float32
	}
	// Rotate applies rotary positions in place to Heads pieces of Dim floats from Off on.
	Rotate struct {
		Name
		Buf             Buf
		Off, Heads, Dim int
		// Local chooses the rotation of sliding layers.
		Local bool
	}
	// KVWrite stores the keys (at KOff) and values (at VOff) of each row in the KV cache of Layer.
	KVWrite struct {
		Name
		Layer      int
		Buf        Buf
		KOff, VOff int
	}
	// Attend lets each query of In (at 0) look at the keys and values of its own sequence up to its own position, or the last Window
	// of them if that is not 0.
	Attend struct {
		Name
		Layer   int
		In, Out Buf
		Window  int
		Scale   float32
	}
	// GLU is Out = act(first half of In) * second half of In.
	GLU struct {
		Name
		In, Out Buf
		Act     Activation
	}
	// Add is Dst += Src.
	Add struct {
		Name
		Dst, Src Buf
	}
	// Pick keeps the rows whose logits are wanted: the steps behind it see only those.
	Pick struct {
		Name
		Buf Buf
	}
)

// Activation is the function of a gated feed-forward part.
type Activation uint8

// The activations.
const (
	SiLU     Activation = iota // x * sigmoid(x)
	GELUTanh                   // the tanh approximation of GELU
)

// Matrix is a weight of Rows x Cols, which may be several tensors of one layout, one behind the other.
type Matrix struct {
	Name       string
	Layout     kernel.Layout
	Rows, Cols int
	Parts      []Part
	// W is nil until the weights are loaded.
	W *kernel.Matrix
}

// Part is one tensor of a Matrix.
type Part struct {
	Tensor Tensor
	// Row maps a row of the matrix part to the tensor's row; nil means the same.
	Row func(i int) int
}

// Vector is a weight of one dimension, as float32.
type Vector struct {
	Name string
	Data []float32
}

// Table is the embedding: one row per token, read as it is stored.
type Table struct{ Tensor Tensor }

// Tensor is a weight as stored: Rows x Cols elements of Type, row by row. A vector has one row.
type Tensor struct {
	Name       string
	Type       gguf.Type
	Rows, Cols int
	// Data are the stored bytes, mapped from the file: read-only, valid while the file is open.
	Data []byte
}

// RowBytes returns row i as stored.
func (t Tensor) RowBytes(i int) []byte {
	n := len(t.Data) / t.Rows
	return t.Data[i*n : (i+1)*n]
}
