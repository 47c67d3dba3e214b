// Package loopback tells what is this machine alone: a server without tokens answers only there, and a token goes
// only there without TLS.
package loopback

import (
	"net"
	"net/http"
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

// forwarding are the headers by which proxies say that a request comes from somewhere else.
var forwarding = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip"}

// Stranger says why a request may come from elsewhere than this machine; empty: it does not. A page of a stranger in a
// browser on this machine comes from here as well; but its requests name the host of that page, which its owner
// can let resolve to this machine, and no local name.
func Stranger(r *http.Request) string {
	if !Addr(r.RemoteAddr) {
		return "the request comes from another machine"
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && !Addr(at.String()) {
		return "the request came over a network"
	}
	for _, name := range forwarding {
		if len(r.Header.Values(name)) > 0 {
			return "the request was forwarded (" + name + ")"
		}
	}
	if !Host(r.Host) {
		return "the request names a host that is not this machine"
	}
	return ""
}
