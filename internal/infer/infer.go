// Package infer holds the neutral words of inference: what a client asks for, what an engine says back, and how both
// fail. Every dialect (package wire) translates to and from these types, and every engine driver speaks only them, so N
// dialects and M engines cost N + M translations.
//
// The package is types only. It imports nothing of ours, does no input or output and starts no goroutine. Values are
// plain data: a [Request] is built by one goroutine and is read-only once it was handed to an engine; events are
// passed by value and may be kept.
package infer

import "encoding/json"

// Role says who speaks in a message.
type Role string

// The roles that dialects produce. Developer is kept apart from System: which of the two a chat template knows is the
// model's business.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role Role
	// Name is the optional author name that OpenAI messages may carry.
	Name string
	// Parts is the content in order. An empty list is a message without content, which is legal beside ToolCalls.
	Parts []Part
	// Reasoning is the assistant's earlier thinking, echoed back by clients.
	Reasoning string
	// ToolCalls are the calls an assistant turn made.
	ToolCalls []ToolCall
	// ToolCallID names the call a ToolRole message answers.
	ToolCallID string
}

// Text returns the message's text parts joined without a separator.
func (m Message) Text() string {
	if len(m.Parts) == 1 {
		return m.Parts[0].Text
	}
	var s string
	for _, p := range m.Parts {
		s += p.Text
	}
	return s
}

// Part is a piece of a message's content: text, or an image when Image is set.
type Part struct {
	Text  string
	Image *Image
}

// Image is a picture in a message, as the client gave it.
type Image struct {
	// URL is a data: URL or an address. Addresses are never fetched by an engine.
	URL string
	// Param is the path of the field that brought it, such as "messages[0].content[1].image_url", for error texts.
	Param string
}

// Tool is a function the model may call. Parameters is its JSON Schema, byte for byte as the client sent it (key order is
// part of the prompt, and so of the prefix cache).
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage
	Strict      bool
}

// ToolCall is a complete call: in history, or assembled from a stream.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is the JSON text that the model wrote. It need not be valid JSON.
	Arguments string
}

// ToolMode says whether the model may, must or must not call tools.
type ToolMode string

// The tool modes. The zero value means the client said nothing: auto when there are tools.
const (
	ToolAuto     ToolMode = "auto"
	ToolNone     ToolMode = "none"
	ToolRequired ToolMode = "required"
	// ToolNamed forces the one tool named by ToolChoice.Name.
	ToolNamed ToolMode = "named"
)

// ToolChoice is the client's wish about tool calls.
type ToolChoice struct {
	Mode ToolMode
	Name string
}

// FormatKind says how the answer's text is constrained.
type FormatKind string

// The answer formats. The zero value is free text.
const (
	FormatText       FormatKind = ""
	FormatJSONObject FormatKind = "json_object"
	FormatJSONSchema FormatKind = "json_schema"
)

// Format constrains the answer's text.
type Format struct {
	Kind   FormatKind
	Name   string
	Schema json.RawMessage
	Strict bool
}

// Sampling holds the sampling settings. A nil pointer means that the client did not say, which is not the same as zero:
// the engine's own default then holds.
type Sampling struct {
	Temperature       *float64
	TopP              *float64
	TopK              *int
	MinP              *float64
	FrequencyPenalty  *float64
	PresencePenalty   *float64
	RepetitionPenalty *float64
	Seed              *int64
	// LogitBias maps token ids of the model's vocabulary to an additive bias.
	LogitBias map[int]float64
}

// Kind says which question a request asks.
type Kind string

// The kinds of request.
const (
	// Chat renders Messages through the model's chat template.
	Chat Kind = "chat"
	// Completion continues Prompt as it is.
	Completion Kind = "completion"
)

// Request is one generation, in no dialect. It names no model: by the time it exists, the model was resolved.
type Request struct {
	// ID is the request id that logs and response headers carry.
	ID   string
	Kind Kind

	// Messages is the conversation (Chat only).
	Messages   []Message
	Tools      []Tool
	ToolChoice ToolChoice
	// ParallelTools is false when the client allows one call only; nil when it did not say.
	ParallelTools *bool
	// TemplateArgs are extra variables for the chat template, such as enable_thinking.
	TemplateArgs map[string]json.RawMessage
	// ReasoningEffort is the client's word for how much to think ("none", "low", ...); empty when it did not say.
	ReasoningEffort string

	// Prompt is the text to continue (Completion only). PromptTokens, if not nil, is given instead, as token ids.
	Prompt       string
	PromptTokens []int
	// Suffix is the text behind the hole (fill in the middle); empty for none.
	Suffix string

	Format   Format
	Sampling Sampling
	// MaxTokens bounds the answer, thinking included. 0 means up to the window.
	MaxTokens int
	// Stop are texts that end the answer and are not part of it.
	Stop []string
	// Logprobs asks for the log probability of each answer token, and TopLogprobs for that many alternatives beside it.
	Logprobs    bool
	TopLogprobs int
	// IgnoreEOS keeps generating past the model's end token (for measurements).
	IgnoreEOS bool
}
