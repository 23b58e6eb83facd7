package llamacpp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stoker-llm/stoker/internal/engine"
)

const (
	// probeTimeout bounds one question to the binary. The answers take 10 ms on a CPU build; a GPU runtime may take
	// seconds to wake up, and one that hangs must not hang us.
	probeTimeout = 30 * time.Second
	// probeOutput bounds what is kept of an answer: --help has 60 KB.
	probeOutput = 1 << 20
	// cacheFormat is part of the file names in the cache, raised when their content changes meaning.
	cacheFormat = "1"
)

// probe is what was learned from one binary.
type probe struct {
	path string
	// stat is the file as it was when it was probed.
	stat    fs.FileInfo
	digest  string
	version string
	build   string
	flags   flagSet
	devices []engine.Device
}

// unchanged reports whether the file is still the one that was probed: an upgrade may come while we run.
func (p *probe) unchanged() bool {
	st, err := os.Stat(p.path)
	return err == nil && st.Size() == p.stat.Size() && st.ModTime().Equal(p.stat.ModTime())
}

// probeRecord is a probe as it lies in the cache: the binary's own words, so that a better parser of ours needs no new
// probe. Devices are not in it: a driver that is installed later changes them and not the binary.
type probeRecord struct {
	Help    string `json:"help"`
	Version string `json:"version"`
}

// essential lists settings without which no start can keep the driver's promises, each with what it is needed for.
var essential = []struct {
	names []string
	need  string
}{
	{[]string{"--model"}, "name the model file"},
	{[]string{"--host"}, "listen where only stoker can reach it"},
	{[]string{"--port"}, "listen where only stoker can reach it"},
	{[]string{"--ctx-size"}, "set the window"},
	{[]string{"--parallel", "-np"}, "give each request a window of its own"},
}

// probeBinary asks a binary what it is, or takes the answers from the cache.
func (d *Driver) probeBinary(ctx context.Context, c candidate) (*probe, error) {
	st, err := os.Stat(c.path)
	if err != nil {
		return nil, err
	}
	digest, err := d.cache.digest(c.path, st)
	if err != nil {
		return nil, err
	}
	rec, ok := d.cache.load(digest)
	if !ok {
		if rec, err = d.ask(ctx, c.path); err != nil {
			return nil, err
		}
	}
	p := &probe{path: c.path, stat: st, digest: digest, flags: parseHelp(rec.Help)}
	p.version, p.build = parseVersion(rec.Version)
	for _, e := range essential {
		if p.flags.first(e.names...) == "" {
			return nil, fmt.Errorf("%s is no llama-server that stoker can use: its --help has no %s, needed to %s", c.path, e.names[0], e.need)
		}
	}
	if !ok {
		d.cache.store(digest, rec)
	}
	if out, err := d.run(ctx, c.path, "--list-devices"); err == nil {
		p.devices = parseDevices(out)
	} // a build without --list-devices, or with a broken GPU runtime, computes on the CPU
	return p, nil
}

// ask puts the questions whose answers depend on the binary alone.
func (d *Driver) ask(ctx context.Context, path string) (probeRecord, error) {
	help, err := d.run(ctx, path, "--help")
	if err != nil {
		return probeRecord{}, err
	}
	version, err := d.run(ctx, path, "--version")
	return probeRecord{Help: help, Version: version}, err
}

// run runs the binary with one argument and returns all that it wrote, to either output.
func (d *Driver) run(ctx context.Context, path, arg string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out := &headBuffer{limit: probeOutput}
	cmd := exec.CommandContext(ctx, path, arg)
	cmd.Env = scrub(d.opts.Env, filepath.Join(d.opts.CacheDir, "no-config"))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a grandchild that keeps the pipe open does not hold us
	err := cmd.Run()
	if ctxErr := ctx.Err(); ctxErr != nil && err != nil {
		return "", fmt.Errorf("%s %s did not end in time: %w", path, arg, ctxErr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w%s", path, arg, err, lastWords(out.String()))
	}
	return out.String(), nil
}

// lastWords returns the last lines of out, to be put behind an error.
func lastWords(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	s := strings.Join(lines, "; ")
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// headBuffer keeps the first limit bytes and drops the rest.
type headBuffer struct {
	bytes.Buffer
	limit int
}

func (b *headBuffer) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// probeCache keeps digests and answers between runs of stoker. Every failure to read or write it means one probe more.
type probeCache struct{ dir string }

// pathRecord ties a file to its digest as long as size and time stay the same.
type pathRecord struct {
	Path    string    `json:"path"`
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mod_time"`
	Digest  string    `json:"digest"`
}

// digest returns the sha256 of the file at path, whose properties are st.
func (c probeCache) digest(path string, st fs.FileInfo) (string, error) {
	name := "path-" + cacheFormat + "-" + hashOf(path)[:16] + ".json"
	var rec pathRecord
	if c.read(name, &rec) && rec.Path == path && rec.Size == st.Size() && rec.ModTime.Equal(st.ModTime()) {
		return rec.Digest, nil
	}
	sum, err := fileDigest(path)
	if err == nil {
		c.write(name, pathRecord{Path: path, Size: st.Size(), ModTime: st.ModTime(), Digest: sum})
	}
	return sum, err
}

func (c probeCache) load(digest string) (probeRecord, bool) {
	var rec probeRecord
	ok := c.read("probe-"+cacheFormat+"-"+digest+".json", &rec)
	return rec, ok && rec.Help != ""
}

func (c probeCache) store(digest string, rec probeRecord) {
	c.write("probe-"+cacheFormat+"-"+digest+".json", rec)
}

func (c probeCache) read(name string, v any) bool {
	if c.dir == "" {
		return false
	}
	b, err := os.ReadFile(filepath.Join(c.dir, name))
	return err == nil && json.Unmarshal(b, v) == nil
}

// write replaces a cache file in one step, so that a reader sees the old or the new one.
func (c probeCache) write(name string, v any) {
	if c.dir == "" {
		return
	}
	b, err := json.Marshal(v)
	if err != nil || os.MkdirAll(c.dir, 0o700) != nil {
		return
	}
	tmp, err := os.CreateTemp(c.dir, name+".*")
	if err != nil {
		return
	}
	_, err = tmp.Write(b)
	if errors.Join(err, tmp.Close()) != nil || os.Rename(tmp.Name(), filepath.Join(c.dir, name)) != nil {
		_ = os.Remove(tmp.Name()) // nothing more can be done for a cache
	}
}

// fileDigest returns the sha256 of a file's content in hexadecimal.
func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashOf returns the sha256 of s in hexadecimal.
func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
