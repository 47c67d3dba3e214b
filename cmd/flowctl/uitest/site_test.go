package uitest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

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

// browserVariable is an environment variable that enables the tests with a browser. make ui sets
// it.
const browserVariable = "FLOWTEST_BROWSER"

func TestMain(m *testing.M) {
	if os.Getenv(browserVariable) == "" {
		fmt.Println("these tests need a browser: make ui installs one, and sets", browserVariable)
		os.Exit(0)
	}
	redistest.Main(m)
}

// stores contains the stores with which the console is tested, by name.
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

// site is a console for a scene of runs, with a tab of the browser.
type site struct {
	*admintest.Scene
	*uitest.Tab
	url string
}

func newSite(t *testing.T, st store.Store) *site {
	t.Helper()
	s := admintest.NewScene(t, st, func(_ testing.TB, direct *admin.Service) admintest.Service { return direct })
	server := httptest.NewServer(console.New(s.Direct, console.Config{Prefix: "/flows/", Store: "orders@test"}))
	t.Cleanup(server.Close)
	return &site{s, newTab(t, server, nil), server.URL + "/flows/"}
}

// newTab returns a tab of a new browser for the pages of a server. The test fails if the browser
// reports errors that expected does not match.
func newTab(t *testing.T, server *httptest.Server, expected *regexp.Regexp) *uitest.Tab {
	t.Helper()
	browser, err := uitest.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(browser.Close)
	tab, end, err := browser.Tab(5 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.CloseClientConnections) // The server would wait for the tab, which keeps a connection for updates open.
	t.Cleanup(end)
	t.Cleanup(func() {
		for _, said := range tab.Complaints() {
			if expected == nil || !expected.MatchString(said) {
				t.Errorf("the browser says: %s", said)
			}
		}
	})
	return tab
}

func (s *site) run(what string, actions ...chromedp.Action) {
	s.Helper()
	if err := chromedp.Run(s.Tab.Ctx, actions...); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// until waits until an expression is true in the page. The page may change while it waits.
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
			select { // Expressions fail while a page is loaded, so retry.
			case <-ctx.Done():
				return fmt.Errorf("wait for %s (%v): %w", expression, err, ctx.Err())
			case <-tick.C:
			}
		}
	})
}
