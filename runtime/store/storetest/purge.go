package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Long is a retention that differs from the Horizon.
const Long = time.Hour

// Keep sets the retention of a run.
func Keep(d time.Duration) func(*Log) { return func(l *Log) { l.Spec.Retention = d } }

// Named gives a run a workflow ID.
func Named(wid string) func(*Log) { return func(l *Log) { l.Spec.WorkflowID = wid } }

// Ended creates a run and completes it.
func (h *harness) Ended(change ...func(*Log)) *Log {
	h.Helper()
	l := h.NewLog(Orders, "")
	for _, f := range change {
		f(l)
	}
	if l.Spec.WorkflowID != "" {
		l.Run = h.IDs.Run(h.Clock.Now(), event.SlotOf(l.Spec.WorkflowID))
	}
	if got := h.Create(l.Create()); !got.New {
		h.Fatalf("create run %s: got %+v, want a new run", l.Run, got)
	}
	h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
	return l
}

// Gone fails the test unless a run is not found by any read.
func (h *harness) Gone(run event.RunID) {
	h.Helper()
	answers, err := h.Store.Load(h.Ctx, []store.Load{{Run: run}})
	h.Check("load", err)
	h.Equal("load", answers, []store.Loaded{{Err: store.ErrRunNotFound}})
}

// Purged purges and fails the test unless that removes want runs. It returns the time of the next
// purge.
func (h *harness) Purged(want int) (next time.Time) {
	h.Helper()
	got, next := h.Purge(100)
	h.Equal("number of purged runs", got, want)
	return next
}

