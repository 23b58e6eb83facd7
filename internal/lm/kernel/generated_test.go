package kernel

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGeneratedIsCurrent compares the generator's sources and the generated files with what generated.sum says of them: a change of
// one without the other is found. `go generate ./internal/lm/kernel` makes both anew.
func TestGeneratedIsCurrent(t *testing.T) {
	f, err := os.Open("generated.sum")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	listed := map[string]bool{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		sum, name, _ := strings.Cut(sc.Text(), "  ")
		listed[name] = true
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
			t.Errorf("%s changed since the assembly was generated: run go generate ./internal/lm/kernel", name)
		}
	}
	sources, err := filepath.Glob("_gen/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(sources, "avx2_amd64.s", "avx2_decl_amd64.go", "_gen/go.mod") {
		if !listed[filepath.ToSlash(name)] {
			t.Errorf("generated.sum does not list %s: run go generate ./internal/lm/kernel", name)
		}
	}
}

// TestAssemblyIsForAVX2 looks for registers and instructions that need more than the set promises.
func TestAssemblyIsForAVX2(t *testing.T) {
	b, err := os.ReadFile("avx2_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	wrong := regexp.MustCompile(`\b([XY](1[6-9]|2\d|3[01])|Z\d+|K[0-7])\b`)
	for i, line := range strings.Split(string(b), "\n") {
		if m := wrong.FindString(line); m != "" {
			t.Errorf("line %d uses %s: %s", i+1, m, line)
		}
	}
}
