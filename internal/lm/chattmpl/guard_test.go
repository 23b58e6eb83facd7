package chattmpl

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/ardanlabs/jinja"

	"github.com/stoker-llm/stoker/internal/infer"
)

// hostile are templates that take all time or memory there is, or break the library. Each must end with an error.
var hostile = []struct{ name, source string }{
	{"a long range", "{% for i in range(10000000000) %}{% endfor %}"},
	{"a range with a huge step", "{{ range(0, 9223372036854775807, 1) }}"},
	{"loops in loops", strings.Repeat("{% for a in range(1000) %}", 5) + "x" + strings.Repeat("{% endfor %}", 5)},
	{"much output", "{% for a in range(100000) %}{% for a in range(100) %}" + strings.Repeat("x", 1000) + "{% endfor %}{% endfor %}"},
	{"much output by a value", "{% set s = 'x' * 1000000 %}{% for a in range(100000) %}{{ s }}{% endfor %}"},
	{"doubling", "{% set s = 'xxxxxxxxxxxxxxxx' %}" + strings.Repeat("{% set s = s ~ s %}", 60)},
	{"doubling in a loop", "{% set n = namespace(s='x') %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor %}"},
	{"doubling a list", "{% set l = [1] %}" + strings.Repeat("{% set l = l + l %}", 60)},
	{"doubling by sharing", "{% set l = [1] %}" + strings.Repeat("{% set l = [l, l] %}", 60) + "{{ l }}"},
	{"doubling by sharing, compared", "" +
		"{% set l = [1] %}{% set m = [1] %}" + strings.Repeat("{% set l = [l, l] %}{% set m = [m, m] %}", 60) + "{{ l == m }}"},
	{"doubling by a macro", "{% macro f(s, n) %}{{ f(s ~ s, n) }}{% endmacro %}{{ f('x', 1) }}"},
	{"doubling by varargs", "{% macro f() %}{{ f(varargs[0] ~ varargs[0]) }}{% endmacro %}{{ f('x') }}"},
	{"doubling by keywords", "{% macro f() %}{{ f(a=kwargs.a ~ kwargs.a) }}{% endmacro %}{{ f(a='x') }}"},
	{"doubling by a block", strings.Repeat("{% set s %}{{ s }}{{ s }}xxxxxxxx{% endset %}", 60)},
	{"doubling by a filter that is a macro", "{% macro f(s) %}{{ (s ~ s) | f }}{% endmacro %}{{ 'x' | f }}"},
	{"a long expression", "{% set s = 'x' * 1000000 %}{{ s" + strings.Repeat(" ~ s", 900) + " }}"},
	{"a long condition", "{% set s = 'x' * 1000000 %}{% if (s" + strings.Repeat(" ~ s", 900) + ")|length > 1 %}{% endif %}"},
	{"a long loop filter", "{% set s = 'x' * 1000000 %}{% for a in [1] if (s" + strings.Repeat(" ~ s", 900) + ")|length > 1 %}{% endfor %}"},
	{"a long default", "{% set s = 'x' * 1000000 %}{% macro f(a=s" + strings.Repeat(" ~ s", 900) + ") %}{% endmacro %}{{ f() }}"},
	{"repetition of repetition", "{{ ('x' * 1000000) ~ ('x' * 1000000)" + strings.Repeat(" ~ ('x' * 1000000)", 100) + " }}"},
	{"repetition from the other side", "{{ (1000000 * 'x')" + strings.Repeat(" ~ (1000000 * 'x')", 100) + " }}"},
	{"replace", "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}"},
	{"replace as a filter", "{{ ('x' * 1000000) | replace('x', 'y' * 1000000) }}"},
	{"replace nothing", "{% set s = 'x' * 60000 %}{{ s.replace('', s) }}"},
	{"replace without a comma", "{% set s = 'x' * 60000 %}{{ s.replace(''s , ) }}"},
	{"replace with a word for a comma", "{% set else = 'x' * 60000 %}{{ else.replace('' else) }}"},
	{"replace with a test for a comma", "{% set s = 'x' * 60000 %}{{ s.replace('' is defined {'a': s}) }}"},
	{"replace that is kept", "{% set s = 'x' * 60000 %}{% set r = s.replace %}{{ r('', s) }}"},
	{"replace in brackets", "{% set s = 'x' * 60000 %}{{ (s.replace)('', s) }}"},
	{"format that is kept", "{% set s = '{}' * 100000 %}{% set f = s.format %}{{ f(s) }}"},
	{"join with arguments from a mapping", "{{ ('x' * 60000) | join(attribute='a', **{'d': 'x' * 60000}) }}"},
	{"join with a keyword", "{{ range(60000) | join(attribute=none, d='x' * 60000) }}"},
	{"a loop that sets a keyword", "{% for else in [1] %}{% endfor %}"},
	{"a macro that sets a keyword", "{% macro f(else) %}{% endmacro %}"},
	{"a target with a value in it", "{% set x(y=1) = 2 %}"},
	{"chains of replace", "{{ 'x'" + strings.Repeat(".replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')", 10) + " }}"},
	{"replace in map", "{{ ['x' * 1000000] | map('replace', 'x', 'y' * 1000000) | list }}"},
	{"join", "{{ ('x' * 1000000) | join('y' * 1000000) }}"},
	{"join with a range", "{{ range(100000) | join('y' * 1000000) }}"},
	{"indent", "{{ ('\n' * 1000000) | indent(1000000, true, true) }}"},
	{"indent by a name", "{{ ('x\n' * 1000000) | indent(width=1000000) }}"},
	{"tojson with an indent", "{{ [[[1]]] | tojson(indent=10000000000) }}"},
	{"tojson with separators", "{{ range(100000) | tojson(separators=('x' * 1000000, 'y')) }}"},
	{"batch", "{{ [1] | batch(10000000000, 'x') }}"},
	{"a wide format", "{{ '%999999d' % 1 }}"},
	{"a repeated wide format", "{{ ('%999999d' * 10000) % 1 }}"},
	{"a repeated wide format, unbracketed", "{{ 10000 * '%999999d' % 1 }}"},
	{"a wide format that is repeated first", "{{ '%999999d' * 10000 % 1 }}"},
	{"a repeated format", "{{ '%s' % 'x' * 1000000 }}"},
	{"repetition of a list", "{% set s = 'x' * 1000000 %}{{ [s] * 1000000 | join }}"},
	{"repetition of a list from the other side", "{% set s = 'x' * 1000000 %}{% set l = [s] %}{{ (1000000 * l) | join }}"},
	{"repetition in steps", "{{ 'x' * 1000 * 1000 * 60 }}"},
	{"repetition in steps from the other side", "{{ 1000 * 1000 * 60 * 'x' }}"},
	{"repetition by a power", "{{ 'x' * 10 ** 9 }}"},
	{"repetition by a power from the other side", "{{ 10 ** 9 * 'x' }}"},
	{"repetition in brackets", "{{ (true * ('x' * 1000)) * (1000 * 60) }}"},
	{"a default for all", "{{ range(100000) | map(attribute='a', default='x' * 1000000) | join }}"},
	{"characters", "{% set s = ('x' * 1000000) ~ ('x' * 1000000) %}{{ s | list | length }}"},
	{
		"pieces", "{% set s = ('x' * 1000000) ~ ('x' * 1000000) ~ ('x' * 1000000) %}" +
			"{{ (s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s).split('x') | length }}",
	},
	{"a format with a width from an argument", "{{ '%*d' % (999999, 1) }}"},
	{"a format that repeats its argument", "{{ '%[1]s%[1]s' % ('x', ) }}"},
	{"a method format", "{% set f = '{}' * 1000000 %}{{ f.format('x' * 1000000) }}"},
	{"unique", "{{ ((range(100000) | list) * 10) | unique | list | length }}"},
	{"recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"},
	{"recursion of two", "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}"},
	{"recursion through a variable", "" +
		"{% set n = namespace() %}{% macro f() %}{{ n.f() }}{% endmacro %}{% set n.f = f %}{{ f() }}"},
	{"recursion of callers", "" +
		"{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}"},
	{"recursion in a long expression", "{% macro f() %}{{ f()" + strings.Repeat(" ~ 1", 900) + " }}{% endmacro %}{{ f() }}"},
	{"recursion of a loop", "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
	{"doubling of a recursive loop", "{% for a in ['x'] recursive %}{{ loop([a ~ a]) }}{% endfor %}"},
	{"a list in itself", "{% set l = [] %}{% set _ = l.append(l) %}{{ l == l }}"},
	{"a list in a list in itself", "{% set l = [] %}{% set m = [l] %}{% set _ = l.append(m) %}{{ l == m }}"},
	{"a dict in itself", "{% set d = {} %}{% set _ = d.update({'a': d}) %}{{ d == {'a': d} }}"},
	{"a namespace in itself", "{% set n = namespace() %}{% set n.a = n %}{% set m = namespace() %}{% set m.a = m %}{{ n == m }}"},
	{"a loop in itself", "{% for i in [1] %}{% set _ = loop.update({'a': loop}) %}{{ loop == {'a': loop} }}{% endfor %}"},
	{"a deep list", "{% set n = namespace(l=[]) %}{% for i in range(100000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}"},
	{"appending big values", "" +
		"{% set l = [] %}{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{% set _ = l.append(s ~ i) %}{% endfor %}"},
	{"keeping big values", "{% set n = namespace() %}{% set s = 'x' * 1000000 %}" + strings.Repeat("{% set n.a = s ~ s %}", 200)},
	{"deep brackets", "{{ " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000) + " }}"},
	{"many words", "{{ 1" + strings.Repeat("+1", 10_000) + " }}"},
	{"many nots", "{{ " + strings.Repeat("not ", 10_000) + "1 }}"},
	{"deep blocks", strings.Repeat("{% if 1 %}", 20_000) + strings.Repeat("{% endif %}", 20_000)},
	{"a huge template", strings.Repeat("x", maxSource+1)},
	{"the guard's names", "{% macro __keep(x) %}{{ x }}{% endmacro %}"},
	{"the guard's names as a keyword", "{{ dict(__keep=1) }}"},
	{"the library's names", "{{ __filter_upper('x') }}"},
	{"a method without a call", "{% set l = [] %}{% set f = l.append %}{{ f(l) }}"},
	{"a filter block that multiplies", "{% filter replace('x', 'yyyyyyyyyyyyyyyy') %}x{% endfilter %}"},
	{"a filter behind a block that multiplies", "{% set x | replace('x', 'y' * 1000000) %}" + strings.Repeat("x", 10000) + "{% endset %}"},
	{"joiner", "{% set j = joiner('x' * 1000000) %}{{ j() }}" + strings.Repeat("{{ j() }}", 100)},
	{"a name that is no name", "{% set a$__keep = 1 %}"},
}

