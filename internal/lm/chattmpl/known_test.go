package chattmpl

// knownSnippets are the snippets that end otherwise than with jinja2, and why. Like the other list it is exact. None of the real
// templates needs them.
var knownSnippets = reasons(map[string][]string{
	"syntax that the library lacks; the template is refused": {
		`{% for a, b, c in [(1,2,3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}`,
		`{{ 2 is in [1,2] }}`,
		`{{ 100000000000000000000|tojson }}`,
		`{% with a=1 %}{{ a }}{% endwith %}`,
		`{{ [[1,2],[3]] | sum(start=[]) }}`,
		`{{ 0x1F }}`,
		`{{ 1_000 }}`,
		`{{ 0b11 }}`,
	},
	"strings in a list are written with more characters escaped": {
		"{{ ['it\\'s', \"q\\\"\", 'b\\\\s', 'n\\n', 'é', '\\u2028', '\\x00'] }}",
	},
	"a boolean is a number in Python": {
		`{{ true is number }}`,
	},
	"views and pairs are plain lists here, and written so": {
		`{{ d.items()|list }}`,
		`{{ d | dictsort | first }}`,
		`{{ d.items() | first }}`,
		`{{ range(3) }}`,
		`{{ d.items() }}`,
		`{{ d.keys() }}`,
	},
	"methods that the library lacks; the render fails with their names": {
		`{{ 'a,b,c'.rsplit(',', 1) }}`,
		`{{ 'a\nb'.splitlines() }}`,
		`{{ 'abc'.index('b') }}`,
		`{{ '12'.isdigit() }}`,
		`{{ 'ab'.isalpha() }}`,
		`{{ ','.join(['a','b']) }}`,
		`{% set l = [1] %}{{ l.extend([2]) }}{{ l }}`,
		`{{ s.partition('</think>') }}`,
	},
	"filters that the library lacks; the render fails with their names": {
		`{{ 'abcdef'|truncate(3) }}`,
		`{{ 'a'|center(5) }}`,
		`{{ '%s'|format('x') }}`,
		`{{ "%.2f" | format(1.234) }}`,
	},
	"the library goes on where jinja2 fails: undefined values, and operators on values of different kinds": {
		`{{ messages[0].nope.more }}`,
		`{{ nope.more }}`,
		`{{ 'a' + 1 }}`,
		`{{ 1 + 'a' }}`,
		`{{ none + 'a' }}`,
		`{{ x + 'a' }}`,
		`{{ 'a' + x }}`,
		`{{ [] + 'a' }}`,
		`{{ none|length }}`,
		`{{ 5|length }}`,
		`{{ 1 / 0 }}`,
		`{% for i in none %}{% endfor %}`,
		`{% for i in 5 %}{% endfor %}`,
		`{{ 'a' < 1 }}`,
		`{{ 'a' in none }}`,
		`{{ 1 in 5 }}`,
		`{{ 1 ~ 2 + 3 }}`,
		`{{ {'a': x}|tojson }}`,
	},
	"letters whose case is more than one letter, and words with an apostrophe": {
		`{{ 'ß'.upper() }}`,
		`{{ 'İ'.lower() }}`,
		`{{ "they're"|title }}`,
	},
	"whole numbers of more than 64 bits": {
		`{{ 10 ** 20 }}`,
		`{{ 9223372036854775807 + 1 }}`,
	},
	"keys that are not strings": {
		`{{ {none: 1, true: 2, 1.5: 3} }}`,
		`{{ {none: 1}|tojson }}`,
	},
})

func reasons(groups map[string][]string) map[string]string {
	out := map[string]string{}
	for why, sources := range groups {
		for _, s := range sources {
			out[s] = why
		}
	}
	return out
}
