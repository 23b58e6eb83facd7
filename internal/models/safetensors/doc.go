// Package safetensors reads safetensors files and the folders around them: the header of a file ([Open], [Read]), the index of a folder
// of several files ([ReadIndex]), and the config.json beside them ([ParseConfig], and [ParseDecoder] for somebody who wants to run the
// model), with the quantisation block that MLX writes. These read no weights, and give plain data that may be shared and needs no
// closing.
//
// [OpenFolder] opens a whole model, with its weights mapped into memory:
//
//	f, err := safetensors.OpenFolder(dir)
//	defer f.Close()
//	t, bytes, err := f.Tensor("model.embed_tokens.weight")
//
// The bytes are foreign. A header is bounded before it is allocated, tensors must lie in the file and apart from each
// other, and JSON must be what the format says.
//
// The format: huggingface/safetensors README, "Format"; the quantisation block: ml-explore/mlx-lm mlx_lm/utils.py; the rope settings:
// huggingface/transformers modeling_rope_utils.py.
package safetensors
