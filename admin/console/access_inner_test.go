package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/admin/internal/route"
	"github.com/flowgen/flowgen/memstore"
	flowevent "github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// This file tests the combinations of roles, routes and objects. Its lists contain everything in
// the code: the test fails for a new role, route of the API, page or form of the console until the
// lists contain it. A cell is a request of a principal for an object. Four rules determine the
// expected status:
//
//	O1 a request without credential gets 401, a role that is too low gets 403
//	O2 for a principal with an owner, runs of other owners and runs without owner are not found, with the same text
//	O3 an operation on the runs of all owners is refused to a principal with an owner
//	O4 everything else is allowed, with any result
//
// In addition, no response contains the token of a hook if the principal may not resume the hook.
// Changes have no effect in this test. Package runtime/promises/pairs tests the effects of commands
// on runs in each state, and that runs of the runtime refuse commands.

// object is the kind of object that a request concerns.
type object string

const (
	oneRun    object = "a run"
	allOwners object = "the runs of all owners"
	noRun     object = "no run, or those of the owner" // every principal may send the request, because it concerns only the principal's own runs
)

// permission is the expectation for a route. It consists of the lowest role and the kind of object.
type permission struct {
	role  admin.Role
	about object
}

// apiRows contains the expectation for each route of the API, by name.
var apiRows = map[string]permission{
	"listRuns": {admin.RoleViewer, noRun}, "countRuns": {admin.RoleViewer, noRun}, "startRun": {admin.RoleOperator, noRun}, "live": {admin.RoleViewer, noRun},
	"getRun": {admin.RoleViewer, oneRun}, "listEvents": {admin.RoleViewer, oneRun}, "listEntities": {admin.RoleViewer, oneRun}, "getInbox": {admin.RoleViewer, oneRun},
	"getGraph": {admin.RoleViewer, oneRun}, "getTree": {admin.RoleViewer, oneRun}, "awaitRun": {admin.RoleViewer, oneRun}, "followRun": {admin.RoleViewer, oneRun},
	"actOnRun": {admin.RoleOperator, oneRun}, "sendMessage": {admin.RoleOperator, oneRun}, "askRun": {admin.RoleOperator, oneRun},
	"getValue": {admin.RolePayloads, oneRun}, "listStreams": {admin.RoleViewer, oneRun}, "readStream": {admin.RolePayloads, oneRun}, "followStream": {admin.RolePayloads, oneRun},
	"listHooks": {admin.RoleViewer, noRun}, "getHook": {admin.RoleViewer, oneRun}, "resumeHook": {admin.RoleOperator, oneRun},
	"listFailures": {admin.RoleViewer, allOwners}, "listWorkers": {admin.RoleViewer, allOwners}, "listQueues": {admin.RoleViewer, allOwners}, "getDepth": {admin.RoleViewer, allOwners},
	"getRates":      {admin.RoleViewer, allOwners},
	"listSchedules": {admin.RoleViewer, allOwners}, "getSchedule": {admin.RoleViewer, allOwners}, "putSchedule": {admin.RoleOperator, allOwners}, "actOnSchedule": {admin.RoleOperator, allOwners},
	"listCatalog": {admin.RoleViewer, noRun}, "listPools": {admin.RoleViewer, allOwners}, "actOnPool": {admin.RoleOperator, allOwners},
	"listDeploys": {admin.RoleViewer, allOwners}, "getDrained": {admin.RoleViewer, allOwners}, "rampDeploys": {admin.RoleOperator, allOwners}, "actOnDeploy": {admin.RoleOperator, allOwners},
	"listViews": {admin.RoleViewer, allOwners}, "saveView": {admin.RoleOperator, allOwners}, "deleteView": {admin.RoleOperator, allOwners},
	"readJournal": {admin.RoleOperator, noRun},
	"previewBulk": {admin.RoleOperator, noRun}, "startBulk": {admin.RoleOperator, noRun}, "listBulks": {admin.RoleViewer, noRun}, "getBulk": {admin.RoleViewer, oneRun}, "stopBulk": {admin.RoleOperator, oneRun},
	"examineStore": {admin.RoleOperator, allOwners}, "checkStore": {admin.RoleOperator, allOwners}, "repairStore": {admin.RoleAdmin, allOwners}, "exportRuns": {admin.RoleAdmin, allOwners},
}

