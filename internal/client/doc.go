// Package client is the Go client of a running stoker server: the admin surface on its local socket ([Local]) and the
// public HTTP surface ([HTTP]). It also knows how a server is found: by the discovery file of its state folder, which
// counts only while the server holds the folder's lock.
//
// The command line, the terminal shell and the dashboard know a server only through this package. The types here are
// also what the local surface (package localapi) answers with. Local and HTTP may be used from many goroutines. A slow
// caller of a stream holds back only its own answer.
package client
