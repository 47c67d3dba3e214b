package uitest_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/sqlitestore"
)

// states creates a run in each state. It returns the runs by state.
func (s *site) states() map[string]string {
	s.Helper()
	refs := map[string]string{
		"failed": s.Ended("bad", "order-1"), "completed": s.Ended("good", "order-2"), "continued": s.Ended("next", "order-3"),
		"hostile": s.Start("<img src=x onerror=alert(1)>\u202e", "<script>alert(1)</script>\u202e"), "waiting": s.Start("wait", "order-4"), "paused": s.Start("wait", "order-5"),
		"blocked": s.Blocked("order-6"), "retrying": s.Retrying("order-7"), "running": s.Busy("order-8"), "cancelled": s.Start("wait", "order-9"), "hooked": s.Start("hook", "order-10"),
	}
	s.Until(refs["waiting"], "waiting")
	s.Until(refs["hooked"], "waiting")
	s.act(refs["paused"], "pause")
	s.Until(refs["paused"], "paused")
	s.act(refs["cancelled"], "cancel")
	s.Until(refs["cancelled"], "cancelled")
	for state, start := range map[string]admin.Start{
		"held": {Workflow: admintest.Workflow, Input: admintest.Input("good"), Hold: true}, "pending": {Workflow: "nobody.serves", Input: admin.Payload(`{}`)},
	} {
		got, err := s.Direct.Start(s.Context(), start)
		if err != nil {
			s.Fatal(err)
		}
		refs[state] = got.Run
	}
	return refs
}

func (s *site) act(ref, verb string) {
	s.Helper()
	if _, err := s.Direct.Act(s.Context(), ref, admin.Action{Verb: verb, Reason: "to see it"}); err != nil {
		s.Fatal(err)
	}
}

// furnish creates a schedule, a limit in use, shared views and a bulk action. It returns the URLs
// of their pages and of the open hooks.
func (s *site) furnish() []string {
	s.Helper()
	const nightly = "nightly/β"
	_, err := s.Direct.PutSchedule(s.Context(), admin.NewSchedule{Name: nightly, Workflow: admintest.Workflow, Input: admintest.Input("good"), Timing: admin.Timing{When: "30 2 * * * Europe/Zurich"}})
	if err != nil {
		s.Fatal(err)
	}
	limit := url.PathEscape(s.Visit("ada"))
	none := 0
	b, err := s.Direct.StartBulk(s.Context(), admin.NewBulk{BulkRequest: admin.BulkRequest{Filter: admin.Filter{Workflow: "nobody"}, Action: admin.Action{Verb: "cancel"}}, Expect: &none})
	if err != nil {
		s.Fatal(err)
	}
	hooks, err := s.Direct.Hooks(s.Context(), admin.HookFilter{})
	if err != nil || len(hooks.Hooks) == 0 {
		s.Fatalf("there are no hooks: %v", err)
	}
	const view, failing = "Night <b>\u202e shift of the whole blue team!!", "failing tag:team=blue since:24h"
	for n := range 15 {
		if _, err := s.Direct.SaveView(s.Context(), fmt.Sprintf("%.40s", fmt.Sprintf("%d %s", n, view)), admin.NewView{Filter: failing}); err != nil {
			s.Fatal(err)
		}
	}
	shared := url.Values{"q": {failing}, "view": {fmt.Sprintf("%.40s", "3 "+view)}}.Encode()
	at := "schedules/" + url.PathEscape(nightly)
	return []string{
		"inbox/resume?" + url.Values{"run": {hooks.Hooks[0].Run}, "id": {hooks.Hooks[0].ID}}.Encode(),
		at, at + "/pause", at + "/backfill", "pools/" + limit + "/set?key=ada", "pools/" + limit + "/pause", "bulk/" + b.ID, "bulk/" + b.ID + "/stop",
		"runs?" + shared, "views/save?" + shared, "views/delete?" + shared, "inbox", "runs", "runs?q=status:failed", "runs?q=nothing", "failures", "alerts", "alerts?target=nobody", "queues", "workers", "deploys", "schedules", "bulk", "bulk/new", "bulk/new?q=status:failed&verb=retry", "journal", "journal?action=nothing",
		"checks", "start", "start?workflow=" + admintest.Workflow, "start?workflow=" + admintest.Workflow + "&show=json",
	}
}

// tabs lists the subpages of a run.
var tabs = []string{"", "?op=4", "?show=failed", "/events", "/data", "/talk", "/tree", "/audit", "/event/1"}

