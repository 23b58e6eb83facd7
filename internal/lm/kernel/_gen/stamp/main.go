// Command stamp notes in ../generated.sum which sources the assembly was made from, and what came out. A test of package kernel
// compares.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stamp:", err)
		os.Exit(1)
	}
}

func run() error {
	sources, err := filepath.Glob("*.go")
	if err != nil {
		return err
	}
	files := append(sources, "go.mod", "../avx2_amd64.s", "../avx2_decl_amd64.go")
	slices.Sort(files)
	out := ""
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		out += fmt.Sprintf("%x  %s\n", sha256.Sum256(b), filepath.ToSlash(filepath.Join("_gen", f)))
	}
	return os.WriteFile("../generated.sum", []byte(out), 0o644)
}
