package openai

import "slices"

// Use says what happens to a request field.
type Use string

// The uses of fields.
const (
	// Honoured: it does what the dialect says.
	Honoured Use = "honoured"
	// Ignored: clients send it by habit and nothing breaks without it. Unknown fields are ignored too.
	Ignored Use = "ignored"
	// Refused: without it the answer would be another one, so any value but the default is refused by name.
	Refused Use = "refused"
)

// Field is a row of the table of request fields.
type Field struct {
	Name string
	Use  Use
	// Note says what the field means here, or why it is ignored or refused.
	Note string
}

// ChatFields returns the table of the fields of a chat request.
func ChatFields() []Field { return publicFields(chatFields) }

// CompletionFields returns the table of the fields of a completion request.
func CompletionFields() []Field { return publicFields(completionFields) }

func publicFields(rows []fieldRow) []Field {
	out := make([]Field, 0, len(rows))
	for _, r := range rows {
		out = append(out, Field{Name: r.name, Use: r.use, Note: r.note})
	}
	return out
}

// fieldRow is a row of the tables that the decoder works through, from the top. read is nil exactly for ignored fields. It
// gets the field's value, which is never null, because null means absent.
type fieldRow struct {
	name string
	use  Use
	note string
	read func(d *decoding, path string, v []byte) error
}

// chatFields are in the order of work: tools before tool_choice, which names them.
var chatFields = slices.Concat([]fieldRow{
	{"model", Honoured, "the served name or an alias; absent means the only or default model", readModel},
	{"messages", Honoured, "the conversation", readMessages},
	{"tools", Honoured, "functions; an empty list is as none; hosted tools such as web_search are dropped", readTools},
	{"tool_choice", Honoured, "all forms; means nothing without tools", readToolChoice},
	{"parallel_tool_calls", Honoured, "false ends the answer after one call", readParallelTools},
	{"reasoning_effort", Honoured, "the model's template decides what it means", readEffort},
	{"reasoning", Honoured, "its member effort, where reasoning_effort is absent", readReasoning},
	{"chat_template_kwargs", Honoured, "variables for the chat template", readTemplateArgs},
	{"logprobs", Honoured, "", readChatLogprobs},
	{"top_logprobs", Honoured, "0 to 20; needs logprobs", readTopLogprobs},
	{"max_completion_tokens", Honoured, "wins over max_tokens", readMaxCompletion},
	{"functions", Refused, "the form before tools", refuseUnlessEmpty("send tools instead")},
	{"function_call", Refused, "the form before tool_choice", refuseUnless(`"none"`, `"auto"`)},
	{"modalities", Refused, "text only", readModalities},
	{"audio", Refused, "no audio output", refuseUnless()},
	{"web_search_options", Refused, "no search is built in; a tool can do it", refuseUnless()},
	{"input", Refused, "belongs to the Responses API; send messages", refuseUnless()},
	{"prediction", Ignored, "only makes answers faster", nil},
	{"verbosity", Ignored, "no model here knows it", nil},
}, commonFields)

// completionFields are the fields of a completion request.
var completionFields = slices.Concat([]fieldRow{
	{"model", Honoured, "the served name or an alias; absent means the only or default model", readModel},
	{"prompt", Honoured, "a string, a list of one string, or token ids", readPrompt},
	{"suffix", Honoured, "the text behind the hole", readSuffix},
	{"logprobs", Honoured, "the number of alternatives, 0 to 20", readCompletionLogprobs},
	{"echo", Refused, "the prompt is not repeated", refuseUnless("false")},
	{"best_of", Refused, "one answer is made", refuseUnless("1")},
}, commonFields)

// commonFields are the fields that both dialects share.
var commonFields = []fieldRow{
	{"stream", Honoured, "", readStream},
	{"stream_options", Honoured, "include_usage; nothing without stream", readStreamOptions},
	{"max_tokens", Honoured, "the longest answer, lowered to what the window leaves; -1 is as none", readMaxTokens},
	{"temperature", Honoured, "0 to 2", readTemperature},
	{"top_p", Honoured, "0 to 1", readTopP},
	{"top_k", Honoured, "0 and -1 switch it off", readTopK},
	{"min_p", Honoured, "0 to 1", readMinP},
	{"frequency_penalty", Honoured, "-2 to 2", readFrequencyPenalty},
	{"presence_penalty", Honoured, "-2 to 2", readPresencePenalty},
	{"repetition_penalty", Honoured, "more than 0; 1 is off", readRepetitionPenalty},
	{"seed", Honoured, "", readSeed},
	{"stop", Honoured, "a string or a list; empty ones mean nothing", readStop},
	{"logit_bias", Honoured, "token ids of the model's own vocabulary, -100 to 100", readLogitBias},
	{"response_format", Honoured, "text, json_object or json_schema", readFormat},
	{"ignore_eos", Honoured, "for measurements", readIgnoreEOS},
	{"n", Refused, "one answer is made", refuseUnless("1")},
	{"grammar", Refused, "engines differ in their grammars; send a JSON schema", refuseUnless(`""`)},
	{"user", Ignored, "no accounts", nil},
	{"metadata", Ignored, "nothing is stored", nil},
	{"store", Ignored, "nothing is stored", nil},
	{"service_tier", Ignored, "there is one", nil},
	{"prompt_cache_key", Ignored, "a hint for routing, not a part of the answer", nil},
	{"prompt_cache_retention", Ignored, "a hint", nil},
	{"safety_identifier", Ignored, "no accounts", nil},
}
