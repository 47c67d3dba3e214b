package api_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// TestOPS3_WithoutTokensOnlyThisMachineIsAnswered proves that a server without authentication
// answers only requests from the same machine, whatever the headers of a request contain.
func TestOPS3_WithoutTokensOnlyThisMachineIsAnswered(t *testing.T) {
	s := serve(t, api.Config{})
	tokens, _ := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleAdmin, Expires: time.Now().Add(time.Hour)})
	handlers := map[string]http.Handler{
		"closed": api.New(s.direct, api.Config{}), "open": api.New(s.direct, api.Config{AllowUnauthenticated: true}), "tokens": api.New(s.direct, api.Config{Auth: tokens}),
	}
	for what, tt := range map[string]struct {
		from, host, header string
		local              bool
	}{
		"this machine":                 {"127.0.0.1:9", "127.0.0.1:8080", "", true},
		"by name":                      {"127.0.0.1:9", "localhost:8080", "", true},
		"by name, no port":             {"127.0.0.1:9", "LOCALHOST", "", true},
		"by IPv6":                      {"[::1]:9", "[::1]:8080", "", true},
		"by IPv6, no port":             {"[::1]:9", "[::1]", "", true},
		"by IPv4 in IPv6":              {"[::ffff:127.0.0.1]:9", "127.0.0.2", "", true},
		"another machine":              {"192.168.1.7:9", "127.0.0.1:8080", "", false},
		"another machine, IPv6":        {"[fe80::1]:9", "localhost", "", false},
		"no address":                   {"@", "localhost", "", false},
		"DNS rebinding":                {"127.0.0.1:9", "evil.example.com:8080", "", false},
		"a name that begins so":        {"127.0.0.1:9", "localhost.evil.example.com", "", false},
		"a name that ends so":          {"127.0.0.1:9", "evil-localhost", "", false},
		"a name like an address":       {"127.0.0.1:9", "127.0.0.1.evil.example.com", "", false},
		"no host":                      {"127.0.0.1:9", "", "", false},
		"the address of a network":     {"127.0.0.1:9", "192.168.1.7:8080", "", false},
		"any address":                  {"127.0.0.1:9", "0.0.0.0:8080", "", false},
		"forwarded for another":        {"127.0.0.1:9", "localhost", "X-Forwarded-For", false},
		"forwarded, by the standard":   {"127.0.0.1:9", "localhost", "Forwarded", false},
		"by a proxy that names itself": {"127.0.0.1:9", "localhost", "Via", false},
		"with the address of another":  {"127.0.0.1:9", "localhost", "X-Real-IP", false},
	} {
		for kind, h := range handlers {
			r := httptest.NewRequest(http.MethodGet, "/v1/runs", nil)
			r.RemoteAddr, r.Host = tt.from, tt.host
			if tt.header != "" {
				r.Header.Set(tt.header, "127.0.0.1")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want := http.StatusOK
			switch {
			case kind == "tokens":
				want = http.StatusUnauthorized
			case kind == "closed" && !tt.local:
				want = http.StatusForbidden
			}
			if w.Code != want {
				t.Errorf("%s, %s: got %d %s, want %d", what, kind, w.Code, w.Body, want)
			}
		}
	}
	s.wants("DNS rebinding by a connection", s.ask("POST", "/v1/runs/"+s.run+"/cancel", "", "Host: evil.example.com"), 403, admin.CodeForbidden)

	// A server that listens on all addresses of the machine can be reached over the network.
	r := httptest.NewRequest(http.MethodGet, "/v1/runs", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:9", "localhost"
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 168, 1, 7), Port: 80}))
	w := httptest.NewRecorder()
	handlers["closed"].ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("over a network: got %d, want 403", w.Code)
	}
}

