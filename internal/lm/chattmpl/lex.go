package chattmpl

import (
	"fmt"
	"regexp"
	"slices"
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
var harmless = []string{"attribute", "ensure_ascii", "sort_keys", "first", "blank", "count"}

// walks are the filters that make a list of a string's characters, which takes 50 times its memory.
var walks = []string{
	"list", "first", "last", "map", "select", "reject", "selectattr", "rejectattr", "batch", "join", "max", "min", "sum",
}

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
	if names, text, much := weigh(tokens); much || names > fewNames {
		return fmt.Sprintf("__pre(%d, %d) or (%s)", names, text, x), nil
	}
	return "(" + x + ")", nil
}

// weigh counts the variables of an expression and the bytes of its strings, and tells whether it multiplies.
func weigh(tokens []token) (names, text int, multiplied bool) {
	for i, t := range tokens {
		switch t.kind {
		case name:
			_, ok := multiplies[t.text]
			multiplied = multiplied || ok || t.text == "split"
			if variable(tokens, i) {
				names++
			}
		case quote:
			text += len(t.text)
			if i+2 < len(tokens) && tokens[i+1].text == "." && tokens[i+2].text == "format" {
				names += len(t.text) / 2
			}
		case operator:
			if t.text == "*" || t.text == "%" {
				multiplied = true
				names++
			}
		}
	}
	return names, text, multiplied
}

// variable reports whether the name at i stands for a value of any size: not for a field, a filter, a test or an argument's name.
func variable(tokens []token, i int) bool {
	if slices.Contains(keywords, tokens[i].text) {
		return false
	}
	if i > 0 && slices.Contains([]string{".", "|", "is"}, tokens[i-1].text) {
		return i+1 < len(tokens) && tokens[i+1].text == "(" // what a method returns can be as large as what it is called on
	}
	return i+1 == len(tokens) || tokens[i+1].text != "="
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
	w := &caller{tokens: tokens, factors: map[int]string{}, products: map[int]bool{}}
	for i := range tokens {
		if w.adjacent(i) {
			return "", fmt.Errorf("unexpected %s behind %s", tokens[i].text, tokens[i-1].text)
		}
		if err := w.token(i); err != nil {
			return "", err
		}
	}
	w.put(w.factors[len(tokens)])
	return strings.TrimSpace(w.b.String()), nil
}

// keywords are the names that cannot be variables.
var keywords = []string{"if", "else", "and", "or", "not", "in", "is"}

// adjacent reports whether two values meet at i with nothing between them. The library would take the second for another argument.
func (w *caller) adjacent(i int) bool {
	if i == 0 {
		return false
	}
	before, t := w.tokens[i-1], w.tokens[i]
	ends := before.kind != operator && !slices.Contains(keywords, before.text) || slices.Contains([]string{")", "]", "}"}, before.text)
	begins := t.kind != operator && !slices.Contains(keywords, t.text) || t.text == "{"
	switch {
	case !ends || !begins:
		return false
	case before.kind == quote && t.kind == quote: // one string, as in Python
		return false
	case t.text == "{":
		return true
	}
	j := i - 2 // a test with an argument, such as "is divisibleby 3"
	if j >= 0 && w.tokens[j].text == "not" {
		j--
	}
	return j < 0 || w.tokens[j].text != "is"
}

type caller struct {
	tokens []token
	b      strings.Builder
	stack  []bracket
	// factors are the guards that stand in front of a token, because the second operand of * ends there, and products are the tokens in
	// front of which the result of * or % stands.
	factors  map[int]string
	products map[int]bool
}

func (w *caller) token(i int) error {
	t := w.tokens[i]
	w.put(w.factors[i])
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
		case "**":
			if w.spread(i) {
				return fmt.Errorf("** is not supported here")
			}
		case "*":
			return w.times(i)
		case "%":
			w.put("| __format")
			w.products[operand(w.tokens, i+1)] = true
		}
	}
	if t.kind == name {
		if err := w.method(i); err != nil {
			return err
		}
	}
	w.argument(i)
	w.put(t.text)
	if t.text == "format" && i > 0 && w.tokens[i-1].text == "." && (i+1 == len(w.tokens) || w.tokens[i+1].text != "(") {
		w.put("| __value") // a field of that name is harmless, the method is not
	}
	return nil
}

// spread reports whether the two stars at i put a mapping in the place of arguments that are guarded.
func (w *caller) spread(i int) bool {
	n := len(w.stack)
	return n > 0 && w.stack[n-1].wrap != "" && (w.tokens[i-1].text == "(" || w.tokens[i-1].text == ",")
}

// times writes a multiplication with guards on both sides, which see together what it would repeat and how often. In a chain the left
// side is the product so far.
func (w *caller) times(i int) error {
	left := "| __left"
	if w.products[i] {
		left = "| __product"
	}
	end := operand(w.tokens, i+1)
	if end < len(w.tokens) && w.tokens[end].text == "**" || w.power(i) {
		return fmt.Errorf("** beside * without brackets")
	}
	w.factors[end] += "| __right"
	w.products[end] = true
	w.put(left)
	w.put("*")
	return nil
}

// power reports whether the operand before i is a power: the guard would see its exponent alone.
func (w *caller) power(i int) bool {
	for j := range i {
		if w.tokens[j].text == "**" && j > 0 && w.tokens[j-1].text != "(" && w.tokens[j-1].text != "," && operand(w.tokens, j+1) == i {
			return true
		}
	}
	return false
}

// operand returns the end of the operand that begins at i: a name, number, string or bracket with what belongs to it.
func operand(tokens []token, i int) int {
	for i < len(tokens) && (tokens[i].text == "-" || tokens[i].text == "+") {
		i++
	}
	for atom := true; i < len(tokens); atom = false {
		t := tokens[i]
		switch {
		case slices.Contains([]string{"(", "[", "{"}, t.text):
			i = closing(tokens, i)
		case t.text == "." || t.text == "|":
			i++
		case t.kind != quote && !atom:
			return i
		}
		i++
	}
	return min(i, len(tokens))
}

// closing returns where the bracket at i ends.
func closing(tokens []token, i int) int {
	depth := 0
	for ; i < len(tokens)-1; i++ {
		switch tokens[i].text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		if depth == 0 {
			break
		}
	}
	return i
}

func (w *caller) put(s string) {
	if s != "" {
		w.b.WriteString(s)
		w.b.WriteByte(' ')
	}
}

// argument opens the wrapper of an argument that begins at i. The name of a keyword argument stays outside.
func (w *caller) argument(i int) {
	if len(w.stack) == 0 {
		return
	}
	top := &w.stack[len(w.stack)-1]
	t := w.tokens[i].text
	switch {
	case top.wrap == "" || top.open || t == "=":
		return
	case i+1 < len(w.tokens) && w.tokens[i+1].text == "=":
		return
	case w.tokens[i-1].text == "=":
		if slices.Contains(harmless, w.tokens[i-2].text) {
			return
		}
	case w.tokens[i-1].text != "," && w.tokens[i-1].text != "(":
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
	case before == "." && f == "split":
		return bracket{wrap: "__sep("}
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
	must := before == "." && (t == "replace" || slices.Contains(mutates, t)) || before != "." && slices.Contains(holds, t)
	switch {
	case must && !called:
		return fmt.Errorf("%s is not called", t)
	case before == "|" && t == "unique":
		w.put("__few |")
	case before == "|" && slices.Contains(walks, t):
		w.put("__short |")
	}
	return nil
}