// siteRows contains the expectation for each page and form of the console, by method and pattern.
var siteRows = map[string]permission{
	"GET /runs": {admin.RoleViewer, noRun}, "GET /runs/{id}": {admin.RoleViewer, oneRun}, "GET /runs/{id}/events": {admin.RoleViewer, oneRun}, "GET /runs/{id}/data": {admin.RoleViewer, oneRun},
	"GET /runs/{id}/event/{seq}": {admin.RoleViewer, oneRun}, "GET /runs/{id}/tree": {admin.RoleViewer, oneRun}, "GET /runs/{id}/talk": {admin.RoleViewer, oneRun}, "GET /runs/{id}/audit": {admin.RoleViewer, oneRun},
	"GET /runs/{id}/send": {admin.RoleOperator, oneRun}, "GET /runs/{id}/ask": {admin.RoleOperator, oneRun}, "GET /act/{verb}": {admin.RoleViewer, oneRun},
	"GET /failures": {admin.RoleViewer, allOwners}, "GET /alerts": {admin.RoleViewer, noRun}, "GET /queues": {admin.RoleViewer, allOwners}, "GET /workers": {admin.RoleViewer, allOwners},
	"GET /schedules": {admin.RoleViewer, allOwners}, "GET /schedules/{name}": {admin.RoleViewer, allOwners}, "GET /schedules/{name}/{verb}": {admin.RoleViewer, allOwners},
	"GET /deploys": {admin.RoleViewer, allOwners}, "GET /deploys/{name}/{verb}": {admin.RoleViewer, allOwners}, "POST /deploys/{name}/{verb}": {admin.RoleOperator, allOwners},
	"GET /pools/{name}/{verb}": {admin.RoleViewer, allOwners}, "GET /start": {admin.RoleViewer, noRun}, "GET /views/save": {admin.RoleOperator, allOwners}, "GET /views/delete": {admin.RoleOperator, allOwners},
	"GET /bulk": {admin.RoleViewer, noRun}, "GET /bulk/new": {admin.RoleOperator, noRun}, "GET /bulk/{id}": {admin.RoleViewer, oneRun}, "GET /bulk/{id}/stop": {admin.RoleViewer, oneRun},
	"GET /journal": {admin.RoleOperator, noRun}, "GET /inbox": {admin.RoleViewer, noRun}, "GET /inbox/resume": {admin.RoleOperator, oneRun},
	"GET /checks": {admin.RoleOperator, allOwners}, "GET /checks/plan": {admin.RoleOperator, allOwners}, "GET /runs/{id}/payload/{seq}": {admin.RolePayloads, oneRun},
	"POST /act/{verb}": {admin.RoleOperator, oneRun}, "POST /runs/{id}/send": {admin.RoleOperator, oneRun}, "POST /runs/{id}/ask": {admin.RoleOperator, oneRun}, "POST /start": {admin.RoleOperator, noRun},
	"POST /views/save": {admin.RoleOperator, allOwners}, "POST /views/delete": {admin.RoleOperator, allOwners}, "POST /bulk/new": {admin.RoleOperator, noRun}, "POST /bulk/{id}/stop": {admin.RoleOperator, oneRun},
	"POST /inbox/resume": {admin.RoleOperator, oneRun}, "POST /checks/repair": {admin.RoleAdmin, allOwners}, "POST /schedules/{name}/{verb}": {admin.RoleOperator, allOwners}, "POST /pools/{name}/{verb}": {admin.RoleOperator, allOwners},
}

// thing is an object of a request. It is a run with a hook, and a bulk action of the same owner.
type thing struct {
	kind, owner     string
	ref, hook, bulk string // empty if the thing has no run, hook or bulk action
}

