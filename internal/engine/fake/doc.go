// Package fake is the scripted engine: a process that speaks an engine's HTTP surface and behaves badly on command. It exists
// for faults that real engines cannot be made to show, and people use it (`stoker engine fake`) to test their own clients and
// agents without a model.
//
//	stoker engine fake --as llama-server --script faults.yaml -- --port 8080 -c 4096 -np 2
//
// [Main] is the process, [NewServer] the same surface as an http.Handler inside another process. What it does is a [Script]:
// settings and faults, from a file, from the text of a prompt (@fault{die-at: after:3}) or at run time (POST /fake/script).
// Without one it is a well-behaved engine: its answers follow from the last message alone, and a token is a word or a
// punctuation mark with the blank before it, so every count can be checked by hand.
//
// GET /fake/state says what runs, how many tokens were made so far and what was cancelled; GET /fake/requests what was received, what
// became of each request, and when its client was gone. A Server may be used from many
// goroutines; a slow client holds back its own answer only, and a slot with it, as in the engines it plays.
package fake
