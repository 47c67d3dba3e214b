package console_test

import (
	"errors"
	"fmt"
	"html"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

// TestOPS2_AViewIsAnAddressWithAName proves that a view is a URL that contains a name, so that
// every browser shows the same runs under the same name.
func TestOPS2_AViewIsAnAddressWithAName(t *testing.T) {
	s := newSite(t, console.Config{})
	for i := range 51 { // one run more than a page contains
		s.Ended("bad", fmt.Sprint("order-", i))
	}
	for at, title := range map[string]string{
		"runs": "Runs", "runs?q=status:failed+since:24h": "Runs: Failed today", "runs?q=status:failed": "Runs: status:failed", "runs?view=Mine": "Runs: Mine",
		"runs?q=status:failed&view=Night+%3Cb%3E+%E2%80%AE+shift": `Runs: Night &lt;b&gt; \u202e shift`, "runs?q=no:such&view=Broken": "Runs: Broken",
	} {
		status := 200
		if at == "runs?q=no:such&view=Broken" {
			status = 400
		}
		has(t, s.get(at, status), "<title>"+title+" · flowgen</title>")
	}
	page := s.get("runs?q=status:failed&view=Night+shift", 200)
	has(t, page, `<a href="/flows/runs?q=status%3afailed&amp;view=Night%20shift" aria-current="true">Night shift</a>`, "view=Night&#43;shift\" rel=\"next\"")
	hasNot(t, page, `aria-current="true">All</a>`)
}

// hostileView is a name that must be shown as text on every page.
const hostileView = "Night <b>\u202e \"&' shift"

// TestOPS2_AViewIsSavedForAll proves that a shared view appears above the list for every reader of
// the store until it is deleted. This works without scripts.
func TestOPS2_AViewIsSavedForAll(t *testing.T) {
	st, err := sqlitestore.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSiteOn(t, st, console.Config{Flags: "--store orders"})
	const line = `status:failed tag:"team=blue <i>" since:24h`
	hasNot(t, s.get("runs", 200), "for all") // All is the name of the built-in view
	page := s.get("runs?q="+url.QueryEscape(line), 200)
	has(t, page, ">+ Save for all</a>")
	at := "views/save?" + url.Values{"q": {line}}.Encode()
	form := s.get(at, 200)
	has(t, form, `name="filter" value="status:failed tag:&#34;team=blue &lt;i&gt;&#34; since:24h"`, "flowctl --store orders views save", "Why? The reason is stored in the journal.")
	sent := hiddenOf(form)
	sent.Set("filter", line)
	sent.Set("reason", "all look at these")
	for name, fix := range map[string]string{"": "is empty", strings.Repeat("x", 41): "the limit is 40", "a\x1b[31m": "control character"} {
		sent.Set("name", name)
		has(t, s.post(at, sent, 400), fix, "Save a view for all") // the response shows the form again
	}
	sent.Set("name", hostileView)
	for _, filter := range []string{"status:asleep", "colour:red", ""} {
		sent.Set("filter", filter)
		s.post(at, sent, 400)
	}
	sent.Set("filter", " "+line+" ")
	saved := s.post(at, sent, 200) // the response shows the list of the view
	const shown = `title="status:failed tag:&#34;team=blue &lt;i&gt;&#34; since:24h, shared by local">Night &lt;b&gt;\u202e &#34;&amp;&#39; shift</a>`
	has(t, saved, "The view is saved", ` aria-current="true" `+shown, ">Delete for all</a>", `<title>Runs: Night &lt;b&gt;\u202e &#34;&amp;&#39; shift · flowgen</title>`)
	hasNot(t, saved, ">+ Save for all</a>", "<b>\u202e", "\u202e")
	other := newSiteOver(t, s.Scene, console.Config{}) // represents another process, or the same process after a restart
	for _, where := range []string{"runs", "runs?q=status:failed", "runs?q=no:such"} {
		status := map[bool]int{true: 400, false: 200}[where == "runs?q=no:such"]
		list := other.get(where, status)
		has(t, list, shown)
		hasNot(t, list, `aria-current="true" title=`, ">Delete for all</a>", "\u202e")
	}
	href := regexp.MustCompile(`<a href="/flows/(runs\?[^"]*)"[^>]*>Night`).FindStringSubmatch(other.get("runs", 200))
	if href == nil {
		t.Fatal("the tab has no address")
	}
	has(t, other.get(html.UnescapeString(href[1]), 200), ` aria-current="true" `+shown)

	sent = hiddenOf(s.get(at, 200)) // saving again replaces the filter
	sent["name"], sent["filter"] = []string{hostileView}, []string{"failing"}
	s.post(at, sent, 200)
	list := other.get("runs", 200)
	has(t, list, `title="failing, shared by local">Night`)
	hasNot(t, list, shown)
	has(t, other.get(html.UnescapeString(href[1]), 200), `aria-current="true">Night`, `title="failing, shared by local">Night`) // a bookmarked URL remains valid

	gone := "views/delete?" + url.Values{"view": {hostileView}}.Encode()
	form = other.get(gone, 200)
	has(t, form, `Delete view Night &lt;b&gt;\u202e`, "its filter is failing", `flowctl views delete &#39;Night &lt;b&gt;\u202e &#34;&amp;&#39;\&#39;&#39; shift&#39;`)
	sent = hiddenOf(form)
	sent.Set("reason", "nobody looks at these")
	has(t, other.post(gone, sent, 200), "The view is deleted")
	has(t, other.post(gone, sent, 200), "The view is deleted") // the form is submitted twice
	hasNot(t, s.get("runs", 200), "Night")
	other.get(gone, 404)
	sent.Set("key", "another")
	has(t, other.post(gone, sent, 404), "no view has this name")
	journal := s.get("journal", 200)
	has(t, journal, "save-view", "all look at these", "delete-view", "nobody looks at these", `view:Night &lt;b&gt;\u202e`)
	hasNot(t, journal, "\u202e")
}

func TestOPS2_ManySharedViewsStandInAMenu(t *testing.T) {
	s := newSite(t, console.Config{})
	for n := range 100 {
		if _, err := s.Direct.SaveView(t.Context(), fmt.Sprintf("view %02d", n), admin.NewView{Filter: fmt.Sprint("id:", n)}); err != nil {
			t.Fatal(err)
		}
	}
	page := s.get("runs?q=id:99&view=view+99", 200)
	tabs, menu, _ := strings.Cut(page, "<summary>91 more views</summary>")
	if got := strings.Count(tabs, ">view "); got != 9 {
		t.Errorf("%d views stand beside each other, want 8 and the current one", got)
	}
	has(t, tabs, "view 07<", `aria-current="true">view 99<`)
	has(t, menu, "view 08<", "view 98<")
	form := hiddenOf(s.get("views/save?q=failing", 200))
	form["name"], form["filter"] = []string{"one more"}, []string{"failing"}
	has(t, s.post("views/save?q=failing", form, 409), "the limit of 100 views is reached", "delete one that is not used")
}

// TestOPS2_SharedViewsAreForTheirRoles proves that shared views and their forms are offered only to
// roles that may use them.
func TestOPS2_SharedViewsAreForTheirRoles(t *testing.T) {
	s, login := newSiteWithRoles(t)
	if _, err := s.Direct.SaveView(t.Context(), "mine", admin.NewView{Filter: "status:failed"}); err != nil {
		t.Fatal(err)
	}
	const at = "runs?q=status:failed&view=mine"
	for _, role := range []admin.Role{admin.RoleViewer, admin.RolePayloads, owned} {
		login(role)
		page := s.get(at, 200)
		hasNot(t, page, "for all</a>", "cannot be read")
		if sees := strings.Contains(s.get("runs", 200), ">mine</a>"); sees != (role != owned) {
			t.Errorf("%s sees the view: %v", role, sees)
		}
		form := url.Values{"name": {"other"}, "filter": {"failing"}}
		for _, at := range []string{"views/save?q=failing", "views/delete?view=mine"} {
			s.get(at, 403)
			s.post(at, form, 403)
		}
	}
	login(admin.RoleOperator)
	has(t, s.get(at, 200), ">Delete for all</a>")
	has(t, s.get("runs?q=failing", 200), ">+ Save for all</a>")
}

// plain is a store without views.
type plain struct {
	store.Store
	store.Lister
}

func TestOPS2_AStoreWithoutSharedViewsSaysSo(t *testing.T) {
	m := memstore.New()
	s := newSiteOn(t, plain{m, m}, console.Config{})
	page := s.get("runs?q=status:failed", 200)
	has(t, page, ">Failed today</a>")
	hasNot(t, page, "for all</a>", "cannot be read")
	s.get("views/save?q=status:failed", 501)
	s.post("views/delete?view=mine", nil, 501)
}

// TestOPS2_AListIsShownWithoutSharedViewsThatCannotBeRead proves that the list of runs is shown
// even if the shared views cannot be read.
func TestOPS2_AListIsShownWithoutSharedViewsThatCannotBeRead(t *testing.T) {
	s := newTabs(t)
	s.asked.noViews = errors.New("the disk is <gone>")
	has(t, s.page("/runs"), `title="the disk is &lt;gone&gt;">Shared views cannot be read`, "No runs yet")
}

// TestOPS2_ALiveListDoesNotAskForViews proves that the console reads shared views when it draws a
// whole page, but not when it draws updates.
func TestOPS2_ALiveListDoesNotAskForViews(t *testing.T) {
	s := newTabs(t)
	if _, err := s.Direct.SaveView(t.Context(), "mine", admin.NewView{Filter: "failing"}); err != nil {
		t.Fatal(err)
	}
	has(t, s.page("/runs"), ">mine</a>")
	before, rounds := s.asked.views.Load(), 0
	if before != 1 {
		t.Errorf("a page has asked %d times, want once", before)
	}
	err := s.look(t.Context(), "/runs", func(text string) bool {
		has(t, text, `<span id="shared" data-keep></span>`)
		rounds++
		s.Start("wait", fmt.Sprint("order-", rounds))
		return rounds == 3
	})
	if err != nil {
		t.Error(err)
	}
	if got := s.asked.views.Load(); got != before {
		t.Errorf("the store was asked for views %d times while somebody looked", got-before)
	}
}
