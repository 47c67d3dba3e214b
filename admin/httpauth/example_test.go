package httpauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/httpauth"
)

// A page of the program logs a browser in. Later requests of the browser are made on behalf of the
// principal of the token.
func ExampleSession() {
	entry, secret := admin.NewToken(admin.Token{Name: "ada", Role: admin.RoleOperator, Expires: time.Now().Add(time.Hour)})
	tokens, err := admin.NewTokens([]admin.Token{entry}, nil)
	if err != nil {
		panic(err)
	}
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{})
	if err != nil {
		panic(err)
	}
	answer := httptest.NewRecorder()
	if _, err := session.Login(answer, httptest.NewRequest(http.MethodPost, "/login", nil), secret); err != nil {
		panic(err)
	}

	request := httptest.NewRequest(http.MethodGet, "/runs", nil)
	request.AddCookie(answer.Result().Cookies()[0])
	who, err := httpauth.First(httpauth.Bearer(tokens), session).Identify(request)
	fmt.Println(who.Name, who.Role, err)
	// Output: ada operator <nil>
}