func TestGuard(t *testing.T) {
	tests := []struct{ name, source, want string }{
		{"output", "{{- x }} ", "{{ __out((x)) }} "},
		{"set", "{% set x = 1, 2 -%} ", "{%+ set x = __keep(1, (1 , 2)) +%}"},
		{"a namespace", "{% set n.x = y %}", "{%+ set n.x = __keep(1, (y), n) +%}"},
		{
			"a loop", "{% for a in b if a %}x{% endfor %}",
			"{%+ for a in __iter((b)) if (a) +%}{{ __step(loop.depth) }}{{ __text(1) }}x{%+ endfor  +%}",
		},
		{
			"a macro", "{% macro f(a, b=1) %}{% endmacro %}",
			"{%+ macro f ( a , b = 1 ) +%}{{ __enter(a, b, varargs) }}{{ __leave() }}{%+ endmacro  +%}",
		},
		{"replace", "{{ x.replace('aa', b) }}", "{{ __out(__pre(3, 4) or (x . replace ( 'aa' , __arg( b , 'aa') ))) }}"},
		{"a keyword", "{{ x|tojson(indent=y) }}", "{{ __out(__pre(3, 0) or (x | tojson ( indent = __arg( y ) ))) }}"},
		{"a harmless keyword", "{{ x|map(attribute='y') }}", "{{ __out(__pre(2, 3) or (x | __short | map ( attribute = 'y' ))) }}"},
		{"append", "{% if n.l.append([x, y]) %}{% endif %}", "{%+ if (n . l . append ( __into( n.l, [ x , y ] ) )) +%}{%+ endif  +%}"},
		{"append to an unnamed list", "{{ f().append(x) }}", "{{ __out((f ( ) . append ( __copy( x ) ))) }}"},
		{"a field named format", "{{ x.format == 'y' }}", "{{ __out(__pre(1, 3) or (x . format | __value == 'y')) }}"},
		{"tests with arguments", "{{ x is divisibleby 3 and y is not sameas z }}", "{{ __out((x is divisibleby 3 and y is not sameas z)) }}"},
		{
			"a product", "{{ a * b.c(1)[2]|d * -3 }}",
			"{{ __out(__pre(5, 0) or (a | __left * b . c ( 1 ) [ 2 ] | d | __right | __product * - 3 | __right)) }}",
		},
		{
			"products in brackets", "{{ (a * (b * 2)) }}",
			"{{ __out(__pre(4, 0) or (( a | __left * ( b | __left * 2 | __right ) | __right ))) }}",
		},
		{
			"a product of a remainder", "{{ a % 2 * b }}",
			"{{ __out(__pre(4, 0) or (a | __format % 2 | __product * b | __right)) }}",
		},
		{
			"a call with parameters", "{% call(x, y) f(z) %}{% endcall %}",
			"{%+ call ( x , y ) f ( z ) +%}{{ __enter(x, y) }}{{ __leave() }}{%+ endcall  +%}",
		},
		{"a remainder", "{{ a % 2 == 0 }}", "{{ __out(__pre(2, 0) or (a | __format % 2 == 0)) }}"},
		{"marks in text", "{% raw %}{{ \"\\{% endraw %}", `{{ "{{ \"\\" }}`},
		{"a mark made by stripping", "{ {%- if x %}{% endif %}", `{{ "{" }}{%+ if (x) +%}{%+ endif  +%}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pieces, err := scan(tt.source)
			if err != nil {
				t.Fatal(err)
			}
			got, err := guard(pieces)
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestHostileTemplatesEnd(t *testing.T) {
	p := Prompt{Messages: []infer.Message{say(infer.User, "x")}}
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err := renderSmall(tt.source, p, 10)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Errorf("%d bytes and no error", len(out))
			}
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 700 {
				t.Errorf("%d MB of memory were taken before %v", mb, err)
			}
		})
	}
}

// renderSmall renders with a part of the usual limits, so that a template which runs into one does it soon.
func renderSmall(source string, p Prompt, part int) (string, error) {
	tmpl, err := Parse(source, Tokens{BOS: "<s>", EOS: "</s>"})
	if err != nil {
		return "", err
	}
	tmpl.limits.steps /= part
	tmpl.limits.work /= int64(part)
	return tmpl.Render(p)
}

// TestLimitsLeaveRoom renders a conversation of some 100,000 tokens.
func TestLimitsLeaveRoom(t *testing.T) {
	var p Prompt
	for range 100 {
		p.Messages = append(p.Messages, say(infer.User, strings.Repeat("Ten words that nobody will ever read in this test. ", 40)),
			say(infer.Assistant, strings.Repeat("<think>So many.</think> & so on.\n", 60)))
	}
	p.Tools = readTools(t)
	for name, source := range real(t) {
		if name == "google-gemma-2-2b-it.jinja" { // refuses tools
			continue
		}
		tmpl, err := Parse(source, Tokens{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tmpl.Render(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRendersAtOnce(t *testing.T) {
	tmpl, err := Parse(real(t)["meta-llama-Llama-3.1-8B-Instruct.jinja"], Tokens{})
	if err != nil {
		t.Fatal(err)
	}
	p := Prompt{Tools: readTools(t)}
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			p := p
			for i := range 20 {
				word := t.Name() + strconv.Itoa(i)
				p.Messages = []infer.Message{say(infer.User, word)}
				if got, err := tmpl.Render(p); err != nil || strings.Count(got, word) != 1 {
					t.Errorf("got %q, %v, want %s in it", got, err, word)
				}
			}
		})
	}
}

func FuzzTemplate(f *testing.F) {
	for _, h := range hostile {
		f.Add(h.source)
	}
	var want reference
	readJSON(f, "reference.json.gz", &want)
	for _, s := range want.Snippets {
		f.Add(s.Source)
	}
	p := Prompt{Messages: []infer.Message{say(infer.System, "S"), say(infer.User, "U\n")}, AddGenerationPrompt: true, Tools: readTools(f)}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 4096 {
			return
		}
		first, err := renderSmall(source, p, 500)
		second, again := renderSmall(source, p, 500)
		if first != second || (err == nil) != (again == nil) {
			t.Errorf("two renders: %q, %v and %q, %v", first, err, second, again)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	var p Prompt
	for range 10 {
		p.Messages = append(p.Messages, say(infer.User, strings.Repeat("word ", 100)), say(infer.Assistant, strings.Repeat("word ", 100)))
	}
	p.Messages = append(p.Messages, say(infer.User, "?"))
	p.Tools = readTools(b)
	sources := real(b)
	for _, name := range []string{"SmolLM2.gguf", "Qwen-Qwen3-0.6B.jinja", "openai-gpt-oss-120b.jinja"} {
		tmpl, err := Parse(sources[name], Tokens{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := tmpl.Render(p); err != nil {
					b.Fatal(err)
				}
			}
		})
		plain, err := jinja.Compile(sources[name])
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+" without the guard", func(b *testing.B) {
			var raised string
			for b.Loop() {
				vars, err := tmpl.variables(p, &raised)
				if err != nil {
					b.Fatal(err)
				}
				delete(vars, "range")
				if _, err := plain.RenderValues(vars); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
