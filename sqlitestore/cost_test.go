package sqlitestore

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestOperations_ExecuteFewStatements checks the number of statements of each operation. It
// includes the three statements of the transaction: begin, the check for other writers, and commit.
// A transaction updates the tally of a route and status once, however many runs end in it.
func TestOperations_ExecuteFewStatements(t *testing.T) {
	s := openTest(t)
	ctx := testContext(t)
	session := store.Session{ID: "session", TTL: time.Hour, Routes: []store.Route{route}}
	check(t, s.OpenSession(ctx, session))
	got := map[string]int64{}
	count := func(what string, do func()) {
		t.Helper()
		before := s.writer.c.Executed.Load()
		do()
		got[what] = s.writer.c.Executed.Load() - before
	}
	create := newRun(100)
	create.WorkflowID = "order-1"
	count("create", func() {
		answers, err := s.Create(ctx, []store.Create{create})
		check(t, err)
		check(t, answers[0].Err)
	})
	c := store.Commit{Run: create.Run, WorkflowID: "order-1", Prev: create.CommitID, CommitID: create.CommitID, Last: 1}
	claim := func() {
		claimed, err := s.Claim(ctx, store.Claim{Session: session.ID, Token: event.NewToken(), Routes: session.Routes, Max: 1})
		check(t, err)
		c.Fence = claimed.Runs[0].Fence
	}
	commit := func(change func(c *store.Commit)) func() {
		return func() {
			c.Prev, c.CommitID, c.Frame, c.First, c.Last = c.CommitID, event.NewCommitID(), []byte{1}, c.Last+1, c.Last+1
			asked := c
			change(&asked)
			answers, err := s.Commit(ctx, []store.Commit{asked})
			check(t, err)
			check(t, answers[0].Err)
		}
	}
	deliver := func(id event.ItemID) func() {
		return func() {
			_, err := s.Deliver(ctx, store.Deliver{Run: create.Run, Item: store.Item{ID: id}})
			check(t, err)
		}
	}
	count("claim", claim)
	count("usual commit", commit(func(*store.Commit) {}))
	count("commit with a status", commit(func(c *store.Commit) { c.Status = event.StatusRunning }))
	count("deliver to its owner", deliver("one"))
	count("consume", commit(func(c *store.Commit) { c.Consume, c.ConsumeLast = 1, "one" }))
	count("send", commit(func(c *store.Commit) { c.Send = []store.Send{{ID: "sent", To: create.Run}} }))
	count("mark", func() {
		check(t, s.Mark(ctx, 0, []store.Mark{{From: create.Run, ID: "sent", Phase: store.PhaseFresh}}))
	})
	count("publish", commit(func(c *store.Commit) { c.Publish = []store.Publication{{Stream: "s", Body: []byte("x")}} }))
	count("park", commit(func(c *store.Commit) { c.Effect, c.Due = store.EffectPark, time.Now().Add(time.Hour) }))
	count("deliver to a parked run", deliver("two"))
	claim()
	count("release", func() { check(t, s.Release(ctx, create.Run, c.Fence)) })
	claim()
	count("finish", commit(func(c *store.Commit) {
		c.Effect, c.Status, c.Consume, c.ConsumeLast = store.EffectFinish, event.StatusCompleted, 1, "two"
	}))
	want := map[string]int64{
		"create": 15, "claim": 12, "usual commit": 6, "commit with a status": 6, "deliver to its owner": 11, "consume": 8, "send": 8,
		"mark": 9, "publish": 10, "park": 8, "deliver to a parked run": 12, "release": 8, "finish": 13,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
}

// TestOperations_WriteFewPages checks how many pages a commit adds to the write-ahead log. Each
// page costs two writes, and a checkpoint writes it once more. SQLite writes only the pages of
// changed tables and indexes; in this test each table and index has one page.
func TestOperations_WriteFewPages(t *testing.T) {
	c := newCountedRuns(t)
	pages := func() int64 {
		info, err := os.Stat(c.s.wal)
		check(t, err)
		return (info.Size() - 32) / (24 + 4096)
	}
	got := map[string]int64{}
	written := func(what string, do func()) {
		before := pages()
		do()
		got[what] = pages() - before
	}
	c.create(1, func(int, *store.Create) {}) // creates the route and the first page of each table
	c.claim()
	c.finish()
	written("create with an owner", func() {
		create := newRun(100)
		create.Owner = &store.Owner{Session: c.session.ID, Token: event.NewToken()}
		answers, err := c.s.Create(testContext(t), []store.Create{create})
		check(t, err)
		check(t, answers[0].Err)
		c.held = append(c.held, store.ClaimedRun{Run: create.Run, Fence: answers[0].Fence, N: 1, Last: create.CommitID, Seq: 1})
	})
	written("finish", c.finish)
	// A create writes the table of runs, its index by ID, the frames, and the indexes by owner, by
	// creation and by class. The end of a run writes the table of runs, the frames, the indexes by
	// owner, class and purge, and the tally.
	if diff := cmp.Diff(map[string]int64{"create with an owner": 6, "finish": 6}, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

// countedRuns is a store with a session. It counts the statements of operations on runs.
type countedRuns struct {
	*testing.T

	s       *Store
	session store.Session
	held    []store.ClaimedRun
	inbox   map[event.RunID][]store.Item
	got     map[string]int64
}

func newCountedRuns(t *testing.T) *countedRuns {
	c := &countedRuns{
		T: t, s: openTest(t), session: store.Session{ID: "session", TTL: time.Hour, Routes: []store.Route{route}},
		inbox: map[event.RunID][]store.Item{}, got: map[string]int64{},
	}
	check(t, c.s.OpenSession(testContext(t), c.session))
	return c
}

func (c *countedRuns) count(what string, do func()) {
	before := c.s.writer.c.Executed.Load()
	do()
	c.got[what] = c.s.writer.c.Executed.Load() - before
}

func (c *countedRuns) create(n int, change func(n int, c *store.Create)) {
	c.Helper()
	creates := make([]store.Create, n)
	for i := range creates {
		creates[i] = newRun(100)
		change(i, &creates[i])
	}
	answers, err := c.s.Create(testContext(c.T), creates)
	check(c.T, err)
	for i, a := range answers {
		check(c.T, a.Err)
		c.inbox[a.Run] = append(c.inbox[a.Run], creates[i].Items...)
	}
}

// claim claims at most one run.
func (c *countedRuns) claim() {
	c.Helper()
	claimed, err := c.s.Claim(testContext(c.T), store.Claim{Session: c.session.ID, Token: event.NewToken(), Routes: c.session.Routes, Max: 1})
	check(c.T, err)
	c.held = append(c.held, claimed.Runs...)
}

// finish ends the first claimed run that has not ended.
func (c *countedRuns) finish() {
	c.Helper()
	r := c.held[0]
	c.held = c.held[1:]
	ends := store.Commit{
		Run: r.Run, Fence: r.Fence, Prev: r.Last, CommitID: event.NewCommitID(), Frame: []byte{1}, First: 2, Last: 2,
		Effect: store.EffectFinish, Status: event.StatusCompleted,
	}
	if items := c.inbox[r.Run]; len(items) > 0 {
		ends.Consume, ends.ConsumeLast = len(items), items[len(items)-1].ID
	}
	answers, err := c.s.Commit(testContext(c.T), []store.Commit{ends})
	check(c.T, err)
	check(c.T, answers[0].Err)
}

// wants fails the test unless the numbers of executed statements are as expected.
func (c *countedRuns) wants(when string, want map[string]int64) {
	c.Helper()
	if diff := cmp.Diff(want, c.got); diff != "" {
		c.Errorf("statements %s (-want +got):\n%s", when, diff)
	}
}

func usesGPU(_ int, c *store.Create) {
	c.Uses = []store.Use{{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}}
}

func (c *countedRuns) oneGPU() {
	check(c.T, c.s.SetLimits(testContext(c.T), 0, []store.SetLimit{{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}}}))
}

// TestLimitedRuns_ExecuteFewStatements checks that the number of statements for a run with one
// limit does not depend on the number of runs that wait in the same limiter queue.
// TestStatements_ReadNoLineToItsEnd proves that the statements read no more rows.
func TestLimitedRuns_ExecuteFewStatements(t *testing.T) {
	for _, waiting := range []int{1, 10, 1000} {
		c := newCountedRuns(t)
		c.oneGPU()
		c.create(waiting+2, usesGPU)
		c.count("claim", c.claim)
		c.count("claim in vain", c.claim)
		c.count("finish, and call the next", c.finish)
		c.count("claim of the one that was called", c.claim)
		c.wants(fmt.Sprintf("while %d wait", waiting), map[string]int64{
			"claim": 23, "claim in vain": 20, "finish, and call the next": 20, "claim of the one that was called": 27,
		})
	}
}

// TestUnlimitedRuns_ExecuteNoStatementMoreBesideLimits checks that runs without limits cost the
// same, however many other runs wait for limits.
func TestUnlimitedRuns_ExecuteNoStatementMoreBesideLimits(t *testing.T) {
	for _, limited := range []int{0, 1000} {
		c := newCountedRuns(t)
		c.create(1, func(int, *store.Create) {}) // registers its route
		c.claim()
		c.finish()
		if limited > 0 {
			c.oneGPU()
			c.create(limited, usesGPU)
			c.claim()
			c.claim() // all other runs now wait in the limiter queue
			c.held = nil
		}
		c.count("create", func() { c.create(1, func(int, *store.Create) {}) })
		c.count("claim", c.claim)
		c.count("finish", c.finish)
		c.wants(fmt.Sprintf("beside %d limited runs", limited), map[string]int64{"create": 9, "claim": 12, "finish": 8})
	}
}

// TestFairRuns_ExecuteFewStatements checks that the number of statements for a run with a fairness
// key does not depend on the number of waiting runs and keys.
func TestFairRuns_ExecuteFewStatements(t *testing.T) {
	for _, waiting := range []int{10, 1000} {
		fair := func(n int, c *store.Create) { c.Fair, c.Share = fmt.Sprint("tenant ", n), 1+n%3 }
		c := newCountedRuns(t)
		c.create(waiting, fair)
		c.count("create", func() { c.create(1, fair) })
		c.count("claim", c.claim)
		c.count("finish", c.finish)
		c.wants(fmt.Sprintf("while %d wait", waiting), map[string]int64{"create": 14, "claim": 14, "finish": 8})
	}
}

// TestGatheredRuns_ExecuteFewStatements checks that a start that joins a run executes no more
// statements than a start that creates one.
func TestGatheredRuns_ExecuteFewStatements(t *testing.T) {
	c := newCountedRuns(t)
	start := func() {
		c.create(1, func(_ int, create *store.Create) {
			create.Collect = &store.Collect{Key: "reports", Keep: true, Most: time.Hour, Full: 3}
			create.Items = []store.Item{{ID: event.NewItemID(), Body: []byte("input")}}
		})
	}
	c.count("the first start", start)
	c.count("a start that joins", start)
	c.count("the start that fills it", start)
	c.count("claim", c.claim)
	c.count("finish", c.finish)
	c.wants("of a batch", map[string]int64{"the first start": 17, "a start that joins": 14, "the start that fills it": 15, "claim": 12, "finish": 10})
}

// TestStatements_ReadNoLineToItsEnd proves that the statements find the runs of a limiter queue in
// the order of an index. So they read only the rows that they return.
func TestStatements_ReadNoLineToItsEnd(t *testing.T) {
	s := openTest(t)
	for _, query := range []string{firstQueue, firstWaiting, closedQueues, keptQueues, nestedClosed, dueQueues} {
		check(t, s.write(testContext(t), func(tx *tx) error {
			return tx.QueryOnce("EXPLAIN QUERY PLAN "+query, func(r row) error {
				if step := r.ColumnText(3); strings.Contains(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
					t.Errorf("%s\nsteps: %s", query, step)
				}
				return nil
			})
		}))
	}
}

// TestMoveRun_KeepsTheTurnOfAWaitingRun proves that a run keeps its position in its limiter queue
// when its row is moved to another page.
func TestMoveRun_KeepsTheTurnOfAWaitingRun(t *testing.T) {
	s := openTest(t)
	ctx := testContext(t)
	session := store.Session{ID: "session", TTL: time.Hour, Routes: []store.Route{route}}
	check(t, s.OpenSession(ctx, session))
	first, second := newRun(100), newRun(100)
	first.Uses = []store.Use{{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}}
	second.Uses = first.Uses
	_, err := s.Create(ctx, []store.Create{first, second})
	check(t, err)
	check(t, s.write(ctx, func(tx *tx) error {
		_, err := tx.moveRun(first.Run)
		return err
	}))
	claimed, err := s.Claim(ctx, store.Claim{Session: session.ID, Token: event.NewToken(), Routes: session.Routes, Max: 2})
	check(t, err)
	if len(claimed.Runs) != 2 || claimed.Runs[0].Run != first.Run {
		t.Errorf("claimed %+v, want the run that was moved, then the other", claimed.Runs)
	}
}
