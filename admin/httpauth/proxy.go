package httpauth

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// ProxyConfig describes a proxy that is trusted to authenticate requests.
type ProxyConfig struct {
	Header string         // name of the header with the name of the principal; the proxy must remove this header from incoming requests
	From   []netip.Prefix // addresses of the proxy
	// Role is the role of requests without RoleHeader; empty means viewer.
	Role admin.Role
	// RoleHeader is the name of the header that contains the role. If it is empty, all requests
	// have Role. A request without the header has Role.
	RoleHeader string
}

// Proxy is an Identifier that trusts a header in requests from listed addresses. It uses the
// address of the connection and ignores forwarding headers. It refuses a request with the header
// from any other address as forged.
type Proxy struct{ cfg ProxyConfig }

var _ Identifier = (*Proxy)(nil)

// NewProxy returns the Identifier of a proxy.
func NewProxy(cfg ProxyConfig) (*Proxy, error) {
	if cfg.Role == "" {
		cfg.Role = admin.RoleViewer
	}
	bad := func(what, fix string) error { return &admin.InputError{What: what, Fix: fix} }
	switch {
	case cfg.Header == "" || strings.EqualFold(cfg.Header, "Authorization") || strings.EqualFold(cfg.Header, "Cookie") || strings.EqualFold(cfg.Header, cfg.RoleHeader):
		return nil, bad(fmt.Sprintf("%q is not a header reserved for the proxy", cfg.Header), "name the header in which the proxy passes the user, such as X-Forwarded-User")
	case len(cfg.From) == 0:
		return nil, bad("the addresses of the proxy are missing", "give its addresses, as 10.0.0.7/32")
	case !slices.Contains(admin.Roles(), cfg.Role):
		return nil, bad(fmt.Sprintf("there is no role %q", cfg.Role), fmt.Sprintf("use one of %v", admin.Roles()))
	}
	for _, from := range cfg.From {
		if !from.IsValid() || from.Bits() == 0 {
			return nil, bad(fmt.Sprintf("the addresses %v cover all clients, or none", from), "list those of the proxy")
		}
	}
	return &Proxy{cfg}, nil
}

// maxName is the maximum length of a principal's name from a proxy in bytes.
const maxName = 256

// Identify implements [Identifier].
func (p *Proxy) Identify(r *http.Request) (admin.Principal, error) {
	given := r.Header.Values(p.cfg.Header)
	roles := r.Header.Values(p.cfg.RoleHeader)
	if len(given) == 0 && len(roles) == 0 {
		return admin.Principal{}, ErrNoCredential
	}
	refuse := func(what string) (admin.Principal, error) {
		return admin.Principal{}, &admin.UnauthenticatedError{What: what}
	}
	if !p.trusts(r.RemoteAddr) {
		return refuse("the header " + p.cfg.Header + " does not come from a trusted proxy")
	}
	if len(given) != 1 || given[0] == "" || len(given[0]) > maxName || len(roles) > 1 {
		return refuse("the header " + p.cfg.Header + " is empty, too long, missing or given more than once")
	}
	who := admin.Principal{Name: given[0], Role: p.cfg.Role}
	if len(roles) == 1 {
		if who.Role = admin.Role(roles[0]); !slices.Contains(admin.Roles(), who.Role) {
			return refuse("the header " + p.cfg.RoleHeader + " names no role")
		}
	}
	return who, nil
}

func (p *Proxy) trusts(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && slices.ContainsFunc(p.cfg.From, func(from netip.Prefix) bool { return from.Contains(at.Addr().Unmap().WithZone("")) })
}