func tokensOf(t *testing.T, all ...admin.Token) (tokens *admin.Tokens, secrets []string) {
	t.Helper()
	for i := range all {
		var secret string
		all[i], secret = admin.NewToken(all[i])
		secrets = append(secrets, secret)
	}
	tokens, err := admin.NewTokens(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, secrets
}

// example returns a path and a body for a route. The request is valid, so its result depends only
// on the role.
func example(s *server, r *route.Route) (path, body string) {
	s.Helper()
	values := map[string]string{"id": s.run, "queue": "default", "name": map[*route.Route]string{
		route.Send: "items", route.Ask: "limit", route.Value: "n", route.Stream: "told", route.FollowStream: "told", route.Schedule: "nightly", route.ActOnSchedule: "nightly", route.ActOnPool: room.Name(),
		route.SaveView: "mine", route.DeleteView: "mine",
	}[r]}
	if r.Verbs != nil {
		values["action"] = "pause"
	}
	if strings.HasPrefix(r.Path, "deploys") {
		values["name"], values["action"] = s.build(), "unretire"
	}
	if slices.Contains(r.Names(), "token") {
		_, values["token"] = s.hooked()
	}
	if r == route.Graph {
		values["id"], _ = s.hooked()
	}
	if r == route.DeleteView {
		if _, err := s.direct.SaveView(s.Context(), "mine", admin.NewView{Filter: "status:failed"}); err != nil {
			s.Fatal(err)
		}
	}
	var named []string
	for _, name := range r.Names() {
		named = append(named, values[name])
	}
	if strings.HasPrefix(r.Path, "bulk/{id}") {
		b, err := s.direct.StartBulk(s.Context(), admin.NewBulk{BulkRequest: nobody, Expect: new(int), Key: "example"})
		if err != nil {
			s.Fatal(err)
		}
		named = []string{b.ID}
	}
	path, err := r.URL(named...)
	if err != nil {
		s.Fatal(err)
	}
	const nightly = `{"name":"nightly","workflow":"api.collect","when":"30 2 * * *"}`
	return path, map[*route.Route]string{
		route.Start: `{"workflow":"api.collect"}`, route.Send: `{"payload":"x"}`, route.Ask: `{"payload":1}`, route.ResumeHook: `{"payload":1}`, route.PutSchedule: nightly,
		route.Preview: `{"filter":{"workflow":"nobody"},"action":{"verb":"cancel"}}`, route.StartBulk: `{"filter":{"workflow":"nobody"},"action":{"verb":"cancel"},"expect":0}`,
		route.SaveView: `{"filter":"status:failed"}`, route.Ramp: `{"percent":{}}`,
	}[r]
}

// build returns the build of a live worker.
func (s *server) build() string {
	s.Helper()
	all, err := s.direct.Deploys(s.Context())
	if err != nil || len(all.Builds) == 0 {
		s.Fatalf("deployments: %+v, %v, want a build", all, err)
	}
	return all.Builds[0].Build
}

// hooked starts a run that executes a graph, and returns the run and the token of a hook that a
// node of the graph has opened.
func (s *server) hooked() (ref, token string) {
	s.Helper()
	run, err := s.direct.Start(s.Context(), admin.Start{Workflow: "api.hooked"})
	if err != nil {
		s.Fatal(err)
	}
	for e, err := range s.direct.Follow(s.Context(), run.Run, admin.EventFilter{}) {
		if err != nil {
			s.Fatal(err)
		}
		if e.Type == "hook_created" {
			break
		}
	}
	page, err := s.direct.Hooks(s.Context(), admin.HookFilter{Run: run.Run})
	if err != nil || len(page.Hooks) != 1 {
		s.Fatalf("got %+v, %v", page, err)
	}
	return run.Run, page.Hooks[0].Token
}

// nobody is a bulk action that matches no run.
var nobody = admin.BulkRequest{Filter: admin.Filter{Workflow: "nobody"}, Action: admin.Action{Verb: "cancel"}}

// TestOPS3_EachRouteNeedsATokenOfItsRole proves that every route requires a token with the role of
// the route or a higher one.
func TestOPS3_EachRouteNeedsATokenOfItsRole(t *testing.T) {
	var all []admin.Token
	for _, role := range admin.Roles() {
		all = append(all, admin.Token{Name: string(role), Role: role, Expires: time.Now().Add(time.Hour)})
	}
	tokens, secrets := tokensOf(t, all...)
	s := serve(t, api.Config{Auth: tokens})
	for e, err := range s.direct.Follow(t.Context(), s.run, admin.EventFilter{}) { // waits until the worker has begun the run and registered its limits
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "run_started" {
			break
		}
	}
	if _, err := s.direct.PutSchedule(t.Context(), admin.NewSchedule{Name: "nightly", Workflow: "api.collect", Timing: admin.Timing{When: "30 2 * * *"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range route.All {
		at, body := example(s, r)
		g := s.ask(r.Method, at, body)
		s.wants(r.Name+" without a token", g, 401, admin.CodeUnauthenticated)
		if g.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: no WWW-Authenticate", r.Name)
		}
		if r.Method == http.MethodPost { // a handler does not read the body of a request without the right
			s.wants(r.Name+" of no JSON as viewer", s.ask(r.Method, at, "{", "Authorization: Bearer "+secrets[0]), 403, admin.CodeForbidden)
		}
		if r.Holds { // other tests cover routes that wait
			continue
		}
		for i, role := range admin.Roles() {
			if r == route.DeleteView { // a request with the preceding role may have deleted the view
				at, body = example(s, r)
			}
			g := s.ask(r.Method, at, body, "Authorization: Bearer "+secrets[i])
			if may := role.Allows(r.Role); may && g.status >= 300 {
				t.Errorf("%s as %s: got %d %s", r.Name, role, g.status, g.body)
			} else if !may {
				s.wants(r.Name+" as "+string(role), g, 403, admin.CodeForbidden)
			}
		}
	}
	s.wants("an ask by a viewer", s.ask("POST", "/v1/runs/"+s.run+"/asks/limit", `{"payload":1}`, "Authorization: Bearer "+secrets[0]), 403, admin.CodeForbidden)
	s.wants("deleting as an operator", s.ask("POST", "/v1/runs/"+s.run+"/delete", "", "Authorization: Bearer "+secrets[2]), 403, admin.CodeForbidden)
	s.wants("the document without a token", s.ask("GET", "/v1/openapi.json", ""), 401, admin.CodeUnauthenticated)
}

func TestOPS3_CredentialsThatAreNoneAreRefused(t *testing.T) {
	now := time.Now()
	tokens, secrets := tokensOf(t,
		admin.Token{Name: "ada", Role: admin.RoleAdmin, Expires: now.Add(time.Hour)}, admin.Token{Name: "old", Role: admin.RoleAdmin, Expires: now.Add(-time.Second)},
		admin.Token{Name: "team", Role: admin.RoleOperator, Owner: "team-a", Expires: now.Add(time.Hour)})
	s := serve(t, api.Config{Auth: tokens})
	good := "Authorization: Bearer " + secrets[0]
	for what, header := range map[string][]string{
		"missing":        nil,
		"empty":          {"Authorization: "},
		"no credential":  {"Authorization: Bearer "},
		"unknown":        {"Authorization: Bearer fg_nobody"},
		"expired":        {"Authorization: Bearer " + secrets[1]},
		"half of one":    {good[:len(good)-2]},
		"basic":          {"Authorization: Basic " + secrets[0]},
		"no scheme":      {"Authorization: " + secrets[0]},
		"two of them":    {good, good},
		"good and bad":   {good, "Authorization: Bearer fg_nobody"},
		"as a cookie":    {"Cookie: token=" + secrets[0]},
		"two in a line":  {good + ", Bearer x"},
		"none, as a JWT": {"Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ."},
	} {
		g := s.ask("GET", "/v1/runs", "", header...)
		s.wants(what, g, 401, admin.CodeUnauthenticated)
		if strings.Contains(g.body, secrets[0]) {
			t.Errorf("%s: the answer has the secret: %s", what, g.body)
		}
	}
	s.wants("in the query", s.ask("GET", "/v1/runs?access_token="+secrets[0], ""), 401, admin.CodeUnauthenticated)
	s.wants("good", s.ask("GET", "/v1/runs", "", good), 200, "")
	s.wants("good, with another scheme's letters", s.ask("GET", "/v1/runs", "", "Authorization: bearer "+secrets[0]), 200, "")

	team := "Authorization: Bearer " + secrets[2]
	s.wants("a forged owner", s.ask("POST", "/v1/runs", `{"workflow":"api.collect","tags":{"owner":"team-b"}}`, team), 403, admin.CodeForbidden)
	s.wants("the list of another owner", s.ask("GET", "/v1/runs?tag=owner%3Dteam-b", "", team), 403, admin.CodeForbidden)
	for _, path := range []string{"", "/events", "/follow", "/result", "/result?wait=1s", "/values/n"} {
		s.wants("a run of nobody"+path, s.ask("GET", "/v1/runs/"+s.run+path, "", team), 404, admin.CodeNotFound)
		s.wants("by its workflow id"+path, s.ask("GET", "/v1/runs/id:of-the-test"+path, "", team), 404, admin.CodeNotFound)
	}
	for _, path := range []string{"/cancel", "/pause"} {
		s.wants("act on a run of nobody: "+path, s.ask("POST", "/v1/runs/"+s.run+path, "", team), 404, admin.CodeNotFound)
	}
	s.wants("send to a run of nobody", s.ask("POST", "/v1/runs/"+s.run+"/topics/items", `{"payload":1}`, team), 404, admin.CodeNotFound)
	if r, err := s.direct.Run(t.Context(), s.run); err != nil || !r.EndedAt.IsZero() {
		t.Errorf("the run is %+v, %v", r, err)
	}
}

// TestOPS3_PagesOfOtherOriginsChangeNothing proves that a page of another origin cannot make a
// browser change anything, even if authentication is disabled.
func TestOPS3_PagesOfOtherOriginsChangeNothing(t *testing.T) {
	s := serve(t, api.Config{})
	at := "/v1/runs/" + s.run + "/cancel"
	for what, header := range map[string]string{
		"of another site": "Sec-Fetch-Site: cross-site", "of the same site": "Sec-Fetch-Site: same-site", "of an older browser": "Origin: http://evil.example.com", "without an origin": "Origin: null",
	} {
		s.wants(what, s.ask("POST", at, "", header), 403, admin.CodeForbidden)
	}
	if r, err := s.direct.Run(t.Context(), s.run); err != nil || !r.EndedAt.IsZero() {
		t.Fatalf("the run is %+v, %v", r, err)
	}
	if g := s.ask("GET", "/v1/runs", "", "Origin: http://evil.example.com"); g.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin may read: %v", g.header)
	}
	s.wants("of the same origin", s.ask("POST", at, "", "Sec-Fetch-Site: same-origin"), 202, "")
}

// TestOPS3_PathsAreTakenAsTheyAre proves that the API neither cleans nor redirects paths.
func TestOPS3_PathsAreTakenAsTheyAre(t *testing.T) {
	tokens, secrets := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)})
	s := serve(t, api.Config{Auth: tokens})
	for _, path := range []string{
		"/v1/runs/../runs", "/v1//runs", "/v1/runs/", "/v1/./runs", "/v1/runs/" + s.run + "/../" + s.run, "/v1/runs/" + s.run + "/", "//v1/runs", "/v1/../v1/runs",
		"/v1/runs/" + s.run + "/nothing/at/all", "/v1", "/", "/v2/runs", "/V1/runs", "/v1/Runs",
	} {
		g := s.raw("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secrets[0] + "\r\nConnection: close\r\n\r\n")
		s.wants(path, g, 404, admin.CodeNotFound)
	}
	for path, want := range map[string]int{
		"/v1/runs/..%2F..%2Fetc": 400, "/v1/runs/%2e%2e": 400, "/v1/runs/%00": 400, "/v1/runs/" + s.run + "%2Fevents": 400, "/v1/runs/id:..%2F..%2Fetc%2Fpasswd": 404,
		"/v1/runs/%3Cscript%3E": 400, "/v1/runs/" + s.run + "%2Fevents/x": 405, "/v1/runs/id:%FF": 404,
	} {
		g := s.raw("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secrets[0] + "\r\nConnection: close\r\n\r\n")
		if g.status != want {
			t.Errorf("%s: got %d %s, want %d", path, g.status, g.body, want)
		}
		if g.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: a browser may take the answer for something else: %v", path, g.header)
		}
	}
	// Without a token a caller cannot find out which paths exist.
	s.wants("a path without a token", s.ask("GET", "/v1/nothing", ""), 401, admin.CodeUnauthenticated)
	for method, path := range map[string]string{"DELETE": "/v1/runs", "PUT": "/v1/runs/" + s.run, "POST": "/v1/runs/count", "PATCH": "/v1/runs/" + s.run + "/cancel"} {
		g := s.ask(method, path, "", "Authorization: Bearer "+secrets[0])
		s.wants(method+" "+path, g, 405, admin.CodeInput)
		if g.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", method, path)
		}
	}
}
