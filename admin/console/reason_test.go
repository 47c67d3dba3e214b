package console_test

import (
	"maps"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/sqlitestore"
)

// TestOPS2_ARepairIsRefusedWhileTheJournalIsBroken proves that a repair is not executed if the
// journal cannot record it. The page then shows the error and the plan.
func TestOPS2_ARepairIsRefusedWhileTheJournalIsBroken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	st, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newSiteOn(t, st, console.Config{})
	run := s.Ended("good", "order-1")
	s.Damage(run)
	form := hiddenOf(s.get("checks/plan", 200))
	form.Set("count", "1")
	form.Set("reason", "after <the> crash")
	execute := func(statement string) {
		t.Helper()
		conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetBusyTimeout(time.Minute)
		if err := sqlitex.ExecuteTransient(conn, statement, nil); err != nil {
			t.Fatal(err)
		}
	}
	execute(`CREATE TRIGGER broken BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'broken'); END`)
	page := s.post("checks/repair", form, 503)
	has(t, page, "nothing was done, for the journal could not be written", "flowctl fsck --repair --store URL", "planned", "Type 1 to make this repair", `value="after &lt;the&gt; crash"`)
	execute(`DROP TRIGGER broken`)
	again := hiddenOf(page) // the form has a new key, because a refused form may be submitted again
	again.Set("count", "1")
	again.Set("reason", "after <the> crash")
	has(t, s.post("checks/repair", again, 200), run, "repaired")
	has(t, s.get("journal?action=repair", 200), "1 repairs, 0 findings left", "after &lt;the&gt; crash")
}

// TestOPS2_FormsAskWhy proves that each form that changes something asks for a reason, and that the
// journal records the reason.
func TestOPS2_FormsAskWhy(t *testing.T) {
	s := newSite(t, console.Config{})
	run, hook := s.Start("wait", "order-1"), s.Start("hook", "order-2")
	s.Until(run, "waiting")
	var open admin.HookPage
	for ctx := t.Context(); len(open.Hooks) < 2; {
		var err error
		if open, err = s.Direct.Hooks(ctx, admin.HookFilter{Run: hook}); err != nil {
			t.Fatal(err)
		}
	}
	slow := map[string]string{"of": "the bulk"}
	for range 3 {
		if _, err := s.Direct.Start(t.Context(), admin.Start{Workflow: admintest.Workflow, Input: admintest.Input("wait"), Tags: slow}); err != nil {
			t.Fatal(err)
		}
	}
	three := 3
	bulk, err := s.Direct.StartBulk(t.Context(), admin.NewBulk{BulkRequest: admin.BulkRequest{Filter: admin.Filter{Tags: slow}, Action: admin.Action{Verb: "pause"}}, Expect: &three, Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	for action, c := range map[string]struct {
		path   string
		typed  url.Values
		status int
	}{
		"send":        {"runs/" + run + "/send", url.Values{"topic": {"other"}, "payload": {"1"}}, 200},
		"ask":         {"runs/" + run + "/ask", url.Values{"name": {"set limit/β"}, "payload": {"1"}}, 200},
		"resume-hook": {"inbox/resume?run=" + open.Hooks[0].Run + "&id=" + open.Hooks[0].ID, url.Values{}, 200},
		"stop":        {"bulk/" + bulk.ID + "/stop", url.Values{}, 200},
		"start":       {"start?workflow=" + url.QueryEscape(admintest.Workflow), url.Values{"input": {string(admintest.Input("good"))}}, 200},
	} {
		page := s.get(c.path, 200)
		has(t, page, "Why? The reason is stored in the journal.", `name="reason"`)
		form := hiddenOf(page)
		maps.Copy(form, c.typed)
		if action == "start" {
			form.Set("workflow", admintest.Workflow)
		}
		if action == "resume-hook" && !form.Has("payload") {
			form.Set("payload", `{"name":""}`)
		}
		form.Set("reason", "because of "+action)
		s.post(c.path, form, c.status)
		has(t, s.get("journal?action="+action, 200), "because of "+action)
	}
}
