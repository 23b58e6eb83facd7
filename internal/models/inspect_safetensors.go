package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stoker-llm/stoker/internal/models/safetensors"
)

// inspectSafetensors reads the headers of files, which lie in dir, and the JSON files beside them. Without a config.json
// only what the headers say is known.
func inspectSafetensors(dir string, files []string) (*Info, error) {
	info := &Info{Format: FormatSafetensors}
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	describeConfig(info, config)
	tensors := map[string]safetensors.Tensor{}
	for _, name := range files {
		path := filepath.Join(dir, name)
		h, err := safetensors.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("file %s of the model is missing (the download did not finish): %w", name, err)
		}
		if err != nil {
			return nil, err
		}
		info.Files = append(info.Files, path)
		info.FileBytes += h.Size
		for _, t := range h.Tensors {
			if _, dup := tensors[t.Name]; dup {
				return nil, fmt.Errorf("file %s: tensor %q is in another file too: %w", name, t.Name, safetensors.ErrInvalid)
			}
			tensors[t.Name] = t
		}
	}
	countTensors(tensors, config.Quantization).into(info)
	describePacking(info, config.Quantization)
	return info, describeTokenizer(info, dir)
}

func readConfig(dir string) (*safetensors.Config, error) {
	text, err := safetensors.ReadFile(filepath.Join(dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &safetensors.Config{}, nil
	}
	if err != nil {
		return nil, err
	}
	return safetensors.ParseConfig(text)
}

// countTensors counts parameters. A packed matrix holds several in each of its 32-bit words, and its scales and biases are
// none: that a module has scales is how MLX itself tells that it is packed.
func countTensors(tensors map[string]safetensors.Tensor, q *safetensors.Quantization) tally {
	sum := tally{}
	for name, t := range tensors {
		module, last := splitName(name)
		_, packed := tensors[module+".scales"]
		switch {
		case packed && last == "weight" && t.DType == "U32" && q != nil && q.Method == "mlx":
			o := moduleSetting(q, module)
			sum.add(o.label(), t.Elements()*32/int64(o.Bits), t.Size)
		case packed && (last == "scales" || last == "biases"):
			sum.add(t.DType+" scales", 0, t.Size)
		default:
			sum.add(t.DType, t.Elements(), t.Size)
		}
	}
	return sum
}

func splitName(name string) (module, last string) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name
	}
	return name[:i], name[i+1:]
}

// setting is how one module is packed.
type setting safetensors.Override

func (s setting) label() string { return fmt.Sprintf("%s %d bit g%d", s.Mode, s.Bits, s.GroupSize) }

// moduleSetting returns the setting of a packed module. One that the config calls plain but that has scales is packed all
// the same, with the common setting.
func moduleSetting(q *safetensors.Quantization, module string) setting {
	o := q.Module(module)
	if o.Plain {
		o = safetensors.Override{Bits: q.Bits, GroupSize: q.GroupSize, Mode: q.Mode}
	}
	return setting(o)
}

func describePacking(info *Info, q *safetensors.Quantization) {
	if q == nil {
		return
	}
	info.Quantization.MLX = &MLXQuantization{Method: q.Method, Mode: q.Mode, Bits: q.Bits, GroupSize: q.GroupSize, Overrides: len(q.Overrides)}
	if q.Method == "mlx" {
		info.Quantization.Name = setting{Bits: q.Bits, GroupSize: q.GroupSize, Mode: q.Mode}.label()
		return
	}
	info.Quantization.Name = q.Method
}

// describeConfig fills in what config.json says.
func describeConfig(info *Info, c *safetensors.Config) {
	info.Architecture = c.ModelType
	if info.Architecture == "" && len(c.Architectures) > 0 {
		info.Architecture = c.Architectures[0]
	}
	info.TrainedContext, info.Embedding = c.Context, c.Hidden
	info.Layers, info.MTPLayers = c.Layers, c.MTPLayers
	info.Heads, info.KVHeads = c.Heads, c.KVHeads
	info.KeyHeadSize, info.ValueHeadSize = c.HeadDim, c.HeadDim
	info.Experts, info.ExpertsUsed = c.Experts, c.ExpertsUsed
	info.Vocab.Size = c.VocabSize
	for i := range c.Layers {
		info.KV.add(configLayer(c, i))
	}
	if info.KV.SlidingLayers > 0 {
		info.KV.SlidingWindow, info.SlidingWindow = c.SlidingWindow, c.SlidingWindow
	}
}

// configLayer returns what layer i remembers. A layer of which the config does not say that it remembers less counts as one
// that remembers everything.
func configLayer(c *safetensors.Config, i int) layer {
	width := int64(c.KVHeads) * int64(c.HeadDim)
	l := layer{keys: width, values: width}
	if c.KVLoraRank > 0 {
		l = layer{keys: int64(c.KVLoraRank + c.RopeHeadDim)}
	}
	l.fixed = i >= c.Layers-c.SharedKVLayers
	switch {
	case i < len(c.LayerTypes):
		kind := c.LayerTypes[i]
		l.sliding = c.SlidingWindow > 0 && (kind == "sliding_attention" || kind == "chunked_attention")
		l.fixed = l.fixed || slices.Contains([]string{"linear_attention", "conv", "mamba", "recurrent"}, kind)
	case c.FullInterval > 0:
		l.fixed = l.fixed || (i+1)%c.FullInterval != 0
	case c.SlidingWindow > 0 && c.SlidingPeriod > 0:
		l.sliding = (i+1)%c.SlidingPeriod != 0
	}
	return l
}

// describeTokenizer fills in the tokenizer's class and the chat template, which is a file of its own in newer folders and
// in tokenizer_config.json in older ones.
func describeTokenizer(info *Info, dir string) error {
	text, err := safetensors.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if err == nil {
		err = describeTokenizerConfig(info, text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err = safetensors.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if err == nil {
		info.ChatTemplate = string(text)
	}
	info.HasChatTemplate = info.ChatTemplate != ""
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func describeTokenizerConfig(info *Info, text []byte) error {
	var j struct {
		Class    string          `json:"tokenizer_class"`
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return fmt.Errorf("tokenizer_config.json is not valid JSON: %w", safetensors.ErrInvalid)
	}
	info.Vocab.Model = j.Class
	if len(j.Template) == 0 || string(j.Template) == "null" {
		return nil
	}
	if json.Unmarshal(j.Template, &info.ChatTemplate) == nil {
		return nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(j.Template, &named); err != nil {
		return fmt.Errorf("tokenizer_config.json: chat_template is neither a text nor a list of named texts: %w", safetensors.ErrInvalid)
	}
	for _, t := range named {
		if t.Name == "default" {
			info.ChatTemplate = t.Template
		} else {
			info.TemplateNames = append(info.TemplateNames, t.Name)
		}
	}
	return nil
}
