package rawjson

// walker steps through the members of one object or array.
type walker struct {
	s     scanner
	pos   int
	depth int
	first bool
	done  bool
	key   []byte
	val   []byte
	err   error
}

// step moves to the next member and reports whether there is one. At the end pos is behind the closing bracket.
func (w *walker) step(isObject bool) bool {
	if w.err != nil || w.done {
		return false
	}
	closer := byte(']')
	if isObject {
		closer = '}'
	}
	d := w.s.data
	w.pos = skipSpace(d, w.pos)
	if w.pos >= len(d) {
		return w.stop(ErrSyntax)
	}
	switch {
	case d[w.pos] == closer:
		w.pos++
		w.done = true
		return false
	case w.first:
		w.first = false
	case d[w.pos] == ',':
		w.pos = skipSpace(d, w.pos+1)
	default:
		return w.stop(ErrSyntax)
	}
	if isObject && !w.readKey() {
		return false
	}
	return w.readValue()
}

func (w *walker) readKey() bool {
	d := w.s.data
	if w.pos >= len(d) || d[w.pos] != '"' {
		return w.stop(ErrSyntax)
	}
	end, err := w.s.string(w.pos)
	if err != nil {
		w.err = err
		return false
	}
	w.key = d[w.pos:end]
	w.pos = skipSpace(d, end)
	if w.pos >= len(d) || d[w.pos] != ':' {
		return w.stop(ErrSyntax)
	}
	w.pos = skipSpace(d, w.pos+1)
	return true
}

func (w *walker) readValue() bool {
	end, err := w.s.value(w.pos, w.depth)
	if err != nil {
		w.err = err
		return false
	}
	w.val = w.s.data[w.pos:end]
	w.pos = end
	return true
}

func (w *walker) stop(err error) bool {
	w.err = fail(w.pos, err)
	return false
}

// finish checks that only space follows the value that was walked.
func (w *walker) finish() bool {
	if w.err == nil && w.done {
		if end := skipSpace(w.s.data, w.pos); end != len(w.s.data) {
			w.err = fail(end, ErrSyntax)
		}
	}
	return false
}

// open prepares a walk over data, whose first byte must be opener.
func open(data []byte, opener byte) walker {
	i := skipSpace(data, 0)
	w := walker{s: scanner{data: data}, pos: i + 1, depth: 1, first: true}
	if i >= len(data) || data[i] != opener {
		w.pos = i
		w.stop(ErrSyntax)
	}
	return w
}

// ObjectWalker steps through the members of an object, in their order. Repeated names are all visited.
type ObjectWalker struct{ w walker }

// Object returns a walker over the object in data. What it does not reach is not checked.
func Object(data []byte) ObjectWalker { return ObjectWalker{open(data, '{')} }

// Next moves to the next member. It returns false at the end and on errors: see Err.
func (o *ObjectWalker) Next() bool { return o.w.step(true) || o.w.finish() }

// Key returns the member's name. It is a slice of the input unless the name has escapes.
func (o *ObjectWalker) Key() []byte {
	inner := o.w.key[1 : len(o.w.key)-1]
	if plainLen(inner) == len(inner) {
		return inner
	}
	return Unquote(nil, o.w.key)
}

// Value returns the member's value, a slice of the input without surrounding space.
func (o *ObjectWalker) Value() []byte { return o.w.val }

// Err returns the error that ended the walk.
func (o *ObjectWalker) Err() error { return o.w.err }

// ArrayWalker steps through the elements of an array.
type ArrayWalker struct{ w walker }

// Array returns a walker over the array in data. What it does not reach is not checked.
func Array(data []byte) ArrayWalker { return ArrayWalker{open(data, '[')} }

// Next moves to the next element. It returns false at the end and on errors: see Err.
func (a *ArrayWalker) Next() bool { return a.w.step(false) || a.w.finish() }

// Value returns the element, a slice of the input without surrounding space.
func (a *ArrayWalker) Value() []byte { return a.w.val }

// Err returns the error that ended the walk.
func (a *ArrayWalker) Err() error { return a.w.err }
