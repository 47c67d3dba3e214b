package chains

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var purgeBehaviors = []behavior{
	{"P1_ARunIsKeptForItsRetention", func(h *harness) {
		l := h.Ended(suite.Keep(suite.Long))
		h.Clock.Advance(suite.Long - time.Millisecond)
		h.Unchanged("a purge before its time", func() { h.Purged(0) })
		h.Clock.Advance(time.Millisecond)
		h.Purged(1)
		h.Gone(l.Run)
	}},
	{"RetentionIsSevenDaysUnlessAsked", func(h *harness) {
		for _, d := range []time.Duration{0, -time.Hour} {
			l := h.Ended()
			h.Equal("retention", h.Record(l.Run).Retention, 7*24*time.Hour)
			l = h.NewLog(suite.Orders, "")
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
		l := h.NewLog(suite.Orders, "")
		l.Spec.Retention = suite.Long
		h.Create(l.Create())
		h.Clock.Advance(10 * suite.Long)
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Equal("next purge", h.Purged(0), h.Clock.Now().Add(suite.Long))
	}},
	{"RetentionOfDecadesIsKept", func(h *harness) {
		l := h.Ended(suite.Keep(250 * 365 * 24 * time.Hour))
		h.Equal("next purge", h.Purged(0), h.Record(l.Run).EndedAt.Add(250*365*24*time.Hour))
	}},
	{"P1_ARunIsKeptForTheHorizonAfterItsEnd", func(h *harness) {
		l := h.NewLog(suite.Orders, "")
		l.Spec.Retention = time.Millisecond
		h.Create(l.Create())
		h.Clock.Advance(suite.Long)
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Clock.Advance(store.Horizon - time.Millisecond)
		h.Purged(0)
		h.State(l.Run, store.StateEnded)
		h.Clock.Advance(time.Millisecond)
		h.Purged(1)
		h.Gone(l.Run)
	}},
	{"P1_ARunIsKeptForTheHorizonAfterItsCreation", func(h *harness) {
		l := h.NewLog(suite.Orders, "")
		l.Spec.Retention = time.Millisecond
		h.Create(l.Create())
		h.Clock.Advance(-suite.Long) // the clock was set back
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Clock.Advance(suite.Long + store.Horizon - time.Millisecond)
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
		owned := h.StartAs(suite.Orders, h.WorkflowID("order"), short)
		h.Own(s, owned)
		h.LineUp(h.WorkflowID("order"))
		h.Start(short)
		h.Start(short, func(c *store.Create) { c.Delay = time.Minute })
		h.Clock.Advance(1000 * suite.Long)
		h.Unchanged("a purge", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
	}},
	{"P1_WhatIsSentAgainWithinTheHorizonIsAnsweredAsBefore", func(h *harness) {
		l := h.NewLog(suite.Orders, "")
		l.Spec.Retention = time.Millisecond
		create := l.Create()
		h.Create(create)
		i := h.Deliver(l.Run)
		fence := h.Own(h.Session(), l)
		end := suite.WithEffect(suite.Consuming(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), i), store.EffectFinish, event.StatusCompleted)
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
		h.Clock.Advance(suite.Long)
		h.Equal("next purge", h.Purged(1), time.Time{})
		h.Gone(l.Run)
		got := h.Inspect()
		want := &store.Snapshot{Now: got.Now, Leases: got.Leases, Wakes: got.Wakes}
		h.Equal("what is left", got, want)
		_, err := h.Store.Resolve(h.Ctx, l.Spec.WorkflowID)
		h.Is("resolve", err, store.ErrRunNotFound)
		if suite.Has[store.Lister](h.Store) {
			h.Equal("list", h.List(store.Query{}), []event.RunID(nil))
			h.Equal("list by tag", h.List(store.Query{Tags: map[string]string{"customer": "7"}}), []event.RunID(nil))
			h.Equal("list by parent", h.List(store.Query{Parent: l.Spec.Parent}), []event.RunID(nil))
			h.Equal("count", h.Count(store.Query{}), map[event.Status]int(nil))
		}
		if suite.Has[store.Auditor](h.Store) {
			h.Equal("audit", h.Audit(l.Run), []store.AuditEntry(nil))
		}
	}},
	{"P1_PurgeLeavesOtherRunsAsTheyAre", func(h *harness) {
		l := h.remembered()
		h.Clock.Advance(suite.Long / 2)
		h.remembered() // another run of the same workflow ID
		h.StartAs(suite.Orders, h.WorkflowID("order"))
		h.Clock.Advance(suite.Long / 2)
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
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		h.findsNone(l, s, fence, end)
		h.Unchanged("what was accepted", func() {
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
			h.Is("deliver", err, store.ErrRunNotFound)
		})
		h.Unchanged("a delete", func() { h.Is("delete", h.Delete(l.Run), store.ErrRunNotFound) })
	}},
}

// remembered creates a run with data of every kind that a purge must remove, and ends the run. The
// retention of the run is suite.Long.
func (h *harness) remembered() *suite.Log {
	h.Helper()
	l := h.NewLog(suite.Orders, h.WorkflowID("order"))
	l.Spec.Tags = map[string]string{"customer": "7", "region": ""}
	l.Spec.Parent, l.Spec.Root = h.RunID(), h.RunID()
	l.Spec.Retention = suite.Long
	c := l.Create()
	c.Priority = 5
	h.Create(c)
	i := h.Deliver(l.Run)
	dead, s := h.Session(), h.Session()
	fence := h.Own(dead, l)
	if suite.Has[store.StepDataStore](h.Store) {
		h.Check("set step data", h.SetStepData(l, fence, "x", "1"))
	}
	h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(i)...), i))
	h.Check("close session", h.Store.CloseSession(h.Ctx, 0, dead))
	fence = h.Own(s, l)
	if suite.Has[store.StepDataStore](h.Store) {
		h.Check("set step data", h.SetStepData(l, fence, "y", "2"))
	}
	h.Finish(l, fence, event.StatusFailed)
	return l
}

// finished creates a run with the retention suite.Long and ends it with a commit that consumes an
// item. It returns everything that the owner of the run could send again.
func (h *harness) finished() (l *suite.Log, s store.SessionID, fence store.Fence, i store.Item, end store.Commit) {
	h.Helper()
	l, s = h.NewLog(suite.Orders, h.WorkflowID("order")), h.Session()
	l.Spec.Retention = suite.Long
	h.Create(l.Create())
	i = h.Deliver(l.Run)
	dead := h.Session()
	h.Own(dead, l)
	h.Check("close session", h.Store.CloseSession(h.Ctx, 0, dead)) // adds an entry to the audit
	fence = h.Own(s, l)
	end = suite.WithEffect(suite.Consuming(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), i), store.EffectFinish, event.StatusCompleted)
	h.Commit(l, end)
	return l, s, fence, i, end
}

// findsNone fails the test unless new requests to a run, and a repetition of its last commit, find
// no run and write nothing.
func (h *harness) findsNone(l *suite.Log, s store.SessionID, fence store.Fence, end store.Commit) {
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
		if suite.Has[store.Lister](h.Store) {
			h.Equal("list", h.List(store.Query{}), []event.RunID(nil))
			h.Equal("count", h.Count(store.Query{}), map[event.Status]int(nil))
		}
		if suite.Has[store.Auditor](h.Store) {
			h.Equal("audit", h.Audit(l.Run), []store.AuditEntry(nil))
		}
	})
}
