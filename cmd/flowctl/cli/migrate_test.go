package cli_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/store"
)

// asBefore makes the file of the shop one of version 5, which has no journal.
func (s *shop) asBefore() {
	s.t.Helper()
	conn, err := sqlite.OpenConn(strings.TrimPrefix(s.url, "sqlite:"), sqlite.OpenReadWrite)
	if err != nil {
		s.t.Fatal(err)
	}
	err = sqlitex.ExecuteScript(conn, `
		ALTER TABLE runs RENAME COLUMN bits TO marks;
		ALTER TABLE sessions RENAME COLUMN program TO fingerprint;
		ALTER TABLE limit_configs RENAME COLUMN by_code TO declared;
		ALTER TABLE classes ADD COLUMN runs INTEGER NOT NULL DEFAULT 0;
		DROP INDEX runs_hidden;
		DROP TABLE journal;
		DROP TABLE catalog;
		DROP TABLE saved_views;
	`, nil)
	if err = errors.Join(err, sqlitex.ExecuteTransient(conn, `PRAGMA user_version = 5`, nil), conn.Close()); err != nil {
		s.t.Fatal(err)
	}
}

func TestOPS3_AMigrationIsInTheJournal(t *testing.T) {
	s := open(t)
	s.asBefore()
	s.wants(4, nil, []string{"format version 5"}, "runs")
	s.wants(0, []string{"has the format of this release"}, nil, "migrate")
	check := func(n int, detail string) {
		t.Helper()
		all := s.entries("--action", "migrate")
		if len(all) != n || all[0].Detail != detail || all[0].Outcome != admin.OutcomeDone || all[0].Face != admin.FaceCLI || !strings.Contains(all[0].Principal, "@") {
			t.Errorf("the journal has %+v, want %d entries, the newest %q", all, n, detail)
		}
	}
	check(1, "from format 5 to 7")
	s.wants(0, []string{s.runs["bad"]}, nil, "runs", "-o", "name")
	s.wants(0, nil, nil, "migrate") // as after an end between the migration and its entry
	check(2, "")
	server := redistest.Start(t)
	onRedis := usedOn(t, server)
	onRedis.wants(0, nil, nil, "migrate")
	if all := onRedis.entries("--action", "migrate"); len(all) != 1 || all[0].Detail != "" {
		t.Errorf("on Redis the journal has %+v", all)
	}
	if err := server.Client(t).Set(t.Context(), "{flowgen:0}:format", "flowgen 3 16", 0).Err(); err != nil {
		t.Fatal(err)
	}
	onRedis.wants(0, []string{"order"}, nil, "runs") // which this release works with
	onRedis.wants(0, nil, nil, "migrate")
	if all := onRedis.entries("--action", "migrate"); len(all) != 2 || all[0].Detail != "from format 3 to 4" {
		t.Errorf("on Redis the journal has %+v, want an entry that names both formats", all)
	}
	file := s.exported()
	if g := flowctl(t, "migrate", "--store", "export:"+file); g.code != 0 { // which has no place for a journal
		t.Errorf("migrate an export: %+v", g)
	}
	missing := "sqlite:" + filepath.Join(t.TempDir(), "none.db")
	if g := flowctl(t, "migrate", "--store", missing); g.code != 3 {
		t.Errorf("migrate what does not exist: %+v", g)
	}
}

// mute is a store whose journal cannot be written.
type mute struct{ store.Store }

func (mute) WriteJournal(context.Context, store.JournalEntry, store.JournalKeep) error {
	return errors.New("the disk is full")
}

func (mute) Journal(context.Context, store.JournalQuery) (store.JournalPage, error) {
	return store.JournalPage{}, errors.New("the disk is gone")
}

func TestOPS3_AMigrationSaysThatItsEntryIsMissing(t *testing.T) {
	s := open(t)
	g := s.with(func(st store.Store) store.Store { return mute{st} }, "migrate")
	if g.code != 1 || g.stdout != "" || !strings.Contains(g.stderr, "the journal cannot be written") || !strings.Contains(g.stderr, "the disk is full") || !strings.Contains(g.stderr, "migrate again") {
		t.Errorf("got %+v", g)
	}
}
