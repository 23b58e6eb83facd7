package chattmpl

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// limits bound one render.
type limits struct {
	time  time.Duration
	steps int
	// work is how many bytes may be written and kept, in all. Values below smallValue do not count when a variable keeps them.
	work int64
}

// usual are the limits of every template. A conversation of a million tokens has some 4 MB, a real template takes 10 to 50 steps a
// message and writes each byte once or twice. Much larger limits would let a template hold up the machine for longer than a person
// waits, and take more memory than a small model.
func usual() limits { return limits{time: 10 * time.Second, steps: 3_000_000, work: 256 << 20} }

// Bounds of single things. They do not depend on a machine's speed.
const (
	// maxValue bounds the size of one value, all that it holds counted; a value in a list or dict counts nodeSize besides its text.
	maxValue   = 16 << 20
	nodeSize   = 16
	smallValue = 64 << 10
	// maxNest bounds how deep lists and dicts nest, maxCalls how deep macros and recursive loops call.
	maxNest  = 250
	maxCalls = 150
	// maxExpression bounds the estimate of what a single expression can make, and maxRepeat what the operator * makes.
	maxExpression = 512 << 20
	maxRepeat     = 1 << 20
	// pieceSize is what an item of a list of strings takes.
	pieceSize   = 40
	maxOutput   = 16 << 20
	maxRange    = 100_000
	maxFew      = 10_000
	maxShort    = 1 << 20
	maxArgument = 64 << 10
)

// meter counts what a render does. Its methods are the functions that guard puts into templates.
type meter struct {
	limits
	deadline time.Time
	steps    int
	work     int64
	// given is the size of all that the template was given and has put into lists, largest the size of its largest value.
	given, largest int64
	frame          frame
	stack          []frame
	// kept is the size of the largest value that each place has kept.
	kept map[place]int64
}

// place is an assignment, by its number, and how deep in macros it ran.
type place struct {
	set   int64
	depth int
}

// frame is the estimate of the expression that is being computed: how many variables it has, how many bytes its strings, and how often
// its text is multiplied. Left are the left sides of the multiplications that are open, and product is the last one's result.
type frame struct {
	names, text, growth int64
	left                []factor
	product             factor
}

// factor is a side of a multiplication: what could be repeated has a size, and a number says how often.
type factor struct{ size, number int64 }

// errMuch marks the errors of a meter.
var errMuch = errors.New("it does more than a chat template may")

func much(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMuch, fmt.Sprintf(format, args...))
}

// tick counts n steps of work.
func (m *meter) tick(n int) error {
	before := m.steps
	if m.steps += n; m.steps > m.limits.steps {
		return much("more than %d steps", m.limits.steps)
	}
	if before>>10 != m.steps>>10 && time.Now().After(m.deadline) {
		return much("longer than %s", m.time)
	}
	return nil
}

// charge counts n bytes.
func (m *meter) charge(n int64) error {
	if m.work += n; m.work > m.limits.work {
		return much("more than %d MB of text", m.limits.work>>20)
	}
	return nil
}

// measure returns the size of v. It fails if that is over the bound, or if v holds the list or dict avoid, which would be a circle.
func (m *meter) measure(v, avoid jinja.Value) (int64, error) {
	s := sizer{meter: m}
	if avoid.IsList() {
		s.list = avoid.AsList()
	}
	if avoid.IsDict() {
		s.dict = avoid.AsDict()
	}
	if err := s.add(v, 0); err != nil {
		return 0, err
	}
	return s.size, nil
}

type sizer struct {
	*meter
	size int64
	list *jinja.List
	dict *jinja.Dict
}

func (s *sizer) add(v jinja.Value, depth int) error {
	s.size += nodeSize
	if v.IsString() {
		s.size += int64(len(v.AsString()))
	}
	if s.size > maxValue {
		return much("a value of more than %d MB", maxValue>>20)
	}
	if depth > maxNest {
		return much("lists nested deeper than %d", maxNest)
	}
	switch {
	case v.IsList():
		return s.items(v.AsList(), depth)
	case v.IsDict():
		return s.entries(v.AsDict(), depth)
	}
	return nil
}

