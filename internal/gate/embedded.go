package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/stoker-llm/stoker/internal/lm"
	"github.com/stoker-llm/stoker/internal/lm/tokenizer"
)

// Embedded is stoker's own engine as a subject.
type Embedded struct{ Engine *lm.Engine }

var _ Tapper = Embedded{}

// Mode is the engine's.
func (e Embedded) Mode() string { return e.Engine.Facts().Mode }

// Tokenize turns text into tokens.
func (e Embedded) Tokenize(text string, special bool) ([]int32, error) {
	return e.Engine.Tokenizer().Encode(text, tokenizer.Options{Special: special, BOS: true}), nil
}

// Greedy continues tokens.
func (e Embedded) Greedy(ctx context.Context, tokens []int32, n int) ([]int32, error) {
	return e.Engine.Greedy(ctx, tokens, n)
}

// Inside computes tokens and shows logits and layers.
func (e Embedded) Inside(ctx context.Context, tokens []int32, positions []int) (logits [][]float32, taps [][][]float32, err error) {
	logits, taps = make([][]float32, len(positions)), make([][][]float32, len(positions))
	at := func(pos int, f func(i int)) {
		for i, p := range positions {
			if p == pos {
				f(i)
			}
		}
	}
	err = e.Engine.Trace(ctx, tokens, lm.Trace{
		Logits: func(pos int, x []float32) { at(pos, func(i int) { logits[i] = slices.Clone(x) }) },
		Tap: func(label string, from, rows, width int, x []float32) {
			var layer int
			isLayer := label == "output_norm"
			if n, err := fmt.Sscanf(label, "blk.%d.out", &layer); n == 1 && err == nil {
				isLayer = label == fmt.Sprintf("blk.%d.out", layer)
			}
			if !isLayer {
				return
			}
			for r := range rows {
				at(from+r, func(i int) { taps[i] = append(taps[i], slices.Clone(x[r*width:(r+1)*width])) })
			}
		},
	})
	return logits, taps, err
}
