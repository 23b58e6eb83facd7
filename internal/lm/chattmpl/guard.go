package chattmpl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A template is a program, and a stranger wrote it. The library runs it without any bound, so guard writes the template anew with calls
// of a meter (meter.go) at each place where time or memory can grow:
//
//	{{ x }}                  {{ __out(x) }}
//	{% set y = x %}          {% set y = __keep(1, (x)) %}
//	{% for y in x %}         {% for y in __iter(x) %}{{ __step(loop.depth) }}
//	{% macro f(a) %}         {% macro f(a) %}{{ __enter(a) }} ... {{ __leave() }}
//	x.replace(a, b)          x.replace(__arg(a), __arg(b))
//	l.append(x)              l.append(__into(l, x))
//	x * y, x % y             x|__left * y|__right, x|__format % y
//	x|unique, x|list         x|__few|unique, x|__short|list
//	a long expression        __pre(names, bytes) or (a long expression)
//
// None of them changes a value. White space is settled by scan, so all tags are written with a plus, which tells the library to leave
// it alone. Names that begin with two underscores belong to the guard, and templates that use one are refused.

// The bounds of a template's text. Real ones have up to 30 KB.
const (
	maxSource   = 512 << 10
	maxTag      = 32 << 10
	maxBrackets = 64
	maxBlocks   = 64
	maxTokens   = 2000
	// fewNames is how many names and strings an expression may have before its size is estimated.
	fewNames = 8
	// maxNames is how many names the tag of a macro or call may have: it has no place for an estimate.
	maxNames = 64
)

