package models

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stoker-llm/stoker/internal/models/safetensors"
)

// The artifact formats.
const (
	FormatGGUF        = "gguf"
	FormatSafetensors = "safetensors"
)

// ErrNotAModel: the path holds no artifact that we know. For errors.Is.
var ErrNotAModel = errors.New("not a model we can read")

// Info is what an artifact says about itself. A number that it does not give is 0.
type Info struct {
	// Path is the file or folder that was inspected, Format "gguf" or "safetensors".
	Path   string `json:"path"`
	Format string `json:"format"`
	// Files are the paths of the weight files; FileBytes the sum of their sizes.
	Files     []string `json:"files"`
	FileBytes int64    `json:"file_bytes"`

	// Architecture is the family in the artifact's own word: general.architecture of a GGUF file, model_type of a
	// config.json.
	Architecture string `json:"architecture"`
	// Name is what the makers call the model, if the artifact says it.
	Name string `json:"name,omitempty"`

	Tensors int `json:"tensors"`
	// TensorBytes is what the weights take in the files, and Parameters how many there are.
	TensorBytes  int64        `json:"tensor_bytes"`
	Parameters   int64        `json:"parameters"`
	Quantization Quantization `json:"quantization"`

	// TrainedContext is the longest context the model was made for, in tokens.
	TrainedContext int `json:"trained_context"`
	Embedding      int `json:"embedding_length"`
	// Layers counts the blocks that answer; MTPLayers the extra ones that predict further tokens.
	Layers    int `json:"layers"`
	MTPLayers int `json:"mtp_layers,omitempty"`
	// Heads and KVHeads are the most that any layer has; KeyHeadSize and ValueHeadSize the elements of one head.
	Heads         int `json:"heads"`
	KVHeads       int `json:"kv_heads"`
	KeyHeadSize   int `json:"key_head_size"`
	ValueHeadSize int `json:"value_head_size"`
	// SlidingWindow is the tokens that a sliding layer looks back, 0 if no layer slides.
	SlidingWindow int `json:"sliding_window,omitempty"`
	Experts       int `json:"experts,omitempty"`
	ExpertsUsed   int `json:"experts_used,omitempty"`

	Vocab Vocab `json:"vocab"`
	// HasChatTemplate reports whether the artifact can answer chats. ChatTemplate is its default template's text and
	// TemplateNames the names of further ones.
	HasChatTemplate bool     `json:"has_chat_template"`
	ChatTemplate    string   `json:"chat_template,omitempty"`
	TemplateNames   []string `json:"template_names,omitempty"`

	KV KV `json:"kv"`
	// KVBytesPerToken is KV.PerToken for a 16-bit cache, where engines start.
	KVBytesPerToken int64 `json:"kv_bytes_per_token"`
	// Split is set for a GGUF model in several files.
	Split *Split `json:"split,omitempty"`
}

// Vocab describes the tokenizer.
type Vocab struct {
	// Model is the kind of tokenizer ("gpt2", "llama", ...) and Pre how text is split before it, both in GGUF's words. For a
	// safetensors folder Model is the tokenizer class.
	Model string `json:"model,omitempty"`
	Pre   string `json:"pre,omitempty"`
	Size  int    `json:"size"`
}

// Split says how a model is spread over files.
type Split struct {
	Count int `json:"count"`
}

// Quantization sums up how the weights are stored.
type Quantization struct {
	// Name is the type that holds the most parameters, such as "Q4_K" or "BF16"; for an MLX folder its mode, bits and group,
	// such as "affine 4 bit g64".
	Name string `json:"name"`
	// Types are all types, the one with the most parameters first.
	Types []TypeCount `json:"types"`
	// MLX is the quantisation block of a safetensors folder.
	MLX *MLXQuantization `json:"mlx,omitempty"`
}

// TypeCount counts the tensors of one type.
type TypeCount struct {
	Type       string `json:"type"`
	Tensors    int    `json:"tensors"`
	Parameters int64  `json:"parameters"`
	Bytes      int64  `json:"bytes"`
}

// MLXQuantization is how a safetensors folder's weights are packed.
type MLXQuantization struct {
	// Method is "mlx", or another quantiser's name such as "awq".
	Method    string `json:"method"`
	Mode      string `json:"mode,omitempty"`
	Bits      int    `json:"bits,omitempty"`
	GroupSize int    `json:"group_size,omitempty"`
	// Overrides is how many modules have a setting of their own.
	Overrides int `json:"overrides,omitempty"`
}

// Inspect reads what the artifact at path says: a GGUF file (the first, if there are several), a safetensors file, or a
// folder of safetensors files with their config.json. A missing path gives an error that is fs.ErrNotExist, one that
// holds something else ErrNotAModel.
func Inspect(path string) (*Info, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	var info *Info
	switch {
	case st.IsDir():
		info, err = inspectFolder(path)
	case strings.HasSuffix(path, ".safetensors"):
		info, err = inspectSafetensors(filepath.Dir(path), []string{filepath.Base(path)})
	default:
		info, err = inspectGGUF(path)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	info.Path = path
	info.KVBytesPerToken = info.KV.PerToken(CacheF16, CacheF16)
	return info, nil
}

// inspectFolder finds the weight files of a folder: those of the index, else those with the names that are usual.
func inspectFolder(dir string) (*Info, error) {
	x, err := safetensors.ReadIndex(filepath.Join(dir, safetensors.IndexName))
	if err == nil {
		return inspectSafetensors(dir, x.Files())
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	files, err := weightFiles(dir)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the folder has no model*.safetensors: %w", ErrNotAModel)
	}
	return inspectSafetensors(dir, files)
}

// weightFiles lists the files of dir that hold a model's weights when there is no index.
func weightFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if ok, _ := filepath.Match("model*.safetensors", e.Name()); ok && !e.IsDir() {
			files = append(files, e.Name())
		}
	}
	return files, nil
}

// tally counts tensors by type.
type tally map[string]TypeCount

func (t tally) add(typ string, parameters, bytes int64) {
	c := t[typ]
	c.Type = typ
	c.Tensors++
	c.Parameters += parameters
	c.Bytes += bytes
	t[typ] = c
}

// into writes the sums to info.
func (t tally) into(info *Info) {
	types := make([]TypeCount, 0, len(t))
	for _, c := range t {
		types = append(types, c)
		info.Tensors += c.Tensors
		info.Parameters += c.Parameters
		info.TensorBytes += c.Bytes
	}
	slices.SortFunc(types, func(a, b TypeCount) int {
		return cmp.Or(cmp.Compare(b.Parameters, a.Parameters), cmp.Compare(a.Type, b.Type))
	})
	info.Quantization.Types = types
	if len(types) > 0 {
		info.Quantization.Name = types[0].Type
	}
}
