package sqlitestore

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// A file of version 1 has neither limits nor lines. It is brought up to date when it is opened,
// by any number of processes at once, and keeps its runs.
func TestOpen_BringsAFileOfVersion1UpToDate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flows.db")
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	check(t, err)
	statements := append(append([]string{}, baseSchema...), fmt.Sprintf(`PRAGMA application_id = %d`, applicationID), `PRAGMA user_version = 1`)
	run := newRun(100)
	statements = append(statements,
		`INSERT INTO classes VALUES (1, 'default', 'w', 1, 0, 1)`,
		fmt.Sprintf(`INSERT INTO runs (key, id, class, priority, place, status, n, seq, last, epoch, recoveries, closing, inbox, created, retention, hidden, ord)
			VALUES (1, x'%x', 1, 0, 1, 'pending', 1, 1, zeroblob(16), 0, 0, 0, 0, 1, 1000000000, 0, 1)`, packRun(run.Run)),
		`INSERT INTO frames VALUES (1, 1, x'00')`, `UPDATE counters SET seq = 1`)
	for _, s := range statements {
		check(t, sqlitex.ExecuteTransient(c, s, nil))
	}
	check(t, c.Close())

	opened := make(chan error, 4)
	for range cap(opened) {
		go func() {
			s, err := Open(path)
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
	}
	for range cap(opened) {
		check(t, <-opened)
	}
	s, err := Open(path)
	check(t, err)
	defer func() { check(t, s.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session := store.Session{ID: "s", TTL: time.Hour, Routes: []store.Route{{Queue: "default", Workflow: "w"}}}
	check(t, s.OpenSession(ctx, session))
	got, err := s.Claim(ctx, store.Claim{Session: "s", Token: event.NewToken(), Routes: session.Routes, Max: 1})
	check(t, err)
	if len(got.Runs) != 1 || got.Runs[0].Run != run.Run {
		t.Errorf("claimed %v, want run %s", got.Runs, run.Run)
	}
	check(t, s.SetLimits(ctx, 0, []store.SetLimit{{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}}}))
}
