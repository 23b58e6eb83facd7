package hw

import (
	"errors"
	"io/fs"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const meminfo = `MemTotal:       24683656 kB
MemFree:        23546988 kB
MemAvailable:   24047280 kB
Buffers:           18684 kB
HugePages_Total:       0
`

const zen3 = `processor	: 0
vendor_id	: AuthenticAMD
model		: 1
model name	: AMD EPYC 7763 64-Core Processor
flags		: fpu sse sse2 ht ssse3 fma cx16 sse4_1 sse4_2 movbe aes xsave avx f16c rdrand bmi1 avx2 bmi2 sha_ni vaes

processor	: 1
model name	: AMD EPYC 7763 64-Core Processor
flags		: fpu sse
`

const graviton = `processor	: 0
BogoMIPS	: 2100.00
Features	: fp asimd evtstrm aes crc32 fphp asimdhp cpuid asimdrdm asimddp sve i8mm bf16
CPU implementer	: 0x41
CPU part	: 0xd40
`

// tree makes a file system of files and their contents.
func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestReadLinux(t *testing.T) {
	const total, free = 24683656 * 1024, 24047280 * 1024
	tests := []struct {
		name  string
		files map[string]string
		want  Memory
	}{
		{"no control groups", nil, Memory{Total: total, Available: free}},
		{"v2 without a limit", map[string]string{
			"proc/self/cgroup":         "0::/user.slice\n",
			"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/user.slice/memory.max": "max\n",
		}, Memory{Total: total, Available: free}},
		{"v2 container", map[string]string{
			"proc/self/cgroup":             "0::/\n",
			"sys/fs/cgroup/memory.max":     "8589934592\n",
			"sys/fs/cgroup/memory.current": "3221225472\n",
			"sys/fs/cgroup/memory.stat":    "anon 1073741824\nfile 2147483648\ninactive_file 2147483648\nactive_file 0\n",
		}, Memory{Total: total, Available: 7 << 30, Limit: 8 << 30, LimitOrigin: "/sys/fs/cgroup/memory.max"}},
		{"v2: the group above is the tighter one", map[string]string{
			"proc/self/cgroup":                           "0::/a.slice/b.service\n",
			"sys/fs/cgroup/a.slice/memory.max":           "4294967296\n",
			"sys/fs/cgroup/a.slice/memory.current":       "1073741824\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max": "8589934592\n",
		}, Memory{Total: total, Available: 3 << 30, Limit: 4 << 30, LimitOrigin: "/sys/fs/cgroup/a.slice/memory.max"}},
		{"v2: full to the brim", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "1073745920\n",
		}, Memory{Total: total, Available: 0, Limit: 1 << 30, LimitOrigin: "/sys/fs/cgroup/memory.max"}},
		{"v1, path of the host not visible", map[string]string{
			"proc/self/cgroup":                           "9:name=systemd:/\n8:pids:/x\n4:cpu,memory:/docker/0123\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "1610612736\n",
			"sys/fs/cgroup/memory/memory.stat":           "cache 1073741824\ninactive_file 1\ntotal_inactive_file 1073741824\n",
		}, Memory{Total: total, Available: 3 << 29, Limit: 2 << 30, LimitOrigin: "/sys/fs/cgroup/memory/memory.limit_in_bytes"}},
		{"v1 without a limit", map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, Memory{Total: total, Available: free}},
		{"a path that leads out of the tree", map[string]string{
			"proc/self/cgroup":         "0::/../../other\n",
			"sys/fs/cgroup/memory.max": "1073741824\n",
		}, Memory{Total: total, Available: 1 << 30, Limit: 1 << 30, LimitOrigin: "/sys/fs/cgroup/memory.max"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(tt.files)
			root["proc/meminfo"] = &fstest.MapFile{Data: []byte(meminfo)}
			m, err := readLinux(root, "amd64", 2)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, m.Memory); diff != "" {
				t.Errorf("memory (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadLinuxCPU(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  CPU
	}{
		{"x86-64", map[string]string{"proc/cpuinfo": zen3}, CPU{"AMD EPYC 7763 64-Core Processor", 4, []string{"sse4_2", "avx", "f16c", "fma", "avx2"}}},
		{"arm64 server", map[string]string{"proc/cpuinfo": graviton}, CPU{"", 4, []string{"asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve"}}},
		{"arm64 board", map[string]string{
			"proc/cpuinfo":                       graviton,
			"sys/firmware/devicetree/base/model": "Raspberry Pi 5 Model B Rev 1.0\x00",
		}, CPU{"Raspberry Pi 5 Model B Rev 1.0", 4, []string{"asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve"}}},
		{"unreadable", nil, CPU{Logical: 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseCPU(tree(tt.files), 4)); diff != "" {
				t.Errorf("processor (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadLinuxWithoutMemory(t *testing.T) {
	if _, err := readLinux(tree(nil), "amd64", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no /proc: error %v, want one that is fs.ErrNotExist", err)
	}
	for _, text := range []string{"", "MemTotal: lots\n", "MemTotal: -5 kB\n", "MemTotal: 1 kB\nMemAvailable: 2 kB\n", "MemTotal: 9223372036854775807 kB\n"} {
		if m, err := parseMeminfo([]byte(text)); err == nil {
			t.Errorf("parseMeminfo(%q) = %+v, want an error", text, m)
		}
	}
}

func TestAppleWorkingSet(t *testing.T) {
	const gib = 1 << 30
	tests := []struct {
		name      string
		total     int64
		limitMB   int64
		want      int64
		estimated bool
	}{
		{"16 GiB: two thirds", 16 * gib, 0, 11453246122, true},
		{"32 GiB: two thirds", 32 * gib, 0, 22906492244, true},
		{"36 GiB: three quarters", 36 * gib, 0, 27 * gib, true},
		{"128 GiB: three quarters", 128 * gib, 0, 96 * gib, true},
		{"set by the user", 128 * gib, 114688, 112 * gib, false},
		{"set to more than there is", 16 * gib, 114688, 16 * gib, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, estimated := appleWorkingSet(tt.total, tt.limitMB)
			if got != tt.want || estimated != tt.estimated {
				t.Errorf("working set %d (estimated %t), want %d (%t)", got, estimated, tt.want, tt.estimated)
			}
		})
	}
}

func TestAppleFeaturesAreNamedAsOnLinux(t *testing.T) {
	for _, f := range appleFeatures() {
		if got := vectorExtensions([]string{f[1]}); len(got) != 1 {
			t.Errorf("%s is called %q, which is no name that Linux uses", f[0], f[1])
		}
	}
}

// The machine that runs the test has some of everything.
func TestReadThisMachine(t *testing.T) {
	m, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if m.OS != runtime.GOOS || m.Arch != runtime.GOARCH || m.CPU.Logical < 1 {
		t.Errorf("machine %+v is not this one", m)
	}
	if m.Memory.Total < 64<<20 || m.Memory.Available <= 0 || m.Memory.Available > m.Memory.Total {
		t.Errorf("memory %+v makes no sense", m.Memory)
	}
	if len(m.CPU.SIMD) == 0 {
		t.Errorf("no vector extensions found; amd64 and arm64 always have some")
	}
}

// Whatever the files hold, the facts agree with each other.
func FuzzReadLinux(f *testing.F) {
	f.Add(meminfo, "0::/a/b\n", "max\n", "1", "inactive_file 5\n", zen3)
	f.Add(meminfo, "4:memory:/x\n0::/\n", "1073741824", "99999999999", "total_inactive_file -1\n", graviton)
	f.Add("MemTotal: 1 kB", "::", "-1", "", "", ":\n:")
	f.Add(meminfo, "0::/\x00/../..\n", "9223372036854775807", "-9223372036854775808", "inactive_file 9223372036854775807", "flags")
	f.Fuzz(func(t *testing.T, mem, self, limit, used, stat, cpu string) {
		m, err := readLinux(tree(map[string]string{
			"proc/meminfo": mem, "proc/self/cgroup": self, "proc/cpuinfo": cpu,
			"sys/fs/cgroup/memory.max": limit, "sys/fs/cgroup/memory.current": used, "sys/fs/cgroup/memory.stat": stat,
			"sys/fs/cgroup/memory/memory.limit_in_bytes": limit, "sys/fs/cgroup/memory/memory.usage_in_bytes": used,
		}), "amd64", 1)
		if err != nil {
			return
		}
		if m.Memory.Available < 0 || m.Memory.Available > m.Memory.Total || m.Memory.Limit < 0 || m.Memory.Limit > m.Memory.Total {
			t.Errorf("memory %+v contradicts itself", m.Memory)
		}
	})
}
