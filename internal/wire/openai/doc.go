// Package openai translates between OpenAI's chat and completions dialects and package infer, in both directions.
//
// As a server (client to stoker): [DecodeChat] and [DecodeCompletion] read a request body; [ChatFields] and
// [CompletionFields] list what each field of it means here. A [ChatStream] or [CompletionStream] turns the events of an
// answer into event-stream frames, a [ChatAnswer] or [CompletionAnswer] collects them into one body. [ErrorBody] is the
// failure envelope, [ModelCard] and [ModelList] describe what is served.
//
// As a client: [EncodeChat] and [EncodeCompletion] write the request.
//
// Everything is pure: no clock, no randomness, no input or output. Identifiers and times are passed in, so equal input
// gives equal bytes. The functions may be called concurrently; a stream, answer or decoder belongs to one goroutine. They
// never wait, so a slow caller costs nothing here.
//
// A stream that fails is ended by its error event and an aborted connection, never by [DONE]: whoever sees [DONE] got a
// whole answer.
package openai
