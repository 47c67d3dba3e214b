// Package loopback detects addresses and requests of the local machine. A server without
// authentication responds only to such requests. A client sends a token without TLS only to such
// addresses.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Addr reports whether an address with a port is a loopback address.
func Addr(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// Host reports whether a host always refers to the local machine. The host may include a port.
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

// forwarding lists the headers that proxies add to forwarded requests.
var forwarding = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip"}

// Stranger returns the reason why a request may originate outside of the local machine. It returns
// the empty string if there is none. A malicious page in a local browser sends requests from a
// local address, but with the host name of that page. This name may resolve to the local machine,
// but it is not a local name.
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
