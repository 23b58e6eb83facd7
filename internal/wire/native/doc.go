// Package native is the dialect that stoker speaks with its own engine, a child process of the same program: the words of package
// infer as JSON, and the child's command line.
//
//	body, err := native.EncodeRequest(r)             // parent, POST /generate
//	r, err := native.DecodeRequest(body)             // child
//	line, err := native.AppendEvent(nil, ev)         // child, one event to a line
//	ev, err := native.NewReader(answer).Next()       // parent
//
// Nothing is lost on the way: text need not be UTF-8, JSON that a client sent keeps every byte, and what was not said stays apart from
// zero. An answer is whole only if its last line is a done event. A line that is an error ends it as well; the end of input before
// either is [ErrTruncated]. Both ends are the same program, so fields and kinds that are not known are errors.
//
// Functions are pure and may be called concurrently; a Reader belongs to one goroutine. A slow reader fills the socket, and the child's
// goroutine for that answer waits; its engine does not.
package native
