package api

import (
	"context"
	"net/http"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/admin/internal/loopback"
)

// local is who asks where nobody has to say it.
var local = admin.Principal{Name: "local", Role: admin.RoleAdmin}

// near refuses requests from elsewhere where nobody has to say who he is.
func (h *Handler) near(r *http.Request) error {
	if h.who != nil || h.cfg.AllowUnauthenticated {
		return nil
	}
	if why := loopback.Stranger(r); why != "" {
		return admin.NewProblem(admin.CodeForbidden, why+", and it need not say who asks", "ask from the machine of the server by http://127.0.0.1, or set up the server with tokens")
	}
	return nil
}

// foreign refuses what a page of another origin reads, unless it is one that may ask. Browsers say from where a request comes, programs
// do not.
func (h *Handler) foreign(r *http.Request) error {
	if h.who != nil && h.cfg.CORS != nil && h.cfg.CORS.Allows(r) {
		return nil
	}
	return httpauth.CheckRead(r)
}

// identifier returns what says who sends a request; nil: nothing does.
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

// authenticate returns who sends a request.
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

// principalOf returns who sends a request. It panics if nobody has said: then nobody gets an answer.
func principalOf(ctx context.Context) admin.Principal {
	return ctx.Value(principalKey{}).(admin.Principal)
}
