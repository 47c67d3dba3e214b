package api_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/httpauth"
)

// login logs in with a secret. It returns the cookie as a header line, and the response.
func (s *server) login(secret string) (cookie string, g got) {
	s.Helper()
	g = s.ask("POST", "/v1/login", `{"token":"`+secret+`"}`)
	all := (&http.Response{Header: g.header}).Cookies()
	if len(all) != 1 {
		s.Fatalf("the login has set %d cookies: %d %s", len(all), g.status, g.body)
	}
	return "Cookie: " + all[0].Name + "=" + all[0].Value, g
}

func TestOPS3_ABrowserLogsInWithAToken(t *testing.T) {
	now := time.Now()
	tokens, secrets := tokensOf(t,
		admin.Token{Name: "ada", Role: admin.RoleOperator, Expires: now.Add(time.Hour)}, admin.Token{Name: "old", Role: admin.RoleAdmin, Expires: now.Add(-time.Second)})
	clock := now
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, api.Config{Auth: tokens, Session: session})
	cookie, g := s.login(secrets[0])
	var who struct {
		Name string
		Role admin.Role
	}
	if err := json.Unmarshal([]byte(g.body), &who); err != nil || who.Name != "ada" || who.Role != admin.RoleOperator {
		t.Errorf("logged in as %s, %v", g.body, err)
	}
	set := g.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie %q has no %s", set, want)
		}
	}
	if strings.Contains(set, "Secure") || strings.Contains(set, secrets[0]) {
		t.Errorf("the cookie of a server without TLS is %q", set)
	}
	s.wants("with the cookie", s.ask("GET", "/v1/runs", "", cookie), 200, "")
	s.wants("acting with the cookie", s.ask("POST", "/v1/runs/"+s.run+"/pause", "", cookie, "Sec-Fetch-Site: same-origin"), 202, "")
	s.wants("what the role does not allow", s.ask("POST", "/v1/runs/"+s.run+"/delete", "", cookie), 403, admin.CodeForbidden)
	name, value, _ := strings.Cut(strings.TrimPrefix(cookie, "Cookie: "), "=")
	other, err := httpauth.NewSession(tokens, httpauth.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	foreign, _ := serve(t, api.Config{Session: other}).login(secrets[0])
	flipped := []byte(value)
	flipped[len(flipped)/2] ^= 1
	for what, header := range map[string]string{
		"a changed cookie":             "Cookie: " + name + "=" + string(flipped),
		"half of a cookie":             "Cookie: " + name + "=" + value[:len(value)/2],
		"a cookie of another server":   foreign,
		"an empty cookie":              "Cookie: " + name + "=",
		"the token as the cookie":      "Cookie: " + name + "=" + secrets[0],
		"two cookies":                  cookie + "; " + name + "=x",
		"a cookie under another name":  "Cookie: __Host-" + name + "=" + value,
		"a cookie with a wrong bearer": cookie,
	} {
		headers := []string{header}
		if strings.HasSuffix(what, "bearer") {
			headers = append(headers, "Authorization: Bearer fg_nobody")
		}
		s.wants(what, s.ask("GET", "/v1/runs", "", headers...), 401, admin.CodeUnauthenticated)
	}
	for what, body := range map[string]string{"an unknown token": `{"token":"fg_nobody"}`, "an expired token": `{"token":"` + secrets[1] + `"}`} {
		g := s.ask("POST", "/v1/login", body)
		s.wants(what, g, 401, admin.CodeUnauthenticated)
		if g.header.Get("Set-Cookie") != "" {
			t.Errorf("%s sets %s", what, g.header.Get("Set-Cookie"))
		}
	}
	s.wants("no token", s.ask("POST", "/v1/login", `{}`), 400, admin.CodeInput)
	s.wants("another field", s.ask("POST", "/v1/login", `{"password":"x"}`), 400, admin.CodeInput)
	s.wants("a form", s.ask("POST", "/v1/login", "token=x", "Content-Type: application/x-www-form-urlencoded"), 415, admin.CodeInput)
	g = s.ask("POST", "/v1/logout", "", cookie)
	if s.wants("logging out", g, 204, ""); !strings.Contains(g.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("logging out sets %q", g.header.Get("Set-Cookie"))
	}
	clock = now.Add(12*time.Hour + time.Second)
	s.wants("after the end of the login", s.ask("GET", "/v1/runs", "", cookie), 401, admin.CodeUnauthenticated)
}

// TestOPS3_ALoginEndsWithItsToken proves that a login ends when its token expires.
func TestOPS3_ALoginEndsWithItsToken(t *testing.T) {
	clock := time.Now()
	entry, secret := admin.NewToken(admin.Token{Name: "ada", Role: admin.RoleViewer, Expires: clock.Add(time.Minute)})
	tokens, err := admin.NewTokens([]admin.Token{entry}, func() time.Time { return clock })
	if err != nil {
		t.Fatal(err)
	}
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, api.Config{Session: session})
	cookie, _ := s.login(secret)
	s.wants("while it is good", s.ask("GET", "/v1/runs", "", cookie), 200, "")
	clock = clock.Add(time.Minute)
	s.wants("once it has expired", s.ask("GET", "/v1/runs", "", cookie), 401, admin.CodeUnauthenticated)
	s.wants("a bearer token where there are logins only", s.ask("GET", "/v1/runs", "", "Authorization: Bearer "+secret), 401, admin.CodeUnauthenticated)
}

