package chains

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var deleteBehaviors = []behavior{
	{"DeleteHidesTheRunAtOnce", func(h *harness) {
		l, s, fence, i, end := h.finished()
		h.Check("delete", h.Delete(l.Run))
		h.findsNone(l, s, fence, end)
		h.Unchanged("what was accepted", func() { h.Accepts("again", store.Deliver{Run: l.Run, Item: i}, l.Run) })
		h.Equal("hidden", h.Inspect().Runs[l.Run].Hidden, true)
	}},
	{"DeleteLeavesTheRunToThePurge", func(h *harness) {
		l := h.remembered()
		h.Check("delete", h.Delete(l.Run))
		h.Clock.Advance(store.Horizon - time.Millisecond)
		h.Unchanged("a purge before its time", func() { h.Equal("next purge", h.Purged(0), h.Clock.Now().Add(time.Millisecond)) })
		h.Clock.Advance(time.Millisecond)
		h.Equal("next purge", h.Purged(1), time.Time{})
		got := h.Inspect()
		h.Equal("what is left", got, &store.Snapshot{Now: got.Now, Leases: got.Leases, Wakes: got.Wakes})
	}},
	{"P1_ADeletedRunIsKeptForTheHorizonAfterItsEnd", func(h *harness) {
		l := h.NewLog(suite.Orders, "")
		h.Create(l.Create())
		h.Clock.Advance(suite.Long)
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Clock.Advance(time.Minute)
		h.Check("delete", h.Delete(l.Run))
		h.Clock.Advance(store.Horizon - time.Minute - time.Millisecond)
		h.Purged(0)
		h.Clock.Advance(time.Millisecond)
		h.Purged(1)
	}},
	{"P1_ADeletedRunIsKeptForTheHorizonAfterItsCreation", func(h *harness) {
		l := h.NewLog(suite.Orders, "")
		h.Create(l.Create())
		h.Clock.Advance(-suite.Long) // the clock was set back
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Check("delete", h.Delete(l.Run))
		h.Clock.Advance(suite.Long + store.Horizon - time.Millisecond)
		h.Purged(0)
		h.Clock.Advance(time.Millisecond)
		h.Purged(1)
	}},
	{"DeleteOfARunWhoseRetentionIsOverLeavesItToThePurge", func(h *harness) {
		l := h.Ended(suite.Keep(suite.Long))
		h.Clock.Advance(2 * suite.Long)
		h.Check("delete", h.Delete(l.Run))
		h.Purged(1)
	}},
	{"C1_CreateSentAgainAfterDeleteIsTheSameRun", func(h *harness) {
		l := h.NewLog(suite.Orders, h.WorkflowID("order"))
		c := l.Create()
		c.Finished = store.FinishedReject
		h.Create(c)
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Check("delete", h.Delete(l.Run))
		h.Unchanged("the same create", func() { h.Equal("answer", h.Create(c), store.Created{Run: l.Run, New: true}) })
	}},
	{"DeleteOfARunThatHasNotEndedIsRefused", func(h *harness) {
		s := h.Session()
		parked := h.Start()
		h.Park(parked, h.Own(s, parked), time.Time{})
		blocked := h.Start()
		h.Block(blocked, h.Own(s, blocked))
		owned := h.StartAs(suite.Orders, h.WorkflowID("order"))
		h.Own(s, owned)
		queued, _ := h.LineUp(h.WorkflowID("order"))
		ready := h.Start()
		h.Unchanged("deletes that are refused", func() {
			for l, status := range map[*suite.Log]event.Status{
				parked: event.StatusSleeping, blocked: event.StatusBlocked, owned: event.StatusPending,
				queued: event.StatusPending, ready: event.StatusPending,
			} {
				e := suite.As[*store.NotEndedError](h.Harness, "delete", h.Delete(l.Run))
				h.Equal("error", *e, store.NotEndedError{Run: l.Run, Status: status})
			}
		})
	}},
	{"DeleteOfAnUnknownRunIsNotFound", func(h *harness) {
		h.Unchanged("a delete of nobody", func() { h.Is("delete", h.Delete(h.RunID()), store.ErrRunNotFound) })
	}},
	{"DeleteSentAgainSucceeds", func(h *harness) {
		l := h.Ended()
		h.Check("delete", h.Delete(l.Run))
		h.Clock.Advance(time.Minute)
		h.Unchanged("the same delete", func() { h.Check("delete", h.Delete(l.Run)) })
	}},
	{"DeleteFreesTheWorkflowID", func(h *harness) {
		wid := h.WorkflowID("order")
		l := h.Ended(suite.Named(wid))
		h.Check("delete", h.Delete(l.Run))
		c := h.NewLog(suite.Orders, wid).Create()
		c.Finished = store.FinishedReject
		h.Equal("create", h.Create(c), store.Created{Run: c.Run, New: true})
		got, err := h.Store.Resolve(h.Ctx, wid)
		h.Check("resolve", err)
		h.Equal("resolve", got, c.Run)
		h.Clock.Advance(store.Horizon)
		h.Purged(1)
		got, err = h.Store.Resolve(h.Ctx, wid)
		h.Check("resolve after the purge", err)
		h.Equal("resolve after the purge", got, c.Run)
	}},
	{"DeleteOfAnEarlierRunLeavesTheLastOfItsWorkflowID", func(h *harness) {
		wid := h.WorkflowID("order")
		earlier, last := h.Ended(suite.Named(wid)), h.Ended(suite.Named(wid))
		h.Check("delete", h.Delete(earlier.Run))
		got, err := h.Store.Resolve(h.Ctx, wid)
		h.Check("resolve", err)
		h.Equal("resolve", got, last.Run)
	}},
	{"DeleteLeavesOtherRunsAsTheyAre", func(h *harness) {
		l, other := h.remembered(), h.Ended()
		before := h.Inspect()
		h.Check("delete", h.Delete(l.Run))
		after := h.Inspect()
		h.Equal("the other run", after.Runs[other.Run], before.Runs[other.Run])
		before.Runs[l.Run].Hidden = true
		before.Purges[l.Run] = h.Clock.Now().Add(store.Horizon)
		before.LastEnded = nil
		delete(before.Labels, l.Run)
		h.Equal("everything", after, before)
	}},
	{"WatchEndsWhenTheRunIsDeleted", func(h *harness) {
		for range 30 { // 30 times, so that some of the watches block before the delete
			l := h.Ended()
			p := h.Watch(l.Run, 99)
			h.Poll(h.Session())
			h.Check("delete", h.Delete(l.Run))
			_, err := p.Result(h.Harness, "watch")
			h.Is("watch", err, store.ErrRunNotFound)
		}
	}},
}