// guard writes the pieces of a template for the library.
func guard(pieces []piece) (string, error) {
	g := &guarded{}
	for _, p := range pieces {
		g.kwargs = g.kwargs || p.kind != text && strings.Contains(p.text, "kwargs")
	}
	for _, p := range pieces {
		if err := g.piece(p); err != nil {
			return "", fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	return g.b.String(), nil
}

// guarded is the state of guard: what it has written, and the blocks that are open.
type guarded struct {
	b      strings.Builder
	blocks []block
	// repeats counts the open blocks whose text may be written more than once.
	repeats int
	// kwargs reports whether the template uses that name: a macro that does takes any keyword argument.
	kwargs bool
	sets   int
}

// block is an open block. After is written behind its end, and before in front of it.
type block struct {
	name          string
	before, after string
	repeats       bool
}

func (g *guarded) piece(p piece) error {
	if p.kind == text {
		g.text(p.text)
		return nil
	}
	if len(p.text) > maxTag {
		return fmt.Errorf("a tag of %d bytes, at most %d are read", len(p.text), maxTag)
	}
	tokens, err := lex(p.text)
	if err != nil {
		return err
	}
	if len(tokens) == 0 {
		return fmt.Errorf("an empty tag")
	}
	if p.kind == statement {
		return g.statement(tokens)
	}
	x, err := expression(tokens)
	g.write("{{ __out(", x, ") }}")
	return err
}

func (g *guarded) write(parts ...string) {
	for _, s := range parts {
		g.b.WriteString(s)
	}
}

// text writes literal text. What would be read as a tag becomes a string.
func (g *guarded) text(t string) {
	if g.repeats > 0 {
		g.write("{{ __text(", strconv.Itoa(len(t)), ") }}")
	}
	if opener(t) < 0 && !strings.HasSuffix(t, "{") {
		g.write(t)
		return
	}
	g.write(`{{ "`, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(t), `" }}`)
}

// statement writes a tag between percent signs.
func (g *guarded) statement(tokens []token) error {
	name, rest := tokens[0].text, tokens[1:]
	switch name {
	case "if", "elif":
		return g.condition(name, rest)
	case "for":
		return g.loop(rest)
	case "set":
		return g.set(rest)
	case "macro":
		return g.macro(rest)
	case "call":
		return g.call(rest)
	case "filter":
		return g.filter(rest)
	case "else", "break", "continue":
		g.tag(name, "")
		return nil
	case "generation", "block":
		g.tag(name, join(rest))
		return g.open(block{name: name})
	}
	if opened, ok := strings.CutPrefix(name, "end"); ok {
		return g.end(opened)
	}
	return fmt.Errorf("unknown statement %q", name)
}

func (g *guarded) tag(name, rest string) {
	g.write("{%+ ", name, " ", rest, " +%}")
}

func (g *guarded) open(b block) error {
	if len(g.blocks) == maxBlocks {
		return fmt.Errorf("more than %d nested blocks", maxBlocks)
	}
	if b.repeats {
		g.repeats++
	}
	g.blocks = append(g.blocks, b)
	return nil
}

func (g *guarded) end(name string) error {
	if len(g.blocks) == 0 || g.blocks[len(g.blocks)-1].name != name {
		return fmt.Errorf("end%s does not end the block that is open", name)
	}
	b := g.blocks[len(g.blocks)-1]
	g.blocks = g.blocks[:len(g.blocks)-1]
	if b.repeats {
		g.repeats--
	}
	g.write(b.before)
	g.tag("end"+name, "")
	g.write(b.after)
	return nil
}

func (g *guarded) condition(name string, rest []token) error {
	x, err := expression(rest)
	g.tag(name, x)
	if err != nil || name == "elif" {
		return err
	}
	return g.open(block{name: name})
}

// loop writes "for targets in expression [if condition] [recursive]".
func (g *guarded) loop(rest []token) error {
	in := top(rest, "in")
	if in < 0 {
		return fmt.Errorf("for without in")
	}
	if err := target(rest[:in], ","); err != nil {
		return err
	}
	targets, over := join(rest[:in]), rest[in+1:]
	tail, vars := "", ""
	if n := len(over); n > 0 && over[n-1].text == "recursive" {
		over, tail = over[:n-1], " recursive"
		vars = ", " + targets
	}
	if i := top(over, "if"); i >= 0 {
		x, err := expression(over[i+1:])
		if err != nil {
			return err
		}
		over, tail = over[:i], " if "+x+tail
	}
	x, err := expression(over)
	g.tag("for", targets+" in __iter("+x+")"+tail)
	g.write("{{ __step(loop.depth", vars, ") }}")
	if err != nil {
		return err
	}
	return g.open(block{name: "for", repeats: true})
}

// set writes "target = expression", or "target [filters]" with a block whose text becomes the value.
func (g *guarded) set(rest []token) error {
	eq := top(rest, "=")
	if eq < 0 {
		return g.setBlock(rest)
	}
	if err := target(rest[:eq], ".,"); err != nil {
		return err
	}
	x, err := expression(rest[eq+1:])
	g.write("{%+ ", g.assign(compact(rest[:eq]), x), " +%}")
	return err
}

// setBlock writes "set target [filters]". The library knows neither filters nor namespaces here, so the text goes through a variable.
func (g *guarded) setBlock(rest []token) error {
	to, filters := rest, []token(nil)
	if i := top(rest, "|"); i >= 0 {
		to, filters = rest[:i], rest[i:]
	}
	if err := target(to, "."); err != nil {
		return err
	}
	x, err := rewrite(append([]token{{name, "__block"}}, filters...))
	if err != nil {
		return err
	}
	if names, text, much := weigh(filters); much {
		x = fmt.Sprintf("__pre(%d, %d) or (%s)", names+1, text, x)
	}
	g.tag("set", "__block")
	return g.open(block{name: "set", after: "{%+ " + g.assign(compact(to), x) + " +%}"})
}

// assign returns the statement that sets a variable, or a field of a namespace. Each gets a number.
func (g *guarded) assign(target, x string) string {
	g.sets++
	set := "set " + target + " = __keep(" + strconv.Itoa(g.sets) + ", " + x
	if space, _, ok := strings.Cut(target, "."); ok {
		set += ", " + space
	}
	return set + ")"
}

func (g *guarded) macro(rest []token) error {
	if len(rest) < 3 || rest[0].kind != name || rest[1].text != "(" {
		return fmt.Errorf("a macro without a name and parameters")
	}
	params := append(parameters(rest[1:]), "varargs")
	if g.kwargs {
		params = append(params, "kwargs")
	}
	return g.body("macro", rest, params)
}

func (g *guarded) call(rest []token) error {
	if len(rest) == 0 || rest[0].text != "(" {
		return g.body("call", rest, nil)
	}
	end := closing(rest, 0) + 1
	return g.body("call "+join(rest[:end]), rest[end:], parameters(rest))
}

// body writes a tag whose block is a function's body. It begins with head; params are the function's parameters.
func (g *guarded) body(head string, rest []token, params []string) error {
	kind, _, _ := strings.Cut(head, " ")
	if names, _, _ := weigh(rest); names > maxNames {
		return fmt.Errorf("a %s with more than %d names", kind, maxNames)
	}
	for _, p := range params {
		if slices.Contains(keywords, p) {
			return fmt.Errorf("%s cannot be set", p)
		}
	}
	x, err := rewrite(rest)
	if err != nil {
		return err
	}
	g.tag(head, x)
	g.write("{{ __enter(", strings.Join(params, ", "), ") }}")
	return g.open(block{name: kind, before: "{{ __leave() }}", repeats: true})
}

// filter writes a filter block. Filters with arguments can multiply what they are given, which the library offers no place to measure.
func (g *guarded) filter(rest []token) error {
	for _, t := range rest {
		if t.text == "(" || strings.HasPrefix(t.text, "__") {
			return fmt.Errorf("a filter block with %q is not supported", join(rest))
		}
	}
	g.tag("filter", join(rest))
	return g.open(block{name: "filter"})
}

// target checks that tokens are names that can be set, with one of the separators between them.
func target(tokens []token, separators string) error {
	for i, t := range tokens {
		isName := t.kind == name && !slices.Contains(keywords, t.text)
		if i%2 == 0 && !isName || i%2 == 1 && (t.kind != operator || !strings.Contains(separators, t.text)) {
			return fmt.Errorf("%s cannot be set", join(tokens))
		}
	}
	if len(tokens)%2 == 0 {
		return fmt.Errorf("a name is missing")
	}
	return nil
}

// parameters returns the names of the parameters in the list that begins with the first token.
func parameters(tokens []token) []string {
	var names []string
	depth := 0
	for i, t := range tokens {
		switch t.text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return names
			}
		}
		if depth == 1 && t.kind == name && (tokens[i-1].text == "(" || tokens[i-1].text == ",") {
			names = append(names, t.text)
		}
	}
	return names
}

// top returns where text stands outside of brackets, or -1.
func top(tokens []token, text string) int {
	depth := 0
	for i, t := range tokens {
		if t.kind == quote {
			continue
		}
		if depth == 0 && t.text == text {
			return i
		}
		switch t.text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
	}
	return -1
}
