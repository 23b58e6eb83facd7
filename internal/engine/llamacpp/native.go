package llamacpp

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/stoker-llm/stoker/internal/infer"
	"github.com/stoker-llm/stoker/internal/wire/rawjson"
)

// completionPath is llama-server's own route for continuing a prompt. It is used in place of the OpenAI one, because it
// says which stop text came.
const completionPath = "/completion"

// nativeBody returns the request that continues prompt, or tokens if those are given. schema, if not nil, constrains the
// text. Stop texts are the caller's business: in a forced call they must not apply.
func nativeBody(r *infer.Request, prompt string, tokens []int, schema []byte, maxTokens int) []byte {
	b := make([]byte, 0, len(prompt)+len(schema)+512)
	b = append(b, `{"prompt":`...)
	if tokens != nil {
		b = appendInts(b, tokens)
	} else {
		b = rawjson.AppendString(b, prompt)
	}
	b = append(b, `,"stream":true,"return_progress":true,"cache_prompt":true,"n_predict":`...)
	b = strconv.AppendInt(b, int64(maxTokens), 10)
	if schema != nil {
		b = append(append(b, `,"json_schema":`...), schema...)
	}
	if r.Logprobs {
		b = append(b, `,"n_probs":`...)
		b = strconv.AppendInt(b, int64(max(1, r.TopLogprobs)), 10)
	}
	b = appendSampling(b, r.Sampling)
	if r.IgnoreEOS {
		b = append(b, `,"ignore_eos":true`...)
	}
	return append(b, '}')
}

// appendSampling appends the members for the settings that the client gave, in llama-server's words.
func appendSampling(b []byte, s infer.Sampling) []byte {
	float := func(name string, v *float64) {
		if v != nil {
			b = rawjson.AppendFloat(append(b, `,"`+name+`":`...), *v)
		}
	}
	float("temperature", s.Temperature)
	float("top_p", s.TopP)
	float("min_p", s.MinP)
	float("frequency_penalty", s.FrequencyPenalty)
	float("presence_penalty", s.PresencePenalty)
	float("repeat_penalty", s.RepetitionPenalty)
	if s.TopK != nil {
		b = strconv.AppendInt(append(b, `,"top_k":`...), int64(*s.TopK), 10)
	}
	if s.Seed != nil {
		b = strconv.AppendUint(append(b, `,"seed":`...), uint64(engineSeed(*s.Seed)), 10)
	}
	return appendLogitBias(b, s.LogitBias)
}

// engineSeed folds a client's seed into the engine's 32 bits. The engine takes its highest number for "choose one", so
// that one is moved.
func engineSeed(seed int64) uint32 {
	s := uint32(uint64(seed) ^ uint64(seed)>>32)
	if seed >= 0 && seed < math.MaxUint32 {
		s = uint32(seed)
	}
	if s == math.MaxUint32 {
		s--
	}
	return s
}

// appendLogitBias appends the biases by token, in order, so that equal requests have equal bytes.
func appendLogitBias(b []byte, bias map[int]float64) []byte {
	if len(bias) == 0 {
		return b
	}
	b = append(b, `,"logit_bias":[`...)
	for i, token := range slices.Sorted(maps.Keys(bias)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '['), int64(token), 10)
		b = append(rawjson.AppendFloat(append(b, ','), bias[token]), ']')
	}
	return append(b, ']')
}

// appendStops appends the stop texts.
func appendStops(b []byte, stops []string) []byte {
	if len(stops) == 0 {
		return b
	}
	b = append(b[:len(b)-1], `,"stop":[`...) // in place of the closing brace
	for i, s := range stops {
		if i > 0 {
			b = append(b, ',')
		}
		b = rawjson.AppendString(b, s)
	}
	return append(b, `]}`...)
}

func appendInts(b []byte, ns []int) []byte {
	b = append(b, '[')
	for i, n := range ns {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

// nativeChunk is one event of the own route, as far as we read it.
type nativeChunk struct {
	content   string
	logprobs  []infer.TokenLogprob
	progress  *infer.Progress
	stop      bool
	stopType  string
	stopWord  string
	predicted int
	prompt    int
	cached    int
	fault     *answerError
}

// parseNative reads one event.
func parseNative(data []byte) (nativeChunk, error) {
	var c nativeChunk
	o := rawjson.Object(data)
	for o.Next() {
		v := o.Value()
		switch string(o.Key()) {
		case "content":
			c.content = textOf(v)
		case "stop":
			c.stop, _ = rawjson.Bool(v)
		case "stop_type":
			c.stopType = textOf(v)
		case "stopping_word":
			c.stopWord = textOf(v)
		case "tokens_predicted":
			c.predicted = intOf(v)
		case "tokens_evaluated":
			c.prompt = intOf(v)
		case "timings":
			c.cached = member(v, "cache_n")
		case "prompt_progress":
			c.progress = &infer.Progress{Done: member(v, "processed"), Total: member(v, "total"), Cached: member(v, "cache")}
		case "completion_probabilities":
			c.logprobs = parseLogprobs(v)
		case "error":
			c.fault = parseFault(v)
		}
	}
	return c, o.Err()
}

// intOf reads a whole number, 0 if v is none.
func intOf(v []byte) int {
	n, _ := rawjson.Int(v)
	return int(n)
}

// member reads the whole number called name in the object v, 0 if there is none.
func member(v []byte, name string) int {
	for o := rawjson.Object(v); o.Next(); {
		if string(o.Key()) == name {
			return intOf(o.Value())
		}
	}
	return 0
}

// parseFault reads the error object of a stream that failed.
func parseFault(v []byte) *answerError {
	e := &answerError{}
	for o := rawjson.Object(v); o.Next(); {
		switch string(o.Key()) {
		case "message":
			e.Message = textOf(o.Value())
		case "type":
			e.Type = textOf(o.Value())
		case "code":
			e.Status = intOf(o.Value())
		}
	}
	return e
}

// parseLogprobs reads a list of tokens with their log probabilities, in the form that both routes use.
func parseLogprobs(v []byte) []infer.TokenLogprob {
	var out []infer.TokenLogprob
	for a := rawjson.Array(v); a.Next(); {
		var t infer.TokenLogprob
		for o := rawjson.Object(a.Value()); o.Next(); {
			switch v := o.Value(); string(o.Key()) {
			case "token":
				t.Token = textOf(v)
			case "logprob":
				t.Logprob, _ = rawjson.Float(v)
			case "bytes":
				for n := rawjson.Array(v); n.Next(); {
					t.Bytes = append(t.Bytes, byte(intOf(n.Value())))
				}
			case "top_logprobs":
				t.Top = parseLogprobs(v)
			}
		}
		out = append(out, t)
	}
	return out
}
