package webhook

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// privateError reports an address that is not public.
type privateError struct{ addr string }

func (e *privateError) Error() string { return "the address " + e.addr + " is not public" }

// reserved contains the ranges that are not public and that package netip does not recognize.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
}

// public reports whether an address is public. It does not trust the forms of IPv6 that contain an
// address of IPv4.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// refusePrivate is a Control function of a net.Dialer. It is called with the resolved address of
// each connection, so a name that resolves to another address at its second lookup has no effect.
func refusePrivate(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read address %s: %w", address, err)
	}
	if !public(to.Addr()) {
		return &privateError{to.Addr().String()}
	}
	return nil
}

// clientFor returns the HTTP client for all targets with the same setting. Requests do not use the
// proxy of the environment, because it would connect to any address.
func clientFor(private bool) *http.Client {
	if private {
		return anyClient()
	}
	return publicClient()
}

var (
	anyClient    = sync.OnceValue(func() *http.Client { return newClient(&net.Dialer{}) })
	publicClient = sync.OnceValue(func() *http.Client { return newClient(&net.Dialer{ControlContext: refusePrivate}) })
)

func newClient(d *net.Dialer) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: d.DialContext, ForceAttemptHTTP2: true, DisableKeepAlives: true, // alerts are rare
			TLSHandshakeTimeout: DefaultTimeout, MaxResponseHeaderBytes: 64 << 10, ExpectContinueTimeout: time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
