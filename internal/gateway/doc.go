// Package gateway is the public HTTP surface: it takes requests in a client's dialect, gets answers from the fleet, and sends
// them in that dialect. New returns the handler; whoever listens passes it to an http.Server.
//
//	h := gateway.New(gateway.Options{Fleet: f, Auth: auth.NewKeys(key), InstanceID: id, Version: v})
//	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
//
// # Routes
//
// Each is also found below /v1 and /v1/v1, because clients add the prefix to base addresses that have it already. Query
// strings are ignored. GET includes HEAD, and OPTIONS is answered everywhere.
//
//	POST /chat/completions   use    OpenAI chat
//	POST /completions        use    OpenAI completions
//	GET  /models             use    what can be served now
//	GET  /models/{id...}     use    one of them; ids may hold slashes, escaped or not
//	GET  /health             open   200 if a model serves, else 503; details only for those with the key
//	GET  /version            open   what program this is
//	GET  /                   open   a few words for people
//
// # Promises
//
// The status is chosen before the first byte: decoding, name, admission and the engine's acceptance come first, and an error
// until then is a status with an envelope. A stream that has nothing to say for CommitAfter sends its status then, so that
// clients do not give up, and heartbeats while the silence lasts. What fails after that is an error event, and then the
// connection is aborted: no [DONE], no clean end of the chunked body. An answer that is not streamed is whole or an error.
// When the client goes, its work stops, in every phase.
//
// # Concurrency and slow clients
//
// The handler may be used from any number of goroutines. An answer of a stream is read by one goroutine and written by
// another, with a bounded channel between them: a slow client holds back its own answer, and its turn on the engine, and
// nobody else's. One that takes nothing at all for WriteStall is dropped.
package gateway
