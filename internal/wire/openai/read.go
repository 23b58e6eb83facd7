package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// The readers of scalars. path is for the error.

func readString(path string, v []byte) (string, error) {
	if rawjson.KindOf(v) != rawjson.String {
		return "", wrongType(path, "a string", v)
	}
	return rawjson.Text(v), nil
}

func readBool(path string, v []byte) (bool, error) {
	b, ok := rawjson.Bool(v)
	if !ok {
		return false, wrongType(path, "true or false", v)
	}
	return b, nil
}

func readFloat(path string, v []byte, low, high float64) (*float64, error) {
	if rawjson.KindOf(v) != rawjson.Number {
		return nil, wrongType(path, "a number", v)
	}
	f, ok := rawjson.Float(v)
	if !ok || f < low || f > high {
		return nil, invalid(path, "%s must be between %v and %v, not %s", path, low, high, v)
	}
	return &f, nil
}

// readInt reads a whole number between low and high.
func readInt(path string, v []byte, low, high int64) (int64, error) {
	if rawjson.KindOf(v) != rawjson.Number {
		return 0, wrongType(path, "a whole number", v)
	}
	n, ok := rawjson.Int(v)
	if !ok {
		return 0, invalid(path, "%s must be a whole number, not %s", path, clip(v))
	}
	if n < low || n > high {
		return 0, invalid(path, "%s must be between %d and %d, not %d", path, low, high, n)
	}
	return n, nil
}

// member is one member of a small object.
type member struct {
	key string
	val []byte
}

// maxMembers bounds the objects of a request that are read member by member, so that a body of nothing but commas does
// not grow in memory. No message or tool has a tenth of it.
const maxMembers = 1000

// members reads the object v.
func members(path, want string, v []byte) ([]member, error) {
	var list []member
	err := eachMember(path, want, v, func(key string, val []byte) error {
		if len(list) == maxMembers {
			return invalid(path, "%s has more than %d members", path, maxMembers)
		}
		list = append(list, member{key, val})
		return nil
	})
	return list, err
}

// eachMember calls fn for the members of the object v.
func eachMember(path, want string, v []byte, fn func(key string, val []byte) error) error {
	if rawjson.KindOf(v) != rawjson.ObjectKind {
		return wrongType(path, want, v)
	}
	o := rawjson.Object(v)
	for o.Next() {
		if err := fn(string(o.Key()), o.Value()); err != nil {
			return err
		}
	}
	return o.Err()
}

// eachElement calls fn for the elements of the array v.
func eachElement(path, want string, v []byte, fn func(i int, e []byte) error) error {
	if rawjson.KindOf(v) != rawjson.ArrayKind {
		return wrongType(path, want, v)
	}
	a := rawjson.Array(v)
	for i := 0; a.Next(); i++ {
		if err := fn(i, a.Value()); err != nil {
			return err
		}
	}
	return a.Err()
}

// get returns the value of name, nil if it is absent or null. The last member of a name counts.
func get(list []member, name string) []byte {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].key != name {
			continue
		}
		if rawjson.KindOf(list[i].val) == rawjson.Null {
			return nil
		}
		return list[i].val
	}
	return nil
}

// getString reads the string member name of list; absent is "".
func getString(list []member, path, name string) (string, error) {
	v := get(list, name)
	if v == nil {
		return "", nil
	}
	return readString(path+"."+name, v)
}

// maxEcho is how much of a value an error repeats.
const maxEcho = 60

