package sqlitestore

import (
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestDeliver_FindsTheLastRunThoughOneBetweenIsPurged(t *testing.T) {
	a := openAges(t)
	first := a.own(newRun(10))
	between := first.continueAs(time.Minute)
	last := between.continueAs(0)
	a.clock.Advance(store.Horizon)
	if n, _ := a.purge(10); n != 1 {
		t.Fatalf("purged %d runs, want the one between", n)
	}
	got, err := a.Deliver(testContext(t), store.Deliver{Run: first.run.Run, Item: store.Item{ID: "hello"}})
	check(t, err)
	if got != last.run.Run {
		t.Errorf("accepted by %s, want the last run %s", got, last.run.Run)
	}
}

func TestPurge_ReleasesTheFirstRunOfAChainWithItsLast(t *testing.T) {
	a := openAges(t)
	ctx := testContext(t)
	c := newRun(10)
	c.WorkflowID, c.Retention, c.CreatedBy = "order-1", time.Minute, "creator"
	first := a.own(c)
	_, err := a.Deliver(ctx, store.Deliver{Run: c.Run, Item: store.Item{ID: "hello"}, Keep: true})
	check(t, err)
	first.send("wrun_other", "record")
	last := first.continueAs(time.Hour)
	check(t, a.CloseSession(ctx, 0, "a"))
	check(t, a.OpenSession(ctx, store.Session{ID: "a", TTL: 24 * time.Hour}))
	last = a.claimed(last.run.Run)
	end := last.next()
	end.Effect, end.Status, end.Consume, end.ConsumeLast = store.EffectFinish, event.StatusCompleted, 1, "hello"
	last.commit(end)
	a.clock.Advance(time.Hour)
	for what, do := range map[string]func() error{
		"its creation is not confirmed": func() error { return a.Confirm(ctx, c.Run, "creator") },
		"it remembers an item":          func() error { return a.Confirm(ctx, c.Run, "hello") },
		"it has a record in the outbox": func() error {
			var marks []store.Mark
			for _, phase := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
				marks = append(marks, store.Mark{From: c.Run, ID: "record", Phase: phase})
			}
			return a.Mark(ctx, 0, marks)
		},
	} {
		n, next := a.purge(10)
		if n > 1 || !next.IsZero() { // the last run is never held back
			t.Errorf("while %s: purged %d runs, next at %v", what, n, next)
		}
		check(t, do())
	}
	if n, next := a.purge(10); n != 1 || !next.IsZero() {
		t.Errorf("purged %d runs, next at %v, want the first of the chain and none", n, next)
	}
	check(t, a.CloseSession(ctx, 0, "a"))
	if rows := a.rows(); len(rows) != 1 {
		t.Errorf("rows: got %v, want only the counters", rows)
	}
}

func TestPurge_TakesAChainWithOneCallOnceItsLastRunIsDue(t *testing.T) {
	a := openAges(t)
	h := a.own(newRun(10))
	for range 3 {
		h = h.continueAs(0)
	}
	h.end()
	a.expire()
	if n, next := a.purge(10); n != 4 || !next.IsZero() {
		t.Errorf("purged %d runs, next at %v, want 4 and none", n, next)
	}
}

func TestCommit_DoesNotContinueAsNothing(t *testing.T) {
	a := openAges(t)
	h, other := a.own(newRun(10)), newRun(10)
	_, err := a.Create(testContext(t), []store.Create{other})
	check(t, err)
	c := h.next()
	c.Effect = store.EffectContinue
	if _, err := a.Commit(testContext(t), []store.Commit{c}); err == nil {
		t.Error("commit without a new run: got no error")
	}
	foreign := newRun(10)
	foreign.WorkflowID = "order-1"
	c.Continue = &foreign
	if _, err := a.Commit(testContext(t), []store.Commit{c}); err == nil {
		t.Error("commit that changes the workflow id: got no error")
	}
	c.Continue = &other
	got, err := a.Commit(testContext(t), []store.Commit{c})
	check(t, err)
	if !errors.As(got[0].Err, new(*store.ConflictError)) {
		t.Errorf("commit that continues as a run that is there: got error %v, want a conflict", got[0].Err)
	}
	h.end() // the refused commit must not have changed the run
}

func TestInspect_FindsARunWhosePurgeIsSetWrongly(t *testing.T) {
	for name, damage := range map[string]string{
		"never":     `UPDATE runs SET purge = NULL`,
		"too early": `UPDATE runs SET purge = purge - 1`,
		"needed":    `UPDATE runs SET created_by = 'birth'`,
		"not ended": `UPDATE runs SET place = 3`,
	} {
		t.Run(name, func(t *testing.T) {
			a := openAges(t)
			a.own(newRun(10)).end()
			check(t, a.write(testContext(t), func(tx *tx) error { return tx.ExecOnce(damage) }))
			if _, err := a.Inspect(testContext(t)); !errors.Is(err, errDamaged) {
				t.Errorf("inspect: got error %v, want that the database is damaged", err)
			}
		})
	}
}

func TestCommit_DoesNotContinueARunThatIsNotTheActiveOne(t *testing.T) {
	a := openAges(t)
	c, successor := newRun(10), newRun(10)
	c.WorkflowID, successor.WorkflowID = "order-1", "order-1"
	h, other := a.own(c), a.own(newRun(10))
	check(t, a.write(testContext(t), func(tx *tx) error {
		return tx.exec(`UPDATE workflow_ids SET active = (SELECT key FROM runs WHERE id = ?)`, other.run.Run)
	}))
	end := h.next()
	end.Effect, end.Continue = store.EffectContinue, &successor
	got, err := a.Commit(testContext(t), []store.Commit{end})
	check(t, err)
	if !errors.As(got[0].Err, new(*store.ConflictError)) {
		t.Errorf("commit: got error %v, want a conflict", got[0].Err)
	}
	loaded, err := a.Load(testContext(t), []store.Load{{Run: successor.Run}})
	check(t, err)
	if !errors.Is(loaded[0].Err, store.ErrRunNotFound) {
		t.Errorf("the new run: got error %v, want that it is not there", loaded[0].Err)
	}
}