var purgeBehaviors = []behavior{
	{"P1_ARunIsKeptForItsRetention", func(h *harness) {
		l := h.Ended(Keep(Long))
		h.Clock.Advance(Long - time.Millisecond)
		h.Unchanged("a purge before its time", func() { h.Purged(0) })
		h.Clock.Advance(time.Millisecond)
		h.Purged(1)
		h.Gone(l.Run)
	}},
	{"RetentionIsSevenDaysUnlessAsked", func(h *harness) {
		for _, d := range []time.Duration{0, -time.Hour} {
			l := h.Ended()
			h.Equal("retention", h.Record(l.Run).Retention, 7*24*time.Hour)
			l = h.NewLog(Orders, "")
			c := l.Create()
			c.Retention = d
			h.Create(c)
			h.Finish(l, h.Own(h.Session(), l), event.StatusFailed)
			h.Equal("retention", h.Record(l.Run).Retention, 7*24*time.Hour)
			h.Clock.Advance(7*24*time.Hour - time.Millisecond)
			h.Purged(0)
			h.Clock.Advance(time.Millisecond)
			h.Purged(2)
		}
	}},
	{"RetentionCountsFromTheEnd", func(h *harness) {
		l := h.NewLog(Orders, "")
		l.Spec.Retention = Long
		h.Create(l.Create())
		h.Clock.Advance(10 * Long)
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Equal("next purge", h.Purged(0), h.Clock.Now().Add(Long))
	}},
	{"RetentionOfDecadesIsKept", func(h *harness) {
		l := h.Ended(Keep(250 * 365 * 24 * time.Hour))
		h.Equal("next purge", h.Purged(0), h.Record(l.Run).EndedAt.Add(250*365*24*time.Hour))
	}},
	{"P1_ARunIsKeptForTheHorizonAfterItsEnd", func(h *harness) {
		l := h.NewLog(Orders, "")
		l.Spec.Retention = time.Millisecond
		h.Create(l.Create())
		h.Clock.Advance(Long)
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Clock.Advance(store.Horizon - time.Millisecond)
		h.Purged(0)
		h.State(l.Run, store.StateEnded)
		h.Clock.Advance(time.Millisecond)
		h.Purged(1)
		h.Gone(l.Run)
	}},
	{"P1_ARunIsKeptForTheHorizonAfterItsCreation", func(h *harness) {
		l := h.NewLog(Orders, "")
		l.Spec.Retention = time.Millisecond
		h.Create(l.Create())
		h.Clock.Advance(-Long) // the clock was set back
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Clock.Advance(Long + store.Horizon - time.Millisecond)
		h.Purged(0)
		h.Clock.Advance(time.Millisecond)
		h.Purged(1)
	}},
	{"P1_OnlyRunsThatHaveEndedArePurged", func(h *harness) {
		short := func(c *store.Create) { c.Retention = time.Millisecond }
		s := h.Session()
		parked := h.Start(short)
		h.Park(parked, h.Own(s, parked), time.Time{})
		blocked := h.Start(short)
		h.Block(blocked, h.Own(s, blocked))
		owned := h.StartAs(Orders, h.WorkflowID("order"), short)
		h.Own(s, owned)
		h.LineUp(h.WorkflowID("order"))
		h.Start(short)
		h.Start(short, func(c *store.Create) { c.Delay = time.Minute })
		h.Clock.Advance(1000 * Long)
		h.Unchanged("a purge", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
	}},
	{"P1_WhatIsSentAgainWithinTheHorizonIsAnsweredAsBefore", func(h *harness) {
		l := h.NewLog(Orders, "")
		l.Spec.Retention = time.Millisecond
		create := l.Create()
		h.Create(create)
		i := h.Deliver(l.Run)
		fence := h.Own(h.Session(), l)
		end := WithEffect(Consuming(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), i), store.EffectFinish, event.StatusCompleted)
		want := h.Commit(l, end)
		h.Clock.Advance(store.Horizon - time.Millisecond)
		h.Purged(0)
		h.Unchanged("requests that are sent again", func() {
			h.Equal("create", h.Create(create), store.Created{Run: l.Run, New: true})
			h.Equal("commit", h.Try(end), want)
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
			h.Check("deliver", err)
		})
	}},
	{"P1_PurgeLeavesNothingOfARun", func(h *harness) {
		l := h.remembered()
		h.Unchanged("a purge before its time", func() { h.Purged(0) })
		h.Clock.Advance(Long)
		h.Equal("next purge", h.Purged(1), time.Time{})
		h.Gone(l.Run)
		got := h.Inspect()
		want := &store.Snapshot{Now: got.Now, Leases: got.Leases, Wakes: got.Wakes}
		h.Equal("what is left", got, want)
		_, err := h.Store.Resolve(h.Ctx, l.Spec.WorkflowID)
		h.Is("resolve", err, store.ErrRunNotFound)
		if CanList(h.Store) {
			h.Equal("list", h.List(store.Query{}), []event.RunID(nil))
			h.Equal("list by tag", h.List(store.Query{Tags: map[string]string{"customer": "7"}}), []event.RunID(nil))
			h.Equal("list by parent", h.List(store.Query{Parent: l.Spec.Parent}), []event.RunID(nil))
			h.Equal("count", h.Count(store.Query{}), map[event.Status]int(nil))
		}
		if CanAudit(h.Store) {
			h.Equal("audit", h.Audit(l.Run), []store.AuditEntry(nil))
		}
	}},
	{"P1_PurgeLeavesOtherRunsAsTheyAre", func(h *harness) {
		l := h.remembered()
		h.Clock.Advance(Long / 2)
		h.remembered() // of the same workflow ID
		h.StartAs(Orders, h.WorkflowID("order"))
		h.Clock.Advance(Long / 2)
		want := h.Inspect()
		h.Purged(1)
		delete(want.Runs, l.Run)
		delete(want.Seen, l.Run)
		delete(want.Purges, l.Run)
		delete(want.Labels, l.Run)
		want.Audit = slices.DeleteFunc(want.Audit, func(e store.AuditEntry) bool { return e.Run == l.Run })
		h.Equal("what is left", h.Inspect(), want)
	}},
	{"P1_WhatIsSentToAPurgedRunFindsNone", func(h *harness) {
		l, s, fence, i, end := h.finished()
		h.Clock.Advance(Long)
		h.Purged(1)
		h.findsNone(l, s, fence, end)
		h.Unchanged("what was accepted", func() {
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
			h.Is("deliver", err, store.ErrRunNotFound)
		})
		h.Unchanged("a delete", func() { h.Is("delete", h.Delete(l.Run), store.ErrRunNotFound) })
	}},
}