// clip shortens a value of the client's for an error text.
func clip[S ~string | ~[]byte](s S) string {
	if len(s) <= maxEcho {
		return string(s)
	}
	return string(s[:wholeLen(s[:maxEcho])]) + "..."
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// The readers of the tables' rows.

func readModel(d *decoding, path string, v []byte) (err error) {
	d.model, err = readString(path, v)
	return err
}

func readStream(d *decoding, path string, v []byte) (err error) {
	d.stream, err = readBool(path, v)
	return err
}

func readStreamOptions(d *decoding, path string, v []byte) error {
	list, err := members(path, "an object", v)
	if err != nil {
		return err
	}
	if u := get(list, "include_usage"); u != nil {
		d.usage, err = readBool(path+".include_usage", u)
	}
	return err
}

func readIgnoreEOS(d *decoding, path string, v []byte) (err error) {
	d.req.IgnoreEOS, err = readBool(path, v)
	return err
}

func readMaxTokens(d *decoding, path string, v []byte) (err error) {
	d.maxTokens, err = readMax(path, v)
	return err
}

func readMaxCompletion(d *decoding, path string, v []byte) (err error) {
	d.maxCompletion, err = readMax(path, v)
	return err
}

// readMax reads a bound on the answer. -1 is "no bound" to the clients of some local servers. Values above every window
// are legal: whoever sends them wants what there is.
func readMax(path string, v []byte) (*int, error) {
	if rawjson.KindOf(v) != rawjson.Number {
		return nil, wrongType(path, "a whole number", v)
	}
	f, ok := rawjson.Float(v)
	if !ok || f != math.Trunc(f) || f != -1 && f < 1 {
		return nil, invalid(path, "%s must be a whole number of at least 1, not %s", path, clip(v))
	}
	n := int(math.Min(f, math.MaxInt32))
	return &n, nil
}

func readTemperature(d *decoding, path string, v []byte) (err error) {
	d.req.Sampling.Temperature, err = readFloat(path, v, 0, 2)
	return err
}

func readTopP(d *decoding, path string, v []byte) (err error) {
	d.req.Sampling.TopP, err = readFloat(path, v, 0, 1)
	return err
}

func readMinP(d *decoding, path string, v []byte) (err error) {
	d.req.Sampling.MinP, err = readFloat(path, v, 0, 1)
	return err
}

func readFrequencyPenalty(d *decoding, path string, v []byte) (err error) {
	d.req.Sampling.FrequencyPenalty, err = readFloat(path, v, -2, 2)
	return err
}

func readPresencePenalty(d *decoding, path string, v []byte) (err error) {
	d.req.Sampling.PresencePenalty, err = readFloat(path, v, -2, 2)
	return err
}

// maxRepetitionPenalty is far above what any model survives; it only keeps float overflows out of engines.
const maxRepetitionPenalty = 100

func readRepetitionPenalty(d *decoding, path string, v []byte) error {
	f, err := readFloat(path, v, 0, maxRepetitionPenalty)
	if err != nil {
		return err
	}
	if *f == 0 {
		return invalid(path, "%s must be more than 0; 1 switches it off", path)
	}
	d.req.Sampling.RepetitionPenalty = f
	return nil
}

func readTopK(d *decoding, path string, v []byte) error {
	n, err := readInt(path, v, -1, math.MaxInt32)
	k := max(0, int(n))
	d.req.Sampling.TopK = &k
	return err
}

func readSeed(d *decoding, path string, v []byte) error {
	n, err := readInt(path, v, math.MinInt64, math.MaxInt64)
	d.req.Sampling.Seed = &n
	return err
}

func readStop(d *decoding, path string, v []byte) error {
	if rawjson.KindOf(v) == rawjson.String {
		return addStop(d, path, v)
	}
	return eachElement(path, "a string or a list of strings", v, func(i int, e []byte) error {
		return addStop(d, at(path, i), e)
	})
}

func addStop(d *decoding, path string, v []byte) error {
	s, err := readString(path, v)
	if s != "" {
		d.req.Stop = append(d.req.Stop, s)
	}
	return err
}

func readLogitBias(d *decoding, path string, v []byte) error {
	bias := map[int]float64{}
	err := eachMember(path, "an object of token ids and numbers", v, func(key string, val []byte) error {
		where := path + "." + clip(key)
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			return invalid(where, "%s: %q is not a token id; use the model's own vocabulary", path, clip(key))
		}
		f, err := readFloat(where, val, -100, 100)
		if err != nil {
			return err
		}
		bias[int(id)] = *f
		return nil
	})
	if len(bias) > 0 {
		d.req.Sampling.LogitBias = bias
	}
	return err
}

