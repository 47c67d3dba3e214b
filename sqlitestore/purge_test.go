package sqlitestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// ages is a store with a fake clock and a session.
type ages struct {
	*Store
	t     *testing.T
	clock *storetest.Clock
}

func openAges(t *testing.T) *ages {
	t.Helper()
	clock := storetest.NewClock()
	s, err := OpenWith(filepath.Join(t.TempDir(), "runs.db"), Config{Clock: clock})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	check(t, s.OpenSession(testContext(t), store.Session{ID: "a", TTL: time.Hour}))
	return &ages{Store: s, t: t, clock: clock}
}

// finish creates runs and ends each of them after the given number of additional frames.
func (a *ages) finish(frames int, creates ...store.Create) {
	a.t.Helper()
	ctx := testContext(a.t)
	_, err := a.Create(ctx, creates)
	check(a.t, err)
	var routes []store.Route
	for _, c := range creates {
		routes = append(routes, c.Route)
	}
	claimed, err := a.Claim(ctx, store.Claim{Session: "a", Token: event.NewToken(), Routes: routes, Max: len(creates)})
	check(a.t, err)
	if len(claimed.Runs) != len(creates) {
		a.t.Fatalf("claimed %d runs, want %d", len(claimed.Runs), len(creates))
	}
	for _, r := range claimed.Runs {
		var commits []store.Commit
		c := store.Commit{Run: r.Run, WorkflowID: r.WorkflowID, Fence: r.Fence, Prev: r.Last, Last: 1}
		for range frames {
			c.Frame, c.CommitID, c.First, c.Last = []byte("frame"), event.NewCommitID(), c.Last+1, c.Last+1
			commits = append(commits, c)
			c.Prev = c.CommitID
		}
		commits[frames-1].Effect, commits[frames-1].Status = store.EffectFinish, event.StatusCompleted
		answers, err := a.Commit(ctx, commits)
		check(a.t, err)
		for _, answer := range answers {
			check(a.t, answer.Err)
		}
	}
}

// expire advances the clock beyond the retention of all runs.
func (a *ages) expire() {
	a.t.Helper()
	a.clock.Advance(store.DefaultRetention)
	_, err := a.Heartbeat(testContext(a.t), 0, "a")
	check(a.t, err)
}

func (a *ages) purge(limit int) (int, time.Time) {
	a.t.Helper()
	n, next, err := a.Purge(testContext(a.t), 0, limit)
	check(a.t, err)
	return n, next
}

// pages returns the number of all pages and of free pages of the file.
func (a *ages) pages() (total, free int64) {
	a.t.Helper()
	check(a.t, a.read(testContext(a.t), func(c *conn) (err error) {
		if total, err = c.Pragma("page_count"); err == nil {
			free, err = c.Pragma("freelist_count")
		}
		return err
	}))
	return total, free
}

