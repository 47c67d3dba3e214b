package uitest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/cmd/flowctl/uitest"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

// browserVariable makes the tests run that need a browser: make ui sets it.
const browserVariable = "FLOWGEN_TEST_BROWSER"

func TestMain(m *testing.M) {
	if os.Getenv(browserVariable) == "" {
		fmt.Println("these tests need a browser: make ui installs one, and sets", browserVariable)
		os.Exit(0)
	}
	redistest.Main(m)
}

// stores are what the console shows.
var stores = map[string]func(t testing.TB) store.Store{
	"memory": func(testing.TB) store.Store { return memstore.New() },
	"sqlite": func(t testing.TB) store.Store {
		return opened(t)(sqlitestore.Open(filepath.Join(t.TempDir(), "runs.db")))
	},
	"redis": func(t testing.TB) store.Store {
		return opened(t)(redisstore.Open(redistest.Shared(t).URL() + "?prefix=" + redistest.Prefix()))
	},
}

func opened(t testing.TB) func(s store.Store, err error) store.Store {
	return func(s store.Store, err error) store.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// site is a console over a scene, in a tab.
type site struct {
	*admintest.Scene
	*uitest.Tab
	url string
}

func newSite(t *testing.T, st store.Store) *site {
	t.Helper()
	s := admintest.NewScene(t, st, func(_ testing.TB, direct admin.Service) admin.Service { return direct })
	server := httptest.NewServer(console.New(s.Direct, console.Config{Prefix: "/flows/", Store: "orders@test"}))
	t.Cleanup(server.Close)
	browser, err := uitest.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(browser.Close)
	tab, end, err := browser.Tab(2 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.CloseClientConnections) // a tab that listens would keep the server
	t.Cleanup(end)
	t.Cleanup(func() {
		for _, said := range tab.Complaints() {
			t.Errorf("the browser says: %s", said)
		}
	})
	return &site{s, tab, server.URL + "/flows/"}
}

func (s *site) run(what string, actions ...chromedp.Action) {
	s.Helper()
	if err := chromedp.Run(s.Tab.Ctx, actions...); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// until waits until an expression is true in the page, also across pages.
func until(expression string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var holds bool
			err := chromedp.Evaluate(expression, &holds).Do(ctx)
			if err == nil && holds {
				return nil
			}
			select { // while a page is loaded there is nothing to ask
			case <-ctx.Done():
				return fmt.Errorf("wait for %s (%v): %w", expression, err, ctx.Err())
			case <-tick.C:
			}
		}
	})
}

// Each page of each state draws on each store, and the browser complains about none.
func TestOPS2_EachPageOfEachStateDraws(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, open(t))
			refs := map[string]string{
				"failed": s.Ended("bad", "order-1"), "completed": s.Ended("good", "order-2"), "continued": s.Ended("next", "order-3"),
				"hostile": s.Start("<img src=x onerror=alert(1)>\u202e", "<script>alert(1)</script>\u202e"), "waiting": s.Start("wait", "order-4"), "paused": s.Start("wait", "order-5"),
			}
			s.Until(refs["waiting"], "waiting")
			if _, err := s.Direct.Act(t.Context(), refs["paused"], admin.Action{Verb: "pause"}); err != nil {
				t.Fatal(err)
			}
			s.Until(refs["paused"], "paused")
			held, err := s.Direct.Start(t.Context(), admin.Start{Workflow: admintest.Workflow, Input: admintest.Input("good"), Hold: true})
			if err != nil {
				t.Fatal(err)
			}
			pending, err := s.Direct.Start(t.Context(), admin.Start{Workflow: "nobody.serves", Input: admin.Payload(`{}`)})
			if err != nil {
				t.Fatal(err)
			}
			refs["held"], refs["pending"] = held.Run, pending.Run
			pages := []string{"runs", "runs?q=status:failed", "runs?q=nothing", "failures", "queues", "workers", "schedules", "start"}
			for _, ref := range refs {
				for _, tab := range []string{"", "?op=4", "/events", "/data", "/tree", "/event/1"} {
					pages = append(pages, "runs/"+ref+tab)
				}
			}
			for _, page := range pages {
				var heads, unnamed, nodes int
				s.run(page, chromedp.Navigate(s.url+page), chromedp.WaitVisible("#main > *", chromedp.ByQuery),
					chromedp.Evaluate(`document.querySelectorAll("h1").length`, &heads),
					chromedp.Evaluate(`[...document.querySelectorAll("a,button,summary")].filter(e => e.checkVisibility() && !(e.textContent.trim() || e.ariaLabel)).length + [...document.querySelectorAll("input:not([type=hidden]),textarea,select")].filter(e => !e.labels.length && !e.ariaLabel).length`, &unnamed),
					chromedp.Evaluate(`document.querySelectorAll("*").length`, &nodes))
				if heads == 0 || unnamed != 0 || nodes > 1500 {
					t.Errorf("%s has %d headings, %d controls without a name, %d nodes", page, heads, unnamed, nodes)
				}
			}
		})
	}
}

