package models

import (
	"fmt"
	"slices"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// maxLayers bounds what per-layer arrays may make us allocate; the deepest models have some 200 layers.
const maxLayers = 4096

// attention is what the metadata says about the layers' attention.
type attention struct {
	blocks, layers   int64 // blocks includes those that predict further tokens
	heads, kvHeads   []int64
	key, value       int64 // elements of one head in a full layer
	keySWA, valueSWA int64 // the same in a sliding layer
	window           int64
	sliding          []bool
	fixed            []bool // layers that remember no tokens
	recurrent        []bool // of those, the ones that hold a state
	latent           bool   // keys and values are one latent (MLA)
}

// describeAttention fills in the layers and what they remember. The rules are those by which llama.cpp lays out its cache
// (src/llama-hparams.cpp and src/models/ of ggml-org/llama.cpp). A layer of which we do not know that it remembers less
// counts as one that remembers everything.
func (m *meta) describeAttention(info *Info) {
	a, ok := m.readAttention()
	if !ok {
		return
	}
	info.Layers = int(a.layers)
	info.MTPLayers = int(a.blocks - a.layers)
	info.Heads = int(largest(a.heads))
	info.KVHeads = int(largest(a.kvHeads))
	info.KeyHeadSize, info.ValueHeadSize = int(a.key), int(a.value)
	kv := &info.KV
	for i := range a.layers {
		kv.add(a.layer(i))
		if a.recurrent[i] {
			kv.StateBytes += m.stateBytes()
		}
	}
	if kv.SlidingLayers > 0 {
		kv.SlidingWindow = int(a.window)
		info.SlidingWindow = int(a.window)
	}
}

// layer returns what layer i remembers.
func (a *attention) layer(i int64) layer {
	key, value := a.key, a.value
	if a.sliding[i] {
		key, value = a.keySWA, a.valueSWA
	}
	if a.latent {
		value = 0
	}
	return layer{keys: a.kvHeads[i] * key, values: a.kvHeads[i] * value, sliding: a.sliding[i], fixed: a.fixed[i]}
}

func largest(vs []int64) int64 {
	if len(vs) == 0 {
		return 0
	}
	return slices.Max(vs)
}

func (m *meta) readAttention() (*attention, bool) {
	a := &attention{blocks: m.bounded("block_count", 0, maxLayers)}
	mtp := m.bounded("nextn_predict_layers", 0, maxLayers)
	if mtp > a.blocks {
		m.keep(fmt.Errorf("key %q is %d, more than the %d blocks: %w", m.arch+".nextn_predict_layers", mtp, a.blocks, gguf.ErrInvalid))
	}
	a.layers = a.blocks - mtp
	a.heads = m.layerNumbers("attention.head_count", a.blocks, 0)
	a.kvHeads = m.layerNumbers("attention.head_count_kv", a.blocks, -1)
	if m.err != nil {
		return nil, false
	}
	if a.kvHeads == nil {
		a.kvHeads = a.heads
	}
	m.readHeadSizes(a)
	a.window, a.sliding = m.slidingLayers(a.blocks, a.layers)
	a.recurrent, a.fixed = m.fixedLayers(a)
	return a, m.err == nil
}

// layerNumbers is perLayer with exactly one number for each layer. Without the key all are def, or, if def is negative,
// the result is nil.
func (m *meta) layerNumbers(key string, layers, def int64) []int64 {
	vs := m.perLayer(key, layers)
	if vs == nil && def >= 0 {
		return repeat(def, layers)
	}
	if vs != nil && int64(len(vs)) < layers {
		m.keep(fmt.Errorf("key %q has %d elements for %d layers: %w", m.arch+"."+key, len(vs), layers, gguf.ErrInvalid))
		return nil
	}
	return vs
}

func (m *meta) readHeadSizes(a *attention) {
	size := int64(0)
	if len(a.heads) > 0 && a.heads[0] > 0 {
		size = m.number("embedding_length", 0) / a.heads[0]
	} else if n := largest(a.heads); n > 0 {
		size = m.number("embedding_length", 0) / n
	}
	a.key = m.number("attention.key_length", size)
	a.value = m.number("attention.value_length", size)
	a.keySWA = m.number("attention.key_length_swa", a.key)
	a.valueSWA = m.number("attention.value_length_swa", a.value)
	a.latent = m.number("attention.key_length_mla", 0) > 0 && m.number("attention.value_length_mla", 0) > 0
}

// swaPattern says which layers slide when the file does not: all but each period-th one, the last of each period or (first)
// the first of it.
type swaPattern struct {
	period int64
	first  bool
}

// slidingPattern returns the pattern of an architecture. ok is false for one that never slides in llama.cpp, whatever its
// file says (phi3), or of which we know nothing.
func slidingPattern(arch string) (p swaPattern, ok bool) {
	switch arch {
	case "gemma2", "gpt-oss":
		return swaPattern{period: 2}, true
	case "exaone4", "exaone-moe", "olmo2", "llama4", "cohere2", "afmoe", "mellum", "muse-glimmer":
		return swaPattern{period: 4}, true
	case "cohere2moe", "laguna", "smallthinker":
		return swaPattern{period: 4, first: true}, true
	case "modern-bert":
		return swaPattern{period: 3, first: true}, true
	case "gemma3n":
		return swaPattern{period: 5}, true
	case "gemma3", "gemma-embedding":
		return swaPattern{period: 6}, true
	case "plamo3":
		return swaPattern{period: 8}, true
	default:
		return swaPattern{}, false
	}
}

// llama4Chunk is the window of Llama 4, whose files do not say it.
const llama4Chunk = 8192

// slidingLayers returns the window and which of the blocks slide. The pattern in the file is an array with a truth value
// for each layer, or a period.
func (m *meta) slidingLayers(blocks, layers int64) (window int64, sliding []bool) {
	sliding = make([]bool, blocks)
	window = m.bounded("attention.sliding_window", 0, 1<<40)
	if _, said := m.f.Kind(m.arch + ".attention.sliding_window"); m.arch == "llama4" && (!said || window > 0) {
		window = llama4Chunk
	}
	if window == 0 {
		return 0, sliding
	}
	const key = "attention.sliding_window_pattern"
	p, known := slidingPattern(m.arch)
	if kind, _ := m.f.Kind(m.arch + "." + key); kind == gguf.Array {
		for i, v := range m.layerNumbers(key, layers, 0) {
			if int64(i) < layers {
				sliding[i] = v != 0
			}
		}
		return window, sliding
	}
	if !known {
		return window, sliding
	}
	p.period = m.number(key, p.period)
	for i := range layers {
		sliding[i] = p.period == 0 || p.first && i%p.period != 0 || !p.first && i%p.period < p.period-1
	}
	return window, sliding
}

// fixedLayers returns which layers hold a state of fixed size, and which remember no tokens: those, and the last ones of
// models that share the KV of earlier layers. Layers without KV heads add nothing either way.
func (m *meta) fixedLayers(a *attention) (recurrent, fixed []bool) {
	recurrent, fixed = make([]bool, a.blocks), make([]bool, a.blocks)
	listed := m.layerNumbers("attention.recurrent_layers", a.layers, -1)
	interval := m.fullInterval()
	stateful := m.stateBytes() > 0
	for i := range a.layers {
		switch {
		case listed != nil:
			recurrent[i] = listed[i] != 0
		case interval > 0:
			recurrent[i] = (i+1)%interval != 0
		default:
			recurrent[i] = stateful && a.kvHeads[i] == 0
		}
		fixed[i] = recurrent[i] || i >= a.layers-m.sharedLayers(a.layers)
	}
	if m.arch == "falcon-h1" { // each layer has both, a state and attention
		for i := range recurrent {
			recurrent[i], fixed[i] = true, false
		}
	}
	return recurrent, fixed
}

// fullInterval is n if each nth layer has full attention and the others a state, 0 if the architecture is not of that kind.
func (m *meta) fullInterval() int64 {
	switch m.arch {
	case "qwen3next", "qwen35", "qwen35moe", "qwen4exp":
		return m.number("full_attention_interval", 4)
	case "minimax-01":
		return m.number("full_attention_interval", 8)
	default:
		return 0
	}
}

// sharedLayers is how many of the last layers use the KV of earlier ones.
func (m *meta) sharedLayers(layers int64) int64 {
	if m.arch == "gemma3n" {
		return max(0, layers-20) // the file does not say it
	}
	return m.number("attention.shared_kv_layers", 0)
}

// stateBytes is the state that one recurrent layer holds for a sequence: of a state space model or gated delta net, the
// last inputs of its convolution and its state; of LFM2's short convolutions, the last inputs. Both are kept as f32.
func (m *meta) stateBytes() int64 {
	if l := m.number("shortconv.l_cache", 0); l > 0 {
		return 4 * m.number("embedding_length", 0) * (l - 1)
	}
	inner, state := m.number("ssm.inner_size", 0), m.number("ssm.state_size", 0)
	conv := max(0, m.number("ssm.conv_kernel", 0)-1)
	return 4 * (conv*(inner+2*m.number("ssm.group_count", 0)*state) + state*inner)
}
