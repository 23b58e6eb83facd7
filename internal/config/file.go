package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a config file. Some hundred models fit, and the YAML parser, whose time grows with the square of the
// length, still needs no more than a second or two.
const maxFile = 1 << 16

// readFile finds and reads the config file. Its place is a setting like any other, only decided first.
func (l *loader) readFile(c *Config) {
	l.file = map[string]raw{}
	i := slices.IndexFunc(l.table, func(s setting[Config]) bool { return s.key == keyFile })
	decide(l, l.table[i], c)
	if c.File == "" {
		return
	}
	text, mode, err := readLimited(c.File, maxFile)
	at := l.decided[keyFile]
	if errors.Is(err, fs.ErrNotExist) && at.source == FromDefault {
		c.File = ""
		l.shown[len(l.shown)-1].Where = "not there"
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		l.problem(at.where, "there is no config file %s: give the path of one, or none to use no file", c.File)
		return
	}
	if err != nil {
		l.problem(at.where, "config file: %v", err)
		return
	}
	l.parseFile(c.File, text)
	if key, ok := l.file[keyAPIKey]; ok && !key.empty() && !key.off() && mode&0o077 != 0 {
		l.warn(key.where, "other users can read this file, and so the key in it: chmod 600 %s", c.File)
	}
}

// readLimited reads a file that must not be longer than limit.
func readLimited(path string, limit int64) ([]byte, fs.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is longer than %s", path, showSize(limit))
	}
	return text, info.Mode(), err
}

// walker turns a YAML document into raw values. Anchors, aliases, merge keys and tags are refused: a config file does not
// need them, and they let few bytes stand for many.
type walker struct {
	l    *loader
	file string
}

// maxNesting bounds how deep lists and maps may lie in each other on one line, well above the three levels that settings have.
// The parser's memory grows with the square of it: 256 KB of opening brackets take more than any machine has.
const maxNesting = 64

// tooDeep returns the place where flow style or a run of list marks goes deeper than maxNesting, 0 if nowhere. Brackets in text and
// comments count too: nobody writes so many that are not closed.
func tooDeep(text []byte) (line, column int) {
	depth, marks := 0, 0
	line, column = 1, 0
	for i, c := range text {
		column++
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			line, column, marks = line+1, 0, 0
		case '-', '?':
			if i+1 < len(text) && text[i+1] == ' ' {
				marks++
			}
		case ' ':
		default:
			marks = 0
		}
		if depth > maxNesting || marks > maxNesting {
			return line, column
		}
	}
	return 0, 0
}

func (l *loader) parseFile(name string, text []byte) {
	w := walker{l, name}
	if line, column := tooDeep(text); line > 0 {
		l.problem(fmt.Sprintf("%s:%d:%d", name, line, column), "lists and maps lie more than %d deep in each other here; settings have three levels", maxNesting)
		return
	}
	f, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		w.syntax(err)
		return
	}
	docs := slices.DeleteFunc(f.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil || d.Body.Type() == ast.CommentType })
	switch len(docs) {
	case 0:
	case 1:
		w.section(docs[0].Body, "")
	default:
		l.problem(w.where(docs[1].Body), "a second document: a config file holds one")
	}
}

// syntax reports an error of the YAML parser, which stops at the first.
func (w walker) syntax(err error) {
	var ye yaml.Error
	if errors.As(err, &ye) && ye.GetToken() != nil {
		p := ye.GetToken().Position
		w.l.problem(fmt.Sprintf("%s:%d:%d", w.file, p.Line, p.Column), "not valid YAML: %s", ye.GetMessage())
		return
	}
	w.l.problem(w.file, "not valid YAML: %v", err)
}