// draws opens a page and checks the properties that every page must have.
func (s *site) draws(page string) {
	s.Helper()
	var heads, unnamed, nodes, wide int
	s.run(page, chromedp.Navigate(s.url+page), chromedp.WaitVisible("#main > *", chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelectorAll("h1").length`, &heads),
		chromedp.Evaluate(`[...document.querySelectorAll("a,button,summary")].filter(e => e.checkVisibility() && !(e.textContent.trim() || e.ariaLabel)).length + [...document.querySelectorAll("input:not([type=hidden]),textarea,select")].filter(e => !e.labels.length && !e.ariaLabel).length`, &unnamed),
		chromedp.Evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &wide),
		chromedp.Evaluate(`document.querySelectorAll("*").length`, &nodes))
	if heads == 0 || unnamed != 0 || nodes > 1500 || wide > 0 {
		s.Errorf("%s has %d headings, %d controls without a name, %d nodes, and is %d pixels too wide", page, heads, unnamed, nodes, wide)
	}
	if dir := os.Getenv(picturesVariable); dir != "" {
		s.pictures(dir, page)
	}
}

// picturesVariable is an environment variable that contains a folder for pictures of all pages, for
// review. make ui PICTURES=DIR sets it.
const picturesVariable = "FLOWTEST_PICTURES"

// pictures draws a page on phones, tablets and desktops, in both themes.
func (s *site) pictures(dir, page string) {
	s.Helper()
	name := regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(strings.TrimPrefix(s.Name(), "TestOPS2_")+" "+page, "-")
	for _, width := range []int64{360, 768, 1280} {
		for _, theme := range []string{"light", "dark"} {
			png, err := s.Picture(s.url+page, width, 800, theme, true)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.%d.%s.png", name, width, theme)), png, 0o644)
			}
			if err != nil {
				s.Fatal(err)
			}
		}
	}
	s.run(page, chromedp.EmulateViewport(1280, 800), emulation.SetEmulatedMedia().WithFeatures(nil))
}

// The test proves that each page in each state is drawn with each store without errors of the
// browser.
func TestOPS2_EachPageOfEachStateDraws(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, open(t))
			refs := s.states()
			for _, page := range s.furnish() {
				s.draws(page)
			}
			for _, ref := range refs {
				for _, tab := range tabs {
					s.draws("runs/" + ref + tab)
				}
			}
			s.draws("runs/" + refs["waiting"] + "/send")
			s.draws("runs/" + refs["waiting"] + "/ask")
			s.draws("act/cancel?run=" + refs["waiting"])
			if name != "memory" { // Such a store cannot be checked. The page then has a status that the browser reports as an error.
				s.draws("checks/plan")
			}
		})
	}
}

// The test proves that a run with 1,000 children and 20,000 events needs no more DOM nodes than a
// small one.
func TestOPS2_ARunOfAThousandChildrenDraws(t *testing.T) {
	s := newSite(t, opened(t)(sqlitestore.Open(filepath.Join(t.TempDir(), "runs.db"))))
	ref := s.Parent(1000, "order-1")
	for _, tab := range append(tabs, "/tree?row=950", "?row=80") {
		s.draws("runs/" + ref + tab)
	}
	s.run("the tree", chromedp.Navigate(s.url+"runs/"+ref+"/tree"), until(`document.querySelectorAll("tbody tr").length === 100`), chromedp.Click("a[rel=next]"), until(`location.search === "?row=100"`))
}

// The test proves that the pages of a run with a damaged log are drawn without errors of the
// browser.
func TestOPS2_ADamagedRunSaysSo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	s := newSite(t, opened(t)(sqlitestore.Open(file)))
	ref := s.Ended("bad", "order-1")
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetBusyTimeout(time.Minute)
	err = sqlitex.ExecuteTransient(conn, `UPDATE frames SET data = zeroblob(length(data)) WHERE n = (SELECT max(n) FROM frames)`, nil)
	if changed := conn.Changes(); err != nil || changed == 0 || conn.Close() != nil {
		t.Fatal(errors.Join(err, errors.New("the log is not damaged")))
	}
	for _, tab := range tabs {
		s.draws("runs/" + ref + tab)
		var title string
		if s.run("why", chromedp.Text(".why h2", &title)); !strings.Contains(title, "Its log is damaged") {
			t.Errorf("runs/%s%s says %q", ref, tab, title)
		}
	}
}