// estate contains a thing of each kind for each owner.
type estate struct {
	*admintest.Scene
	things []thing
	tokens []string // tokens of the hooks
	calls  http.Handler
	site   http.Handler
	who    map[string]credential // credentials by name of the principal
}

type credential struct {
	admin.Principal
	secret string
	cookie *http.Cookie
}

// still is a store that refuses all changes except entries of the journal. Thus requests are
// checked without having an effect, and none of them blocks.
type still struct{ store.Store }

// unchanged is the error that the store still returns for refused changes.
type unchanged struct{}

func (unchanged) Error() string   { return "nothing is changed here" }
func (unchanged) Permanent() bool { return true }
func (unchanged) Unwrap() error   { return workflow.ErrNotSupported }

func (s still) Unwrap() store.Store { return s.Store }

func (still) Create(context.Context, []store.Create) ([]store.Created, error) {
	return nil, unchanged{}
}
func (still) Deliver(context.Context, store.Deliver) (flowevent.RunID, error) { return "", unchanged{} }
func (still) Commit(context.Context, []store.Commit) ([]store.Committed, error) {
	return nil, unchanged{}
}
func (still) ClaimRun(context.Context, int, store.SessionID, flowevent.Token, flowevent.RunID) (store.ClaimedRun, error) {
	return store.ClaimedRun{}, unchanged{}
}
func (still) Seize(context.Context, int, store.SessionID, flowevent.Token, flowevent.RunID, bool) (store.ClaimedRun, error) {
	return store.ClaimedRun{}, unchanged{}
}
func (still) Purge(context.Context, int, int) (int, time.Time, error) {
	return 0, time.Time{}, unchanged{}
}
func (still) Delete(context.Context, flowevent.RunID) error          { return unchanged{} }
func (still) SetLimits(context.Context, int, []store.SetLimit) error { return unchanged{} }
func (s still) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	if w.Space == store.ViewSpace {
		return unchanged{}
	}
	e, _ := store.As[store.Entries](s.Store)
	return e.WriteEntry(ctx, w)
}
func (s still) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	e, _ := store.As[store.Entries](s.Store)
	return e.Entries(ctx, q)
}
func (s still) Limits(ctx context.Context, partition int, after store.LimitID, limit int) ([]store.LimitState, error) {
	l, _ := store.As[store.Limiter](s.Store)
	return l.Limits(ctx, partition, after, limit)
}
func (still) Watch(context.Context, flowevent.RunID, uint64) error { return unchanged{} }
func (s still) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	page, err := s.Store.ReadStream(ctx, r)
	page.Closed = true
	return page, err
}

