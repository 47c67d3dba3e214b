// Package loopback tells what is this machine alone: a server without tokens answers only there, and a token goes
// only there without TLS.
package loopback

import (
	"net"
	"net/netip"
	"strings"
)

// Addr reports whether an address with a port is of this machine alone.
func Addr(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// Host reports whether a host, with or without a port, names this machine in every network.
func Host(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else if bare, ok := strings.CutPrefix(host, "["); ok {
		name = strings.TrimSuffix(bare, "]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	at, err := netip.ParseAddr(name)
	return err == nil && at.Unmap().IsLoopback()
}
