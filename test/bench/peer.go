package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"strings"
)

// peerWord makes this program the peer: a bare reverse proxy.
const peerWord = "peer"

// servePeer is the peer process: the standard library's reverse proxy in front of a socket, and nothing else, with a new connection
// to the engine for each request, as stoker makes one. It is what one more
// process on the way costs on this machine, whatever it does. It prints its address and serves until it is killed.
func servePeer(socket string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}},
		FlushInterval: -1,
	}
	fmt.Println(l.Addr())
	return http.Serve(l, proxy) //nolint:gosec // a process of a few seconds on loopback
}

// peer is a running peer process.
type peer struct {
	cmd *exec.Cmd
	url string
}

func startPeer(ctx context.Context, socket string) (*peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &peer{cmd: exec.CommandContext(ctx, self, peerWord, socket)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the peer does not say its address: %w", err)
	}
	p.url = "http://" + strings.TrimSpace(addr)
	return p, nil
}

func (p *peer) stop() {
	p.cmd.Process.Kill() //nolint:errcheck // it is ours and holds nothing
	p.cmd.Wait()         //nolint:errcheck // killed
}
