// Package gguf reads and writes GGUF files: the header, the metadata and the table of tensors. It decodes no weights; a
// reader of weights gets their place from [Tensor.Offset] and [Tensor.Size], their bytes from [File.Data], or without a copy from
// [File.Map] and [File.Bytes].
//
//	f, err := gguf.Open("model.gguf")
//	defer f.Close()
//	arch, err := f.String("general.architecture")
//
// The bytes are foreign and are trusted with nothing. Each count and length is compared with what is left of the file
// before anything is allocated for it, memory grows with bytes really read, and a file whose tensors do not lie wholly in
// it (an interrupted download) is refused. Errors name the byte offset and the key or tensor. Versions 2 and 3 are read;
// version 1 and big-endian files are refused by name.
//
// Metadata values stay in the file until they are asked for: [Open] walks over a vocabulary of 260,000 strings without
// decoding it. A [File] is immutable; all its methods may be called concurrently, except for Map and Close.
//
// A [Writer] makes files of the same format. It streams tensor data from a callback, so a file may be larger than memory.
//
// The format: ggml-org/ggml docs/gguf.md, and ggml/include/gguf.h of ggml-org/llama.cpp.
package gguf
