package llamacpp

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/stoker-llm/stoker/internal/engine"
)

// The two forms of the line that --version prints:
//
//	version: 8765 (0651e954f)
//	version: 0.2.0-dev (build 10587, commit 3f545becc)
var (
	versionOld = regexp.MustCompile(`(?m)^version: (\d+) \(([0-9A-Za-z]+)\)`)
	versionNew = regexp.MustCompile(`(?m)^version: (\S+) \(build (\d+), commit ([0-9A-Za-z]+)\)`)
)

// parseVersion returns the version and the build in the engine's own words, such as "0.2.0-dev" and "b10587-3f545becc"
// (the form that the server itself uses for its build). Both are empty when out has neither form.
func parseVersion(out string) (version, build string) {
	if m := versionNew.FindStringSubmatch(out); m != nil {
		return m[1], "b" + m[2] + "-" + m[3]
	}
	if m := versionOld.FindStringSubmatch(out); m != nil {
		return m[1], "b" + m[1] + "-" + m[2]
	}
	return "", ""
}

// deviceLine is one line of --list-devices: "  CUDA0: NVIDIA H200 (143167 MiB, 142000 MiB free)".
var deviceLine = regexp.MustCompile(`^  ([^\s:]+): (.*) \((\d+) MiB, (\d+) MiB free\)$`)

// parseDevices reads the output of --list-devices. A build or machine without devices prints none.
func parseDevices(out string) []engine.Device {
	var ds []engine.Device
	for line := range strings.Lines(out) {
		m := deviceLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		total, err1 := strconv.ParseInt(m[3], 10, 44)
		free, err2 := strconv.ParseInt(m[4], 10, 44)
		if err1 != nil || err2 != nil {
			continue
		}
		ds = append(ds, engine.Device{Name: m[1], Description: m[2], TotalBytes: total << 20, FreeBytes: free << 20})
	}
	return ds
}
