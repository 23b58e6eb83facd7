package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/stoker-llm/stoker/"

// tree is the text of the project.
type tree struct{ files []*file }

// file is one file, with its syntax if it is Go. path is relative to the root, with slashes.
type file struct {
	path, text string
	fset       *token.FileSet
	syntax     *ast.File
}

// readTree reads every text file below root but for git's own and what make builds.
func readTree(t *testing.T, root string) tree {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || rel == "bin") {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(p)
		if err == nil && !bytes.ContainsRune(b, 0) {
			files[filepath.ToSlash(rel)] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plant(t, files)
}

// plant makes a tree from texts.
func plant(t *testing.T, files map[string]string) tree {
	t.Helper()
	var tr tree
	for _, p := range slices.Sorted(maps.Keys(files)) {
		f := &file{path: p, text: files[p], fset: token.NewFileSet()}
		if strings.HasSuffix(p, ".go") && !strings.Contains(p, "/testdata/") {
			var err error
			if f.syntax, err = parser.ParseFile(f.fset, p, f.text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
		}
		tr.files = append(tr.files, f)
	}
	return tr
}

// golang returns the Go files that are tests, or those that are not.
func (t tree) golang(tests bool) []*file {
	var out []*file
	for _, f := range t.files {
		if f.syntax != nil && f.isTest() == tests {
			out = append(out, f)
		}
	}
	return out
}

func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// dir is the package's folder, such as "internal/config".
func (f *file) dir() string { return path.Dir(f.path) }

func (f *file) line(p token.Pos) int { return f.fset.Position(p).Line }

func (f *file) at(p token.Pos, what string) finding { return finding{f.path, f.line(p), what} }

// imports maps the name by which a file calls a package to its path, for each import.
func (f *file) imports() map[string]*ast.ImportSpec {
	out := map[string]*ast.ImportSpec{}
	for _, s := range f.syntax.Imports {
		name := path.Base(importPath(s))
		if s.Name != nil {
			name = s.Name.Name
		}
		out[name] = s
	}
	return out
}

func importPath(s *ast.ImportSpec) string {
	p, err := strconv.Unquote(s.Path.Value)
	if err != nil {
		return s.Path.Value
	}
	return p
}

// mentions runs found for every mention of a name of an imported package, such as os.Getenv. path is the import path.
func (f *file) mentions(found func(path, name string, at token.Pos)) {
	names := f.imports()
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && names[x.Name] != nil {
			found(importPath(names[x.Name]), s.Sel.Name, s.Pos())
		}
		return true
	})
}

// within reports whether a folder is p or lies below it.
func within(dir, p string) bool { return dir == p || strings.HasPrefix(dir, p+"/") }
