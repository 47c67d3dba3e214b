package sqlitestore

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// rotten is a test case of a repair. In the statements that damage the file, ?1 is the run of the
// scene and ?2 its other run.
type rotten struct {
	scene  func(w *repairtest.World) *repairtest.Scene
	damage []string
	want   repairtest.Want
}

func (r rotten) repairs(t *testing.T) {
	t.Helper()
	t.Parallel()
	r.repairsWith(t, func(*repairtest.World, *repairtest.Scene) {})
}

// repairsWith is like repairs, but also calls more to damage the file.
func (r rotten) repairsWith(t *testing.T, more func(w *repairtest.World, s *repairtest.Scene)) {
	t.Helper()
	clock := storetest.NewClock()
	path := filepath.Join(t.TempDir(), "runs.db")
	st, err := OpenWith(path, Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	w := repairtest.New(t, st, clock)
	raw, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := raw.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &conn{Conn: db.New(raw)}
	c.SetBusyTimeout(10 * time.Second)
	w.Dump = func() any { return dump(t, c) }
	s := r.scene(w)
	w.Repairs(s, func() {
		for _, statement := range r.damage {
			if err := c.damage(statement, s); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		more(w, s)
	}, r.want)
}

// damage executes a statement. It returns an error if the statement changes no row.
func (c *conn) damage(statement string, s *repairtest.Scene) error {
	st, _, err := c.PrepareTransient(statement)
	if err != nil {
		return err
	}
	for n, id := range []event.RunID{s.Run, s.Other}[:st.BindParamCount()] {
		db.BindRun(st, n+1, id)
	}
	err = errors.Join(db.Step(st, nil, nil), st.Finalize())
	if err == nil && c.Changes() == 0 {
		err = errors.New("it changes nothing")
	}
	return err
}

// dump returns every row of every table.
func dump(t *testing.T, c *conn) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := c.query(`SELECT name FROM sqlite_schema WHERE type = 'table'`, func(r row) error {
		all[r.ColumnText(0)] = nil
		return nil
	})
	for table := range all {
		//nolint:unqueryvet // every column, whatever there is
		err = errors.Join(err, c.QueryOnce(`SELECT * FROM `+table, func(r row) error {
			line := ""
			for n := range r.ColumnCount() {
				line += fmt.Sprintf("%s=%q ", r.ColumnName(n), blob(r, n))
			}
			all[table] = append(all[table], line)
			return nil
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sleeps(w *repairtest.World) *repairtest.Scene { return w.Sleeping(repairtest.Long("a")...) }

// streaming returns a scene with a run that has written to streams and was released by its owner.
func streaming(w *repairtest.World) *repairtest.Scene {
	w.T.Helper()
	s := w.Owned(w.Sleeping())
	var chunks []store.Publication
	for n := range uint64(5) {
		chunks = append(chunks, store.Publication{Stream: "a", Body: []byte("chunk"), Writer: "w", Nth: n + 1})
	}
	chunks = append(chunks, store.Publication{Stream: "b", Body: []byte("chunk")})
	if err := w.Store.Publish(w.Ctx, s.Run, w.Record(s.Run).Fence, chunks); err != nil {
		w.T.Fatal(err)
	}
	if err := w.Store.CloseSession(w.Ctx, 0, s.Session); err != nil {
		w.T.Fatal(err)
	}
	return s
}

func unread(w *repairtest.World) *repairtest.Scene   { return w.Unread() }
func owned(w *repairtest.World) *repairtest.Scene    { return w.Owned(w.Sleeping()) }
func blocked(w *repairtest.World) *repairtest.Scene  { return w.Blocked(w.Sleeping()) }
func complete(w *repairtest.World) *repairtest.Scene { return w.Completed(repairtest.Long("a")...) }
func queued(w *repairtest.World) *repairtest.Scene   { return w.Queued("a") }

// revived resets an ended run to the state before its end.
const revived = `UPDATE runs SET place = 3, status = 'running', ended = NULL, purge = NULL WHERE id = ?1`

// lostTimer clears the due time of a run.
const lostTimer = `UPDATE runs SET due = NULL WHERE id = ?1`

func TestREC3_Timeout(t *testing.T) {
	rotten{func(w *repairtest.World) *repairtest.Scene {
		s := w.Sleeping() // the run is retained for longer than the clock advances
		w.Clock.Advance(2 * time.Hour)
		return s
	}, []string{lostTimer}, repairtest.Want{Invariants: []int{7}, Reason: store.ReasonTimeout}}.repairs(t)
}

func TestREC3_TimeoutOfTheRun(t *testing.T) {
	rotten{func(w *repairtest.World) *repairtest.Scene {
		s := w.Sleeping(workflow.WithRunTimeout(30 * time.Minute))
		s.Want = "failed"
		w.Clock.Advance(2 * time.Hour)
		return s
	}, []string{lostTimer}, repairtest.Want{Invariants: []int{7}, Reason: store.ReasonTimeout}}.repairs(t)
}

func TestREC3_StuckCreated(t *testing.T) {
	rotten{func(w *repairtest.World) *repairtest.Scene { return w.Created() }, []string{`UPDATE runs SET place = 0, ord = NULL WHERE id = ?1`},
		repairtest.Want{Invariants: []int{5}, Reason: store.ReasonStuckCreated}}.repairs(t)
}

func TestREC3_StuckCompleted(t *testing.T) {
	rotten{complete, []string{revived, `UPDATE workflow_ids SET active = last, last = NULL`},
		repairtest.Want{Invariants: []int{4, 22}, Reason: store.ReasonStuckCompleted}}.repairs(t)
}

func TestREC3_StuckFailed(t *testing.T) {
	rotten{(*repairtest.World).Failed, []string{revived}, repairtest.Want{Invariants: []int{4, 22}, Reason: store.ReasonStuckFailed}}.repairs(t)
}

func TestREC3_StuckTerminal(t *testing.T) {
	rotten{(*repairtest.World).Canceled, []string{revived}, repairtest.Want{Invariants: []int{4, 22}, Reason: store.ReasonStuckTerminal}}.repairs(t)
	t.Run("timed", func(t *testing.T) {
		rotten{complete, []string{`UPDATE runs SET due = 1 WHERE id = ?1`}, repairtest.Want{Invariants: []int{8}, Reason: store.ReasonStuckTerminal}}.repairs(t)
	})
}

func TestREC3_NoClaim(t *testing.T) {
	rotten{owned, []string{`DELETE FROM sessions`}, repairtest.Want{Invariants: []int{5, 6}, Reason: store.ReasonNoClaim}}.repairs(t)
}

func TestREC3_StuckRunning(t *testing.T) {
	rotten{unread, []string{`UPDATE runs SET place = 3, ord = NULL WHERE id = ?1`},
		repairtest.Want{Invariants: []int{7}, Reason: store.ReasonStuckRunning}}.repairs(t)
}

func TestREC3_RetryAfterFailure(t *testing.T) {
	rotten{(*repairtest.World).Retrying, []string{lostTimer}, repairtest.Want{Invariants: []int{7}, Reason: store.ReasonRetryAfterFailure}}.repairs(t)
}

// TestREC8_RepairsWhatLostRowsLeave removes each row of each table once, and proves that a repair
// restores a consistent store.
func TestREC8_RepairsWhatLostRowsLeave(t *testing.T) {
	repairtest.Each(t, map[string]rotten{
		"counters":     {unread, []string{`DELETE FROM counters`}, repairtest.Want{Invariants: []int{5}}},
		"routes":       {sleeps, []string{`DELETE FROM classes`}, repairtest.Want{Invariants: []int{4}, Reason: store.ReasonWrongRecord}},
		"workflow_ids": {sleeps, []string{`DELETE FROM workflow_ids`}, repairtest.Want{Invariants: []int{4}, Reason: store.ReasonWrongRecord}},
		"runs": {func(w *repairtest.World) *repairtest.Scene { return w.Completed() }, []string{`DELETE FROM runs WHERE id = ?1`},
			repairtest.Want{Invariants: []int{16, 22}, Remaining: []int{16}, Stays: true}},
		"tags":  {sleeps, []string{`DELETE FROM tags`}, repairtest.Want{Invariants: []int{4}, Reason: store.ReasonWrongRecord}},
		"inbox": {unread, []string{`DELETE FROM inbox`}, repairtest.Want{Invariants: []int{10}, Reason: store.ReasonWrongRecord, Stays: true}},
		"seen":  {unread, []string{`DELETE FROM seen`}, repairtest.Want{Invariants: []int{10}, Reason: store.ReasonWrongRecord}},
		"audit": {func(w *repairtest.World) *repairtest.Scene {
			s := owned(w)
			if err := w.Store.CloseSession(w.Ctx, 0, s.Session); err != nil {
				w.T.Fatal(err)
			}
			return s
		}, []string{`DELETE FROM audit`, `UPDATE runs SET recoveries = 2`}, repairtest.Want{Invariants: []int{17}, Reason: store.ReasonWrongRecord}},
		"streams":           {streaming, []string{`DELETE FROM streams`}, repairtest.Want{Invariants: []int{16}}},
		"all chunks":        {streaming, []string{`DELETE FROM chunks`}, repairtest.Want{Invariants: []int{18}}},
		"the first chunk":   {streaming, []string{`DELETE FROM chunks WHERE n = 1`}, repairtest.Want{Invariants: []int{18}}},
		"the last chunk":    {streaming, []string{`DELETE FROM chunks WHERE n = 5`}, repairtest.Want{Invariants: []int{18}}},
		"chunks in between": {streaming, []string{`DELETE FROM chunks WHERE n IN (2, 4)`}, repairtest.Want{Invariants: []int{18}}},
		"writers":           {streaming, []string{`DELETE FROM writers`}, repairtest.Want{}},
		"the last frame": {sleeps, []string{`DELETE FROM frames WHERE n = (SELECT max(n) FROM frames)`},
			repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
		"a frame in the middle": {unread, []string{`DELETE FROM frames WHERE n = 2`},
			repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
		"a frame of a run that has ended": {complete, []string{`DELETE FROM frames WHERE n = 1`},
			repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Stays: true}},
		"all frames": {sleeps, []string{`DELETE FROM frames`},
			repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
	}, func(t *testing.T, r rotten) { r.repairs(t) })
}

func TestREC8_RepairsWhatIsKeptOfARun(t *testing.T) {
	wrong := func(invariant int, reason store.Reason) repairtest.Want {
		return repairtest.Want{Invariants: []int{invariant}, Reason: reason}
	}
	repairtest.Each(t, map[string]rotten{
		"1 the log is ahead":           {sleeps, []string{`UPDATE runs SET n = n - 1, seq = seq - 2, last = zeroblob(16)`}, wrong(1, store.ReasonStuckRunning)},
		"1 a frame is damaged":         {sleeps, []string{`UPDATE frames SET data = x'00' WHERE n = 1`}, repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
		"2 the epoch was given before": {sleeps, []string{`UPDATE runs SET epoch = 0`}, wrong(2, store.ReasonStuckRunning)},
		"4 it has ended before its log": {sleeps, []string{`UPDATE runs SET place = 6, due = NULL, ended = created, purge = created + 3600001, status = 'completed'`},
			repairtest.Want{Invariants: []int{4, 9, 22}, Reason: store.ReasonStuckRunning}},
		"4 the status":              {sleeps, []string{`UPDATE runs SET status = 'failed'`}, repairtest.Want{Invariants: []int{4, 22}, Reason: store.ReasonWrongRecord}},
		"4 the tags cannot be read": {sleeps, []string{`UPDATE runs SET tags = '{'`}, wrong(4, store.ReasonWrongRecord)},
		"4 the tags of an owned run": {func(w *repairtest.World) *repairtest.Scene { return w.Owned(sleeps(w)) }, []string{`UPDATE runs SET tags = replace(tags, '"name":"a"', '"name":"b"') WHERE id = ?1 AND tags LIKE '%"name":"a"%'`},
			repairtest.Want{Invariants: []int{4}, Reason: store.ReasonWrongRecord}},
		"4 the root of an owned run": {owned, []string{`UPDATE runs SET root = 'wrun_x'`}, repairtest.Want{Invariants: []int{4}, Reason: store.ReasonWrongRecord}},
		"4 the retention":            {complete, []string{`UPDATE runs SET retention = 1, purge = ended + 120000`}, wrong(4, store.ReasonStuckTerminal)},
		"1 the sequence is wrong": {sleeps, []string{`UPDATE runs SET seq = seq + 1, last = zeroblob(16)`},
			repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
		"5 a place that does not exist":  {sleeps, []string{`UPDATE runs SET place = 9, due = NULL`}, wrong(5, store.ReasonStuckRunning)},
		"7 a due time is forgotten":      {sleeps, []string{lostTimer}, wrong(7, store.ReasonStuckRunning)},
		"8 a living run is deleted":      {sleeps, []string{`UPDATE runs SET hidden = 1`}, wrong(8, store.ReasonWrongRecord)},
		"5 a token without an owner":     {sleeps, []string{`UPDATE runs SET token = x'0102030405060708'`}, wrong(5, store.ReasonWrongRecord)},
		"5 an owned run has no token":    {owned, []string{`UPDATE runs SET token = NULL`}, repairtest.Want{Invariants: []int{5}, Reason: store.ReasonNoClaim}},
		"6 an inbox is not counted":      {func(w *repairtest.World) *repairtest.Scene { return w.Owned(w.Unread()) }, []string{`UPDATE runs SET inbox = 0`}, repairtest.Want{Invariants: []int{6, 10}, Reason: store.ReasonWrongRecord}},
		"7 a due time is wrong":          {sleeps, []string{`UPDATE runs SET due = due + 60000`}, wrong(7, store.ReasonStuckRunning)},
		"7 a blocked run is timed":       {blocked, []string{`UPDATE runs SET due = 1`}, wrong(7, store.ReasonWrongRecord)},
		"8 it is never purged":           {complete, []string{`UPDATE runs SET purge = NULL`}, wrong(8, store.ReasonStuckTerminal)},
		"8 a living run is to be purged": {sleeps, []string{`UPDATE runs SET purge = 1`}, wrong(8, store.ReasonWrongRecord)},
		"10 an inbox counts too many":    {unread, []string{`UPDATE runs SET inbox = 2`}, wrong(10, store.ReasonWrongRecord)},
		"10 an item is read and unread": {unread, []string{
			`INSERT INTO inbox SELECT run, seq - 1, (SELECT id FROM seen ORDER BY at, id <> (SELECT min(id) FROM inbox) LIMIT 1), 0, body FROM inbox`,
			`UPDATE inbox SET id = (SELECT id FROM seen WHERE id NOT IN (SELECT i.id FROM inbox i WHERE i.seq = (SELECT max(seq) FROM inbox))) WHERE seq = (SELECT min(seq) FROM inbox)`,
			`UPDATE runs SET inbox = 2`,
		}, wrong(10, store.ReasonWrongRecord)},
		"15 it is not announced":         {unread, []string{`UPDATE classes SET wake = 0`}, wrong(15, store.ReasonStuckRunning)},
		"17 recoveries that nobody made": {sleeps, []string{`UPDATE runs SET recoveries = 4`}, wrong(17, store.ReasonWrongRecord)},
	}, func(t *testing.T, r rotten) { r.repairs(t) })
}

func TestREC8_RepairsWhatLeadsToARun(t *testing.T) {
	repairtest.Each(t, map[string]rotten{
		"9 the active run is forgotten": {sleeps, []string{`UPDATE workflow_ids SET active = NULL`}, repairtest.Want{Invariants: []int{9}, Reason: store.ReasonWrongRecord}},
		"9 the active run is not there": {sleeps, []string{`UPDATE workflow_ids SET active = 99, last = 99`}, repairtest.Want{Invariants: []int{9}, Reason: store.ReasonWrongRecord}},
		"9 a line has no active run":    {queued, []string{`UPDATE workflow_ids SET active = NULL`}, repairtest.Want{Invariants: []int{9}, Reason: store.ReasonWrongRecord}},
		"9 a run has left the line":     {queued, []string{`UPDATE runs SET place = 1 WHERE id = ?2 AND ?1 <> ''`}, repairtest.Want{Invariants: []int{9, 15}}},
		"9 an ended run is active":      {complete, []string{`UPDATE workflow_ids SET active = last`}, repairtest.Want{Invariants: []int{9}, Reason: store.ReasonWrongRecord}},
		"16 a chain without runs":       {complete, []string{`INSERT INTO seen VALUES ('wrun_x', 'item', 1, 0)`}, repairtest.Want{Invariants: []int{16}}},
		"16 streams of a chain without runs": {complete, []string{
			`INSERT INTO streams VALUES (99, 'wrun_x', x'61', 1, 1, 0)`, `INSERT INTO chunks VALUES (99, 1, x'61')`, `INSERT INTO writers VALUES (99, x'61', 1)`,
		}, repairtest.Want{Invariants: []int{16}}},
		"16 chunks and writers of no stream": {complete, []string{`INSERT INTO chunks VALUES (99, 1, x'61')`, `INSERT INTO writers VALUES (98, x'61', 1)`},
			repairtest.Want{Invariants: []int{16}}},
		"18 a stream counts too few":    {streaming, []string{`UPDATE streams SET last = last - 1`}, repairtest.Want{Invariants: []int{18}}},
		"22 runs are miscounted":        {complete, []string{`UPDATE tallies SET n = 7`}, repairtest.Want{Invariants: []int{22}}},
		"22 runs are not counted":       {complete, []string{`DELETE FROM tallies`}, repairtest.Want{Invariants: []int{22}}},
		"22 what is not there counts":   {complete, []string{`INSERT INTO tallies VALUES (99, 0, 'failed', 1)`}, repairtest.Want{Invariants: []int{22}}},
		"22 a tag has another time":     {sleeps, []string{`UPDATE tags SET created = created + 1`}, repairtest.Want{Invariants: []int{22}}},
		"23 nothing is kept of a group": {sleeps, []string{`UPDATE runs SET failure_group = 'f1-0a'`}, repairtest.Want{Invariants: []int{23}}},
		"23 a completed run is in a group": {complete, []string{`UPDATE runs SET failure_group = 'f1-0a' WHERE id = ?1`, `INSERT INTO failure_groups VALUES ('f1-0a', 'failed', 'w', '', '', 1, 1, 1)`},
			repairtest.Want{Invariants: []int{23}, Reason: store.ReasonStuckTerminal}},
		"16 a route has no runs":       {complete, []string{`INSERT INTO classes VALUES (99, 'q', 'w', 1, 0)`}, repairtest.Want{Invariants: []int{16}}},
		"16 a workflow id has no runs": {complete, []string{`INSERT INTO workflow_ids VALUES (99, 'x', NULL, NULL)`}, repairtest.Want{Invariants: []int{16}}},
		"16 rows of a run that is not known": {complete, []string{
			`INSERT INTO inbox VALUES (99, 1, 'i', 0, NULL)`, `INSERT INTO notes VALUES (99, 'k', NULL)`, `INSERT INTO tags VALUES ('k', 'v', 99, 0)`,
			`INSERT INTO audit (at, run, reason, by, owner, place, status, epoch) VALUES (1, 99, 'r', 'b', 'o', 1, 's', 1)`,
		}, repairtest.Want{Invariants: []int{16}}},
	}, func(t *testing.T, r rotten) { r.repairs(t) })
}

func TestREC8_LeavesAStoreAloneThatIsAtWork(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	st, err := OpenWith(filepath.Join(t.TempDir(), "runs.db"), Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	repairtest.New(t, st, clock).Lives(10)
}

func TestREC8_ActsOnNothingThatHasMovedOn(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	st, err := OpenWith(filepath.Join(t.TempDir(), "runs.db"), Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	repairtest.New(t, st, clock).Refuses()
}
