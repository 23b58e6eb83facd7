package fake

import (
	"fmt"
	"strings"
)

// Help is the text of `stoker engine fake --help`.
func Help() string {
	var b strings.Builder
	b.WriteString(`Usage: stoker engine fake [--as llama-server|mlx-lm|lm|squatter] [--script FILE] [-- ENGINE FLAGS]

Plays an inference engine without a model, well behaved or with faults on command, so that you can see what your client, agent or
proxy does when an engine is slow, lies, or dies in the middle of an answer.

  stoker engine fake -- --port 8080
  curl -N http://127.0.0.1:8080/v1/chat/completions -d '{"stream": true, "temperature": 0, "max_tokens": 8, "messages":
    [{"role": "user", "content": "hello there"}]}'

Answers are the words of the last message, numbered. A token is a word or a punctuation mark with the blank before it. With
"@call NAME {json}" in the message and tools in the request, the answer is that tool call. With a JSON schema it is a small value
that the schema allows.

The script is YAML: in a file (--script), in the text of a message for that answer only (@fault{die-at: after:3, die-how: kill}),
or sent while it runs:

  curl http://127.0.0.1:8080/fake/script --data-binary 'token-delay: 100ms'
  curl http://127.0.0.1:8080/fake/state       what runs, what was cancelled
  curl http://127.0.0.1:8080/fake/requests    what was received

The requests are listed with what became of each, and when its client was gone.

Phases:
  ` + Phases + `

Keys:
`)
	for _, k := range keys() {
		fmt.Fprintf(&b, "  %-16s %s\n", k.Tag.Get("yaml"), k.Tag.Get("help"))
	}
	b.WriteString(`
--as mlx-lm plays mlx_lm.server instead, in HTTP/1.0 and with its own words. --as lm plays stoker's own engine in its child role, on a
unix socket and in a dialect of its own. The squatter answers /health and nothing else: somebody else's server on the port one wanted. The engine flags behind -- are the
played engine's own; -- --help lists those that are known, and an unknown one ends the process as it does there.
`)
	return b.String()
}
