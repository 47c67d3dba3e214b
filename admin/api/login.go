package api

import (
	"net/http"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/body"
	"github.com/flowgen/flowgen/admin/internal/route"
)

var (
	loginPath  = Prefix + route.Login.Path
	logoutPath = Prefix + route.Logout.Path
)

// logs handles logins and logouts of browsers. It reports whether the request was a login or a
// logout.
func (h *Handler) logs(w http.ResponseWriter, r *http.Request) bool {
	at := r.URL.EscapedPath()
	if h.cfg.Session == nil || r.Method != http.MethodPost || at != loginPath && at != logoutPath {
		return false
	}
	if err := h.logged(w, r, at); err != nil {
		fail(w, err)
	}
	return true
}

func (h *Handler) logged(w http.ResponseWriter, r *http.Request, at string) error {
	if at == logoutPath {
		err := h.cfg.Session.Logout(w, r)
		if err == nil {
			w.WriteHeader(route.Logout.Status)
		}
		return err
	}
	q := &request{h: h, w: w, r: r}
	var in route.LogIn
	if err := q.readUpTo(&in, body.MaxLogin); err != nil {
		return err
	}
	if in.Token == "" {
		return &admin.InputError{What: "the request has no token to log in with", Fix: `send {"token":"…"}`}
	}
	p, err := h.cfg.Session.Login(w, r, in.Token)
	return q.reply(route.Login.Status, route.LoggedIn{Name: p.Name, Role: p.Role, Owner: p.Owner}, err)
}