// rows returns the number of rows of every non-empty table.
func (a *ages) rows() map[string]int64 {
	a.t.Helper()
	counts := map[string]int64{}
	check(a.t, a.read(testContext(a.t), func(c *conn) error {
		var tables []string
		err := c.query(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`, func(r row) error {
			tables = append(tables, r.ColumnText(0))
			return nil
		})
		for _, table := range tables {
			n, queryErr := c.number(`SELECT count(*) FROM ` + table)
			if queryErr != nil {
				return queryErr
			}
			if n > 0 {
				counts[table] = n
			}
		}
		return err
	}))
	return counts
}

func TestPurge_LeavesEveryTableEmptyButTheCounters(t *testing.T) {
	a := openAges(t)
	ctx := testContext(t)
	check(t, a.OpenSession(ctx, store.Session{ID: "dead", TTL: time.Hour}))
	var runs []store.Create
	for n := range 3 {
		c := newRun(100)
		c.WorkflowID, c.Route.Queue = fmt.Sprint("order-", n), fmt.Sprint("customer-", n)
		c.Tags = map[string]string{"customer": "7", "region": "", "odd \u2028": "\ufffd"}
		c.Parent, c.Root = event.NewRunID(time.Now(), 0), "no ulid"
		_, err := a.Create(ctx, []store.Create{c})
		check(t, err)
		_, err = a.Deliver(ctx, store.Deliver{Run: c.Run, Item: store.Item{ID: "item"}})
		check(t, err)
		claimed, err := a.Claim(ctx, store.Claim{Session: "dead", Routes: []store.Route{c.Route}, Max: 1})
		check(t, err)
		check(t, a.SetStepData(ctx, c.Run, claimed.Runs[0].Fence, "key", []byte("body"), false))
		runs = append(runs, c)
	}
	check(t, a.CloseSession(ctx, 0, "dead")) // adds an entry to the audit trail
	for _, c := range runs {
		claimed, err := a.Claim(ctx, store.Claim{Session: "a", Routes: []store.Route{c.Route}, Max: 1})
		check(t, err)
		r := claimed.Runs[0]
		end := store.Commit{
			Run: r.Run, WorkflowID: r.WorkflowID, Fence: r.Fence, Prev: r.Last, CommitID: event.NewCommitID(), Frame: []byte{1}, First: 2, Last: 2,
			Effect: store.EffectFinish, Status: event.StatusFailed,
		}
		if r.Unread {
			end.Consume, end.ConsumeLast = 1, "item"
		}
		answers, err := a.Commit(ctx, []store.Commit{end})
		check(t, err)
		check(t, answers[0].Err)
	}
	// Add rows that the end of the run normally removes. The purge must remove them.
	check(t, a.write(ctx, func(tx *tx) error {
		if err := tx.exec(`INSERT INTO notes SELECT key, 'left', NULL FROM runs`); err != nil {
			return err
		}
		return tx.exec(`INSERT INTO inbox SELECT key, 1, 'left', 0, NULL FROM runs`)
	}))
	a.expire()
	check(t, a.CloseSession(ctx, 0, "a"))
	if got := len(a.rows()); got != 11 {
		t.Fatalf("%d tables have rows before the purge, want all but those of the sessions and the outbox: 11", got)
	}
	if n, next := a.purge(10); n != 3 || !next.IsZero() {
		t.Errorf("purge: got %d runs, next at %v, want 3 and none", n, next)
	}
	if diff := cmp.Diff(map[string]int64{"counters": 1}, a.rows()); diff != "" {
		t.Errorf("rows (-want +got)\n%s", diff)
	}
}

func TestPurge_GivesTheSpaceBack(t *testing.T) {
	a := openAges(t)
	var runs []store.Create
	for range 300 {
		runs = append(runs, newRun(20_000))
	}
	a.finish(1, runs...)
	a.expire()
	before, _ := a.pages()
	for {
		n, next := a.purge(100)
		if n == 0 || next.IsZero() {
			break
		}
	}
	after, free := a.pages()
	if after > before/10 || free > after/spareShare {
		t.Errorf("pages: got %d, %d of them free, want at most a tenth of %d, and a quarter of them free", after, free, before)
	}
	check(t, a.Close())
	info, err := os.Stat(a.path)
	check(t, err)
	if info.Size() > 4096*before/10 {
		t.Errorf("size of the file: got %d bytes, want at most a tenth of %d pages", info.Size(), before)
	}
}

func TestPurge_KeepsTheFileFromGrowingForEver(t *testing.T) {
	a := openAges(t)
	var most int64
	for round := range 12 {
		var runs []store.Create
		for range 50 {
			runs = append(runs, newRun(3000))
		}
		a.finish(3, runs...)
		pages, _ := a.pages()
		if round < 2 {
			most = max(most, pages)
		} else if pages > most {
			t.Fatalf("round %d: the file has grown from %d to %d pages with as many runs as before", round, most, pages)
		}
		a.expire()
		a.purge(100)
	}
}

func TestPurge_StopsEarlyWhereLogsAreLong(t *testing.T) {
	a := openAges(t)
	a.finish(purgeFrames+1, newRun(10)) // the run exceeds the limit by itself
	a.clock.Advance(time.Second)
	a.finish(10, newRun(10))
	a.clock.Advance(time.Second)
	a.finish(purgeFrames, newRun(10), newRun(10))
	a.expire()
	for i, want := range []int{1, 1, 1, 1, 0} {
		n, next := a.purge(100)
		if n != want || next.IsZero() != (i >= 3) || next.After(a.clock.Now()) {
			t.Errorf("call %d: purged %d runs, next at %v, want %d", i, n, next, want)
		}
	}
}

func TestPurge_TakesNoMoreThanItsShareWithOneCall(t *testing.T) {
	a := openAges(t)
	var runs []store.Create
	for range chores + 1 {
		runs = append(runs, newRun(10))
	}
	a.finish(1, runs...)
	a.expire()
	if n, next := a.purge(1 << 40); n != chores || next.After(a.clock.Now()) {
		t.Errorf("purged %d runs, next at %v, want %d and at once", n, next, chores)
	}
	if n, next := a.purge(1 << 40); n != 1 || !next.IsZero() {
		t.Errorf("purged %d runs, next at %v, want 1 and none", n, next)
	}
}

// TestPurge_ForgetsARouteWithItsLastRun proves that a route is removed with its last run, and not
// before. Open, ended and deleted runs count. Other routes remain.
func TestPurge_ForgetsARouteWithItsLastRun(t *testing.T) {
	a := openAges(t)
	ctx := testContext(t)
	known := func() (n int64) {
		t.Helper()
		check(t, a.read(ctx, func(c *conn) (err error) {
			n, err = c.number(`SELECT count(*) FROM classes WHERE queue = 'left'`)
			return err
		}))
		return n
	}
	of := func(queue string) store.Create {
		c := newRun(10)
		c.Route.Queue = queue
		return c
	}
	ended, deleted := of("left"), of("left")
	a.finish(1, ended, of("other"))
	a.expire()
	a.finish(1, deleted)
	check(t, a.Delete(ctx, deleted.Run))
	if n, _ := a.purge(10); n != 2 || known() != 1 {
		t.Errorf("purged %d runs, and the route of the deleted one is known %d times: want 2 and 1", n, known())
	}
	open := of("left")
	_, err := a.Create(ctx, []store.Create{open})
	check(t, err)
	a.expire()
	if n, _ := a.purge(10); n != 1 || known() != 1 {
		t.Errorf("purged %d runs, and the route of the open one is known %d times: want 1 and 1", n, known())
	}
	claimed, err := a.Claim(ctx, store.Claim{Session: "a", Token: event.NewToken(), Routes: []store.Route{open.Route}, Max: 1})
	check(t, err)
	if len(claimed.Runs) != 1 {
		t.Fatalf("claimed %d runs, want 1", len(claimed.Runs))
	}
	r := claimed.Runs[0]
	_, err = a.Commit(ctx, []store.Commit{{
		Run: r.Run, Fence: r.Fence, Prev: r.Last, CommitID: event.NewCommitID(), Frame: []byte{1}, First: 2, Last: 2,
		Effect: store.EffectFinish, Status: event.StatusCompleted,
	}})
	check(t, err)
	a.expire()
	if n, _ := a.purge(10); n != 1 || known() != 0 {
		t.Errorf("purged %d runs, and their route is known %d times: want 1 and 0", n, known())
	}
	if _, err := a.Inspect(ctx); err != nil {
		t.Error(err)
	}
}

func TestOpen_ChoosesIncrementalVacuum(t *testing.T) {
	s := openTest(t)
	var mode int64
	check(t, s.read(testContext(t), func(c *conn) (err error) {
		mode, err = c.Pragma("auto_vacuum")
		return err
	}))
	if mode != 2 {
		t.Errorf("auto_vacuum: got %d, want 2 (incremental)", mode)
	}
}

func TestInspect_FindsRoutesWithoutRunsAndRunsWithoutRoutes(t *testing.T) {
	for name, damage := range map[string]string{
		"a route without runs":  `INSERT INTO classes (queue, workflow, wake, blocks) VALUES ('q', 'w', 0, 0)`,
		"a run without a route": `DELETE FROM classes`,
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t)
			_, err := s.Create(testContext(t), []store.Create{newRun(10)})
			check(t, err)
			check(t, s.write(testContext(t), func(tx *tx) error { return tx.ExecOnce(damage) }))
			if _, err := s.Inspect(testContext(t)); !errors.Is(err, errDamaged) {
				t.Errorf("inspect: got error %v, want that the database is damaged", err)
			}
		})
	}
}
