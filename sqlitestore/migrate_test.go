package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// olderSchemas: so releases with these versions have made an empty file a store.
var olderSchemas = map[int][]string{1: baseSchema, 2: slices.Concat(baseSchema, toVersion2), 3: slices.Concat(baseSchema, toVersion2, toVersion3)}

// since3 has, by version, what brings a file of version 3 up to it.
var since3 = map[int][]string{4: toVersion4, 5: slices.Concat(toVersion4, toVersion5), 6: slices.Concat(toVersion4, toVersion5, toVersion6, []string{olderViews})}

// A run of an older file: the first one is ready.
type olderRun struct {
	status         event.Status
	parent, hidden bool
}

var olderRuns = []olderRun{
	{status: event.StatusPending}, {status: event.StatusRunning, parent: true}, {status: event.StatusCompleted}, {status: event.StatusCompleted},
	{status: event.StatusCompleted, parent: true}, {status: event.StatusFailed}, {status: event.StatusCanceled, hidden: true}, {status: event.StatusContinued},
}

// older makes a file as a release with that version has written it, but for the write-ahead log, and returns the runs in it. Each has a
// tag of the name "n", and all one of the name "all".
func older(t *testing.T, path string, version int) (runs []event.RunID) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	check(t, err)
	statements := append(slices.Clone(olderSchemas[min(version, 3)]), fmt.Sprintf(`PRAGMA application_id = %d`, applicationID), fmt.Sprintf(`PRAGMA user_version = %d`, min(version, 3)),
		`INSERT INTO classes VALUES (1, 'default', 'w', 1, 0, 8)`, `UPDATE counters SET seq = 1`)
	for i, r := range olderRuns {
		run := newRun(100).Run
		runs = append(runs, run)
		id := literal(run)
		key, place, ord, parent, hidden, ended := i+1, 1, "1", "NULL", 0, "NULL"
		if i > 0 {
			place, ord = 6, "NULL"
		}
		if r.status == event.StatusRunning {
			place = 3
		}
		if r.parent {
			parent = literal(runs[0])
		}
		if r.hidden {
			hidden = 1
		}
		if r.status.Terminal() {
			ended = "2000"
		}
		tags := fmt.Sprintf(`'{"all":"yes","n":"%d"}'`, i)
		statements = append(statements,
			fmt.Sprintf(`INSERT INTO runs (key, id, class, priority, place, status, n, seq, last, epoch, recoveries, closing, inbox, created, ended, retention, hidden, ord, parent, root, tags, due)
				VALUES (%d, %s, 1, 0, %d, '%s', 1, 1, zeroblob(16), 0, 0, 0, 0, %d, %s, 1000000000, %d, %s, %s, %s, %s, %s)`,
				key, id, place, r.status, 1000+i, ended, hidden, ord, parent, parent, tags, map[bool]string{true: "4000000000000", false: "NULL"}[place == 3]),
			fmt.Sprintf(`INSERT INTO frames VALUES (%d, 1, x'00')`, key),
			fmt.Sprintf(`INSERT INTO tags (name, value, run) VALUES ('all', 'yes', %d), ('n', '%d', %d)`, key, i, key))
	}
	for _, s := range append(statements, since3[version]...) {
		check(t, sqlitex.ExecuteTransient(c, s, nil))
	}
	check(t, c.Close())
	return runs
}

// literal returns a run id as files have it.
func literal(run event.RunID) string {
	id := ulid.MustParseStrict(strings.TrimPrefix(string(run), runPrefix))
	return fmt.Sprintf("x'%x'", id[:])
}

func TestOpen_RefusesAFileOfAnOlderReleaseAndNamesTheCommand(t *testing.T) {
	for version := 1; version < schemaVersion; version++ {
		path := filepath.Join(t.TempDir(), "flows.db")
		older(t, path, version)
		before, err := os.ReadFile(path)
		check(t, err)
		_, err = Open(path)
		var old *store.OldFormatError
		if !errors.As(err, &old) || old.What != path || old.Got != version || old.Known != schemaVersion || !old.Migrates {
			t.Fatalf("open a file of version %d: got %v, want an OldFormatError", version, err)
		}
		if !strings.Contains(err.Error(), "flowctl migrate --store") {
			t.Errorf("%q does not name the command", err)
		}
		if !errors.As(err, new(store.PermanentError)) {
			t.Error("it is not permanent: a worker would wait for it")
		}
		after, err := os.ReadFile(path)
		check(t, err)
		if !slices.Equal(before, after) {
			t.Error("the file was changed")
		}
	}
}

