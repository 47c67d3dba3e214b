package console_test

import (
	"errors"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/internal/testutil/newertest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// damage executes an SQL statement on a database file. It fails the test if the statement changes
// no row.
func damage(t *testing.T, file, statement string) {
	t.Helper()
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetBusyTimeout(time.Minute)
	err = sqlitex.ExecuteTransient(conn, statement, nil)
	if changed := conn.Changes(); err != nil || changed == 0 || conn.Close() != nil {
		t.Fatal(errors.Join(err, errors.New("the log is not damaged")))
	}
}

// TestOPS2_ADamagedRunIsShownAsFarAsItIsKnown proves that a run with a damaged log is shown as far
// as it can be read, with advice, wherever the damage is.
func TestOPS2_ADamagedRunIsShownAsFarAsItIsKnown(t *testing.T) {
	for where, c := range map[string]struct {
		change string
		damage string   // text in the header of each page; empty if the head and the end of the log are readable
		events []string // texts on the page of events
	}{
		"first":   {`UPDATE frames SET data = zeroblob(length(data)) WHERE n = 1`, "frame 1: ", nil},
		"middle":  {`UPDATE frames SET data = zeroblob(length(data)) WHERE n = 2`, "", []string{"run created"}},
		"last":    {`UPDATE frames SET data = zeroblob(length(data)) WHERE n = (SELECT max(n) FROM frames)`, "corrupt frame", []string{"run created", "wait created"}},
		"missing": {`DELETE FROM frames WHERE n = (SELECT max(n) FROM frames)`, "it is missing", []string{"run created", "wait created"}},
	} {
		t.Run(where, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "runs.db")
			st, err := sqlitestore.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newSiteOn(t, st, console.Config{})
			run := s.Start("wait", "order-1")
			s.Until(run, "waiting")
			s.post("runs/"+run+"/send", url.Values{"topic": {"verdict"}, "payload": {`"yes"`}, "key": {"k"}}, 200)
			s.Until(run, "completed")
			damage(t, file, c.change)
			server := httptest.NewServer(console.New(s.Direct, console.Config{Prefix: "/flows"})) // the new handler has no cached logs
			t.Cleanup(server.Close)
			s.url = server.URL + "/flows/"
			for _, tab := range []string{"", "/events", "/data", "/talk", "/tree", "/audit"} {
				page := s.get("runs/"+run+tab, 200)
				has(t, page, run, "order-1", "completed", ">default<")
				hasNot(t, page, " d</td>") // the run takes two seconds, so no lane may last for days
				if c.damage != "" {
					has(t, page, "Its log is damaged", c.damage, "flowctl fsck shows", `class="button" href="/flows/checks"`)
				}
				if tab == "" || tab == "/events" || tab == "/talk" {
					has(t, page, "What is stored is damaged", "flowctl fsck shows")
				}
			}
			has(t, s.get("runs/"+run+"/events", 200), c.events...)
			if where == "first" { // if the first event is damaged, no event is found
				has(t, s.get("runs/"+run+"/event/2", 200), "What is stored is damaged", "flowctl fsck shows")
				has(t, s.get("runs/"+run+"/payload/2", 500), "What is stored is damaged", `href="/flows/checks"`)
			}
			if page := s.get("runs", 200); !strings.Contains(page, run) {
				t.Error("the list does not have it")
			}
		})
	}
}

// TestOPS2_ARunOfANewerReleaseIsNotShownAsDamaged proves that a run that a newer release has ended
// is shown as far as it can be read, without the advice to repair it.
func TestOPS2_ARunOfANewerReleaseIsNotShownAsDamaged(t *testing.T) {
	st := memstore.New()
	s := newSiteOn(t, newertest.New(st, event.RunCompleted), console.Config{})
	run := s.Ended("good", "order-1")
	c := workflow.NewClient(st, workflow.ClientConfig{})
	t.Cleanup(func() { _ = c.Close() })
	server := httptest.NewServer(console.New(admin.New(c), console.Config{Prefix: "/flows"}))
	t.Cleanup(server.Close)
	s.url = server.URL + "/flows/"
	for _, tab := range []string{"", "/events", "/data", "/talk", "/tree", "/audit"} {
		page := s.get("runs/"+run+tab, 200)
		has(t, page, run, "order-1", "completed", "A newer release has written its log", "nothing is damaged")
		hasNot(t, page, "log is damaged", "stored is damaged", "flowctl fsck shows", `class="button" href="/flows/checks"`)
		if tab == "" || tab == "/events" || tab == "/talk" {
			has(t, page, "A newer release has written it.<")
		}
	}
}

// TestOPS2_ADamagedRunHidesNoHooks proves that a waiting run with a damaged log does not hide the
// hooks of other runs.
func TestOPS2_ADamagedRunHidesNoHooks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	st, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newSiteOn(t, st, console.Config{})
	damaged := s.Start("wait", "order-1")
	s.Until(damaged, "waiting")
	damage(t, file, `UPDATE frames SET data = zeroblob(length(data))`)
	run := s.Start("hook", "order-2")
	s.Until(run, "waiting")
	page := s.get("inbox", 200)
	has(t, page, run, "at the door", `data-live="/flows/live?page=%2Finbox"`)
	hasNot(t, page, damaged)
}
