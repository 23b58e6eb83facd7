package hw

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// readLinux reads /proc and /sys below root. The files are described in proc(5) and in the kernel's
// Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
func readLinux(root fs.FS, arch string, logical int) (Machine, error) {
	m := Machine{OS: "linux", Arch: arch, CPU: parseCPU(root, logical)}
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return m, fmt.Errorf("memory: %w", err)
	}
	if m.Memory, err = parseMeminfo(text); err != nil {
		return m, err
	}
	for _, g := range cgroups(root) {
		m.Memory.apply(g)
	}
	return m, nil
}

// parseMeminfo reads total and available memory.
func parseMeminfo(text []byte) (Memory, error) {
	var m Memory
	for line := range bytes.Lines(text) {
		name, rest, _ := strings.Cut(string(line), ":")
		switch name {
		case "MemTotal":
			m.Total = kilobytes(rest)
		case "MemAvailable":
			m.Available = kilobytes(rest)
		}
	}
	if m.Total == 0 || m.Available > m.Total {
		return m, errors.New("memory: /proc/meminfo has no sensible MemTotal and MemAvailable")
	}
	return m, nil
}

// kilobytes reads a value such as "  24683656 kB" in bytes, 0 if it is none.
func kilobytes(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "kB")), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/1024 {
		return 0
	}
	return n * 1024
}

// cgroup is one control group with a memory limit.
type cgroup struct {
	// limit is the file that holds it.
	limit string
	max   int64
	// used is what the group takes, without the file cache that the kernel drops first.
	used int64
}

// apply lowers m to what the group allows.
func (m *Memory) apply(g cgroup) {
	if g.max >= m.Total {
		return // says nothing that the machine does not say
	}
	if m.Limit == 0 || g.max < m.Limit {
		m.Limit, m.LimitOrigin = g.max, "/"+g.limit
	}
	m.Available = min(m.Available, max(0, g.max-g.used))
}

// cgroupFiles are the names that one version of control groups uses.
type cgroupFiles struct {
	base, max, used, cache string
}

// cgroups returns the groups that bound this process: its own and all above it, of either version. In a container the
// path may be one of the host that is not visible here; the levels that are visible still count.
func cgroups(root fs.FS) []cgroup {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil // a kernel without control groups bounds nothing
	}
	v1 := cgroupFiles{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	v2 := cgroupFiles{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}
	var out []cgroup
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number:controllers:path
		if len(parts) != 3 {
			continue
		}
		if parts[0] == "0" && parts[1] == "" {
			out = append(out, walk(root, v2, parts[2])...)
		} else if slices.Contains(strings.Split(parts[1], ","), "memory") {
			out = append(out, walk(root, v1, parts[2])...)
		}
	}
	return out
}

// walk returns the limits from group up to the root of the tree.
func walk(root fs.FS, f cgroupFiles, group string) []cgroup {
	var out []cgroup
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		at := path.Join(f.base, dir)
		if limit, ok := readNumber(root, path.Join(at, f.max)); ok {
			used, _ := readNumber(root, path.Join(at, f.used))
			cache := readStat(root, path.Join(at, "memory.stat"), f.cache)
			out = append(out, cgroup{limit: path.Join(at, f.max), max: limit, used: max(0, used-cache)})
		}
		if dir == "/" {
			return out
		}
	}
}

// readNumber reads a file that holds one number of bytes. ok is false if there is none, or "max".
func readNumber(root fs.FS, name string) (n int64, ok bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n >= 0
}

// readStat reads one line of a file of "name number" lines, 0 if it is not there.
func readStat(root fs.FS, name, key string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if f := strings.Fields(string(line)); len(f) == 2 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return max(0, n)
		}
	}
	return 0
}

// parseCPU reads the processor's name and extensions. On x86-64 they stand in "model name" and "flags"; on arm64 in
// "Features", and the name only in the device tree of small boards.
func parseCPU(root fs.FS, logical int) CPU {
	cpu := CPU{Logical: logical}
	text, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		return cpu
	}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "model name":
			cpu.Model = value
		case "flags", "Features":
			if cpu.SIMD == nil {
				cpu.SIMD = vectorExtensions(strings.Fields(value))
			}
		}
	}
	if cpu.Model == "" {
		model, err := fs.ReadFile(root, "sys/firmware/devicetree/base/model")
		if err == nil {
			cpu.Model = strings.TrimRight(string(model), "\x00\n")
		}
	}
	return cpu
}

// vectorExtensions picks from flags the extensions that matter to inference, in a fixed order.
func vectorExtensions(flags []string) []string {
	matter := []string{
		"sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
		"avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
		"asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "svei8mm", "sme", "sme2",
	}
	out := []string{}
	for _, m := range matter {
		if slices.Contains(flags, m) {
			out = append(out, m)
		}
	}
	return out
}