func readChatLogprobs(d *decoding, path string, v []byte) (err error) {
	d.req.Logprobs, err = readBool(path, v)
	return err
}

// maxTopLogprobs is OpenAI's bound.
const maxTopLogprobs = 20

func readTopLogprobs(d *decoding, path string, v []byte) error {
	n, err := readInt(path, v, 0, maxTopLogprobs)
	top := int(n)
	d.topLogprobs = &top
	return err
}

// readCompletionLogprobs reads the number of alternatives. Clients that know only the chat form send a boolean.
func readCompletionLogprobs(d *decoding, path string, v []byte) error {
	if b, ok := rawjson.Bool(v); ok {
		d.req.Logprobs = b
		return nil
	}
	d.req.Logprobs = true
	return readTopLogprobs(d, path, v)
}

func readParallelTools(d *decoding, path string, v []byte) error {
	b, err := readBool(path, v)
	d.req.ParallelTools = &b
	return err
}

func readEffort(d *decoding, path string, v []byte) (err error) {
	d.req.ReasoningEffort, err = readString(path, v)
	return err
}

func readReasoning(d *decoding, path string, v []byte) error {
	list, err := members(path, "an object", v)
	if err != nil {
		return err
	}
	d.effort, err = getString(list, path, "effort")
	return err
}

func readTemplateArgs(d *decoding, path string, v []byte) error {
	list, err := members(path, "an object", v)
	if err != nil || len(list) == 0 {
		return err
	}
	d.req.TemplateArgs = make(map[string]json.RawMessage, len(list))
	for _, m := range list {
		d.req.TemplateArgs[m.key] = bytes.Clone(m.val)
	}
	return nil
}

func readModalities(_ *decoding, path string, v []byte) error {
	return eachElement(path, "a list", v, func(i int, e []byte) error {
		s, err := readString(at(path, i), e)
		if err == nil && s != "text" {
			err = unsupported(path, "%s: only \"text\" is supported, not %q", path, clip(s))
		}
		return err
	})
}

func readSuffix(d *decoding, path string, v []byte) (err error) {
	d.req.Suffix, err = readString(path, v)
	return err
}

// readPrompt reads a text, token ids, or a list of one of either.
func readPrompt(d *decoding, path string, v []byte) error {
	d.hasPrompt = true
	if rawjson.KindOf(v) == rawjson.String {
		d.req.Prompt = rawjson.Text(v)
		return nil
	}
	list := rawjson.Array(v)
	if rawjson.KindOf(v) != rawjson.ArrayKind {
		return wrongType(path, "a string or a list of token ids", v)
	}
	if !list.Next() {
		return invalid(path, "%s is an empty list", path)
	}
	first := list.Value()
	switch {
	case rawjson.KindOf(first) == rawjson.Number:
		return readPromptTokens(d, path, v)
	case list.Next():
		return unsupported(path, "%s: one prompt per request is supported; send several one by one", path)
	case rawjson.KindOf(first) == rawjson.ArrayKind:
		return readPromptTokens(d, at(path, 0), first)
	default:
		var err error
		d.req.Prompt, err = readString(at(path, 0), first)
		return err
	}
}

func readPromptTokens(d *decoding, path string, v []byte) error {
	err := eachElement(path, "a list of token ids", v, func(i int, e []byte) error {
		return addToken(d, path, i, e)
	})
	if err == nil && len(d.req.PromptTokens) == 0 {
		return invalid(path, "%s is an empty list", path)
	}
	return err
}

func addToken(d *decoding, path string, i int, v []byte) error {
	n, ok := rawjson.Int(v)
	if !ok || n < 0 || n > math.MaxInt32 {
		return invalid(at(path, i), "%s must be a token id, not %s", at(path, i), clip(v))
	}
	d.req.PromptTokens = append(d.req.PromptTokens, int(n))
	return nil
}
