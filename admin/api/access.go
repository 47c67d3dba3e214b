package api

import (
	"context"
	"net/http"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/admin/internal/loopback"
)

// local is the principal of all requests if authentication is disabled.
var local = admin.Principal{Name: "local", Role: admin.RoleAdmin}

// near refuses requests from other machines if authentication is disabled.
func (h *Handler) near(r *http.Request) error {
	if h.who != nil || h.cfg.AllowUnauthenticated {
		return nil
	}
	if why := loopback.Stranger(r); why != "" {
		return admin.NewProblem(admin.CodeForbidden, why+", and requests are not authenticated", "send it from the machine of the server to http://127.0.0.1, or set up the server with tokens")
	}
	return nil
}

// foreign refuses reads from pages of other origins, unless CORS allows the origin. Browsers send
// the origin of a request, but programs do not.
func (h *Handler) foreign(r *http.Request) error {
	if h.who != nil && h.cfg.CORS != nil && h.cfg.CORS.Allows(r) {
		return nil
	}
	return httpauth.CheckRead(r)
}

// identifier returns the method that authenticates requests. It returns nil if authentication is
// disabled.
func identifier(cfg *Config) httpauth.Identifier {
	var all []httpauth.Identifier
	if cfg.Proxy != nil {
		all = append(all, cfg.Proxy)
	}
	if cfg.Auth != nil {
		all = append(all, httpauth.Bearer(cfg.Auth))
	}
	if cfg.Session != nil {
		all = append(all, cfg.Session)
	}
	if len(all) == 0 {
		return nil
	}
	return httpauth.First(all...)
}

// authenticate returns the principal of a request.
func (h *Handler) authenticate(r *http.Request) (admin.Principal, error) {
	if h.who == nil {
		return local, nil
	}
	return h.who.Identify(r)
}

type principalKey struct{}

func withPrincipal(ctx context.Context, p admin.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// principalOf returns the principal of a request. It panics if there is none, so that no
// unauthenticated request gets an answer.
func principalOf(ctx context.Context) admin.Principal {
	return ctx.Value(principalKey{}).(admin.Principal)
}
