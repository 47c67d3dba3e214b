package api

import (
	"net/http"

	"github.com/flowgen/flowgen/admin"
)

const (
	loginPath  = Prefix + "login"
	logoutPath = Prefix + "logout"
)

// login has the token with which a browser logs in.
type login struct {
	Token string `json:"token"`
}

// loggedIn says as whom.
type loggedIn struct {
	Name  string     `json:"name"`
	Role  admin.Role `json:"role"`
	Owner string     `json:"owner,omitempty"`
}

// logs serves the login and the logout of browsers, and reports whether the request was one of these.
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
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	}
	q := &request{h: h, w: w, r: r}
	var in login
	if err := q.read(&in); err != nil {
		return err
	}
	if in.Token == "" {
		return &admin.InputError{What: "there is no token to log in with", Fix: `send {"token":"…"}`}
	}
	p, err := h.cfg.Session.Login(w, r, in.Token)
	return q.reply(http.StatusOK, loggedIn{p.Name, p.Role, p.Owner}, err)
}
