package infer

// Event is one thing an engine says while it answers: [Text], [Reasoning], [ToolStart], [ToolArgs], [Progress] or [Done].
// The last event of a whole answer is Done, exactly once. A stream that ends without it was cut off.
type Event interface{ event() }

// Text is a piece of the answer. It is bytes in order, not necessarily whole UTF-8 characters: whoever writes it to a
// client holds cut characters back.
type Text struct {
	Text string
	// Logprobs has an entry for each token behind this piece, if the request asked for them.
	Logprobs []TokenLogprob
}

// Reasoning is a piece of the model's thinking, apart from the answer.
type Reasoning struct {
	Text     string
	Logprobs []TokenLogprob
}

// ToolStart opens tool call number Index (0, 1, ... in order). ID may be empty: the dialect then makes one.
type ToolStart struct {
	Index int
	ID    string
	Name  string
}

// ToolArgs is a piece of the JSON text of the arguments of call Index.
type ToolArgs struct {
	Index int
	Text  string
}

// Progress says how far the engine has read the prompt. Cached counts the tokens it found in a cache.
type Progress struct {
	Done, Total, Cached int
}

// Done is the final event.
type Done struct {
	Reason StopReason
	// StopString is the stop text that ended the answer (Reason StopString), when the engine said which.
	StopString string
	Usage      Usage
}

func (Text) event()      {}
func (Reasoning) event() {}
func (ToolStart) event() {}
func (ToolArgs) event()  {}
func (Progress) event()  {}
func (Done) event()      {}

// StopReason says why an answer ended.
type StopReason string

// The stop reasons.
const (
	StopEnd    StopReason = "end"         // the model ended by itself
	StopString StopReason = "stop_string" // a stop text of the request came
	StopTools  StopReason = "tool_calls"  // the model ended with at least one complete tool call
	StopLength StopReason = "length"      // MaxTokens or the window was used up
	StopFilter StopReason = "filter"      // refused by a filter
)

// Usage counts tokens. Prompt is the whole prompt, Cached the part of it that was not computed again, Completion includes
// Reasoning.
type Usage struct {
	Prompt, Cached, Completion, Reasoning int
	// Estimated reports whether the counts were not made by the engine or with the model's own tokenizer.
	Estimated bool
}

// TokenLogprob is the log probability (natural logarithm) of one token. Bytes are the token's own, which may be a part of
// a character.
type TokenLogprob struct {
	Token   string
	Logprob float64
	Bytes   []byte
	Top     []TokenLogprob
}
