// Package hw reads facts about this machine: its memory, what of it is free and what bounds this process, and its
// processor. It decides nothing: what may be used, and for what, is plan's business.
//
//	m, err := hw.Read()
//
// Read looks at the machine anew each time (well under a millisecond) and may be called concurrently. There is one file
// per system; the Linux reader takes a file tree, so that tests can show it recorded machines.
package hw

// Machine is what was found out about this machine.
type Machine struct {
	// OS and Arch are Go's words: "linux", "arm64".
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    CPU    `json:"cpu"`
	Memory Memory `json:"memory"`
}

// CPU is the processor.
type CPU struct {
	// Model is its name in the system's own words, empty if the system does not say.
	Model string `json:"model,omitempty"`
	// Logical is the processors that this process may run on.
	Logical int `json:"logical"`
	// SIMD are the vector extensions that matter to inference, in the system's own words, in a fixed order: "avx2", "fma",
	// "asimddp", ...
	SIMD []string `json:"simd"`
}

// Memory is this machine's memory, in bytes.
type Memory struct {
	Total int64 `json:"total_bytes"`
	// Available is what programs can still take without anything being swapped out, and without Limit being reached.
	Available int64 `json:"available_bytes"`
	// Limit is the smallest bound set for this process from outside (a container's, a service's), 0 if there is none.
	// LimitOrigin is the file that says so.
	Limit       int64  `json:"limit_bytes,omitempty"`
	LimitOrigin string `json:"limit_origin,omitempty"`
	// GPUWorkingSet is how much of the memory the GPU can use on a machine where it shares it, 0 elsewhere.
	// GPUEstimated reports whether that is the system's usual share, not a number that somebody set.
	GPUWorkingSet int64 `json:"gpu_working_set_bytes,omitempty"`
	GPUEstimated  bool  `json:"gpu_estimated,omitempty"`
}

// Read returns what is known about this machine. An error means that its memory could not be read; other facts that are
// missing are left empty.
func Read() (Machine, error) { return read() }