// With the keyboard alone: find the run that has failed, open it, and retry it.
func TestOPS2_KeyboardFromTheListToARetry(t *testing.T) {
	s := newSite(t, memstore.New())
	failed := s.Ended("bad", "order-1")
	s.Ended("good", "order-2")
	s.run("the list", chromedp.Navigate(s.url+"runs"), until(`!document.querySelector("[data-help]").hidden`))
	s.run("filter", chromedp.KeyEvent("/"), until(`document.activeElement.id === "q"`),
		chromedp.KeyEvent(kb.Backspace), chromedp.KeyEvent("status:failed"+kb.Enter),
		until(`location.search.includes("failed") && document.querySelectorAll("tbody tr").length === 1`))
	s.run("open", until(`!document.querySelector("[data-help]").hidden`), chromedp.KeyEvent("j"), until(`document.querySelector("tr.at a") === document.activeElement`), chromedp.KeyEvent(kb.Enter),
		until(fmt.Sprintf(`location.pathname.endsWith(%q)`, failed)))
	s.run("retry", until(`!document.querySelector("[data-help]")?.hidden`), chromedp.KeyEvent("r"), chromedp.WaitVisible("dialog[open] .primary"), until(`document.activeElement.matches("dialog .primary")`), chromedp.KeyEvent(kb.Enter),
		until(`location.search.includes("did=retry")`))
	var at string
	s.run("the new run", chromedp.Location(&at))
	if at, _, _ := strings.Cut(at, "?"); strings.Contains(at, failed) || !strings.Contains(at, "wrun_") {
		t.Errorf("the page is %s, want that of the new run", at)
	}
	if got, err := s.Direct.Runs(t.Context(), admin.Filter{}); err != nil || len(got.Runs) != 3 {
		t.Errorf("there are %d runs (%v), want 3", len(got.Runs), err)
	}
}

// What happens appears while somebody looks. Focus and what was chosen stay, and new rows wait until they are asked for.
func TestOPS2_UpdatesKeepFocusAndSelection(t *testing.T) {
	s := newSite(t, memstore.New())
	ref := s.Start("wait", "order-1")
	s.Until(ref, "waiting")
	s.run("the list", chromedp.Navigate(s.url+"runs"), chromedp.WaitVisible("table.runs"), until(`!document.querySelector("[data-help]").hidden`), chromedp.KeyEvent("j"), chromedp.KeyEvent("x"), until(`document.querySelector("input[name=run]").checked`))
	other := s.Start("wait", "order-2")
	s.run("a new run", until(`!document.querySelector("#new").hidden && document.querySelector("#new").textContent === "1 new"`))
	if _, err := s.Direct.Act(t.Context(), ref, admin.Action{Verb: "cancel"}); err != nil {
		t.Fatal(err)
	}
	var kept bool
	s.run("an update", until(fmt.Sprintf(`document.getElementById(%q).textContent.includes("cancelled")`, ref)),
		chromedp.Evaluate(`document.querySelector("input[name=run]").checked && document.activeElement.closest("tr")?.classList.contains("at") && document.querySelectorAll("tbody tr").length === 1`, &kept))
	if !kept {
		t.Error("the update has moved the focus, lost what was chosen, or put a row in")
	}
	s.run("ask for them", chromedp.Click("#new"), until(fmt.Sprintf(`!!document.getElementById(%q)`, other)))
}
