// Package safetensors reads what safetensors files and the folders around them say about a model, without its weights:
// the header of a file ([Open], [Read]), the index of a folder of several files ([ReadIndex]), and the config.json beside
// them ([ParseConfig]), with the quantisation block that MLX writes.
//
// The bytes are foreign. A header is bounded before it is allocated, tensors must lie in the file and apart from each
// other, and JSON must be what the format says. All results are plain data: they may be shared and need no closing.
//
// The format: huggingface/safetensors README, "Format"; the quantisation block: ml-explore/mlx-lm mlx_lm/utils.py.
package safetensors
