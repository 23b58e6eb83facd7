package block

import (
	"errors"
	"fmt"

	"github.com/stoker-llm/stoker/internal/lm/kernel"
	"github.com/stoker-llm/stoker/internal/lm/tensor"
	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// Source gives an artifact's tensors by the names that GGUF uses, whatever the artifact calls them.
type Source interface {
	// Tensor returns the tensor called name. ok is false if there is none.
	Tensor(name string) (t Tensor, ok bool, err error)
	// Interleaved reports whether the rows of q and k lie in the order of llama's GGUF files: the two halves of a rotary pair side by
	// side.
	Interleaved() bool
}

// Builder lists the steps of one model. The first error stays and ends the work at the end: an architecture's Build needs no
// error checks of its own.
type Builder struct {
	Config Config
	src    Source
	p      *Program
	errs   []error
}

// Build runs an architecture's list of steps and returns its program, with all that is missing in one error.
func Build(c Config, m kernel.Mode, src Source, list func(*Builder)) (*Program, error) {
	heads, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	b := &Builder{Config: c, src: src, p: &Program{Config: c, Mode: m}}
	b.p.Widths = [Buffers]int{
		Hidden: c.Hidden, Normed: c.Hidden, QKV: heads + 2*kv, Mixed: heads, Branch: c.Hidden, GateUp: 2 * c.FFN, Gated: c.FFN, Logits: c.Vocab,
	}
	list(b)
	if len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	return b.p, nil
}

func (b *Builder) fail(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

// Step appends a step.
func (b *Builder) Step(s Step) { b.p.Steps = append(b.p.Steps, s) }

// Has reports whether the artifact has the tensor.
func (b *Builder) Has(name string) bool {
	_, ok, err := b.src.Tensor(name)
	return ok && err == nil
}

// tensor finds a tensor and checks its shape.
func (b *Builder) tensor(name string, rows, cols int) (Tensor, bool) {
	t, ok, err := b.src.Tensor(name)
	switch {
	case err != nil:
		b.fail("%w", err)
	case !ok:
		b.fail("tensor %s is missing", name)
	case t.Rows != rows || t.Cols != cols:
		b.fail("tensor %s is %d x %d, want %d x %d", name, t.Rows, t.Cols, rows, cols)
	case !tensor.Supported(t.Type):
		b.fail("tensor %s is stored as %s, which this engine does not read; it reads %s", name, t.Type, typeNames())
	default:
		return t, true
	}
	return Tensor{}, false
}

func typeNames() string {
	s := ""
	for i, t := range tensor.Types() {
		if i > 0 {
			s += ", "
		}
		s += t.String()
	}
	return s
}

// Vector returns a weight of n floats, with the model's unit offset if it is a norm's.
func (b *Builder) Vector(name string, n int, row func(i int) int, offset float32) *Vector {
	t, ok := b.tensor(name, 1, n)
	if !ok {
		return nil
	}
	raw := make([]float32, n)
	if err := tensor.Dequantize(t.Type, t.Data, raw); err != nil {
		b.fail("tensor %s: %w", name, err)
		return nil
	}
	v := &Vector{Name: name, Data: raw}
	if row != nil {
		v.Data = make([]float32, n)
		for i := range v.Data {
			v.Data[i] = raw[row(i)]
		}
	}
	for i := range v.Data {
		v.Data[i] += offset
	}
	b.p.Vectors = append(b.p.Vectors, v)
	return v
}

// Embed looks up the embeddings.
func (b *Builder) Embed() {
	c := b.Config
	t, _ := b.tensor("token_embd.weight", c.Vocab, c.Hidden)
	b.p.Table = &Table{Tensor: t}
	b.Step(Embed{Name: "embed", Out: Hidden, Table: b.p.Table, Scale: c.EmbedScale})
}

// Norm normalises In into Out with the weights called name.
func (b *Builder) Norm(label, name string, in, out Buf) {
	w := b.Vector(name, b.Config.Hidden, nil, b.Config.UnitOffset)
	b.Step(Norm{Name: Name(label), In: in, Out: out, W: w, Eps: b.Config.Eps})
}

// Slice is a tensor that fills Rows columns of an output.
type Slice struct {
	Tensor string
	Rows   int
	Row    func(i int) int
	// Bias names a vector of Rows floats, optional as the tensor's file has it or not.
	Bias string
}

// Linear multiplies In with several matrices whose outputs lie side by side in Out, with as few steps as their layouts allow.
func (b *Builder) Linear(label string, in, out Buf, slices ...Slice) {
	cols, off := b.p.Widths[in], 0
	var open *Matrix
	openOff := 0
	flush := func() {
		if open != nil {
			b.p.Matrices = append(b.p.Matrices, open)
			b.Step(Linear{Name: Name(label), In: in, Out: out, Off: openOff, W: open, Bias: b.bias(slices, openOff, open.Rows)})
		}
		open = nil
	}
	for _, s := range slices {
		t, ok := b.tensor(s.Tensor, s.Rows, cols)
		if !ok {
			off += s.Rows
			continue
		}
		l, err := kernel.LayoutOf(t.Type, b.p.Mode)
		if err != nil {
			b.fail("tensor %s: %w", s.Tensor, err)
		}
		if cols%32 != 0 || t.Type.BlockSize() > 1 && int64(cols)%t.Type.BlockSize() != 0 {
			b.fail("tensor %s has %d columns, want a multiple of 32 and of its format's block", s.Tensor, cols)
		}
		if open == nil || open.Layout != l {
			flush()
			open, openOff = &Matrix{Name: s.Tensor, Layout: l, Cols: cols}, off
		}
		open.Parts = append(open.Parts, Part{Tensor: t, Row: s.Row})
		open.Rows += s.Rows
		off += s.Rows
	}
	flush()
}

// bias joins the biases of the slices that lie in columns [off, off+n), nil if none has one. A slice without a bias gets zeros.
func (b *Builder) bias(slices []Slice, off, n int) *Vector {
	v := &Vector{Data: make([]float32, n)}
	at, any := 0, false
	for _, s := range slices {
		if lo := at - off; lo >= 0 && lo+s.Rows <= n && s.Bias != "" && b.Has(s.Bias) {
			if w := b.Vector(s.Bias, s.Rows, s.Row, 0); w != nil {
				copy(v.Data[lo:], w.Data)
				v.Name, any = s.Bias, true
			}
		}
		at += s.Rows
	}
	if !any {
		return nil
	}
	return v
}

// Layer names the tensors of layer l: Layer(3)("attn_q.weight") is "blk.3.attn_q.weight".
func Layer(l int) func(string) string {
	return func(s string) string { return fmt.Sprintf("blk.%d.%s", l, s) }
}

// halves undoes the row order of llama's GGUF files, in which a rotary pair's halves lie side by side: row a*dim/2 + j of a head is
// stored as row 2j + a (conversion/llama.py, permute).
func halves(dim int) func(int) int {
	return func(i int) int {
		head, r := i/dim*dim, i%dim
		return head + 2*(r%(dim/2)) + r/(dim/2)
	}
}

// Attention lists a layer's attention: projections, optional norms of q and k, positions, cache, mixing, output to Branch.
func (b *Builder) Attention(l int, headNorms bool) {
	c, n := b.Config, Layer(l)
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	var row func(int) int
	if b.src.Interleaved() {
		row = halves(c.HeadDim)
	}
	b.Linear(n("qkv"), Normed, QKV,
		Slice{Tensor: n("attn_q.weight"), Rows: q, Row: row, Bias: n("attn_q.bias")},
		Slice{Tensor: n("attn_k.weight"), Rows: kv, Row: row, Bias: n("attn_k.bias")},
		Slice{Tensor: n("attn_v.weight"), Rows: kv, Bias: n("attn_v.bias")})
	if headNorms {
		b.headNorm(n("attn_q_norm.weight"), n("q_norm"), 0, c.Heads)
		b.headNorm(n("attn_k_norm.weight"), n("k_norm"), q, c.KVHeads)
	}
	b.Step(Rotate{Name: Name(n("rope")), Buf: QKV, Heads: c.Heads + c.KVHeads, Dim: c.HeadDim, Local: c.Slides(l)})
	b.Step(KVWrite{Name: Name(n("kv")), Layer: l, Buf: QKV, KOff: q, VOff: q + kv})
	window := 0
	if c.Slides(l) {
		window = c.Window
	}
	b.Step(Attend{Name: Name(n("attend")), Layer: l, In: QKV, Out: Mixed, Window: window, Scale: c.AttnScale})
	b.Linear(n("attn_out"), Mixed, Branch, Slice{Tensor: n("attn_output.weight"), Rows: c.Hidden, Bias: n("attn_output.bias")})
}

func (b *Builder) headNorm(name, label string, off, heads int) {
	w := b.Vector(name, b.Config.HeadDim, nil, b.Config.UnitOffset)
	b.Step(HeadNorm{Name: Name(label), Buf: QKV, Off: off, Heads: heads, Dim: b.Config.HeadDim, W: w, Eps: b.Config.Eps})
}

// FeedForward lists a layer's gated feed-forward part, from Normed to Branch.
func (b *Builder) FeedForward(l int, act Activation) {
	c, n := b.Config, Layer(l)
	b.Linear(n("gate_up"), Normed, GateUp,
		Slice{Tensor: n("ffn_gate.weight"), Rows: c.FFN}, Slice{Tensor: n("ffn_up.weight"), Rows: c.FFN})
	b.Step(GLU{Name: Name(n("glu")), In: GateUp, Out: Gated, Act: act})
	b.Linear(n("ffn_out"), Gated, Branch, Slice{Tensor: n("ffn_down.weight"), Rows: c.Hidden})
}

// PreNormLayer lists the layer that most decoders have: a norm before each of its two parts and none behind.
func (b *Builder) PreNormLayer(l int, headNorms bool, act Activation) {
	n := Layer(l)
	b.Norm(n("attn_norm"), n("attn_norm.weight"), Hidden, Normed)
	b.Attention(l, headNorms)
	b.Add(n("attn_add"))
	b.Norm(n("ffn_norm"), n("ffn_norm.weight"), Hidden, Normed)
	b.FeedForward(l, act)
	b.Add(n("out"))
}

// Add adds Branch to the residual stream.
func (b *Builder) Add(label string) { b.Step(Add{Name: Name(label), Dst: Hidden, Src: Branch}) }

// Head ends the list: the final norm and the logits of the rows that want them, with the embeddings as matrix if the model has no
// other.
func (b *Builder) Head() {
	b.Step(Pick{Name: "pick", Buf: Hidden})
	b.Norm("output_norm", "output_norm.weight", Hidden, Normed)
	name := "output.weight"
	if !b.Has(name) {
		name = "token_embd.weight"
	}
	b.Linear("logits", Normed, Logits, Slice{Tensor: name, Rows: b.Config.Vocab})
}

// Bytes is the memory that the loaded matrices take.
func (p *Program) Bytes() int64 {
	var n int64
	for _, m := range p.Matrices {
		n += kernel.PackedBytes(m.Layout, m.Rows, m.Cols)
	}
	for _, v := range p.Vectors {
		n += int64(4 * len(v.Data))
	}
	return n
}

// KVFloats is the floats that the KV cache holds for one position, over all layers.
func (c *Config) KVFloats() int { return 2 * c.Layers * c.KVHeads * c.HeadDim }

// Types counts the formats of the program's matrices by their rows times columns, for reports.
func (p *Program) Types() map[gguf.Type]int64 {
	n := map[gguf.Type]int64{}
	for _, m := range p.Matrices {
		for _, part := range m.Parts {
			n[part.Tensor.Type] += int64(part.Tensor.Rows) * int64(part.Tensor.Cols)
		}
	}
	return n
}
