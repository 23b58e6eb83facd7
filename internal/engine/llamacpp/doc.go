// Package llamacpp is the driver for llama.cpp's llama-server: it finds and probes the binary, starts it for one model,
// and translates [infer.Request] to the server's own HTTP surface and its events back.
//
// Use [New] once per process, then the [engine.Driver] methods. The engine is judged by what its --help lists and never
// by its version number: version strings of llama.cpp are not ordered, and distributions build from anywhere.
//
// What the driver relies on, and why each start looks as it does:
//
//   - every request streams upstream, also for clients that do not: a llama-server that waits for a whole answer does not
//     notice that its client left while other answers flow (ggml-org/llama.cpp#24496);
//   - slots are set explicitly and never share one KV cache, so the window that is advertised is what each request can use;
//   - the batch is small on a CPU, because the engine looks at its queue only between batches and a client that leaves
//     while its prompt is read must free the engine within a second;
//   - the environment is scrubbed and the configuration folder is empty, because LLAMA_ARG_* variables and a
//     llama.cpp/config.ini change settings silently.
//
// All methods of the driver and of its instances may be called concurrently. A stream reads from the engine's socket only
// when its reader asks for the next event, so a slow reader fills that socket and the engine's thread for it waits;
// the engine goes on generating for it and for everybody else.
package llamacpp
