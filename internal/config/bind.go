package config

import (
	"net/netip"
	"strings"
)

// isLoopback reports whether only this machine can reach host. Names are not looked up: a name that is loopback today may
// be something else tomorrow, and "localhost" alone is reserved (RFC 6761).
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
