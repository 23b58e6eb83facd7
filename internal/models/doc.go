// Package models knows the artifacts on this machine: what a model file or folder says about itself ([Inspect]), what name
// clients use for it ([ServedName]), and where the models are ([Store]).
//
//	a, err := store.Resolve("smollm2")
//	info, err := models.Inspect(a.Path)
//	need := info.KV.Bytes(8192, models.CacheF16, models.CacheF16)
//
// It reads headers and small JSON files, never weights, and never the network: a name that no folder holds is an error with
// the nearest names. Nothing is cached, so everything may be called concurrently, and what it returns is plain data.
// Inspecting a GGUF file with a large vocabulary takes some tens of milliseconds, because its strings are walked over.
package models
