package llamacpp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoker-llm/stoker/internal/infer"
)

// readCall feeds pieces to a parser and puts together what came out.
func readCall(pieces []string) (name, args string, starts int, complete bool, err error) {
	var p callParser
	for _, s := range pieces {
		evs, ferr := p.feed(s)
		if ferr != nil {
			return name, args, starts, false, ferr
		}
		for _, ev := range evs {
			switch ev := ev.(type) {
			case infer.ToolStart:
				name = ev.Name
				starts++
			case infer.ToolArgs:
				args += ev.Text
			}
		}
	}
	return name, args, starts, p.complete(), nil
}

func TestCallParserEveryCut(t *testing.T) {
	tests := []struct{ name, text, wantName, wantArgs string }{
		{"plain", `{"name":"f","arguments":{"a":1}}`, "f", `{"a":1}`},
		{"spaces", "{ \"name\" : \"f\" ,\n \"arguments\" :\n  {\n \"a\" : [1, {\"b\":2}]\n}\n}\n ", "f", "{\n \"a\" : [1, {\"b\":2}]\n}"},
		{"escapes", `{"name":"say \"hi\"","arguments":{"t":"}\\\"{","u":"\u00e9é"}}`, `say "hi"`, `{"t":"}\\\"{","u":"\u00e9é"}`},
		{"no arguments", `{"name":"f","arguments":{}}`, "f", `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for cut := range len(tt.text) {
				name, args, starts, complete, err := readCall([]string{tt.text[:cut], tt.text[cut:]})
				if err != nil || name != tt.wantName || args != tt.wantArgs || starts != 1 || !complete {
					t.Fatalf("cut at %d: name %q, args %q, starts %d, complete %v, err %v", cut, name, args, starts, complete, err)
				}
			}
			if name, args, _, complete, err := readCall(strings.Split(tt.text, "")); err != nil || name != tt.wantName || args != tt.wantArgs || !complete {
				t.Errorf("by the character: name %q, args %q, complete %v, err %v", name, args, complete, err)
			}
		})
	}
}

func TestCallParserCutOffIsNotComplete(t *testing.T) {
	const whole = `{"name":"f","arguments":{"a":"b"}}`
	for n := range len(whole) {
		if _, _, _, complete, err := readCall([]string{whole[:n]}); err != nil || complete {
			t.Errorf("%q: complete %v, err %v", whole[:n], complete, err)
		}
	}
}

func TestCallParserRefusesOtherText(t *testing.T) {
	for _, text := range []string{`Sure! {"name":"f"`, `{"nome":"f"`, `{"name":1`, `{"name":"f","arguments":{}}x`, `{"name":"f"}`} {
		if _, _, _, _, err := readCall([]string{text}); err == nil {
			t.Errorf("%q was read as a call", text)
		}
	}
}

func FuzzCallParser(f *testing.F) {
	f.Add(`{"name":"f","arguments":{"a":[1,"}"]}}`, 7)
	f.Add("{ \"name\" : \"\\u0041\" , \"arguments\" : {} }", 3)
	f.Add(`{"name":"f","arguments":{"a":"\\`, 30)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		name, args, _, complete, err := readCall([]string{text})
		if cut < 0 || cut > len(text) {
			return
		}
		name2, args2, _, complete2, err2 := readCall([]string{text[:cut], text[cut:]})
		if (err == nil) != (err2 == nil) {
			t.Fatalf("whole: %v, cut: %v", err, err2)
		}
		if err == nil && (name != name2 || args != args2 || complete != complete2) {
			t.Fatalf("whole %q %q %v, cut %q %q %v", name, args, complete, name2, args2, complete2)
		}
	})
}

func TestCallSchema(t *testing.T) {
	weather := infer.Tool{Name: "weather", Parameters: json.RawMessage(`{"$defs":{"c":{"type":"string"}},"type":"object","properties":{"city":{"$ref":"#/$defs/c"}}}`)}
	now := infer.Tool{Name: "now"}
	tests := []struct {
		name  string
		tools []infer.Tool
		want  string
	}{
		{
			"one",
			[]infer.Tool{weather},
			`{"type":"object","properties":{"name":{"const":"weather"},"arguments":{"$defs":{"c":{"type":"string"}},"type":"object","properties":{"city":{"$ref":"#/properties/arguments/$defs/c"}}}},"required":["name","arguments"],"additionalProperties":false}`,
		},
		{
			"two",
			[]infer.Tool{now, weather},
			`{"anyOf":[{"type":"object","properties":{"name":{"const":"now"},"arguments":{"type":"object","properties":{}}},"required":["name","arguments"],"additionalProperties":false},` +
				`{"type":"object","properties":{"name":{"const":"weather"},"arguments":{"$defs":{"c":{"type":"string"}},"type":"object","properties":{"city":{"$ref":"#/anyOf/1/properties/arguments/$defs/c"}}}},"required":["name","arguments"],"additionalProperties":false}]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, string(callSchema(tt.tools))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckPatterns(t *testing.T) {
	tests := []struct {
		name, schema string
		ok           bool
	}{
		{"plain pattern", `{"type":"string","pattern":"^[a-z]+$"}`, true},
		{"group", `{"type":"string","pattern":"(?:a|b)"}`, true},
		{"look ahead", `{"properties":{"a":{"anyOf":[{"type":"string","pattern":"(?=a)b"}]}}}`, false},
		{"look behind", `{"pattern":"(?<!a)b"}`, false},
		{"a property called pattern", `{"properties":{"pattern":{"type":"string"}}}`, true},
		{"text that looks like one", `{"description":"use (?=x)"}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := checkPatterns([]byte(tt.schema))
			if (err == nil) != tt.ok {
				t.Fatalf("err = %v, want ok %v", err, tt.ok)
			}
			if err != nil && infer.KindOf(err) != infer.ErrInvalid {
				t.Errorf("kind = %s", infer.KindOf(err))
			}
		})
	}
}
