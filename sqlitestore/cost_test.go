package sqlitestore

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestOperations_ExecuteFewStatements counts what one operation executes, with the three
// statements of the transaction that it is alone in: begin, who else has written, and
// commit. No operation may need more than it did.
func TestOperations_ExecuteFewStatements(t *testing.T) {
	s := openTest(t)
	ctx := testContext(t)
	session := store.Session{ID: "session", TTL: time.Hour, Routes: []store.Route{route}}
	check(t, s.OpenSession(ctx, session))
	got := map[string]int64{}
	count := func(what string, do func()) {
		t.Helper()
		before := s.writer.c.executed.Load()
		do()
		got[what] = s.writer.c.executed.Load() - before
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
		"create": 16, "claim": 12, "usual commit": 6, "commit with a status": 6, "deliver to its owner": 11, "consume": 8, "send": 7,
		"mark": 9, "publish": 10, "park": 8, "deliver to a parked run": 12, "release": 8, "finish": 11,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
}

// TestLimitedRuns_ExecuteFewStatements counts as [TestOperations_ExecuteFewStatements] does,
// for runs that use one limit, while 1, 10 and 1,000 others wait in the same line: it is the
// same. That no statement reads more for them is in TestStatements_ReadNoLineToItsEnd.
func TestLimitedRuns_ExecuteFewStatements(t *testing.T) {
	want := map[string]int64{"claim": 24, "claim in vain": 16, "finish, and call the next": 18, "claim of the one that was called": 26}
	for _, waiting := range []int{1, 10, 1000} {
		s := openTest(t)
		ctx := testContext(t)
		check(t, s.SetLimits(ctx, 0, []store.SetLimit{{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}}}))
		session := store.Session{ID: "session", TTL: time.Hour, Routes: []store.Route{route}}
		check(t, s.OpenSession(ctx, session))
		var creates []store.Create
		for range waiting + 2 {
			c := newRun(100)
			c.Uses = []store.Use{{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}}
			creates = append(creates, c)
		}
		_, err := s.Create(ctx, creates)
		check(t, err)
		got := map[string]int64{}
		var claimed store.Claimed
		claim := func() {
			claimed, err = s.Claim(ctx, store.Claim{Session: session.ID, Token: event.NewToken(), Routes: session.Routes, Max: 1})
			check(t, err)
		}
		finish := func() {
			r := claimed.Runs[0]
			answers, err := s.Commit(ctx, []store.Commit{{
				Run: r.Run, Fence: r.Fence, Prev: r.Last, CommitID: event.NewCommitID(), Frame: []byte{1}, First: 2, Last: 2,
				Effect: store.EffectFinish, Status: event.StatusCompleted,
			}})
			check(t, err)
			check(t, answers[0].Err)
		}
		count := func(what string, do func()) {
			before := s.writer.c.executed.Load()
			do()
			got[what] = s.writer.c.executed.Load() - before
		}
		count("claim", claim)
		held := claimed
		count("claim in vain", claim)
		claimed = held
		count("finish, and call the next", finish)
		count("claim of the one that was called", claim)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("statements while %d wait (-want +got):\n%s", waiting, diff)
		}
	}
}

// What is found of a line is found by an index, in order: however many wait, no statement
// reads more of them than it needs.
func TestStatements_ReadNoLineToItsEnd(t *testing.T) {
	s := openTest(t)
	for _, query := range []string{firstLine, firstWaiting, firstShut, firstKept, nestedShut, dueLines} {
		check(t, s.write(testContext(t), func(tx *tx) error {
			return tx.queryOnce("EXPLAIN QUERY PLAN "+query, func(r row) error {
				if step := r.ColumnText(3); strings.Contains(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
					t.Errorf("%s\nsteps: %s", query, step)
				}
				return nil
			})
		}))
	}
}

// A run that is moved to another page keeps its turn: its line knows its new key.
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
