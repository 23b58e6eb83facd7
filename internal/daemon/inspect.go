package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/stoker-llm/stoker/internal/models"
)

// InspectReport is what a model file says about itself.
type InspectReport struct{ models.Info }

// Inspect reads the headers of the artifact at path. It loads no weights.
func (Host) Inspect(_ context.Context, path string) (*InspectReport, error) {
	info, err := models.Inspect(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: give the path of a GGUF file, a safetensors file or a folder", err)
	}
	if err != nil {
		return nil, err
	}
	return &InspectReport{*info}, nil
}

// templateShown is how much of a chat template the text report shows; --json has all of it.
const templateShown = 300

// WriteText writes the report for a person.
func (r *InspectReport) WriteText(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s "+format+"\n", append([]any{name}, args...)...)
	}
	row("file", "%s", r.Path)
	row("format", "%s, %s in %d file(s)", r.Format, mib(r.FileBytes), len(r.Files))
	row("architecture", "%s%s", r.Architecture, named(r.Name))
	row("parameters", "%s in %d tensors", millions(r.Parameters), r.Tensors)
	row("quantisation", "%s: %s", r.Quantization.Name, typeList(r.Quantization.Types))
	row("context", "%d tokens (trained)", r.TrainedContext)
	row("layers", "%d, %d heads, %d KV heads of %d", r.Layers, r.Heads, r.KVHeads, r.KeyHeadSize)
	if r.SlidingWindow > 0 {
		row("sliding", "%d of %d layers look back %d tokens", r.KV.SlidingLayers, r.Layers, r.SlidingWindow)
	}
	if r.Experts > 0 {
		row("experts", "%d, %d used for a token", r.Experts, r.ExpertsUsed)
	}
	if r.MTPLayers > 0 {
		row("mtp", "%d extra layer(s) that predict further tokens", r.MTPLayers)
	}
	row("vocabulary", "%s%s, %d tokens", r.Vocab.Model, named(r.Vocab.Pre), r.Vocab.Size)
	row("KV cache", "%d bytes per token at 16 bits%s", r.KVBytesPerToken, slidingNote(r))
	row("chat template", "%s", template(&r.Info))
	_, err := io.WriteString(w, b.String())
	return err
}

func named(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func slidingNote(r *InspectReport) string {
	if r.KV.SlidingLayers == 0 && r.KV.StateBytes == 0 {
		return ""
	}
	return fmt.Sprintf(", and at most %s that does not grow", mib(r.KV.SlidingBound(models.CacheF16, models.CacheF16)+r.KV.StateBytes))
}

func template(i *models.Info) string {
	if !i.HasChatTemplate {
		return "none: this model continues text and cannot chat"
	}
	text := strings.Join(strings.Fields(i.ChatTemplate), " ")
	if len(text) > templateShown {
		cut := templateShown
		for cut > 0 && text[cut]&0xC0 == 0x80 {
			cut--
		}
		text = text[:cut] + fmt.Sprintf(" ... (%d bytes in all; --json shows them)", len(i.ChatTemplate))
	}
	return text
}

func typeList(types []models.TypeCount) string {
	parts := make([]string, len(types))
	for i, t := range types {
		parts[i] = fmt.Sprintf("%d %s", t.Tensors, t.Type)
	}
	return strings.Join(parts, ", ")
}

func mib(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func millions(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.2f billion", float64(n)/1e9)
	}
	return fmt.Sprintf("%.1f million", float64(n)/1e6)
}
