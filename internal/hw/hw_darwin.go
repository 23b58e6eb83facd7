package hw

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func read() (Machine, error) {
	m := Machine{OS: "darwin", Arch: runtime.GOARCH, CPU: readCPU()}
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return m, fmt.Errorf("memory: sysctl hw.memsize: %w", err)
	}
	m.Memory.Total = int64(total)
	if m.Memory.Available, err = available(); err != nil {
		return m, err
	}
	if runtime.GOARCH == "arm64" {
		limit, err := unix.SysctlUint32("iogpu.wired_limit_mb")
		if err != nil {
			limit = 0 // older systems have no such setting
		}
		m.Memory.GPUWorkingSet, m.Memory.GPUEstimated = appleWorkingSet(m.Memory.Total, int64(limit))
	}
	return m, nil
}

// available sums the pages that are free, that programs have marked as droppable, and that only cache files: what Activity
// Monitor shows as neither used nor compressed.
func available() (int64, error) {
	var pages int64
	for _, name := range []string{"vm.page_free_count", "vm.page_purgeable_count", "vm.page_pageable_external_count"} {
		n, err := unix.SysctlUint32(name)
		if err != nil {
			return 0, fmt.Errorf("memory: sysctl %s: %w", name, err)
		}
		pages += int64(n)
	}
	return pages * int64(os.Getpagesize()), nil
}

func readCPU() CPU {
	cpu := CPU{Logical: runtime.NumCPU(), SIMD: []string{}}
	if name, err := unix.Sysctl("machdep.cpu.brand_string"); err == nil {
		cpu.Model = name
	}
	for _, f := range appleFeatures() {
		if has, err := unix.SysctlUint32(f[0]); err == nil && has != 0 {
			cpu.SIMD = append(cpu.SIMD, f[1])
		}
	}
	return cpu
}
