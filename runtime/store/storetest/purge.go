package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// long is a retention that differs from the Horizon.
const long = time.Hour

// keep sets the retention of a run.
func keep(d time.Duration) func(*Log) { return func(l *Log) { l.Spec.Retention = d } }

// named gives a run a workflow ID.
func named(wid string) func(*Log) { return func(l *Log) { l.Spec.WorkflowID = wid } }

// ended creates a run and completes it.
func (h *harness) ended(change ...func(*Log)) *Log {
	h.Helper()
	l := h.newLog(orders, "")
	for _, f := range change {
		f(l)
	}
	if l.Spec.WorkflowID != "" {
		l.Run = h.ids.Run(h.clock.Now(), event.SlotOf(l.Spec.WorkflowID))
	}
	if got := h.create(l.Create()); !got.New {
		h.Fatalf("create run %s: got %+v, want a new run", l.Run, got)
	}
	h.finish(l, h.own(h.session(), l), event.StatusCompleted)
	return l
}

// gone fails the test unless a run is not found by any read.
func (h *harness) gone(run event.RunID) {
	h.Helper()
	answers, err := h.store.Load(h.ctx, []store.Load{{Run: run}})
	h.check("load", err)
	h.equal("load", answers, []store.Loaded{{Err: store.ErrRunNotFound}})
}

// purged purges and fails the test unless that removes want runs. It returns the time of the next
// purge.
func (h *harness) purged(want int) (next time.Time) {
	h.Helper()
	got, next := h.purge(100)
	h.equal("number of purged runs", got, want)
	return next
}

var purgeBehaviors = []behavior{
	{"P1_ARunIsKeptForItsRetention", func(h *harness) {
		l := h.ended(keep(long))
		h.clock.Advance(long - time.Millisecond)
		h.unchanged("a purge before its time", func() { h.purged(0) })
		h.clock.Advance(time.Millisecond)
		h.purged(1)
		h.gone(l.Run)
	}},
	{"RetentionIsSevenDaysUnlessAsked", func(h *harness) {
		for _, d := range []time.Duration{0, -time.Hour} {
			l := h.ended()
			h.equal("retention", h.record(l.Run).Retention, 7*24*time.Hour)
			l = h.newLog(orders, "")
			c := l.Create()
			c.Retention = d
			h.create(c)
			h.finish(l, h.own(h.session(), l), event.StatusFailed)
			h.equal("retention", h.record(l.Run).Retention, 7*24*time.Hour)
			h.clock.Advance(7*24*time.Hour - time.Millisecond)
			h.purged(0)
			h.clock.Advance(time.Millisecond)
			h.purged(2)
		}
	}},
	{"RetentionCountsFromTheEnd", func(h *harness) {
		l := h.newLog(orders, "")
		l.Spec.Retention = long
		h.create(l.Create())
		h.clock.Advance(10 * long)
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.equal("next purge", h.purged(0), h.clock.Now().Add(long))
	}},
	{"RetentionOfDecadesIsKept", func(h *harness) {
		l := h.ended(keep(250 * 365 * 24 * time.Hour))
		h.equal("next purge", h.purged(0), h.record(l.Run).EndedAt.Add(250*365*24*time.Hour))
	}},
	{"P1_ARunIsKeptForTheHorizonAfterItsEnd", func(h *harness) {
		l := h.newLog(orders, "")
		l.Spec.Retention = time.Millisecond
		h.create(l.Create())
		h.clock.Advance(long)
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.clock.Advance(store.Horizon - time.Millisecond)
		h.purged(0)
		h.state(l.Run, store.StateEnded)
		h.clock.Advance(time.Millisecond)
		h.purged(1)
		h.gone(l.Run)
	}},
	{"P1_ARunIsKeptForTheHorizonAfterItsCreation", func(h *harness) {
		l := h.newLog(orders, "")
		l.Spec.Retention = time.Millisecond
		h.create(l.Create())
		h.clock.Advance(-long) // the clock was set back
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.clock.Advance(long + store.Horizon - time.Millisecond)
		h.purged(0)
		h.clock.Advance(time.Millisecond)
		h.purged(1)
	}},
	{"P1_OnlyRunsThatHaveEndedArePurged", func(h *harness) {
		short := func(c *store.Create) { c.Retention = time.Millisecond }
		s := h.session()
		parked := h.start(short)
		h.park(parked, h.own(s, parked), time.Time{})
		blocked := h.start(short)
		h.block(blocked, h.own(s, blocked))
		owned := h.startAs(orders, h.workflowID("order"), short)
		h.own(s, owned)
		h.lineUp(h.workflowID("order"))
		h.start(short)
		h.start(short, func(c *store.Create) { c.Delay = time.Minute })
		h.clock.Advance(1000 * long)
		h.unchanged("a purge", func() { h.equal("next purge", h.purged(0), time.Time{}) })
	}},
	{"P1_WhatIsSentAgainWithinTheHorizonIsAnsweredAsBefore", func(h *harness) {
		l := h.newLog(orders, "")
		l.Spec.Retention = time.Millisecond
		create := l.Create()
		h.create(create)
		i := h.deliver(l.Run)
		fence := h.own(h.session(), l)
		end := withEffect(consuming(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), i), store.EffectFinish, event.StatusCompleted)
		want := h.commit(l, end)
		h.clock.Advance(store.Horizon - time.Millisecond)
		h.purged(0)
		h.unchanged("requests that are sent again", func() {
			h.equal("create", h.create(create), store.Created{Run: l.Run, New: true})
			h.equal("commit", h.try(end), want)
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
			h.check("deliver", err)
		})
	}},
	{"P1_PurgeLeavesNothingOfARun", func(h *harness) {
		l := h.remembered()
		h.unchanged("a purge before its time", func() { h.purged(0) })
		h.clock.Advance(long)
		h.equal("next purge", h.purged(1), time.Time{})
		h.gone(l.Run)
		got := h.inspect()
		want := &store.Snapshot{Now: got.Now, Leases: got.Leases, Wakes: got.Wakes}
		h.equal("what is left", got, want)
		_, err := h.store.Resolve(h.ctx, l.Spec.WorkflowID)
		h.is("resolve", err, store.ErrRunNotFound)
		if canList(h.store) {
			h.equal("list", h.list(store.Query{}), []event.RunID(nil))
			h.equal("list by tag", h.list(store.Query{Tags: map[string]string{"customer": "7"}}), []event.RunID(nil))
			h.equal("list by parent", h.list(store.Query{Parent: l.Spec.Parent}), []event.RunID(nil))
			h.equal("count", h.count(store.Query{}), map[event.Status]int(nil))
		}
		if canAudit(h.store) {
			h.equal("audit", h.audit(l.Run), []store.AuditEntry(nil))
		}
	}},
	{"P1_PurgeLeavesOtherRunsAsTheyAre", func(h *harness) {
		l := h.remembered()
		h.clock.Advance(long / 2)
		h.remembered() // of the same workflow ID
		h.startAs(orders, h.workflowID("order"))
		h.clock.Advance(long / 2)
		want := h.inspect()
		h.purged(1)
		delete(want.Runs, l.Run)
		delete(want.Seen, l.Run)
		delete(want.Purges, l.Run)
		delete(want.Labels, l.Run)
		want.Audit = slices.DeleteFunc(want.Audit, func(e store.AuditEntry) bool { return e.Run == l.Run })
		h.equal("what is left", h.inspect(), want)
	}},
	{"P1_WhatIsSentToAPurgedRunFindsNone", func(h *harness) {
		l, s, fence, i, end := h.finished()
		h.clock.Advance(long)
		h.purged(1)
		h.findsNone(l, s, fence, end)
		h.unchanged("what was accepted", func() {
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
			h.is("deliver", err, store.ErrRunNotFound)
		})
		h.unchanged("a delete", func() { h.is("delete", h.delete(l.Run), store.ErrRunNotFound) })
	}},
}