func newEstate(t *testing.T) *estate {
	t.Helper()
	st := memstore.New()
	e := &estate{Scene: admintest.NewScene(t, st, func(_ testing.TB, direct *admin.Service) admintest.Service { return direct }), who: map[string]credential{}}
	for _, owner := range []string{"ada", "bob", ""} {
		e.add(owner)
	}
	if _, err := e.Direct.PutSchedule(t.Context(), admin.NewSchedule{Name: "nightly", Workflow: admintest.Workflow, Timing: admin.Timing{When: "30 2 * * *"}, Input: admintest.Input("good")}); err != nil {
		t.Fatal(err)
	}
	e.things = append(e.things, thing{kind: "schedule:", ref: "id:schedule:nightly"})
	var known []admin.Token
	for _, owner := range []string{"", "ada"} {
		for _, role := range admin.Roles() {
			name := strings.TrimSpace(string(role) + " " + owner)
			entry, secret := admin.NewToken(admin.Token{Name: name, Role: role, Owner: owner, Expires: time.Now().Add(time.Hour)})
			known = append(known, entry)
			e.who[name] = credential{admin.Principal{Name: name, Role: role, Owner: owner}, secret, nil}
		}
	}
	tokens, err := admin.NewTokens(known, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	client := workflow.NewClient(still{st}, workflow.ClientConfig{})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	s := admin.New(client)
	e.calls = api.New(s, api.Config{Auth: tokens, Mutations: 1 << 20})
	e.site = New(s, Config{Session: session, Mutations: 1 << 20})
	for name, c := range e.who {
		w := httptest.NewRecorder()
		if _, err := session.Login(w, httptest.NewRequest(http.MethodPost, "/login", nil), c.secret); err != nil {
			t.Fatal(err)
		}
		c.cookie = w.Result().Cookies()[0]
		e.who[name] = c
	}
	e.who["nobody"] = credential{}
	return e
}

// add creates the things of an owner: a run with hooks, the run that holds the token of such a
// hook, a bulk action, and a run with a workflow ID derived from a key.
func (e *estate) add(owner string) {
	e.Helper()
	name := firstOf(owner, "nobody")
	s := e.Direct.As(admin.Principal{Name: name, Role: admin.RoleAdmin, Owner: owner})
	hooked, err := s.Start(e.Context(), admin.Start{Workflow: admintest.Workflow, Input: admintest.Input("hook"), ID: "of-" + name})
	if err != nil {
		e.Fatal(err)
	}
	var open []admin.Hook
	for deadline := time.Now().Add(time.Minute); len(open) < 2; {
		page, err := e.Direct.Hooks(e.Context(), admin.HookFilter{Run: hooked.Run})
		if open = page.Hooks; err != nil || time.Now().After(deadline) {
			e.Fatalf("got %d hooks, %v", len(open), err)
		}
	}
	for _, h := range open {
		e.tokens = append(e.tokens, h.Token)
	}
	b, err := s.StartBulk(e.Context(), admin.NewBulk{BulkRequest: admin.BulkRequest{Filter: admin.Filter{Workflow: "nobody's"}, Action: admin.Action{Verb: "cancel"}}, Expect: new(int)})
	if err != nil {
		e.Fatal(err)
	}
	keyed, err := s.Start(e.Context(), admin.Start{Workflow: admintest.Workflow, Input: admintest.Input("wait"), Key: "k"})
	if err != nil {
		e.Fatal(err)
	}
	got, err := e.Direct.Run(e.Context(), keyed.Run)
	if err != nil {
		e.Fatal(err)
	}
	e.things = append(e.things,
		thing{kind: "run", owner: owner, ref: hooked.Run, hook: open[0].Token, bulk: b.ID},
		thing{kind: "hook:", owner: owner, ref: "id:hook:requests/of/of-" + name, hook: open[1].Token, bulk: b.ID},
		thing{kind: "bulk-", owner: owner, ref: "id:" + b.ID, hook: open[0].Token, bulk: b.ID},
		thing{kind: "idem:", owner: owner, ref: "id:" + got.WorkflowID, hook: open[0].Token, bulk: b.ID},
	)
}

// expect returns the expected status of a cell and the rule that determines it. The status 0 means
// that the request is allowed.
func (r permission) expect(c credential, of thing) (status int, rule string) {
	switch {
	case c.Name == "":
		return http.StatusUnauthorized, "O1"
	case !c.Role.Allows(r.role):
		return http.StatusForbidden, "O1"
	case c.Owner != "" && r.about == allOwners:
		return http.StatusForbidden, "O3"
	case c.Owner != "" && r.about == oneRun && of.owner != c.Owner:
		return http.StatusNotFound, "O2"
	}
	return 0, "O4"
}

// judge sends a request and compares the response with the expectation.
func (e *estate) judge(cells map[string]int, h http.Handler, what string, expected permission, c credential, of thing, r *http.Request) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 10*time.Second)
	defer cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(ctx))
	want, rule := expected.expect(c, of)
	cells[rule]++
	body := w.Body.String()
	got := w.Code
	if got == http.StatusSeeOther && strings.HasSuffix(w.Header().Get("Location"), "/login") {
		got = http.StatusUnauthorized
	}
	refused := got == http.StatusUnauthorized || got == http.StatusForbidden || got == http.StatusNotFound && (strings.Contains(body, "run not found") || strings.Contains(body, "there is no hook"))
	if want != 0 && got != want || want == 0 && (refused || got >= 500 && got != http.StatusNotImplemented) || want == http.StatusNotFound && !refused {
		e.Errorf("%s of %s %q by %q: got %d, want %d by %s (0: allowed)\n%.300s", what, of.kind, of.owner, c.Name, got, want, rule, mainOfPage(body))
	}
	if c.Role.Allows(admin.RoleOperator) {
		return
	}
	for _, token := range e.tokens {
		if strings.Contains(body, token) && !strings.Contains(r.URL.String()+"\x00"+unescaped(r.URL.String()), token) {
			e.Errorf("%s of %s %q by %q: the answer has the token %s", what, of.kind, of.owner, c.Name, token)
		}
	}
}

