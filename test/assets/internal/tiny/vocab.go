package tiny

import (
	"fmt"
	"strings"

	"github.com/stoker-llm/stoker/internal/models/gguf"
)

// copyVocabulary copies the tokenizer's keys, and not the vocabulary file's chat
// template: each model says which one it wants.
func copyVocabulary(out *gguf.Writer, vocab *gguf.File) error {
	for _, key := range vocab.Keys() {
		if !strings.HasPrefix(key, "tokenizer.ggml.") {
			continue
		}
		v, err := value(vocab, key)
		if err != nil {
			return err
		}
		if err := out.Set(key, v); err != nil {
			return err
		}
	}
	return nil
}

// value reads a metadata value in the Go type that writes the same type again.
// Vocabularies use these few.
func value(f *gguf.File, key string) (any, error) {
	kind, _ := f.Kind(key) // the key is from Keys
	switch kind {
	case gguf.String:
		return f.String(key)
	case gguf.Bool:
		return f.Bool(key)
	case gguf.Uint32:
		v, err := f.Int(key)
		return uint32(v), err
	case gguf.Array:
		return array(f, key)
	}
	return nil, fmt.Errorf("%s: a vocabulary key of type %s", key, kind)
}

func array(f *gguf.File, key string) (any, error) {
	_, elem, err := f.Len(key)
	if err != nil {
		return nil, err
	}
	switch elem {
	case gguf.String:
		return f.Strings(key)
	case gguf.Int32:
		vs, err := f.Ints(key)
		return convert[int32](vs), err
	case gguf.Float32:
		vs, err := f.Floats(key)
		return convert[float32](vs), err
	}
	return nil, fmt.Errorf("%s: a vocabulary array of %s", key, elem)
}

func convert[To, From int32 | int64 | float32 | float64](vs []From) []To {
	out := make([]To, len(vs))
	for i, v := range vs {
		out[i] = To(v)
	}
	return out
}