// remembered creates a run that leaves data of every kind to purge, and ends it. Its retention is
// long.
func (h *harness) remembered() *Log {
	h.Helper()
	l := h.newLog(orders, h.workflowID("order"))
	l.Spec.Tags = map[string]string{"customer": "7", "region": ""}
	l.Spec.Parent, l.Spec.Root = h.runID(), h.runID()
	l.Spec.Retention = long
	c := l.Create()
	c.Priority = 5
	h.create(c)
	i := h.deliver(l.Run)
	dead, s := h.session(), h.session()
	fence := h.own(dead, l)
	if canKeepStepData(h.store) {
		h.check("set step data", h.setStepData(l, fence, "x", "1"))
	}
	h.commit(l, consuming(l.Commit(fence, l.Receive(i)...), i))
	h.check("close session", h.store.CloseSession(h.ctx, 0, dead))
	fence = h.own(s, l)
	if canKeepStepData(h.store) {
		h.check("set step data", h.setStepData(l, fence, "y", "2"))
	}
	h.finish(l, fence, event.StatusFailed)
	return l
}

// finished creates a run with the retention long and ends it with an item. It returns everything
// that its owner could send again.
func (h *harness) finished() (l *Log, s store.SessionID, fence store.Fence, i store.Item, end store.Commit) {
	h.Helper()
	l, s = h.newLog(orders, h.workflowID("order")), h.session()
	l.Spec.Retention = long
	h.create(l.Create())
	i = h.deliver(l.Run)
	dead := h.session()
	h.own(dead, l)
	h.check("close session", h.store.CloseSession(h.ctx, 0, dead)) // adds an entry to the audit
	fence = h.own(s, l)
	end = withEffect(consuming(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), i), store.EffectFinish, event.StatusCompleted)
	h.commit(l, end)
	return l, s, fence, i, end
}

// findsNone fails the test unless new requests to a run, and its repeated commits, find no run and
// write nothing.
func (h *harness) findsNone(l *Log, s store.SessionID, fence store.Fence, end store.Commit) {
	h.Helper()
	h.unchanged("requests to a run that is gone", func() {
		h.gone(l.Run)
		h.is("the last commit again", h.try(end).Err, store.ErrFenced)
		h.is("another commit", h.try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
		h.is("release", h.store.Release(h.ctx, l.Run, fence), store.ErrFenced)
		_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: h.item()})
		h.is("deliver something new", err, store.ErrRunNotFound)
		_, err = h.store.ClaimRun(h.ctx, 0, s, h.ids.Token(), l.Run)
		h.is("claim run", err, store.ErrRunNotFound)
		_, err = h.store.Resolve(h.ctx, l.Spec.WorkflowID)
		h.is("resolve", err, store.ErrRunNotFound)
		h.is("watch", h.store.Watch(h.ctx, l.Run, 0), store.ErrRunNotFound)
		if n, ok := store.As[store.StepDataStore](h.store); ok {
			h.is("set step data", h.setStepData(l, fence, "x", "1"), store.ErrFenced)
			_, err = n.StepData(h.ctx, l.Run)
			h.is("step data", err, store.ErrRunNotFound)
		}
		if canList(h.store) {
			h.equal("list", h.list(store.Query{}), []event.RunID(nil))
			h.equal("count", h.count(store.Query{}), map[event.Status]int(nil))
		}
		if canAudit(h.store) {
			h.equal("audit", h.audit(l.Run), []store.AuditEntry(nil))
		}
	})
}
