package tiny

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// The scales make greedy output lively and steady. Small embeddings: with the
// tied head a large one makes each token repeat itself. A large final norm: the
// best token then leads by more than what rounding changes. Matrices keep the
// size of what goes through them.
const (
	embeddingScale = 0.05
	headGain       = 8
)

// tensor is one tensor to fill: centre plus a uniform random number within
// plus or minus spread.
type tensor struct {
	name   string
	typ    gguf.Type
	dims   []int64 // contiguous axis first
	centre float32
	spread float32
}

// tensors lists the model's tensors in file order.
func (m Model) tensors(tokens int64) []tensor {
	list := []tensor{
		{"token_embd.weight", gguf.Q8_0, []int64{m.Hidden, tokens}, 0, embeddingScale},
		norm("output_norm", m.Hidden, headGain),
	}
	for i := range m.Layers {
		list = append(list, m.layer(fmt.Sprintf("blk.%d.", i))...)
	}
	return list
}

func (m Model) layer(p string) []tensor {
	q, kv := m.Heads*m.HeadSize, m.KVHeads*m.HeadSize
	list := []tensor{
		norm(p+"attn_norm", m.Hidden, 1),
		m.matrix(p+"attn_q", m.Hidden, q),
		m.matrix(p+"attn_k", m.Hidden, kv),
		m.matrix(p+"attn_v", m.Hidden, kv),
		m.matrix(p+"attn_output", q, m.Hidden),
		norm(p+"ffn_norm", m.Hidden, 1),
		m.matrix(p+"ffn_gate", m.Hidden, m.FFN),
		m.matrix(p+"ffn_up", m.Hidden, m.FFN),
		m.matrix(p+"ffn_down", m.FFN, m.Hidden),
	}
	if m.QKVBias {
		list = append(list, bias(p+"attn_q", q), bias(p+"attn_k", kv), bias(p+"attn_v", kv))
	}
	if m.QKNorm {
		list = append(list, norm(p+"attn_q_norm", m.HeadSize, 1), norm(p+"attn_k_norm", m.HeadSize, 1))
	}
	if m.PostNorm {
		list = append(list, norm(p+"post_attention_norm", m.Hidden, 1), norm(p+"post_ffw_norm", m.Hidden, 1))
	}
	return list
}

// matrix has the variance 1/in, so that its output is as large as its input.
func (m Model) matrix(name string, in, out int64) tensor {
	return tensor{name + ".weight", m.Matrix, []int64{in, out}, 0, float32(math.Sqrt(3 / float64(in)))}
}

func norm(name string, size int64, gain float32) tensor {
	return tensor{name + ".weight", gguf.F32, []int64{size}, gain, gain / 10}
}

func bias(name string, size int64) tensor {
	return tensor{name + ".bias", gguf.F32, []int64{size}, 0, 0.1}
}

func (t tensor) spec(model string) gguf.TensorSpec {
	return gguf.TensorSpec{
		Name: t.name, Type: t.typ, Dims: t.dims,
		Write: func(w io.Writer) error { return t.write(w, model) },
	}
}

// write writes the numbers row by row. They come from the generator's bits and
// plain arithmetic, so they are the same with each version of Go.
func (t tensor) write(w io.Writer, model string) error {
	rng := rand.NewChaCha8(sha256.Sum256([]byte(model + "/" + t.name)))
	rows := int64(1)
	for _, d := range t.dims[1:] {
		rows *= d
	}
	row := make([]float32, t.dims[0])
	var buf []byte
	for range rows {
		for i := range row {
			unit := float32(int32(rng.Uint64()>>32)) / (1 << 31) // -1 to 1
			row[i] = t.centre + float32(t.spread*unit)           // converted, so that no machine fuses the two
		}
		buf = encode(buf[:0], t.typ, row)
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// encode appends row in one of the formats that the models use.
func encode(b []byte, typ gguf.Type, row []float32) []byte {
	switch typ {
	case gguf.F32:
		for _, v := range row {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	case gguf.F16:
		for _, v := range row {
			b = binary.LittleEndian.AppendUint16(b, half(v))
		}
	case gguf.Q8_0:
		for len(row) > 0 {
			b = encodeQ8(b, row[:32])
			row = row[32:]
		}
	case gguf.Q4_0:
		for len(row) > 0 {
			b = encodeQ4(b, row[:32])
			row = row[32:]
		}
	}
	return b
}

// encodeQ4 appends one block of 32: a scale in half precision, then nibbles around 8, the block's second half in the upper ones.
func encodeQ4(b []byte, block []float32) []byte {
	var most float32
	for _, v := range block {
		if math.Abs(float64(v)) > math.Abs(float64(most)) {
			most = v
		}
	}
	scale := most / -8
	b = binary.LittleEndian.AppendUint16(b, half(scale))
	q := func(v float32) byte {
		if scale == 0 {
			return 8
		}
		return byte(min(15, math.Round(float64(v/scale))+8))
	}
	for i := range 16 {
		b = append(b, q(block[i])|q(block[i+16])<<4)
	}
	return b
}

// encodeQ8 appends one block of 32: a scale in half precision, then signed bytes.
func encodeQ8(b []byte, block []float32) []byte {
	var most float32
	for _, v := range block {
		most = max(most, float32(math.Abs(float64(v))))
	}
	scale := most / 127
	b = binary.LittleEndian.AppendUint16(b, half(scale))
	for _, v := range block {
		q := 0.0
		if scale > 0 {
			q = math.Round(float64(v / scale))
		}
		b = append(b, byte(int8(q)))
	}
	return b
}

// half converts to IEEE half precision, to nearest, ties to even. Weights are
// far from its largest number; below its smallest normal one it writes zero.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	exp := int32(bits>>23&0xff) - 127 + 15
	if exp <= 0 {
		return sign
	}
	mantissa := bits & 0x7fffff
	h := uint32(exp)<<10 | mantissa>>13
	rest := mantissa & 0x1fff
	if rest > 0x1000 || rest == 0x1000 && h&1 == 1 {
		h++ // may carry into the exponent, which is right
	}
	return sign | uint16(h)
}
