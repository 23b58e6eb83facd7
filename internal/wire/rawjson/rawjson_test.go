package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		name, in string
		want     error
	}{
		{"object", ` {"a":[1,-2.5e+3,true,false,null,"x\u00e9\n"],"b":{}} `, nil},
		{"empty", "", ErrSyntax},
		{"cut", `{"a":`, ErrSyntax},
		{"two values", `{} {}`, ErrSyntax},
		{"trailing comma", `[1,]`, ErrSyntax},
		{"leading comma", `[,1]`, ErrSyntax},
		{"missing comma", `[1 2]`, ErrSyntax},
		{"name is no string", `{1:2}`, ErrSyntax},
		{"missing colon", `{"a" 1}`, ErrSyntax},
		{"wrong bracket", `[1}`, ErrSyntax},
		{"leading zero", `01`, ErrSyntax},
		{"NaN", `NaN`, ErrSyntax},
		{"cut word", `nul`, ErrSyntax},
		{"control character", "\"\n\"", ErrSyntax},
		{"unknown escape", `"\x"`, ErrSyntax},
		{"short escape", `"\u12"`, ErrSyntax},
		{"invalid UTF-8", "\"\xff\"", ErrUTF8},
		{"cut character", "\"\xe2\x82\"", ErrUTF8},
		{"encoded surrogate", "\"\xed\xa0\x80\"", ErrUTF8},
		{"pair", `"\ud83d\ude00"`, nil},
		{"lone high surrogate", `"\ud83d"`, ErrSurrogate},
		{"lone low surrogate", `"\ude00"`, ErrSurrogate},
		{"swapped pair", `"\ude00\ud83d"`, ErrSurrogate},
		{"high and a plain escape", `"\ud83d\n"`, ErrSurrogate},
		{"surrogate in a name", `{"\ud83d":1}`, ErrSurrogate},
		{"deepest", strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), nil},
		{"too deep", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), ErrDepth},
		{"very deep and cut", strings.Repeat(`{"a":`, 100000), ErrDepth},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check([]byte(tt.in))
			if tt.want == nil && err != nil || !errors.Is(err, tt.want) {
				t.Errorf("Check = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestWalk(t *testing.T) {
	o := Object([]byte(` { "a" : 1 , "\u0062":[ "x" , {} ],"a":"\ud83d\ude00" } `))
	var got []string
	for o.Next() {
		got = append(got, string(o.Key())+"="+string(o.Value()))
	}
	if o.Err() != nil {
		t.Fatal(o.Err())
	}
	if want := `a=1|b=[ "x" , {} ]|a="\ud83d\ude00"`; strings.Join(got, "|") != want {
		t.Errorf("got %s, want %s", strings.Join(got, "|"), want)
	}
	for _, in := range []string{"", "[]", "{", `{"a":1`, `{"a":1}x`, `{"a":[}`, `{"a":tru}`} {
		o := Object([]byte(in))
		for o.Next() {
		}
		if !errors.Is(o.Err(), ErrSyntax) {
			t.Errorf("Object(%q): error %v, want invalid JSON", in, o.Err())
		}
		if o.Next() {
			t.Errorf("Object(%q): goes on after an error", in)
		}
	}
	a := Array([]byte(`[1, "2"]`))
	n := 0
	for a.Next() {
		n++
	}
	if n != 2 || a.Err() != nil || a.Next() {
		t.Errorf("Array: %d elements, %v", n, a.Err())
	}
}

// TestBytesSurvive: an engine's half characters come through, where encoding/json would put U+FFFD in their place.
func TestBytesSurvive(t *testing.T) {
	o := Object([]byte("{\"c\":\"a\xe2\x82\\n\xff\"}"))
	if !o.Next() {
		t.Fatal(o.Err())
	}
	if got, want := Text(o.Value()), "a\xe2\x82\n\xff"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNumbers(t *testing.T) {
	ints := map[string]int64{"16": 16, "16.0": 16, "1e3": 1000, "-1": -1, "9223372036854775807": math.MaxInt64}
	for in, want := range ints {
		if got, ok := Int([]byte(in)); !ok || got != want {
			t.Errorf("Int(%s) = %d, %v, want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{"1.5", `"1"`, "true", "1e30", "1e999", "null", ""} {
		if got, ok := Int([]byte(in)); ok {
			t.Errorf("Int(%s) = %d, want a refusal", in, got)
		}
	}
	if _, ok := Float([]byte("1e999")); ok {
		t.Error("Float(1e999) accepted")
	}
	if b, ok := Bool([]byte("true")); !b || !ok {
		t.Error("Bool(true) refused")
	}
	if _, ok := Bool([]byte("1")); ok {
		t.Error("Bool(1) accepted")
	}
}

func TestAppendFloat(t *testing.T) {
	for _, f := range []float64{0, 1, -0.5, 1e-9, -9999, 1e21, 0.1, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		var back float64
		if err := json.Unmarshal(AppendFloat(nil, f), &back); err != nil || back != f {
			t.Errorf("AppendFloat(%v) = %s: %v", f, AppendFloat(nil, f), err)
		}
	}
	if got := string(AppendFloat(nil, math.Inf(-1))); got != "null" {
		t.Errorf("infinity: %s", got)
	}
}

func TestLineSeparatorsAreEscaped(t *testing.T) {
	if got, want := string(AppendString(nil, "a\u2028\u2029\u0085<&>")), `"a\u2028\u2029\u0085<&>"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":null}]}`, `"\ud83d\ude00"`, "[1.5e-3, true]", "\"\xe2\x82\"", "{", `{"a":1,"a":2}`, "-", "\"\" "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		err := Check(in)
		if err == nil && (!json.Valid(in) || !utf8.Valid(in)) {
			t.Fatal("accepted what is not JSON")
		}
		if err != nil && errors.Is(err, ErrSyntax) && json.Valid(in) && utf8.Valid(in) {
			t.Fatalf("refused JSON: %v", err)
		}
		walkAll(t, bytes.TrimSpace(in)) // values have no space around them
	})
}

// walkAll walks everything in v and asserts that strings are read as encoding/json reads them.
func walkAll(t *testing.T, v []byte) {
	switch KindOf(v) {
	case ObjectKind:
		for o := Object(v); o.Next(); {
			o.Key()
			walkAll(t, o.Value())
		}
	case ArrayKind:
		for a := Array(v); a.Next(); {
			walkAll(t, a.Value())
		}
	case String:
		var want string
		if json.Unmarshal(v, &want) == nil && utf8.Valid(v) {
			if got := Text(v); got != want {
				t.Errorf("Text(%s) = %q, want %q", v, got, want)
			}
		}
	case Number:
		Int(v)
		Float(v)
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\b\f\n\r\t\x00\x1f\x7f", "h\u00e9\u20ac\U0001f600\u2028", "\xff\xe2\x82", "</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		lit := AppendString(nil, s)
		if err := Check(lit); err != nil {
			t.Fatalf("%q is no JSON string: %v", lit, err)
		}
		reference, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got, want string
		if err := errors.Join(json.Unmarshal(lit, &got), json.Unmarshal(reference, &want)); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("reads back as %q, encoding/json's as %q", got, want)
		}
		if string(AppendString(nil, []byte(s))) != string(lit) {
			t.Error("bytes and string differ")
		}
		if Text(lit) != got {
			t.Errorf("Text = %q, want %q", Text(lit), got)
		}
	})
}
