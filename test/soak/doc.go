// Package soak holds the long tests: `make soak` runs them, `make test` does not. They need the build tag soak. One at a time is
// enough for a machine.
package soak
