package models

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// inspectGGUF reads a GGUF file and, if it is the first of several, the tensor tables of the others.
func inspectGGUF(path string) (*Info, error) {
	f, err := gguf.Open(path)
	if errors.Is(err, gguf.ErrNotGGUF) {
		return nil, fmt.Errorf("%w: %w", ErrNotAModel, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading: nothing can be lost
	info := &Info{Format: FormatGGUF, Files: []string{path}, FileBytes: f.Size()}
	m := &meta{f: f}
	m.describe(info)
	parts, err := m.parts(path)
	if err != nil {
		return nil, err
	}
	if m.err != nil {
		return nil, m.err
	}
	sum := tally{}
	addTensors(sum, f)
	if len(parts) > 0 {
		info.Split = &Split{Count: len(parts) + 1}
	}
	for _, p := range parts {
		if err := addPart(info, sum, p); err != nil {
			return nil, err
		}
	}
	sum.into(info)
	return info, nil
}

func addTensors(sum tally, f *gguf.File) {
	for _, t := range f.Tensors() {
		sum.add(t.Type.String(), t.Elements(), t.Size)
	}
}

// addPart adds a later part of a split model.
func addPart(info *Info, sum tally, path string) error {
	f, err := gguf.Open(path)
	if err != nil {
		return fmt.Errorf("part %d of %d: %w", len(info.Files)+1, info.Split.Count, err)
	}
	defer func() { _ = f.Close() }() // opened for reading: nothing can be lost
	info.Files = append(info.Files, path)
	info.FileBytes += f.Size()
	addTensors(sum, f)
	return nil
}

// meta reads metadata with defaults. The first failure other than a missing key is kept in err, and everything read after
// it is a default.
type meta struct {
	f    *gguf.File
	arch string
	err  error
}

// keep keeps the first failure, and reports whether the value is there.
func (m *meta) keep(err error) bool {
	if err == nil {
		return true
	}
	if m.err == nil && !errors.Is(err, gguf.ErrNoKey) {
		m.err = err
	}
	return false
}

func (m *meta) text(key string) string {
	s, err := m.f.String(key)
	m.keep(err)
	return s
}

// maxNumber bounds counts and sizes of the metadata: products of three of them still fit an int64.
const maxNumber = 1 << 20

// number reads a count or size from <architecture>.key, def if there is none.
func (m *meta) number(key string, def int64) int64 {
	return m.bounded(key, def, maxNumber)
}

func (m *meta) bounded(key string, def, limit int64) int64 {
	key = m.arch + "." + key
	n, err := m.f.Int(key)
	if !m.keep(err) {
		return def
	}
	if n < 0 || n > limit {
		m.keep(fmt.Errorf("key %q is %d; 0 to %d make sense: %w", key, n, limit, gguf.ErrInvalid))
		return def
	}
	return n
}

// perLayer reads a key that holds one number for all layers or an array with one for each. It is nil if there is none.
func (m *meta) perLayer(key string, layers int64) []int64 {
	full := m.arch + "." + key
	kind, ok := m.f.Kind(full)
	if !ok {
		return nil
	}
	if kind != gguf.Array {
		return repeat(m.number(key, 0), layers)
	}
	n, _, err := m.f.Len(full)
	if m.keep(err) && n > maxLayers {
		m.keep(fmt.Errorf("key %q has %d elements: %w", full, n, gguf.ErrInvalid))
	}
	if m.err != nil {
		return nil
	}
	vs, err := m.f.Ints(full)
	if !m.keep(err) {
		return nil
	}
	for i, v := range vs {
		if v < 0 || v > maxNumber {
			m.keep(fmt.Errorf("key %q: element %d is %d: %w", full, i, v, gguf.ErrInvalid))
			return nil
		}
	}
	return vs
}

func repeat(v, n int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// describe fills in what the metadata says.
func (m *meta) describe(info *Info) {
	m.arch = m.text("general.architecture")
	if m.arch == "" && m.err == nil {
		m.err = fmt.Errorf("the metadata has no general.architecture: %w", ErrNotAModel)
	}
	info.Architecture = m.arch
	info.Name = m.text("general.name")
	info.TrainedContext = int(m.bounded("context_length", 0, 1<<40))
	info.Embedding = int(m.number("embedding_length", 0))
	info.Experts = int(m.number("expert_count", 0))
	if kind, _ := m.f.Kind(m.arch + ".expert_used_count"); kind != gguf.Array {
		info.ExpertsUsed = int(m.number("expert_used_count", 0))
	}
	m.describeVocab(info)
	m.describeTemplates(info)
	m.describeAttention(info)
}

func (m *meta) describeVocab(info *Info) {
	info.Vocab.Model = m.text("tokenizer.ggml.model")
	info.Vocab.Pre = m.text("tokenizer.ggml.pre")
	if n, _, err := m.f.Len("tokenizer.ggml.tokens"); m.keep(err) {
		info.Vocab.Size = int(n)
		return
	}
	info.Vocab.Size = int(m.bounded("vocab_size", 0, 1<<30))
}

func (m *meta) describeTemplates(info *Info) {
	const key = "tokenizer.chat_template"
	info.ChatTemplate = m.text(key)
	info.HasChatTemplate = info.ChatTemplate != ""
	for _, k := range m.f.Keys() {
		if name, ok := strings.CutPrefix(k, key+"."); ok {
			info.TemplateNames = append(info.TemplateNames, name)
		}
	}
}

// parts returns the paths of the later files of a split model, nil if path is the whole model.
func (m *meta) parts(path string) ([]string, error) {
	count, err := m.f.Int("split.count")
	if errors.Is(err, gguf.ErrNoKey) || count <= 1 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	no, err := m.f.Int("split.no")
	if err != nil {
		return nil, err
	}
	base, ok := strings.CutSuffix(path, ".gguf")
	at := regexp.MustCompile(partSuffix).FindStringSubmatchIndex(base)
	if !ok || at == nil || base[at[4]:at[5]] != fmt.Sprintf("%05d", count) {
		return nil, fmt.Errorf("this is part %d of %d, and its name does not end in -%05d-of-%05d.gguf: give the files their names back: %w",
			no+1, count, no+1, count, ErrNotAModel)
	}
	part := func(n int64) string { return fmt.Sprintf("%s-%05d-of-%05d.gguf", base[:at[0]], n, count) }
	if no != 0 || base[at[2]:at[3]] != "00001" {
		return nil, fmt.Errorf("this is part %s of %d: give the first, %s: %w",
			strconv.FormatInt(no+1, 10), count, filepath.Base(part(1)), ErrNotAModel)
	}
	if count > 9999 {
		return nil, fmt.Errorf("a model in %d parts: %w", count, gguf.ErrInvalid)
	}
	var paths []string
	for n := int64(2); n <= count; n++ {
		paths = append(paths, part(n))
	}
	return paths, nil
}
