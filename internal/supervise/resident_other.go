//go:build unix && !linux

package supervise

// Resident is the memory that the child holds now, in bytes. It is unknown here, 0.
func (p *Process) Resident() int64 { return 0 }
