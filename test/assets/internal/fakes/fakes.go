// Package fakes puts stand-ins for pip, cmake, ninja and compilers on PATH, for
// tests of the asset builder that touch no network and compile nothing.
//
// [New] empties PATH but for one folder for the length of a test; the methods
// put programs there. A stand-in is a shell script; it finds the ordinary tools
// although the test's PATH does not have them. For use by one test at a time,
// as it sets PATH.
package fakes

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Programs is a folder of stand-ins, the only one on PATH.
type Programs struct {
	t   *testing.T
	Dir string
}

// New makes the folder and sets PATH to it.
func New(t *testing.T) *Programs {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	return &Programs{t: t, Dir: dir}
}

// Add puts a program there: a shell script whose variable here is the folder. Each
// run is recorded, see Calls.
func (p *Programs) Add(name, script string) {
	p.t.Helper()
	text := fmt.Sprintf("#!/bin/sh\nhere='%s'\nPATH=/usr/bin:/bin\necho \"$*\" >> \"$here/%s.calls\"\n%s\n", p.Dir, name, script)
	p.Write(name, []byte(text), 0o755)
}

// Write puts a file there.
func (p *Programs) Write(name string, content []byte, mode os.FileMode) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.Dir, name), content, mode); err != nil {
		p.t.Fatal(err)
	}
}

// Calls returns the arguments of each run of a program that hold word.
func (p *Programs) Calls(name, word string) []string {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Dir, name+".calls"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		p.t.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, word) {
			calls = append(calls, strings.TrimSpace(line))
		}
	}
	return calls
}

// AddPip puts a python3 there whose pip "downloads" the file that Serve named for
// a requirement, and says what the real one says if there is none.
func (p *Programs) AddPip() {
	p.Add("python3", `
case "$*" in
*"pip --version") echo "pip 1.0"; exit 0;;
esac
while [ $# -gt 1 ]; do
	[ "$1" = --dest ] && dest=$2
	shift
done
if [ ! -e "$here/$1" ]; then
	echo "Looking in indexes: somewhere"
	echo "ERROR: Could not find a version that satisfies the requirement $1 (from versions: none)" >&2
	echo "ERROR: No matching distribution found for $1" >&2
	exit 1
fi
mkdir -p "$dest" && cp "$here/$1" "$dest/package.whl"`)
}

// Serve makes AddPip's pip have a file for "name==version".
func (p *Programs) Serve(requirement string, content []byte) {
	p.t.Helper()
	p.Write(requirement, content, 0o644)
}

// Zip makes a zip archive, which is what a wheel is. It returns its bytes and its SHA-256.
func Zip(t *testing.T, files map[string]string) (content []byte, sum string) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), Sum(b.Bytes())
}

// Sum is the SHA-256 of b, hexadecimal.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
