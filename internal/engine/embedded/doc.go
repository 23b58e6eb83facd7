// Package embedded is the driver for stoker's own engine: this same program in its child role "lm" (package lm/lmserve), started
// through the shim on a unix socket, and spoken to in the dialect of wire/native.
//
//	d := embedded.New(embedded.Options{Self: []string{self}, Shim: ..., Measure: ..., Kernels: lm.Kernels})
//	in, err := d.With(userOptions).Start(ctx, spec)
//
// The engine needs nothing installed, so Fingerprint always finds it. What a model needs, and which kernels this machine runs, is
// handed in by whoever builds the driver: a driver does not import the engine, and the engine never runs in the server's own process.
//
// What the driver relies on: the child opens its socket before it loads and tells its progress there; it confirms mode, kernel, window
// and the number of requests at once; it reports a model that it cannot load as its last line; and every answer ends with a done event,
// so that a cut one is told from a whole one.
//
// All methods of the driver and of its instances may be called concurrently. A stream reads from the child's socket only when its
// reader asks for the next event: a slow reader fills that socket, and the engine goes on for it and for everybody else.
package embedded