// TestOPS3_ACookieCountsForItsOriginOnly proves that a page of another origin cannot use the login
// of a browser, even if CORS allows the origin to send tokens.
func TestOPS3_ACookieCountsForItsOriginOnly(t *testing.T) {
	tokens, secrets := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleAdmin, Expires: time.Now().Add(time.Hour)})
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	cors, err := httpauth.NewCORS("https://app.example.com")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, api.Config{Auth: tokens, Session: session, CORS: cors})
	cookie, _ := s.login(secrets[0])
	at, bearer := "/v1/runs/"+s.run+"/cancel", "Authorization: Bearer "+secrets[0]
	for what, header := range map[string][]string{
		"of another site":     {"Sec-Fetch-Site: cross-site"},
		"of the same site":    {"Sec-Fetch-Site: same-site", "Origin: https://evil.example.com"},
		"of an older browser": {"Origin: https://evil.example.com"},
	} {
		s.wants("acting "+what, s.ask("POST", at, "", append(header, cookie)...), 403, admin.CodeForbidden)
		s.wants("acting with a token "+what, s.ask("POST", at, "", append(header, bearer)...), 403, admin.CodeForbidden)
		g := s.ask("POST", "/v1/login", `{"token":"`+secrets[0]+`"}`, header...)
		if s.wants("a login "+what, g, 403, admin.CodeForbidden); g.header.Get("Set-Cookie") != "" {
			t.Errorf("a login %s sets a cookie", what)
		}
		s.wants("a logout "+what, s.ask("POST", "/v1/logout", "", header...), 403, admin.CodeForbidden)
	}
	listed := []string{"Origin: https://app.example.com", "Sec-Fetch-Site: same-site"}
	s.wants("acting by the cookie from a listed origin", s.ask("POST", at, "", append(listed, cookie)...), 401, admin.CodeUnauthenticated)
	s.wants("a login from a listed origin", s.ask("POST", "/v1/login", `{"token":"`+secrets[0]+`"}`, listed...), 403, admin.CodeForbidden)
	if r, err := s.direct.Run(t.Context(), s.run); err != nil || !r.EndedAt.IsZero() {
		t.Fatalf("the run is %+v, %v", r, err)
	}
	s.wants("acting by a token from a listed origin", s.ask("POST", at, "", append(listed, bearer)...), 202, "")
}

// TestOPS3_CookiesOfTLSAreSecure proves that the cookies of TLS connections have the attribute
// Secure and a name that other hosts cannot set.
func TestOPS3_CookiesOfTLSAreSecure(t *testing.T) {
	tokens, secrets := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)})
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{Secure: true, Lasts: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, api.Config{Session: session})
	cookie, g := s.login(secrets[0])
	if set := g.header.Get("Set-Cookie"); !strings.HasPrefix(set, "__Host-") || !strings.Contains(set, "; Secure") || strings.Contains(set, "Domain") {
		t.Errorf("the cookie is %q", set)
	}
	s.wants("with the cookie", s.ask("GET", "/v1/runs", "", cookie), 200, "")
	s.wants("with it under the other name", s.ask("GET", "/v1/runs", "", strings.Replace(cookie, "__Host-", "", 1)), 401, admin.CodeUnauthenticated)
}

func TestOPS3_PagesOfListedOriginsMayAskByTokens(t *testing.T) {
	tokens, secrets := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleAdmin, Expires: time.Now().Add(time.Hour)})
	cors, err := httpauth.NewCORS("https://app.example.com", "http://localhost:5173")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, api.Config{Auth: tokens, CORS: cors})
	bearer := "Authorization: Bearer " + secrets[0]
	for origin, allowed := range map[string]bool{
		"https://app.example.com": true, "http://localhost:5173": true,
		"http://app.example.com": false, "https://app.example.com.evil.com": false, "https://evil.app.example.com": false, "https://app.example.com:8443": false, "null": false, "*": false, "": false,
	} {
		want := map[bool]string{true: origin}[allowed]
		preflight := s.ask("OPTIONS", "/v1/runs/"+s.run+"/pause", "", "Origin: "+origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
		read := s.ask("GET", "/v1/runs", "", "Origin: "+origin, bearer)
		for what, g := range map[string]got{"preflight": preflight, "read": read, "refusal": s.ask("GET", "/v1/runs", "", "Origin: "+origin)} {
			if got := g.header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("%s of %q: allowed is %q, want %q", what, origin, got, want)
			}
			if g.header.Get("Access-Control-Allow-Credentials") != "" || !strings.Contains(strings.Join(g.header.Values("Vary"), ","), "Origin") {
				t.Errorf("%s of %q: %v", what, origin, g.header)
			}
		}
		if got := preflight.status == http.StatusNoContent && strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), "Authorization"); got != allowed {
			t.Errorf("the preflight of %q: %d %v", origin, preflight.status, preflight.header)
		}
	}
	s.wants("OPTIONS that is no preflight", s.ask("OPTIONS", "/v1/runs", "", "Origin: https://app.example.com"), 401, admin.CodeUnauthenticated)
	open := serve(t, api.Config{CORS: cors})
	if g := open.ask("GET", "/v1/runs", "", "Origin: https://app.example.com"); g.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a page may read where nobody has to say who asks")
	}
	open.wants("acting where nobody has to say who asks", open.ask("POST", "/v1/runs/"+open.run+"/pause", "", "Origin: https://app.example.com"), 403, admin.CodeForbidden)
}

