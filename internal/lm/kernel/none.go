//go:build !amd64 || purego

package kernel

// native returns the sets in assembly that this machine runs.
func native() []*Set { return nil }

// Missing returns the sets that exist and cannot run here, with the reason.
func Missing() map[string]string {
	return map[string]string{"avx2": "this program was built for another processor, or without assembly"}
}