func (s *sizer) items(l *jinja.List, depth int) error {
	if l == s.list {
		return much("a list that holds itself")
	}
	if err := s.tick(l.Len() / 8); err != nil {
		return err
	}
	for _, item := range l.Items {
		if err := s.add(item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (s *sizer) entries(d *jinja.Dict, depth int) error {
	if d == s.dict {
		return much("a dict that holds itself")
	}
	if err := s.tick(d.Len() / 4); err != nil {
		return err
	}
	for _, key := range d.Keys {
		s.size += int64(len(key))
		item := d.Data[key]
		if item.IsCallable() { // loop, and what joiner and its like return
			continue
		}
		if err := s.add(item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// see measures v as a value that expressions may use from now on.
func (m *meter) see(v, avoid jinja.Value) (int64, error) {
	n, err := m.measure(v, avoid)
	m.largest = max(m.largest, n)
	return n, err
}

// functions returns what the guard's names stand for.
func (m *meter) functions() map[string]jinja.Value {
	out := map[string]jinja.Value{}
	for name, f := range map[string]func([]jinja.Value) (jinja.Value, error){
		"__out": m.out, "__text": m.text, "__keep": m.keep, "__hold": m.hold, "__iter": m.iter, "__step": m.step,
		"__enter": m.enter, "__leave": m.leave, "__pre": m.pre, "__arg": m.arg, "__left": m.left, "__right": m.right, "__product": m.product,
		"__format": m.format, "__sep": m.sep, "__short": m.short, "__few": m.few, "__value": m.value,
		"__into": m.into, "__copy": m.copy, "range": m.numbers,
	} {
		out[name] = jinja.NewCallable(name, func(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
			if len(named) > 0 || len(args) == 0 && name != "__leave" && name != "__enter" {
				return jinja.Undefined(), fmt.Errorf("unexpected arguments near %s", strings.TrimLeft(name, "_"))
			}
			return f(args)
		})
	}
	return out
}

// out is what an output tag writes.
func (m *meter) out(args []jinja.Value) (jinja.Value, error) {
	v := args[0]
	if len(args) > 1 {
		return v, errors.New("an output tag with a list")
	}
	n := int64(nodeSize)
	if v.IsString() {
		n += int64(len(v.AsString()))
	} else if v.IsList() || v.IsDict() {
		size, err := m.measure(v, jinja.None())
		if err != nil {
			return v, err
		}
		n = size
	}
	return v, m.charge(n)
}

// text counts literal text in a loop or macro.
func (m *meter) text(args []jinja.Value) (jinja.Value, error) {
	return jinja.NewString(""), m.charge(args[0].AsInt())
}

// keep is what the assignment with a number gets: the value, and the namespace whose field it becomes. Only what a place keeps more
// than before is charged, since templates grow a text bit by bit, and the old one is dropped.
func (m *meter) keep(args []jinja.Value) (jinja.Value, error) {
	v, in := args[1], jinja.None()
	if len(args) > 2 {
		in = args[2]
	}
	n, err := m.see(v, in)
	if err != nil || n < smallValue {
		return v, err
	}
	at := place{args[0].AsInt(), len(m.stack)}
	old := m.kept[at]
	m.kept[at] = max(old, n)
	return v, errors.Join(m.charge(max(n-old, 0)), m.tick(int(n>>14)))
}

// hold is what a function of the library holds where nobody sees it.
func (m *meter) hold(args []jinja.Value) (jinja.Value, error) {
	n, err := m.see(args[0], jinja.None())
	return args[0], errors.Join(err, m.charge(n))
}

// iter is what a loop runs over.
func (m *meter) iter(args []jinja.Value) (jinja.Value, error) {
	v := args[0]
	if v.IsString() && len(v.AsString()) > maxShort {
		return v, much("a loop over a string of %d bytes", len(v.AsString()))
	}
	_, err := m.see(v, jinja.None())
	return v, err
}

// step begins a round of a loop. Loops that call themselves tell their variables too.
func (m *meter) step(args []jinja.Value) (jinja.Value, error) {
	if args[0].IsInt() && args[0].AsInt() > maxCalls {
		return args[0], much("a loop that calls itself deeper than %d", maxCalls)
	}
	for _, v := range args[1:] {
		if _, err := m.see(v, jinja.None()); err != nil {
			return v, err
		}
	}
	return jinja.NewString(""), m.tick(1)
}

// enter begins the body of a macro with its arguments.
func (m *meter) enter(args []jinja.Value) (jinja.Value, error) {
	if m.stack = append(m.stack, m.frame); len(m.stack) > maxCalls {
		return jinja.None(), much("macros that call each other deeper than %d", maxCalls)
	}
	for _, v := range args {
		if _, err := m.see(v, jinja.None()); err != nil {
			return v, err
		}
	}
	return jinja.NewString(""), m.tick(1)
}

// leave ends the body of a macro.
func (m *meter) leave([]jinja.Value) (jinja.Value, error) {
	if n := len(m.stack); n > 0 {
		m.frame, m.stack = m.stack[n-1], m.stack[:n-1]
	}
	return jinja.NewString(""), nil
}

// pre stands before an expression with so many variables, and strings of so many bytes. It is false, so that "or" goes on to the
// expression.
func (m *meter) pre(args []jinja.Value) (jinja.Value, error) {
	m.frame = frame{names: args[0].AsInt(), text: args[1].AsInt(), growth: 1}
	return jinja.NewBool(false), m.estimate(1)
}

// estimate fails if the expression could make too much, were all its variables the largest value there is, and each byte of it as large
// as unit says.
func (m *meter) estimate(unit int64) error {
	text := float64(max(m.frame.names, 1))*float64(max(m.given, m.largest)) + float64(m.frame.text)
	bound := text * float64(m.frame.growth) * float64(unit)
	if bound > maxExpression*float64(min(unit, 4)) {
		return much("an expression that could make %.0f MB", bound/(1<<20))
	}
	return nil
}

// arg is an argument of something that multiplies. If it takes the place of another text, that comes second.
func (m *meter) arg(args []jinja.Value) (jinja.Value, error) {
	v := args[0]
	n := int64(1)
	switch {
	case v.IsString():
		n = int64(len(v.AsString()))
	case v.IsInt():
		n = min(v.AsInt(), math.MaxInt32)
	case v.IsFloat():
		n = int64(math.Min(v.AsFloat(), math.MaxInt32))
	case v.IsList():
		for _, item := range v.AsList().Items {
			if item.IsString() {
				n += int64(len(item.AsString()))
			}
		}
	}
	if n > maxArgument {
		return v, much("an argument of %d where it multiplies text", n)
	}
	if len(args) > 1 && args[1].IsString() {
		old := max(int64(len(args[1].AsString())), 1)
		n = (n + old - 1) / old
	}
	m.frame.growth = min(m.frame.growth*max(n, 1), math.MaxInt32)
	return v, m.estimate(1)
}

// sep is a string that cuts another: the shorter it is, the more pieces there can be.
func (m *meter) sep(args []jinja.Value) (jinja.Value, error) {
	n := 1
	if args[0].IsString() {
		n = max(n, len(args[0].AsString()))
	}
	return args[0], m.estimate(int64(1 + pieceSize/n))
}

// left is the left side of a multiplication, and right its right side. Numbers and booleans repeat strings and lists.
func (m *meter) left(args []jinja.Value) (jinja.Value, error) {
	f, err := m.factor(args[0])
	m.frame.left = append(m.frame.left, f)
	return args[0], err
}

func (m *meter) right(args []jinja.Value) (jinja.Value, error) {
	n := len(m.frame.left)
	if n == 0 {
		return args[0], errors.New("a multiplication without a left side")
	}
	a := m.frame.left[n-1]
	m.frame.left = m.frame.left[:n-1]
	b, err := m.factor(args[0])
	if err != nil {
		return args[0], err
	}
	if a.size > 0 && b.number > maxRepeat/a.size || b.size > 0 && a.number > maxRepeat/b.size {
		return args[0], much("a repetition of more than %d KB", maxRepeat>>10)
	}
	number := min(max(a.number, 1), math.MaxInt32) * min(max(b.number, 1), math.MaxInt32)
	m.frame.product = factor{max(a.size*b.number, b.size*a.number), number}
	m.largest = max(m.largest, m.frame.product.size)
	return args[0], m.estimate(1)
}

// product is the left side of a multiplication that follows another.
func (m *meter) product(args []jinja.Value) (jinja.Value, error) {
	m.frame.left = append(m.frame.left, m.frame.product)
	return args[0], nil
}

func (m *meter) factor(v jinja.Value) (factor, error) {
	switch {
	case v.IsInt():
		return factor{number: max(v.AsInt(), 0)}, nil
	case v.IsBool():
		return factor{number: 1}, nil
	case v.IsString() || v.IsList():
		n, err := m.measure(v, jinja.None())
		if v.IsString() && fields.MatchString(v.AsString()) {
			err = much("a format with a wide field")
		}
		return factor{size: n}, err
	}
	return factor{}, nil
}

// format stands to the left of %, which fills a format in. The text that this makes is taken for so long that it cannot be repeated.
func (m *meter) format(args []jinja.Value) (jinja.Value, error) {
	f, err := m.factor(args[0])
	if f.size > 0 || m.frame.product.size > 0 {
		f.size = maxRepeat
	}
	m.frame.product = f
	return args[0], err
}

// fields matches a field of a format that is wide: more than two digits, a width from an argument, or an argument by its number.
var fields = regexp.MustCompile(`%[-#+ 0-9.]*([0-9]{3}|[*\[])`)

// value is a field whose name is also a method's.
func (m *meter) value(args []jinja.Value) (jinja.Value, error) {
	if args[0].IsCallable() {
		return args[0], errors.New("a method that is not called")
	}
	return args[0], nil
}

// few is the input of a filter that compares all with all.
func (m *meter) few(args []jinja.Value) (jinja.Value, error) {
	v := args[0]
	if v.IsList() && v.AsList().Len() > maxFew || v.IsString() && len(v.AsString()) > maxFew {
		return v, much("more than %d values to compare", maxFew)
	}
	return v, nil
}

// short is the input of a filter that makes a list of a string's characters.
func (m *meter) short(args []jinja.Value) (jinja.Value, error) {
	if v := args[0]; v.IsString() && len(v.AsString()) > maxShort {
		return v, much("a list of the characters of %d bytes", len(v.AsString()))
	}
	return args[0], nil
}

// into is what a list or dict gets: its second argument, for the first.
func (m *meter) into(args []jinja.Value) (jinja.Value, error) {
	v := args[1]
	n, err := m.measure(v, args[0])
	if err != nil {
		return v, err
	}
	m.given += n
	return v, errors.Join(m.tick(1), m.charge(n))
}

// copy is what a list or dict gets that cannot be named twice.
func (m *meter) copy(args []jinja.Value) (jinja.Value, error) {
	n, err := m.measure(args[0], jinja.None())
	if err != nil {
		return args[0], err
	}
	m.given += n
	return clone(args[0]), errors.Join(m.tick(1), m.charge(n))
}

func clone(v jinja.Value) jinja.Value {
	switch {
	case v.IsList():
		items := make([]jinja.Value, v.AsList().Len())
		for i, item := range v.AsList().Items {
			items[i] = clone(item)
		}
		return jinja.NewList(items)
	case v.IsDict():
		out := jinja.NewDict()
		for _, key := range v.AsDict().Keys {
			out.AsDict().Set(key, clone(v.AsDict().Data[key]))
		}
		return out
	}
	return v
}

// numbers is range with a bound: the library's own would fill the memory.
func (m *meter) numbers(args []jinja.Value) (jinja.Value, error) {
	var n [3]int64
	for i, a := range args {
		if i >= 3 || !a.IsInt() {
			return a, errors.New("range: want 1 to 3 whole numbers")
		}
		n[i] = a.AsInt()
	}
	start, stop, step := int64(0), n[0], int64(1)
	if len(args) > 1 {
		start, stop = n[0], n[1]
	}
	if len(args) > 2 {
		step = n[2]
	}
	if step == 0 {
		return args[0], errors.New("range: the step is 0")
	}
	var items []jinja.Value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(items) == maxRange {
			return args[0], much("a range of more than %d numbers", maxRange)
		}
		items = append(items, jinja.NewInt(i))
	}
	return jinja.NewList(items), nil
}
