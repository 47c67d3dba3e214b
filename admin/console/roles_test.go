package console_test

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/sqlitestore"
)

// newSiteWithRoles returns a site with a token for each role, and a function that logs in with the
// token of a role.
func newSiteWithRoles(t *testing.T) (s *site, login func(role admin.Role)) {
	t.Helper()
	return newSiteWithRolesOn(t, filepath.Join(t.TempDir(), "runs.db"))
}

// owned denotes a viewer with an owner in newSiteWithRoles.
const owned admin.Role = "owned"

func newSiteWithRolesOn(t *testing.T, file string) (*site, func(role admin.Role)) {
	t.Helper()
	return newSiteWithRolesAs(t, file, console.Config{})
}

func newSiteWithRolesAs(t *testing.T, file string, cfg console.Config) (*site, func(role admin.Role)) {
	t.Helper()
	secrets := map[admin.Role]string{}
	var known []admin.Token
	for _, role := range append(admin.Roles(), owned) {
		token := admin.Token{Name: string(role) + "s", Role: role, Expires: time.Now().Add(time.Hour)}
		if role == owned {
			token.Role, token.Owner = admin.RoleOperator, "ada"
		}
		entry, secret := admin.NewToken(token)
		known, secrets[role] = append(known, entry), secret
	}
	tokens, err := admin.NewTokens(known, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Session = session
	s := newSiteOn(t, st, cfg)
	return s, func(role admin.Role) {
		t.Helper()
		s.post("logout", nil, 200)
		has(t, s.post("login", url.Values{"token": {secrets[role]}}, 200), string(role)+"s")
	}
}

// TestOPS2_EachRoleIsOfferedWhatItMayDo proves that each role is offered exactly the actions that
// it may execute.
func TestOPS2_EachRoleIsOfferedWhatItMayDo(t *testing.T) {
	s, login := newSiteWithRoles(t)
	run, hook := s.Start("wait", "order-1"), s.Start("hook", "order-2")
	s.Until(run, "waiting")
	s.Until(hook, "waiting")
	damaged := s.Ended("good", "order-3")
	s.Damage(damaged)
	talk, many := "runs/"+run+"/talk", "bulk/new?q=status:completed"
	offers := func(path string, want bool, what string) {
		t.Helper()
		if text := s.get(path, 200); strings.Contains(text, what) != want {
			t.Errorf("%s offers %q: %v, want %v\n%s", path, what, !want, want, mainOf(text))
		}
	}
	for _, role := range []admin.Role{admin.RoleViewer, admin.RolePayloads} {
		login(role)
		offers("inbox", false, "inbox/resume")
		offers(talk, false, "/send")
		offers("runs/"+run+"/audit", true, "the role")
		for _, path := range []string{many, "journal", "checks", "checks/plan"} {
			s.get(path, 403)
		}
		s.post("checks/repair", url.Values{"count": {"1"}, "expect": {"1"}}, 403)
		offers(talk, role == admin.RolePayloads, "&#34;wait&#34;")
	}
	login(admin.RoleOperator)
	offers("inbox", true, "inbox/resume")
	offers(talk, true, "/send")
	offers("runs/"+run+"/audit", false, "the role")
	offers(many, true, `value="terminate"`)
	offers(many, false, `value="delete"`)
	s.get(many+"&verb=delete", 400)
	offers("checks/plan", true, "planned")
	offers("checks/plan", false, "checks/repair")
	s.post("checks/repair", url.Values{"count": {"1"}, "expect": {"1"}}, 403)
	login(admin.RoleAdmin)
	offers(many, true, `value="delete"`)
	offers("checks/plan", true, "checks/repair")
}

// TestOPS2_ARepairThatIsSentTwiceIsMadeOnce proves that a repair that is submitted twice is
// executed once.
func TestOPS2_ARepairThatIsSentTwiceIsMadeOnce(t *testing.T) {
	s, login := newSiteWithRoles(t)
	login(admin.RoleAdmin)
	s.Damage(s.Ended("good", "order-1"))
	form := hiddenOf(s.get("checks/plan", 200))
	form.Set("count", "1")
	has(t, s.post("checks/repair", form, 200), "repaired")
	has(t, s.post("checks/repair", form, 200), "repaired")
	if got := strings.Count(s.get("journal?action=repair", 200), `<tr id="j-`); got != 1 {
		t.Errorf("the journal has %d repairs, want 1", got)
	}
}

// TestOPS2_ABulkActionIsLiveUntilItEnds proves that the page of a bulk action is updated until the
// action ends, and does not offer to stop the action after that. The action does not start without
// the confirmed number of runs.
func TestOPS2_ABulkActionIsLiveUntilItEnds(t *testing.T) {
	s := newSite(t, console.Config{})
	for i := range 4 {
		s.Ended("bad", fmt.Sprint("order-", i))
	}
	form := hiddenOf(s.get("bulk/new?verb=retry&q=status:failed+oldest", 200)) // a bulk action ignores the order
	form.Del("expect")
	form.Set("count", "")
	has(t, s.post("bulk/new", form, 400), "which is not the number of matching runs")
	if list, err := s.Direct.Bulks(s.Context(), admin.BulkFilter{}); err != nil || len(list.Bulks) != 0 {
		t.Fatalf("a form without its number has started %+v, %v", list, err)
	}
	form = hiddenOf(s.get("bulk/new?verb=retry&q=status:failed", 200))
	form.Set("count", form.Get("expect"))
	form.Set("rate", "1")
	form.Set("maxFailures", "3")
	page := s.post("bulk/new", form, 200)
	has(t, page, "data-live=", "/stop\"", "at most 1<")
	list, err := s.Direct.Bulks(s.Context(), admin.BulkFilter{})
	if err != nil || len(list.Bulks) != 1 {
		t.Fatal(list, err)
	}
	if _, err := s.Direct.StopBulk(s.Context(), list.Bulks[0].ID, admin.Because{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Direct.Wait(s.Context(), list.Bulks[0].Run, time.Minute); err != nil {
		t.Fatal(err)
	}
	page = s.get("bulk/"+list.Bulks[0].ID, 200)
	has(t, page, "stopped")
	hasNot(t, page, "data-live=", "/stop\"")
}

// TestOPS2_TheJournalIsFiltered proves that the page of the journal shows only entries that match
// the submitted fields.
func TestOPS2_TheJournalIsFiltered(t *testing.T) {
	s, login := newSiteWithRoles(t)
	run := s.Start("wait", "order-1")
	s.Until(run, "waiting")
	login(admin.RoleOperator)
	s.post("act/pause", url.Values{"run": {run}}, 200)
	s.post("act/delete", url.Values{"run": {run}}, 403)
	for query, want := range map[string]int{"": 2, "principal=operators": 2, "principal=eve": 0, "outcome=ok": 1, "outcome=forbidden": 1, "outcome=refused": 0, "action=pause": 1, "target=" + run: 2, "target=id:nobody": 0, "since=1h": 2} {
		if got := strings.Count(s.get("journal?"+query, 200), `<tr id="j-`); got != want {
			t.Errorf("journal?%s has %d entries, want %d", query, got, want)
		}
	}
}

// TestOPS3_OnlyWhoMayResumeHooksReadsTheirTokens proves that pages show the token of a hook only to
// principals that may resume hooks. The workflow ID of the run that holds the hook contains the
// token.
func TestOPS3_OnlyWhoMayResumeHooksReadsTheirTokens(t *testing.T) {
	s, login := newSiteWithRoles(t)
	run := s.Start("hook", "order-2")
	s.Until(run, "waiting")
	const token = "requests/of/order-2"
	var holder string
	for s.Context().Err() == nil && holder == "" {
		page, err := s.Direct.Runs(t.Context(), admin.Filter{System: true, Children: true, Workflow: "flowgen.hook"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Runs {
			holder = r.ID
		}
	}
	for role, sees := range map[admin.Role]bool{admin.RoleViewer: false, admin.RolePayloads: false, admin.RoleOperator: true} {
		login(role)
		seen := false
		for _, at := range []string{"runs?q=" + url.QueryEscape("system children"), "runs/" + holder, "runs/" + holder + "/events", "runs/" + holder + "/data", "runs/" + run + "/tree", "runs/" + run, "runs/" + run + "/events", "runs/" + run + "/talk", "inbox"} {
			if has := strings.Contains(s.get(at, 200), token); has && !sees {
				t.Errorf("%s reads the token on %s", role, at)
			} else {
				seen = seen || has
			}
		}
		if sees && !seen {
			t.Errorf("%s reads the token nowhere: the pages are not those that have it", role)
		}
	}
}

// TestOPS3_FormsHaveARatePerPrincipal proves that forms have a rate limit, as requests of the API
// do, and that pages have none. The journal does not record forms beyond the limit.
func TestOPS3_FormsHaveARatePerPrincipal(t *testing.T) {
	now := time.Now()
	s, login := newSiteWithRolesAs(t, filepath.Join(t.TempDir(), "runs.db"), console.Config{Mutations: 3, Now: func() time.Time { return now }})
	run := s.Start("wait", "order-1")
	s.Until(run, "waiting")
	login(admin.RoleViewer)
	form := url.Values{"run": {run}}
	for range 3 {
		s.post("act/cancel", form, 403)
		s.get("runs", 200)
	}
	s.post("act/cancel", form, 429)
	login(admin.RoleOperator) // another principal, which has a limit of its own
	s.post("act/pause", form, 200)
	page, err := s.Direct.Journal(t.Context(), admin.JournalFilter{Principals: []string{"viewers"}})
	if err != nil || len(page.Entries) != 3 {
		t.Errorf("the journal has %+v, %v; want the 3 refusals", page.Entries, err)
	}
	login(admin.RoleViewer)
	now = now.Add(time.Second)
	s.post("act/cancel", form, 403)
}

// TestOPS2_TalkIsBounded proves that the page shows only the newest asks, and indicates that there
// are more.
func TestOPS2_TalkIsBounded(t *testing.T) {
	s := newSite(t, console.Config{})
	run := s.Start("wait", "order-1")
	s.Until(run, "waiting")
	for i := range 21 {
		if _, err := s.Direct.Ask(t.Context(), run, "set limit/β", admin.Message{Payload: admin.Payload(fmt.Sprint(100 + i))}); err != nil {
			t.Fatal(err)
		}
	}
	page := s.get("runs/"+run+"/talk", 200)
	has(t, page, "Only the newest are here")
	if got := strings.Count(page, `<tr id="s-`); got != 20 {
		t.Errorf("%d questions are shown, want 20", got)
	}
}

// TestOPS2_WhatIsKeptOfGroupsIsNotForOthers proves that principals do not share the cache of
// failure groups. Failure groups are hidden from principals with an owner.
func TestOPS2_WhatIsKeptOfGroupsIsNotForOthers(t *testing.T) {
	s, login := newSiteWithRoles(t)
	started, err := s.Direct.Start(t.Context(), admin.Start{Workflow: admintest.Workflow, Input: admintest.Input("bad"), Tags: map[string]string{"owner": "ada"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Until(started.Run, "failed")
	login(admin.RoleAdmin)
	has(t, s.get("runs", 200), "admintest.label: the carrier is closed")
	login(owned)
	page := s.get("runs", 200)
	has(t, page, started.Run, "f1-")
	hasNot(t, page, "the carrier is closed")
}

// TestOPS2_ADamagedRunLeadsToChecksWhoMayMakeThem proves that a damaged run offers checks only to
// roles that may execute them.
func TestOPS2_ADamagedRunLeadsToChecksWhoMayMakeThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	s, login := newSiteWithRolesOn(t, file)
	run := s.Ended("good", "order-1")
	damage(t, file, `UPDATE frames SET data = zeroblob(length(data)) WHERE n = (SELECT max(n) FROM frames)`)
	const checks = `class="button" href="/flows/checks"`
	login(admin.RoleOperator)
	has(t, s.get("runs/"+run, 200), "Its log is damaged", checks)
	login(admin.RoleViewer)
	page := s.get("runs/"+run, 200)
	has(t, page, "Its log is damaged")
	hasNot(t, page, checks)
}
