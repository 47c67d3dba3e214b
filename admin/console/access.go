package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/admin/internal/body"
	"github.com/flowgen/flowgen/admin/internal/loopback"
)

// local is the principal of all requests if authentication is disabled.
var local = admin.Principal{Name: "local", Role: admin.RoleAdmin}

// identifier returns the method that authenticates requests. It returns nil if authentication is
// disabled.
func identifier(cfg *Config) httpauth.Identifier {
	var all []httpauth.Identifier
	if cfg.Proxy != nil {
		all = append(all, cfg.Proxy)
	}
	if cfg.Session != nil {
		all = append(all, cfg.Session)
	}
	if len(all) == 0 {
		return nil
	}
	return httpauth.First(all...)
}

// who authenticates a request. It rejects a request to change something if a page of another origin
// sent it.
func (h *Handler) who(r *http.Request) (admin.Principal, error) {
	err := h.origins.Check(r)
	if err == nil {
		err = httpauth.CheckRead(r)
	}
	if err != nil {
		return admin.Principal{}, admin.NewProblem(admin.CodeForbidden, err.Error(), "use the forms of the console itself")
	}
	if h.identifier != nil {
		return h.identifier.Identify(r)
	}
	if why := loopback.Stranger(r); why != "" && !h.cfg.AllowUnauthenticated {
		return admin.Principal{}, admin.NewProblem(admin.CodeForbidden, why+", and requests are not authenticated", "open http://127.0.0.1 on the machine of the server, or give the console a Session")
	}
	return local, nil
}

// login logs a browser in, or shows the login form.
func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	q := h.request(r, admin.Principal{})
	v := &view{name: "login", Title: "Log in", Data: &loginView{}}
	if r.Method == http.MethodPost && h.cfg.Session != nil {
		err := body.Form(w, r, body.MaxLogin, formTime)
		if err == nil {
			_, err = h.cfg.Session.Login(w, r, strings.TrimSpace(r.PostForm.Get("token")))
		}
		if err == nil {
			http.Redirect(w, r, h.cfg.Prefix+"runs", http.StatusSeeOther)
			return
		}
		p := admin.ProblemOf(err)
		v.Status, v.Data = p.Status, &loginView{Problem: p}
	}
	h.show(w, q, v)
}

// loginView is the login form.
type loginView struct{ Problem *admin.Problem }

// logout logs a browser out.
func (h *Handler) logout(w http.ResponseWriter, r *http.Request) {
	if h.cfg.Session != nil {
		if err := h.cfg.Session.Logout(w, r); err != nil {
			h.fail(w, h.request(r, admin.Principal{}), err)
			return
		}
	}
	http.Redirect(w, r, h.cfg.Prefix+"login", http.StatusSeeOther)
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