func TestOPS3_AProxyIsBelievedOnlyFromItsAddress(t *testing.T) {
	tokens, secrets := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)})
	proxy := func(from string) *httpauth.Proxy {
		p, err := httpauth.NewProxy(httpauth.ProxyConfig{Header: "X-Forwarded-User", RoleHeader: "X-Forwarded-Role", From: []netip.Prefix{netip.MustParsePrefix(from)}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s := serve(t, api.Config{Auth: tokens, Proxy: proxy("127.0.0.0/8")})
	user, operator, bearer := "X-Forwarded-User: grace", "X-Forwarded-Role: operator", "Authorization: Bearer "+secrets[0]
	pause := "/v1/runs/" + s.run + "/pause"
	s.wants("by the proxy", s.ask("GET", "/v1/runs", "", user), 200, "")
	s.wants("acting as viewer", s.ask("POST", pause, "", user), 403, admin.CodeForbidden)
	s.wants("acting as operator", s.ask("POST", pause, "", user, operator), 202, "")
	s.wants("by a token", s.ask("GET", "/v1/runs", "", bearer), 200, "")
	s.wants("without a credential", s.ask("GET", "/v1/runs", ""), 401, admin.CodeUnauthenticated)
	for what, header := range map[string][]string{
		"no name": {"X-Forwarded-User: "}, "two names": {user, user}, "a role without a name": {operator}, "an unknown role": {user, "X-Forwarded-Role: root"},
		"two roles": {user, operator, operator}, "a long name": {"X-Forwarded-User: " + strings.Repeat("x", 257)}, "a role for a token": {operator, bearer},
	} {
		s.wants(what, s.ask("GET", "/v1/runs", "", header...), 401, admin.CodeUnauthenticated)
	}
	elsewhere := serve(t, api.Config{Auth: tokens, Proxy: proxy("10.1.2.0/24")})
	for what, header := range map[string][]string{
		"a forged name": {user}, "a forged name and a token": {user, bearer}, "a forged name, forwarded for the proxy": {user, "X-Forwarded-For: 10.1.2.3", "Forwarded: for=10.1.2.3"},
	} {
		elsewhere.wants(what, elsewhere.ask("GET", "/v1/runs", "", header...), 401, admin.CodeUnauthenticated)
	}
	elsewhere.wants("a token", elsewhere.ask("GET", "/v1/runs", "", bearer), 200, "")
}

func TestOPS3_SettingsOfLoginsThatMakeNoSenseAreRefused(t *testing.T) {
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	for what, err := range map[string]error{
		"all origins":     second(httpauth.NewCORS("*")),
		"no origin":       second(httpauth.NewCORS()),
		"a path":          second(httpauth.NewCORS("https://app.example.com/")),
		"no scheme":       second(httpauth.NewCORS("app.example.com")),
		"no header":       second(httpauth.NewProxy(httpauth.ProxyConfig{From: local})),
		"Authorization":   second(httpauth.NewProxy(httpauth.ProxyConfig{Header: "authorization", From: local})),
		"one header":      second(httpauth.NewProxy(httpauth.ProxyConfig{Header: "X-User", RoleHeader: "x-user", From: local})),
		"nowhere":         second(httpauth.NewProxy(httpauth.ProxyConfig{Header: "X-User"})),
		"everywhere":      second(httpauth.NewProxy(httpauth.ProxyConfig{Header: "X-User", From: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}})),
		"no prefix":       second(httpauth.NewProxy(httpauth.ProxyConfig{Header: "X-User", From: []netip.Prefix{{}}})),
		"an unknown role": second(httpauth.NewProxy(httpauth.ProxyConfig{Header: "X-User", From: local, Role: "root"})),
		"a short key":     second(httpauth.NewSession(nil, httpauth.SessionConfig{Key: []byte("short")})),
	} {
		if p := admin.ProblemOf(err); p == nil || p.Code != admin.CodeInput || p.Fix == "" {
			t.Errorf("%s: got %v, want an input problem with a fix", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