// migrated fails the test unless the file has all that was in the older one.
func migrated(t *testing.T, path string, runs []event.RunID) {
	t.Helper()
	s, err := Open(path)
	check(t, err)
	defer func() { check(t, s.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	counts, err := s.Count(ctx, store.Query{})
	check(t, err)
	want := map[event.Status]int{event.StatusPending: 1, event.StatusRunning: 1, event.StatusCompleted: 3, event.StatusFailed: 1, event.StatusContinued: 1}
	if diff := cmp.Diff(want, counts.ByStatus()); diff != "" || !counts.Exact {
		t.Errorf("counts, exact %v (-want +got):\n%s", counts.Exact, diff)
	}
	roots, err := s.Count(ctx, store.Query{Roots: true})
	check(t, err)
	if got := roots.ByStatus()[event.StatusCompleted]; got != 2 {
		t.Errorf("%d runs without a parent have completed, want 2", got)
	}
	for what, q := range map[string]store.Query{"": {}, "by tag ": {Tags: map[string]string{"all": "yes"}}, "by status ": {Statuses: []event.Status{event.StatusCompleted}}} {
		var got, all []event.RunID
		for q.Limit = 2; ; {
			page, err := s.List(ctx, q)
			check(t, err)
			for _, r := range page.Runs {
				got = append(got, r.Run)
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
		for i, r := range slices.Backward(olderRuns) {
			if !r.hidden && q.OfStatus(r.status) {
				all = append(all, runs[i])
			}
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("listed %s(-want +got):\n%s", what, diff)
		}
	}
	scan, err := s.ScanPartition(ctx, 0)
	check(t, err)
	for _, d := range scan.Defects() {
		t.Errorf("fsck: %s", d.What)
	}
}

func TestMigrate_KeepsTheRunsOfEveryOlderVersion(t *testing.T) {
	for version := 1; version < schemaVersion; version++ {
		for _, journal := range []string{"wal", "delete"} { // a copy by VACUUM INTO has the second one
			t.Run(fmt.Sprintf("version %d, journal mode %s", version, journal), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "flows.db")
				runs := older(t, path, version)
				c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
				check(t, err)
				check(t, sqlitex.ExecuteTransient(c, `PRAGMA journal_mode = `+journal, nil))
				check(t, c.Close())
				done := make(chan error, 4)
				for range cap(done) { // several at once
					go func() { done <- Migrate(t.Context(), path) }()
				}
				for range cap(done) {
					check(t, <-done)
				}
				migrated(t, path, runs)
				check(t, Migrate(t.Context(), path)) // it has the present version
				goesOn(t, path, runs[0])
			})
		}
	}
}

// goesOn claims the run that is ready, and creates some with all that older releases did not know.
func goesOn(t *testing.T, path string, ready event.RunID) {
	t.Helper()
	s, err := Open(path)
	check(t, err)
	defer func() { check(t, s.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session := store.Session{ID: "s", TTL: time.Hour, Routes: []store.Route{{Queue: "default", Workflow: "w"}}}
	check(t, s.OpenSession(ctx, session))
	got, err := s.Claim(ctx, store.Claim{Session: "s", Token: event.NewToken(), Routes: session.Routes, Max: 1})
	check(t, err)
	if len(got.Runs) != 1 || got.Runs[0].Run != ready {
		t.Errorf("claimed %v, want run %s", got.Runs, ready)
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

// A new file has by one list of statements what an old one gets from its migrations: every table with its columns in
// the same order, every index.
func TestMigrate_MakesTheSchemaOfANewFile(t *testing.T) {
	schemaOf := func(path string) map[string]string {
		t.Helper()
		c, err := connect(t.Context(), path, sqlite.OpenReadOnly)
		check(t, err)
		defer func() { check(t, c.Close()) }()
		all := map[string]string{}
		check(t, c.query(`SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL`, func(r row) error {
			all[r.ColumnText(0)] = strings.NewReplacer(" ", "", "\t", "", "\n", "", `"`, "").Replace(r.ColumnText(1))
			return nil
		}))
		for _, pragma := range []string{"user_version", "application_id"} {
			n, err := c.pragma(pragma)
			check(t, err)
			all[pragma] = fmt.Sprint(n)
		}
		return all
	}
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	s, err := Open(fresh)
	check(t, err)
	check(t, s.Close())
	for version := 1; version < schemaVersion; version++ {
		path := filepath.Join(t.TempDir(), "flows.db")
		older(t, path, version)
		check(t, Migrate(t.Context(), path))
		if diff := cmp.Diff(schemaOf(fresh), schemaOf(path)); diff != "" {
			t.Errorf("from version %d (-new file +migrated):\n%s", version, diff)
		}
	}
}

func TestMigrate_RefusesWhatIsNoOlderFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "none.db")
	if err := Migrate(t.Context(), path); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("migrate a file that does not exist: got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it exists now: %v", err)
	}
	path = filepath.Join(dir, "newer.db")
	older(t, path, 3)
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	check(t, err)
	check(t, sqlitex.ExecuteTransient(c, `PRAGMA user_version = 99`, nil))
	check(t, c.Close())
	if err := Migrate(t.Context(), path); !errors.As(err, new(*store.VersionError)) {
		t.Errorf("migrate a file of a newer release: got %v, want a VersionError", err)
	}
	path = filepath.Join(dir, "other.db")
	c, err = sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	check(t, err)
	check(t, sqlitex.ExecuteTransient(c, `CREATE TABLE other (x)`, nil))
	check(t, c.Close())
	if err := Migrate(t.Context(), path); !errors.Is(err, store.ErrForeign) {
		t.Errorf("migrate a file of another program: got %v, want ErrForeign", err)
	}
}

// wakesOnly is a transaction of the older versions that says only that there may be something to claim.
const wakesOnly = `UPDATE classes SET wake = ?1 WHERE id = +?2 AND wake <> +?1`

// A process of an older release may have the file open while it is migrated. testdata/version3.json has the statements of the write
// transactions which the release with version 3 executed in its conformance suite, as far as no other one is a part of them, and so has each file beside it.
// Each transaction has a statement that can be prepared no more, so it is rolled back.
func TestMigrate_NoOperationOfAnOlderReleaseWritesAnyMore(t *testing.T) {
	for version := 3; version < schemaVersion; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) { writesNoMore(t, version) })
	}
}

