package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// A file of version 1 has neither limits nor lines, and one of version 2 no run that gathers
// starts, and no shares. It is brought up to date when it is opened, by any number of processes at once, and
// keeps its runs.
func TestOpen_BringsAnOlderFileUpToDate(t *testing.T) {
	for version, had := range map[int][]string{1: baseSchema, 2: slices.Concat(baseSchema, limitSchema)} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) { bringsUpToDate(t, version, had) })
	}
}

func bringsUpToDate(t *testing.T, version int, had []string) {
	path := filepath.Join(t.TempDir(), "flows.db")
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	check(t, err)
	statements := append(slices.Clone(had), fmt.Sprintf(`PRAGMA application_id = %d`, applicationID), fmt.Sprintf(`PRAGMA user_version = %d`, version))
	run := newRun(100)
	id := ulid.MustParseStrict(strings.TrimPrefix(string(run.Run), runPrefix))
	statements = append(statements,
		`INSERT INTO classes VALUES (1, 'default', 'w', 1, 0, 1)`,
		fmt.Sprintf(`INSERT INTO runs (key, id, class, priority, place, status, n, seq, last, epoch, recoveries, closing, inbox, created, retention, hidden, ord)
			VALUES (1, x'%x', 1, 0, 1, 'pending', 1, 1, zeroblob(16), 0, 0, 0, 0, 1, 1000000000, 0, 1)`, id[:]),
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
	gather := newRun(101)
	gather.Gather, gather.Items = &store.Gather{Key: "k", Quiet: time.Hour}, []store.Item{{ID: "i"}}
	created, err := s.Create(ctx, []store.Create{gather})
	check(t, err)
	if len(created) != 1 || !created[0].New {
		t.Errorf("a start that gathers: got %+v", created)
	}
	check(t, s.SetLimits(ctx, 0, []store.SetLimit{{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}}}))
	shared := newRun(101)
	shared.Fair = "acme"
	answers, err := s.Create(ctx, []store.Create{shared})
	check(t, errors.Join(err, answers[0].Err))
}
