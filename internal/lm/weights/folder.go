package weights

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/lm/arch"
	"github.com/stoker-llm/stoker/internal/lm/arch/block"
	"github.com/stoker-llm/stoker/internal/lm/tokenizer"
	"github.com/stoker-llm/stoker/internal/models/gguf"
	"github.com/stoker-llm/stoker/internal/models/safetensors"
)

func openFolder(dir string) (*File, error) {
	d, err := safetensors.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	f, err := fromFolder(d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	f.Path = dir
	return f, nil
}

func fromFolder(d *safetensors.Folder) (*File, error) {
	c := d.Config
	a, err := arch.ByType(c.ModelType)
	if err != nil {
		return nil, err
	}
	if c.Quantization != nil {
		return nil, infer.Errorf(infer.ErrUnsupported, "model",
			"the folder's weights are quantised (%s), which the embedded engine reads in GGUF files only", c.Quantization.Method)
	}
	f := &File{
		Size: d.Size(), arch: a, src: newFolderSource(d, a.Name), close: d.Close, Quantization: folderType(d),
		vocab: func() (*tokenizer.Tokenizer, error) { return folderTokenizer(d.Dir) },
	}
	if f.Meta, err = folderMeta(c, a.Name); err != nil {
		return nil, err
	}
	f.Template, err = folderTemplate(d.Dir)
	return f, err
}

// folderType is the format of the embeddings, which stands for all.
func folderType(d *safetensors.Folder) string {
	for _, name := range d.Names() {
		if t, _, err := d.Tensor(name); err == nil && strings.HasSuffix(name, "embed_tokens.weight") {
			return t.DType
		}
	}
	return ""
}

// folderMeta puts config.json into our words.
func folderMeta(c *safetensors.Decoder, name string) (block.Meta, error) {
	if c.Experts > 0 {
		return block.Meta{}, infer.Errorf(infer.ErrUnsupported, "model", "the model has %d experts a layer, which the embedded engine does not know", c.Experts)
	}
	for _, r := range []safetensors.Rope{c.Rope, c.LocalRope} {
		if r.Partial != 0 && r.Partial != 1 {
			return block.Meta{}, infer.Errorf(infer.ErrUnsupported, "model", "only %g of a head's dimensions are rotated, which the embedded engine does not know", r.Partial)
		}
	}
	m := block.Meta{
		Arch: name, Layers: c.Layers, Hidden: c.Hidden, FFN: c.FFN, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Vocab: c.VocabSize,
		Context: c.Context, Eps: c.Eps, RopeBase: c.Rope.Theta, RopeLocal: c.LocalRope.Theta, Scaling: folderScaling(c.Rope.Scaling), QueryScalar: c.QueryScalar,
		Activation: c.Activation, UnitOffset: name == "gemma3", Window: c.SlidingWindow, Pattern: c.SlidingPeriod,
	}
	for _, t := range c.LayerTypes {
		m.Sliding = append(m.Sliding, t == "sliding_attention")
	}
	if m.Window > 0 && m.Sliding == nil && strings.HasPrefix(name, "qwen") {
		for l := range c.Layers {
			m.Sliding = append(m.Sliding, l >= c.SlidingFrom)
		}
	}
	return m, nil
}

func folderScaling(r safetensors.RopeScaling) block.Scaling {
	return block.Scaling{Type: r.Type, Factor: r.Factor, LowFreq: r.LowFreq, HighFreq: r.HighFreq, Original: float64(r.Original)}
}

// folderTokenizer reads tokenizer.json and, if it is there, tokenizer_config.json.
func folderTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	text, err := safetensors.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	config, err := safetensors.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return tokenizer.FromJSON(text, config)
}

// folderSource gives a folder's tensors by our names.
type folderSource struct {
	d      *safetensors.Folder
	prefix string
	gemma  bool
}

func newFolderSource(d *safetensors.Folder, name string) folderSource {
	s := folderSource{d: d, prefix: "model.", gemma: name == "gemma3"}
	for _, n := range d.Names() {
		// A model that also sees keeps its language part below a name of its own.
		if p, ok := strings.CutSuffix(n, "embed_tokens.weight"); ok {
			s.prefix = p
		}
	}
	return s
}

// Interleaved reports that Hugging Face's own files keep a rotary pair's halves apart.
func (s folderSource) Interleaved() bool { return false }

var layerName = regexp.MustCompile(`^blk\.(\d+)\.([a-z_]+)\.(weight|bias)$`)

// inLayer are the names of a layer's tensors.
var inLayer = map[string]string{
	"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
	"attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
	"ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}

// inGemma are those that Gemma calls otherwise.
var inGemma = map[string]string{
	"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
}

// theirs is what Hugging Face calls the tensor that GGUF files call name; empty if it has no such.
func (s folderSource) theirs(name string) string {
	switch name {
	case "token_embd.weight":
		return s.prefix + "embed_tokens.weight"
	case "output_norm.weight":
		return s.prefix + "norm.weight"
	case "output.weight":
		return strings.TrimSuffix(s.prefix, "model.") + "lm_head.weight"
	}
	m := layerName.FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	part := inLayer[m[2]]
	if s.gemma && inGemma[m[2]] != "" {
		part = inGemma[m[2]]
	}
	if part == "" {
		return ""
	}
	return s.prefix + "layers." + m[1] + "." + part + "." + m[3]
}

// Tensor returns the tensor that GGUF files call name. Errors name it as the folder does.
func (s folderSource) Tensor(name string) (block.Tensor, bool, error) {
	theirs := s.theirs(name)
	if theirs == "" || name == "output.weight" && s.tied() {
		return block.Tensor{}, false, nil
	}
	t, b, err := s.d.Tensor(theirs)
	if errors.Is(err, safetensors.ErrNoTensor) {
		return block.Tensor{}, false, nil
	}
	if err != nil {
		return block.Tensor{}, false, err
	}
	var cols int64
	rows := int64(1) // a tensor with one dimension is a row
	switch len(t.Shape) {
	case 1:
		cols = t.Shape[0]
	case 2:
		rows, cols = t.Shape[0], t.Shape[1]
	default:
		return block.Tensor{}, false, fmt.Errorf("tensor %s has %d dimensions", theirs, len(t.Shape))
	}
	r, c, err := dims(theirs, rows, cols)
	types := map[string]gguf.Type{"F32": gguf.F32, "F16": gguf.F16, "BF16": gguf.BF16}
	return block.Tensor{Name: theirs, Type: types[t.DType], Rows: r, Cols: c, Data: b}, err == nil, err
}

// tied reports whether the output matrix is the embedding, whatever else lies in the files.
func (s folderSource) tied() bool {
	tie := s.d.Config.TieEmbeddings
	return tie != nil && *tie
}