func unescaped(s string) string { u, _ := url.PathUnescape(s); return u }

// mainOfPage returns the part of a page that differs between pages.
func mainOfPage(text string) string {
	if _, after, ok := strings.Cut(text, "<main"); ok {
		return after
	}
	return text
}

func TestOPS3_EachRoleHasItsRoutesAndObjects(t *testing.T) {
	if diff := cmp.Diff([]admin.Role{admin.RoleViewer, admin.RolePayloads, admin.RoleOperator, admin.RoleAdmin}, admin.Roles()); diff != "" {
		t.Fatalf("the roles have changed: decide what the new one may do (-rows +code):\n%s", diff)
	}
	e := newEstate(t)
	cells := map[string]int{}
	t.Run("API", func(t *testing.T) { e.routes(t, cells) })
	t.Run("console", func(t *testing.T) { e.pages(t, cells) })
	total := 0
	for _, n := range cells {
		total += n
	}
	t.Logf("%d cells: %v", total, cells)
	if total < 5000 {
		t.Errorf("%d cells were judged: too few to be all", total)
	}
}

// of returns the things with which a row is tested.
func (e *estate) of(r permission) []thing {
	if r.about == oneRun {
		return e.things
	}
	return []thing{{kind: "-"}}
}

func (e *estate) routes(t *testing.T, cells map[string]int) {
	for _, r := range route.All {
		expected, ok := apiRows[r.Name]
		if !ok {
			t.Errorf("no row for the route %s (%s %s)", r.Name, r.Method, r.Path)
			continue
		}
		verbs := []string{""}
		if r.Verbs != nil {
			verbs = r.Verbs()
		}
		for _, verb := range verbs {
			cell := expected
			if verb == "delete" { // deleting requires this role on every route
				cell.role = admin.RoleAdmin
			}
			for _, of := range e.of(cell) {
				at, ok := urlOf(r, verb, of)
				if !ok {
					continue
				}
				for _, name := range slices.Sorted(maps.Keys(e.who)) {
					c := e.who[name]
					q := httptest.NewRequest(r.Method, at, strings.NewReader(bodyOf(r, verb)))
					q.Header.Set("Content-Type", "application/json")
					if c.secret != "" {
						q.Header.Set("Authorization", "Bearer "+c.secret)
					}
					e.judge(cells, e.calls, r.Name+" "+verb, cell, c, of, q)
				}
			}
		}
	}
	for name := range apiRows {
		if !slices.ContainsFunc(route.All, func(r *route.Route) bool { return r.Name == name }) {
			t.Errorf("the row %s is of no route", name)
		}
	}
}

// urlOf returns the URL of a route for a thing. It returns false if the thing has none.
func urlOf(r *route.Route, verb string, of thing) (string, bool) {
	var named []string
	for _, name := range r.Names() {
		value := map[string]string{"id": of.ref, "action": verb, "token": of.hook, "queue": "default", "name": "nightly", "seq": "1"}[name]
		if strings.HasPrefix(r.Path, "bulk/") && name == "id" {
			value = of.bulk
		}
		if value == "" {
			return "", false
		}
		named = append(named, value)
	}
	at, err := r.URL(named...)
	if r == route.Live {
		at += "?topics=run:wrun_00000000000000000000000000"
	}
	return at, err == nil
}

