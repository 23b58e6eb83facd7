package fake

import (
	"encoding/json"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// Tokenize splits text into tokens: a word or a punctuation mark, with at most one blank before it, or white space. Joined they are
// the text again.
func Tokenize(text string) []string {
	tokens := make([]string, 0, len(text)/4+1)
	for len(text) > 0 {
		n := tokenLen(text)
		tokens = append(tokens, text[:n])
		text = text[n:]
	}
	return tokens
}

// tokenLen is the length of the first token of a text that is not empty.
func tokenLen(text string) int {
	n := 0
	if blank(text[0]) {
		n = 1
		if len(text) == 1 || blank(text[1]) {
			return 1
		}
	}
	start := n
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		if !inWord(r) {
			if n == start {
				n += size // a mark stands alone
			}
			break
		}
		n += size
	}
	return n
}

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

func inWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// tokenID is a token's number. It is the same in every run.
func tokenID(token string) int {
	h := fnv.New32a()
	h.Write([]byte(token)) // never fails
	return int(h.Sum32() % 100000)
}

const defaultTokens = 40

// call is a tool call that the prompt asked for: @call NAME {json}.
type call struct {
	Name string
	Args string
}

var callRule = regexp.MustCompile(`@call\s+(\S+)\s+(\{.*\})`)

func callIn(prompt string) *call {
	m := callRule.FindStringSubmatch(prompt)
	if m == nil || !json.Valid([]byte(m[2])) {
		return nil
	}
	return &call{m[1], m[2]}
}

// echo makes an answer of n tokens from a prompt: its words, numbered. start shifts the numbers, so a seed shows.
func echo(prompt string, n, start int) string {
	words := strings.Fields(prompt)
	if len(words) == 0 {
		words = []string{"nothing"}
	}
	tokens := make([]string, 0, n+2)
	for i := 0; len(tokens) < n; i++ {
		piece := strconv.Itoa(start+i+1) + " " + words[i%len(words)]
		if i > 0 {
			piece = " " + piece
		}
		tokens = append(tokens, Tokenize(piece)...)
	}
	return strings.Join(tokens[:n], "")
}

// appendInstance appends a small value that a JSON schema allows, as far as the common keywords go. Properties keep their
// order, as grammars made from a schema have it.
func appendInstance(dst []byte, schema json.RawMessage) []byte {
	var m map[string]json.RawMessage
	if json.Unmarshal(schema, &m) != nil {
		return append(dst, `"x"`...)
	}
	if v, ok := m["const"]; ok {
		return append(dst, v...)
	}
	for _, k := range []string{"enum", "anyOf", "oneOf"} {
		var list []json.RawMessage
		if json.Unmarshal(m[k], &list) != nil || len(list) == 0 {
			continue
		}
		if k == "enum" {
			return append(dst, list[0]...)
		}
		return appendInstance(dst, list[0])
	}
	return appendTyped(dst, m)
}

func appendTyped(dst []byte, m map[string]json.RawMessage) []byte {
	var typ string
	if json.Unmarshal(m["type"], &typ) != nil {
		var several []string
		if json.Unmarshal(m["type"], &several) == nil && len(several) > 0 {
			typ = several[0]
		}
	}
	switch typ {
	case "integer", "number":
		if v, ok := m["minimum"]; ok {
			return append(dst, v...)
		}
		return append(dst, '7')
	case "boolean":
		return append(dst, "true"...)
	case "null":
		return append(dst, "null"...)
	case "string":
		return append(dst, `"text"`...)
	case "array":
		return appendArray(dst, m)
	}
	return appendObject(dst, m["properties"])
}

func appendArray(dst []byte, m map[string]json.RawMessage) []byte {
	n := 1
	if v, err := strconv.Atoi(string(m["minItems"])); err == nil {
		n = v
	}
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInstance(dst, m["items"])
	}
	return append(dst, ']')
}

func appendObject(dst []byte, properties json.RawMessage) []byte {
	dst = append(dst, '{')
	n := 0
	for o := rawjson.Object(properties); len(properties) > 0 && o.Next(); n++ {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(rawjson.AppendString(dst, string(o.Key())), ':')
		dst = appendInstance(dst, o.Value())
	}
	return append(dst, '}')
}

// cutAtStop ends tokens where a stop text begins. Which one it was is returned.
func cutAtStop(text string, stops []string) (string, string) {
	best, word := len(text), ""
	for _, s := range stops {
		if i := strings.Index(text, s); s != "" && i >= 0 && i < best {
			best, word = i, s
		}
	}
	return text[:best], word
}
