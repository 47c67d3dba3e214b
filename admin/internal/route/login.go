package route

import (
	"net/http"
	"reflect"

	"github.com/flowgen/flowgen/admin"
)

// LogIn has the token with which a browser logs in.
type LogIn struct {
	Token string `json:"token"`
}

// LoggedIn says as whom.
type LoggedIn struct {
	Name  string     `json:"name"`
	Role  admin.Role `json:"role"`
	Owner string     `json:"owner,omitempty"`
}

// The routes that are served before it is known who asks, on servers where browsers log in.
var (
	Login = &Route{
		Name: "logIn", About: "Log a browser in with a token: the answer sets a cookie. Only where the server has logins.", Method: http.MethodPost, Path: "login",
		In: reflect.TypeFor[LogIn](), Out: reflect.TypeFor[LoggedIn](), Status: http.StatusOK, Problems: withBody,
	}
	Logout = &Route{
		Name: "logOut", About: "Take the cookie of a browser away. The token stays good. Only where the server has logins.", Method: http.MethodPost, Path: "logout", Status: http.StatusNoContent,
	}
)

// Open are the routes that need no role, and are in no mux.
var Open = []*Route{Login, Logout}