// remembered creates a run that leaves data of every kind to purge, and ends it. Its retention is
// long.
func (h *harness) remembered() *Log {
	h.Helper()
	l := h.NewLog(Orders, h.WorkflowID("order"))
	l.Spec.Tags = map[string]string{"customer": "7", "region": ""}
	l.Spec.Parent, l.Spec.Root = h.RunID(), h.RunID()
	l.Spec.Retention = Long
	c := l.Create()
	c.Priority = 5
	h.Create(c)
	i := h.Deliver(l.Run)
	dead, s := h.Session(), h.Session()
	fence := h.Own(dead, l)
	if CanKeepStepData(h.Store) {
		h.Check("set step data", h.SetStepData(l, fence, "x", "1"))
	}
	h.Commit(l, Consuming(l.Commit(fence, l.Receive(i)...), i))
	h.Check("close session", h.Store.CloseSession(h.Ctx, 0, dead))
	fence = h.Own(s, l)
	if CanKeepStepData(h.Store) {
		h.Check("set step data", h.SetStepData(l, fence, "y", "2"))
	}
	h.Finish(l, fence, event.StatusFailed)
	return l
}

// finished creates a run with the retention long and ends it with an item. It returns everything
// that its owner could send again.
func (h *harness) finished() (l *Log, s store.SessionID, fence store.Fence, i store.Item, end store.Commit) {
	h.Helper()
	l, s = h.NewLog(Orders, h.WorkflowID("order")), h.Session()
	l.Spec.Retention = Long
	h.Create(l.Create())
	i = h.Deliver(l.Run)
	dead := h.Session()
	h.Own(dead, l)
	h.Check("close session", h.Store.CloseSession(h.Ctx, 0, dead)) // adds an entry to the audit
	fence = h.Own(s, l)
	end = WithEffect(Consuming(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), i), store.EffectFinish, event.StatusCompleted)
	h.Commit(l, end)
	return l, s, fence, i, end
}

// findsNone fails the test unless new requests to a run, and its repeated commits, find no run and
// write nothing.
func (h *harness) findsNone(l *Log, s store.SessionID, fence store.Fence, end store.Commit) {
	h.Helper()
	h.Unchanged("requests to a run that is gone", func() {
		h.Gone(l.Run)
		h.Is("the last commit again", h.Try(end).Err, store.ErrFenced)
		h.Is("another commit", h.Try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
		h.Is("release", h.Store.Release(h.Ctx, l.Run, fence), store.ErrFenced)
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: h.Item()})
		h.Is("deliver something new", err, store.ErrRunNotFound)
		_, err = h.Store.ClaimRun(h.Ctx, 0, s, h.IDs.Token(), l.Run)
		h.Is("claim run", err, store.ErrRunNotFound)
		_, err = h.Store.Resolve(h.Ctx, l.Spec.WorkflowID)
		h.Is("resolve", err, store.ErrRunNotFound)
		h.Is("watch", h.Store.Watch(h.Ctx, l.Run, 0), store.ErrRunNotFound)
		if n, ok := store.As[store.StepDataStore](h.Store); ok {
			h.Is("set step data", h.SetStepData(l, fence, "x", "1"), store.ErrFenced)
			_, err = n.StepData(h.Ctx, l.Run)
			h.Is("step data", err, store.ErrRunNotFound)
		}
		if CanList(h.Store) {
			h.Equal("list", h.List(store.Query{}), []event.RunID(nil))
			h.Equal("count", h.Count(store.Query{}), map[event.Status]int(nil))
		}
		if CanAudit(h.Store) {
			h.Equal("audit", h.Audit(l.Run), []store.AuditEntry(nil))
		}
	})
}
