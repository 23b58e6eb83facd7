package chattmpl

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tokenKind says what a token of an expression is.
type tokenKind byte

const (
	name tokenKind = iota
	number
	quote
	operator
)

// token is a word of an expression, as it is written.
type token struct {
	kind tokenKind
	text string
}

// word matches a token: a name, a number, or an operator.
var word = regexp.MustCompile(`^(?:([A-Za-z_][A-Za-z0-9_]*)|` + // a name
	`([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|` + // a number
	`(\*\*|//|==|!=|<=|>=|[-+*/%<>=.,:|~()\[\]{}]))`)

// lex cuts an expression into tokens. What jinja2 does not know either is refused, where the library would skip it.
func lex(s string) ([]token, error) {
	var out []token
	depth := 0
	for s = strings.TrimLeftFunc(s, space); s != ""; s = strings.TrimLeftFunc(s, space) {
		t, err := first(s)
		if err != nil {
			return nil, err
		}
		switch t.text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		if depth > maxBrackets {
			return nil, fmt.Errorf("more than %d nested brackets", maxBrackets)
		}
		if t.kind == name && strings.HasPrefix(t.text, "__") {
			return nil, fmt.Errorf("the name %s: two underscores are reserved", t.text)
		}
		if out = append(out, t); len(out) > maxTokens {
			return nil, fmt.Errorf("a tag of more than %d words", maxTokens)
		}
		s = s[len(t.text):]
	}
	if depth != 0 {
		return nil, fmt.Errorf("brackets that do not match")
	}
	return out, nil
}

func first(s string) (token, error) {
	if s[0] == '"' || s[0] == '\'' {
		n := quoted(s)
		if n == 0 {
			return token{}, fmt.Errorf("a string does not end")
		}
		return token{quote, s[:n]}, nil
	}
	m := word.FindStringSubmatch(s)
	switch {
	case m == nil:
		r := []rune(s)[:1]
		return token{}, fmt.Errorf("unexpected %q", string(r))
	case m[1] != "":
		return token{name, m[1]}, nil
	case m[2] != "":
		return token{number, m[2]}, nil
	}
	return token{operator, m[3]}, nil
}

// join writes tokens with a space between each.
func join(tokens []token) string { return write(tokens, " ") }

// compact writes tokens without a space, as the library wants the target of an assignment.
func compact(tokens []token) string { return write(tokens, "") }

func write(tokens []token, between string) string {
	words := make([]string, len(tokens))
	for i, t := range tokens {
		words[i] = t.text
	}
	return strings.Join(words, between)
}

// multiplies are the filters and methods whose result can be many times as large as what they get, with the first and the last of the
// arguments that decide it.
var multiplies = map[string][2]int{
	"replace": {1, 1}, "join": {0, 0}, "indent": {0, 0}, "batch": {0, 1}, "map": {1, 9}, "tojson": {0, 3}, "format": {0, 99},
}

// harmless are the keyword arguments of those that do not.
var harmless = []string{"attribute", "default", "ensure_ascii", "sort_keys", "first", "blank", "count"}

// mutates are the methods that change a list or a dict.
var mutates = []string{"append", "insert", "update"}

// holds are the functions whose result keeps what they were given where it cannot be measured.
var holds = []string{"joiner", "cycler"}

// expression writes an expression with its guards.
func expression(tokens []token) (string, error) {
	if len(tokens) == 0 {
		return "", fmt.Errorf("an expression is missing")
	}
	x, err := rewrite(tokens)
	if err != nil {
		return "", err
	}
	if n, much := weigh(tokens); much || n > fewNames {
		return "__pre(" + strconv.Itoa(n) + ") or (" + x + ")", nil
	}
	return "(" + x + ")", nil
}

// weigh counts what an expression names, and tells whether it multiplies.
func weigh(tokens []token) (names int, multiplied bool) {
	for i, t := range tokens {
		switch t.kind {
		case name:
			names++
			_, ok := multiplies[t.text]
			multiplied = multiplied || ok
		case quote:
			names++
			if i+2 < len(tokens) && tokens[i+1].text == "." && tokens[i+2].text == "format" {
				names += len(t.text) / 2
			}
		case operator:
			multiplied = multiplied || t.text == "*" || t.text == "%"
		}
	}
	return names, multiplied
}

// bracket is an open bracket while rewrite writes. If wrap is set, its arguments from the one to the other go through it.
type bracket struct {
	wrap     string
	from, to int
	tail     string // more arguments for wrap
	at       int    // the argument that is being written
	open     bool   // it is being wrapped
}

// rewrite writes tokens with guards around operators and calls.
func rewrite(tokens []token) (string, error) {
	w := &caller{tokens: tokens}
	for i := range tokens {
		if err := w.token(i); err != nil {
			return "", err
		}
	}
	return strings.TrimSpace(w.b.String()), nil
}

