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
	maxValue = 32 << 20
	nodeSize = 16
	// maxRepeat is what the library's operator * makes at most.
	maxRepeat  = 64 << 20
	smallValue = 64 << 10
	// maxNest bounds how deep lists and dicts nest, maxCalls how deep macros and recursive loops call.
	maxNest  = 250
	maxCalls = 150
	// maxExpression bounds the estimate of what a single expression can make.
	maxExpression = 1 << 30
	maxOutput     = 32 << 20
	maxRange      = 100_000
	maxFew        = 10_000
	maxArgument   = 64 << 10
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

// frame is the estimate of the expression that is being computed: how many names it has, how often its text is multiplied, and the size
// of what it makes besides.
type frame struct{ names, growth, base int64 }

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
		"__enter": m.enter, "__leave": m.leave, "__pre": m.pre, "__arg": m.arg, "__operand": m.operand, "__factor": m.factor, "__few": m.few,
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
	if v.IsString() && len(v.AsString()) > maxValue/nodeSize {
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

// pre stands before an expression with so many names. It is false, so that "or" goes on to the expression.
func (m *meter) pre(args []jinja.Value) (jinja.Value, error) {
	m.frame = frame{names: args[0].AsInt(), growth: 1}
	return jinja.NewBool(false), m.estimate()
}

// estimate fails if the expression could make too much, were all its names the largest value there is.
func (m *meter) estimate() error {
	bound := float64(max(m.frame.names, 1)) * float64(m.frame.growth) * float64(max(m.given, m.largest, m.frame.base))
	if bound > maxExpression {
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
	return v, m.estimate()
}

// operand stands to the left of % and of * with a number. Both can make text: by filling a format in, and by repeating.
func (m *meter) operand(args []jinja.Value) (jinja.Value, error) {
	v := args[0]
	if v.IsString() && wide(v.AsString()) {
		return v, much("a format with a wide field")
	}
	if v.IsString() || v.IsList() {
		return m.factor(args)
	}
	return v, nil
}

// factor stands to the left of * with anything else: what is repeated may stand on either side. The library repeats up to 64 MB.
func (m *meter) factor(args []jinja.Value) (jinja.Value, error) {
	m.frame.base = maxRepeat
	if v := args[0]; v.IsString() && wide(v.AsString()) {
		return v, much("a format with a wide field")
	}
	return args[0], m.estimate()
}

// fields matches a field of a format that is wide: more than two digits, a width from an argument, or an argument by its number.
var fields = regexp.MustCompile(`%[-#+ 0-9.]*([0-9]{3}|[*\[])`)

func wide(format string) bool { return fields.MatchString(format) }

// few is the input of a filter that compares all with all.
func (m *meter) few(args []jinja.Value) (jinja.Value, error) {
	v := args[0]
	if v.IsList() && v.AsList().Len() > maxFew || v.IsString() && len(v.AsString()) > maxFew {
		return v, much("more than %d values to compare", maxFew)
	}
	return v, nil
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