func writesNoMore(t *testing.T, version int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("testdata/version%d.json", version))
	check(t, err)
	var recorded struct {
		Statements   []string
		Transactions [][]int
	}
	check(t, json.Unmarshal(text, &recorded))
	path := filepath.Join(t.TempDir(), "flows.db")
	older(t, path, version)
	process, err := sqlite.OpenConn(path, sqlite.OpenReadWrite) // of the older release
	check(t, err)
	defer func() { check(t, process.Close()) }()
	refused := func(statement string) bool {
		s, _, err := process.PrepareTransient(statement)
		if err == nil {
			check(t, s.Finalize())
		}
		return err != nil
	}
	for _, s := range recorded.Statements {
		if refused(s) {
			t.Fatalf("this is not a statement of version %d: %s", version, s)
		}
	}
	check(t, Migrate(t.Context(), path))
	check(t, sqlitex.ExecuteTransient(process, `SELECT count(*) FROM runs`, nil)) // any first step reads the schema again
	fails := make([]bool, len(recorded.Statements))
	for i, s := range recorded.Statements {
		fails[i] = refused(s)
	}
	for _, statements := range recorded.Transactions {
		if slices.ContainsFunc(statements, func(i int) bool { return fails[i] }) {
			continue
		}
		var all []string
		for _, i := range statements {
			all = append(all, recorded.Statements[i])
		}
		if !slices.Contains(all, wakesOnly) {
			t.Errorf("an operation of the older release still writes:\n%s", strings.Join(all, "\n"))
		}
	}
}

func TestImmediate_CommitsOnceNobodyReadsAFileWithoutALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flows.db")
	older(t, path, 1)
	open := func() *conn {
		c, err := connect(t.Context(), path, sqlite.OpenReadWrite)
		check(t, err)
		t.Cleanup(func() { check(t, c.Close()) })
		return c
	}
	writer, reader, other := open(), open(), open()
	done := make(chan error, 1)
	written := make(chan struct{})
	go func() {
		done <- writer.immediate(t.Context(), func() error {
			defer close(written)
			return errors.Join(reader.exec(`BEGIN`), reader.exec(`SELECT count(*) FROM runs`), writer.exec(`UPDATE counters SET seq = 7`))
		})
	}()
	<-written
	for { // until nobody else can begin to read, because the writer wants to commit
		_, err := other.number(`SELECT count(*) FROM runs`)
		if busy(err) {
			break
		}
		check(t, err)
		select {
		case err := <-done:
			t.Fatalf("the transaction ended while another connection was reading: %v", err)
		default:
		}
	}
	check(t, reader.exec(`COMMIT`))
	check(t, <-done)
	if seq, err := other.number(`SELECT seq FROM counters`); err != nil || seq != 7 {
		t.Errorf("read %d, %v; want what was written", seq, err)
	}
}