type caller struct {
	tokens []token
	b      strings.Builder
	stack  []bracket
}

func (w *caller) token(i int) error {
	t := w.tokens[i]
	if t.kind == operator {
		switch t.text {
		case "(", "[", "{":
			w.argument(i)
			w.stack = append(w.stack, w.bracket(i))
			w.put(t.text)
			return nil
		case ")", "]", "}":
			w.close()
			if len(w.stack) == 0 {
				return fmt.Errorf("brackets that do not match")
			}
			w.stack = w.stack[:len(w.stack)-1]
			w.put(t.text)
			return nil
		case ",":
			w.close()
			w.put(t.text)
			return nil
		case "*":
			if i+1 < len(w.tokens) && w.tokens[i+1].kind == number {
				w.put("| __operand")
			} else {
				w.put("| __factor")
			}
		case "%":
			w.put("| __operand")
		}
	}
	if t.kind == name {
		if err := w.method(i); err != nil {
			return err
		}
	}
	w.argument(i)
	w.put(t.text)
	return nil
}

func (w *caller) put(s string) {
	w.b.WriteString(s)
	w.b.WriteByte(' ')
}

// argument opens the wrapper of an argument that begins at i. The name of a keyword argument stays outside.
func (w *caller) argument(i int) {
	if len(w.stack) == 0 {
		return
	}
	top := &w.stack[len(w.stack)-1]
	t := w.tokens[i].text
	switch {
	case top.wrap == "" || top.open || t == "=" || t == "**":
		return
	case i+1 < len(w.tokens) && w.tokens[i+1].text == "=":
		return
	case w.tokens[i-1].text == "=":
		if slices.Contains(harmless, w.tokens[i-2].text) {
			return
		}
	case w.tokens[i-1].text != "," && w.tokens[i-1].text != "(" && w.tokens[i-1].text != "**":
		return // inside an argument that is not wrapped
	case top.at < top.from || top.at > top.to:
		return
	}
	w.put(top.wrap)
	top.open = true
}

// close ends an argument.
func (w *caller) close() {
	if len(w.stack) == 0 {
		return
	}
	top := &w.stack[len(w.stack)-1]
	if top.open {
		w.put(top.tail + ")")
	}
	top.open = false
	top.at++
}

// bracket returns what the bracket at i does to its arguments: nothing, if it is not the call of something that needs it.
func (w *caller) bracket(i int) bracket {
	if w.tokens[i].text != "(" || i == 0 || w.tokens[i-1].kind != name {
		return bracket{}
	}
	f, before := w.tokens[i-1].text, ""
	if i > 1 && w.tokens[i-2].kind == operator {
		before = w.tokens[i-2].text
	}
	span, multiplied := multiplies[f]
	switch {
	case before == "." && slices.Contains(mutates, f):
		if x := w.receiver(i - 2); x != "" {
			return bracket{wrap: "__into( " + x + ",", to: 99}
		}
		return bracket{wrap: "__copy(", to: 99}
	case before == "." && f == "format" && w.tokens[i-3].kind == quote:
		return bracket{} // weigh has counted it
	case (before == "." || before == "|") && multiplied:
		b := bracket{wrap: "__arg(", from: span[0], to: span[1]}
		if f == "replace" && i+2 < len(w.tokens) && w.tokens[i+1].kind == quote && w.tokens[i+2].text == "," {
			b.tail = ", " + w.tokens[i+1].text // what is replaced
		}
		return b
	case before != "." && before != "|" && slices.Contains(holds, f):
		return bracket{wrap: "__hold(", to: 99}
	}
	return bracket{}
}

// receiver returns the names before the dot at i, such as "ns.list", or "" if there is more than names.
func (w *caller) receiver(i int) string {
	j := i
	for j >= 1 && w.tokens[j].text == "." && w.tokens[j-1].kind == name {
		j -= 2
	}
	if j == i || j >= 0 && slices.Contains([]string{".", ")", "]", "|", "is"}, w.tokens[j].text) {
		return ""
	}
	return compact(w.tokens[j+1 : i])
}

// method guards names that need it where they stand: a function that changes or holds what it is given must be called at once, so that
// its arguments are seen, and a filter that compares all with all gets a short list.
func (w *caller) method(i int) error {
	t := w.tokens[i].text
	before := ""
	if i > 0 && w.tokens[i-1].kind == operator {
		before = w.tokens[i-1].text
	}
	called := i+1 < len(w.tokens) && (w.tokens[i+1].text == "(" || w.tokens[i+1].text == "is")
	if before == "." && slices.Contains(mutates, t) || before != "." && slices.Contains(holds, t) {
		if !called {
			return fmt.Errorf("%s is not called", t)
		}
	}
	if before == "|" && t == "unique" {
		w.put("__few |")
	}
	return nil
}