func bodyOf(r *route.Route, verb string) string {
	const nobody = `"filter":{"workflow":"nobody's"},"action":{"verb":"cancel"}`
	switch r {
	case route.Start:
		return `{"workflow":"` + admintest.Workflow + `"}`
	case route.Send, route.Ask, route.ResumeHook:
		return `{"payload":1}`
	case route.PutSchedule:
		return `{"name":"nightly","workflow":"` + admintest.Workflow + `","when":"30 2 * * *"}`
	case route.Preview:
		return "{" + nobody + "}"
	case route.StartBulk:
		return "{" + nobody + `,"expect":0}`
	case route.Ramp:
		return `{"percent":{}}`
	case route.SaveView:
		return `{"filter":"status:failed"}`
	case route.Export:
		return `{"all":true}`
	}
	return ""
}

func (e *estate) pages(t *testing.T, cells map[string]int) {
	all := []string{"GET /runs/{id}/payload/{seq}"}
	for pattern := range pages {
		all = append(all, "GET "+pattern)
	}
	for pattern := range forms {
		all = append(all, "POST "+pattern)
	}
	slices.Sort(all)
	for _, pattern := range all {
		expected, ok := siteRows[pattern]
		if !ok {
			t.Errorf("no row for %s", pattern)
			continue
		}
		method, path, _ := strings.Cut(pattern, " ")
		list := []string{""}
		switch {
		case strings.HasPrefix(path, "/act/"):
			list = admin.Actions()
		case strings.HasPrefix(path, "/schedules/{name}/{verb}"):
			list = slices.Sorted(maps.Keys(scheduleVerbs))
		case strings.HasPrefix(path, "/pools/"):
			list = admin.PoolActions()
		case strings.HasPrefix(path, "/deploys/"):
			list = slices.Sorted(maps.Keys(deployVerbs))
		}
		for _, verb := range list {
			cell := expected
			if verb == "delete" && method == http.MethodPost {
				cell.role = admin.RoleAdmin
			}
			for _, of := range e.of(cell) {
				id := of.ref
				if strings.HasPrefix(path, "/bulk/") {
					id = of.bulk
				}
				if id == "" && cell.about == oneRun || strings.HasPrefix(path, "/inbox/") && of.kind != "run" {
					continue
				}
				at := strings.NewReplacer("{id}", url.PathEscape(id), "{verb}", verb, "{name}", "nightly", "{seq}", "1").Replace(path)
				form := url.Values{"run": {id}, "payload": {"1"}, "topic": {"verdict"}, "name": {"mine"}, "reason": {"r"}, "count": {"0"}, "expect": {"0"}, "from": {"48h"}, "to": {"0s"}, "workflow": {admintest.Workflow}, "step": {"s"}, "filter": {"status:failed"}}
				if strings.HasPrefix(path, "/bulk/new") {
					form = url.Values{"q": {"workflow:nobodys"}, "verb": {"cancel"}, "count": {"0"}, "expect": {"0"}}
				}
				if strings.HasPrefix(path, "/inbox/resume") {
					form = url.Values{"run": {id}, "id": {e.hookID(t, of)}, "payload": {"1"}}
				}
				for _, name := range slices.Sorted(maps.Keys(e.who)) {
					c := e.who[name]
					q := httptest.NewRequest(method, at+"?"+form.Encode(), strings.NewReader(form.Encode()))
					q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					if c.cookie != nil {
						q.AddCookie(c.cookie)
					}
					e.judge(cells, e.site, pattern+" "+verb, cell, c, of, q)
				}
			}
		}
	}
	for pattern := range siteRows {
		if !slices.Contains(all, pattern) {
			t.Errorf("the row %s is of no page and no form", pattern)
		}
	}
}

// hookID returns the ID of the hook of a thing.
func (e *estate) hookID(t *testing.T, of thing) string {
	t.Helper()
	page, err := e.Direct.Hooks(t.Context(), admin.HookFilter{Run: of.ref})
	if err != nil || len(page.Hooks) == 0 {
		t.Fatalf("got %+v, %v", page, errors.Join(err, fmt.Errorf("no hook of %s", of.ref)))
	}
	return page.Hooks[0].ID
}
