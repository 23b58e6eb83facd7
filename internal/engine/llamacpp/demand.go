package llamacpp

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/stoker-llm/stoker/internal/engine"
	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/models"
)

// mode is how the engine computes: it rounds activations to 8 bits for quantised weights on a CPU, and chooses kernels by
// batch and device, so its answers are its own.
const mode = "engine's own"

// silentArchitectures load in llama.cpp and cannot write text through llama-server, each with what it is for.
var silentArchitectures = map[string]string{
	"bert": "embeddings", "modern-bert": "embeddings", "nomic-bert": "embeddings", "nomic-bert-moe": "embeddings",
	"neo-bert": "embeddings", "jina-bert-v2": "embeddings", "jina-bert-v3": "embeddings", "eurobert": "embeddings",
	"gemma-embedding": "embeddings", "llama-embed": "embeddings", "t5encoder": "embeddings",
	"clip": "images beside another model", "wavtokenizer-dec": "sound",
	"dream": "text diffusion", "llada": "text diffusion", "llada-moe": "text diffusion", "rnd1": "text diffusion",
}

// Demand says what serving m would need from llama-server with the settings of this driver, or refuses m by name. It reads
// headers only.
func (d *Driver) Demand(_ context.Context, m engine.Model) (engine.Demand, error) {
	info, err := inspect(m)
	if err != nil {
		return engine.Demand{}, err
	}
	return engine.Demand{
		Architecture:    info.Architecture,
		Quantization:    info.Quantization.Name,
		Weights:         engine.Bytes{N: info.FileBytes, Origin: engine.Declared},
		KVPerToken:      engine.Bytes{N: info.KV.PerToken(models.CacheF16, models.CacheF16), Origin: engine.Declared},
		Overhead:        engine.Bytes{N: overhead(info), Origin: engine.Estimated},
		PerSlot:         engine.Bytes{N: info.KV.SlidingBound(models.CacheF16, models.CacheF16) + info.KV.StateBytes, Origin: engine.Declared},
		TrainedContext:  info.TrainedContext,
		HasChatTemplate: info.HasChatTemplate,
		Mode:            mode,
	}, nil
}

// inspect reads the header of m and refuses what llama-server cannot serve.
func inspect(m engine.Model) (*models.Info, error) {
	if m.Format != models.FormatGGUF {
		return nil, infer.Errorf(infer.ErrUnsupported, "model", "%s is a %s model; llama-server loads GGUF files only", m.Name, m.Format)
	}
	info, err := models.Inspect(m.Path)
	if err != nil {
		return nil, badModel(m, err)
	}
	if info.Format != models.FormatGGUF {
		return nil, infer.Errorf(infer.ErrUnsupported, "model", "%s is a %s model; llama-server loads GGUF files only", m.Name, info.Format)
	}
	if use, ok := silentArchitectures[info.Architecture]; ok {
		return nil, infer.Errorf(infer.ErrUnsupported, "model", "%s has architecture %s, which is for %s and cannot answer chats or completions", m.Name, info.Architecture, use)
	}
	for _, part := range info.Files {
		if _, err := os.Stat(part); err != nil {
			return nil, badModel(m, err)
		}
	}
	if info.Split != nil && info.Split.Count != len(info.Files) {
		return nil, infer.Errorf(infer.ErrInvalid, "model", "%s is split into %d files, of which %d are there", m.Name, info.Split.Count, len(info.Files))
	}
	return info, nil
}

// badModel says that m cannot be read. The path stays out of the message, which may reach clients; the cause has the file
// at fault.
func badModel(m engine.Model, err error) error {
	msg := m.Name + " cannot be read as a GGUF model"
	if errors.Is(err, fs.ErrNotExist) {
		msg = m.Name + " is not whole: a file is missing"
	}
	return &infer.Error{Kind: infer.ErrInvalid, Param: "model", Message: msg, Err: err}
}

// overhead estimates what an engine takes beside weights and KV: the runtime, the buffers of one batch, and what it keeps of
// earlier prompts.
func overhead(info *models.Info) int64 {
	const (
		runtimeBytes = 64 << 20
		floatBytes   = 4
		// Activations of one token while it passes through a block: a few vectors as wide as the widest matrix, which is
		// about four times the embedding.
		vectors = 4 * 4
	)
	_, micro := startPlan{weights: info.FileBytes}.batch()
	compute := int64(micro) * floatBytes * (int64(info.Vocab.Size) + vectors*int64(info.Embedding))
	return runtimeBytes + compute + cacheRAMMiB<<20
}