// where is the place of a value. A block map starts at its first key, not at the colon that its node names.
func (w walker) where(n ast.Node) string {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return w.where(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return w.where(m.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("%s:%d:%d", w.file, t.Position.Line, t.Position.Column)
	}
	return w.file
}

// children of a level of the table: the first words behind prefix, and which of them are whole settings.
func (l *loader) children(prefix string) (names []string, whole map[string]setting[Config]) {
	whole = map[string]setting[Config]{}
	for _, s := range l.table {
		rest, ok := strings.CutPrefix(s.key, prefix)
		if !ok || s.notInFile {
			continue
		}
		name, _, deeper := strings.Cut(rest, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if !deeper {
			whole[name] = s
		}
	}
	return names, whole
}

// section reads the keys of one level; prefix is "" or ends in a dot.
func (w walker) section(n ast.Node, prefix string) {
	names, whole := w.l.children(prefix)
	w.mapping(n, strings.TrimSuffix(prefix, "."), names, func(name string, v *ast.MappingValueNode) {
		key := prefix + name
		s, ok := whole[name]
		if !ok {
			w.section(v.Value, key+".")
			return
		}
		if r, ok := w.value(v.Value, key, s.shape); ok {
			w.l.file[key] = r
		}
	})
}

// mapping calls each for every key of a map. Unknown and repeated keys are problems; known nil allows every key. A missing
// value is an empty map. It reports whether n is a map at all.
func (w walker) mapping(n ast.Node, name string, known []string, each func(key string, v *ast.MappingValueNode)) bool {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.NullNode:
	default:
		w.l.problem(w.where(n), "%s", strings.TrimSpace(name+" takes keys with values, such as key: value"))
		return false
	}
	seen := map[string]bool{}
	for _, v := range values {
		key, ok := w.key(v.Key)
		switch {
		case !ok:
		case seen[key]:
			w.l.problem(w.where(v.Key), "%s is set twice: keep one", key)
		case known != nil && !slices.Contains(known, key):
			w.l.problem(w.where(v.Key), "unknown key %s%s%s", quote(key), inside(name), orList(key, known))
		default:
			seen[key] = true
			each(key, v)
		}
	}
	return true
}

func inside(name string) string {
	if name == "" {
		return ""
	}
	return " in " + name
}

// orList offers the nearest names, or all of them if they are few and none is near.
func orList(key string, known []string) string {
	if near := didYouMean(key, known); near != "" {
		return near
	}
	const few = 8
	if len(known) <= few {
		return "; there are " + strings.Join(known, ", ")
	}
	return "; `stoker config schema` lists all"
}

// key is the text of a map's key.
func (w walker) key(n ast.MapKeyNode) (string, bool) {
	if n.IsMergeKey() {
		w.l.problem(w.where(n), "merge keys are not used here: write the keys out")
		return "", false
	}
	r, ok := w.scalar(n, "a key")
	return r.text, ok
}

// value reads what stands behind a key. The shape that the setting has decides how a map is read; whether the shape given
// is right is checked later, with the other sources.
func (w walker) value(n ast.Node, name string, want shape) (raw, bool) {
	switch n := n.(type) {
	case *ast.SequenceNode:
		if want == entries {
			return w.models(n)
		}
		return w.list(n, name)
	case *ast.MappingNode, *ast.MappingValueNode:
		return w.pairs(n, name)
	}
	return w.scalar(n, name)
}

func (w walker) at(n ast.Node) raw {
	return raw{source: FromFile, where: w.where(n), place: place{filepath.Dir(w.file), w.l.host.HomeDir}}
}

func (w walker) list(n *ast.SequenceNode, name string) (raw, bool) {
	r := w.at(n)
	r.shape = texts
	good := true
	for _, v := range n.Values {
		t, ok := w.scalar(v, name)
		r.texts, good = append(r.texts, t), good && ok
	}
	return r, good
}

func (w walker) pairs(n ast.Node, name string) (raw, bool) {
	r := w.at(n)
	r.shape = pairs
	good := true
	w.mapping(n, name, nil, func(key string, v *ast.MappingValueNode) {
		t, ok := w.scalar(v.Value, name+"."+key)
		good = w.l.checkOption(w.where(v.Key), key) && good && ok
		r.pairs = append(r.pairs, Option{key, t.text})
	})
	return r, good
}

func (w walker) models(n *ast.SequenceNode) (raw, bool) {
	r := w.at(n)
	r.shape = entries
	var names []string
	shapes := map[string]shape{}
	for _, f := range modelFields() {
		names, shapes[f.key] = append(names, f.key), f.shape
	}
	for i, v := range n.Values {
		m := rawModel{where: w.where(v), fields: map[string]raw{}}
		name := fmt.Sprintf("models[%d]", i)
		isMap := w.mapping(v, name, names, func(key string, v *ast.MappingValueNode) {
			if f, ok := w.value(v.Value, name+"."+key, shapes[key]); ok {
				m.fields[key] = f
			}
		})
		if isMap {
			r.entries = append(r.entries, m)
		}
	}
	return r, true
}

// scalar is the text of a single value as it stands in the file; null is the empty text.
func (w walker) scalar(n ast.Node, name string) (raw, bool) {
	r := w.at(n)
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		r.text = n.Value
	case *ast.LiteralNode:
		r.text = strings.TrimSuffix(n.Value.Value, "\n")
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		r.text = n.GetToken().Value
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MappingKeyNode:
		w.l.problem(w.where(n), "%s: anchors, aliases, tags and ? keys are not used here: write the value out", name)
		return r, false
	default:
		w.l.problem(w.where(n), "%s takes a single value here", name)
		return r, false
	}
	return r, true
}
