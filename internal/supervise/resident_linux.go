package supervise

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Resident is the memory that the child holds now, its mapped files included, in bytes; 0 if that cannot be known.
func (p *Process) Resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b)) // total and resident, in pages
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
