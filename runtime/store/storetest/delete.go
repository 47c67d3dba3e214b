package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var deleteBehaviors = []behavior{
	{"DeleteHidesTheRunAtOnce", func(h *harness) {
		l, s, fence, i, end := h.finished()
		h.check("delete", h.delete(l.Run))
		h.findsNone(l, s, fence, end)
		h.unchanged("what was accepted", func() { h.accepts("again", store.Deliver{Run: l.Run, Item: i}, l.Run) })
		h.equal("hidden", h.inspect().Runs[l.Run].Hidden, true)
	}},
	{"DeleteLeavesTheRunToThePurge", func(h *harness) {
		l := h.remembered()
		h.check("delete", h.delete(l.Run))
		h.clock.Advance(store.Horizon - time.Millisecond)
		h.unchanged("a purge before its time", func() { h.equal("next purge", h.purged(0), h.clock.Now().Add(time.Millisecond)) })
		h.clock.Advance(time.Millisecond)
		h.equal("next purge", h.purged(1), time.Time{})
		got := h.inspect()
		h.equal("what is left", got, &store.Snapshot{Now: got.Now, Leases: got.Leases, Wakes: got.Wakes})
	}},
	{"P1_ADeletedRunIsKeptForTheHorizonAfterItsEnd", func(h *harness) {
		l := h.newLog(orders, "")
		h.create(l.Create())
		h.clock.Advance(long)
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.clock.Advance(time.Minute)
		h.check("delete", h.delete(l.Run))
		h.clock.Advance(store.Horizon - time.Minute - time.Millisecond)
		h.purged(0)
		h.clock.Advance(time.Millisecond)
		h.purged(1)
	}},
	{"P1_ADeletedRunIsKeptForTheHorizonAfterItsCreation", func(h *harness) {
		l := h.newLog(orders, "")
		h.create(l.Create())
		h.clock.Advance(-long) // the clock was set back
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.check("delete", h.delete(l.Run))
		h.clock.Advance(long + store.Horizon - time.Millisecond)
		h.purged(0)
		h.clock.Advance(time.Millisecond)
		h.purged(1)
	}},
	{"DeleteOfARunWhoseRetentionIsOverLeavesItToThePurge", func(h *harness) {
		l := h.ended(keep(long))
		h.clock.Advance(2 * long)
		h.check("delete", h.delete(l.Run))
		h.purged(1)
	}},
	{"C1_CreateSentAgainAfterDeleteIsTheSameRun", func(h *harness) {
		l := h.newLog(orders, h.workflowID("order"))
		c := l.Create()
		c.Finished = store.FinishedReject
		h.create(c)
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.check("delete", h.delete(l.Run))
		h.unchanged("the same create", func() { h.equal("answer", h.create(c), store.Created{Run: l.Run, New: true}) })
	}},
	{"DeleteOfARunThatHasNotEndedIsRefused", func(h *harness) {
		s := h.session()
		parked := h.start()
		h.park(parked, h.own(s, parked), time.Time{})
		blocked := h.start()
		h.block(blocked, h.own(s, blocked))
		owned := h.startAs(orders, h.workflowID("order"))
		h.own(s, owned)
		queued, _ := h.lineUp(h.workflowID("order"))
		ready := h.start()
		h.unchanged("deletes that are refused", func() {
			for l, status := range map[*Log]event.Status{
				parked: event.StatusSleeping, blocked: event.StatusBlocked, owned: event.StatusPending,
				queued: event.StatusPending, ready: event.StatusPending,
			} {
				e := as[*store.NotEndedError](h, "delete", h.delete(l.Run))
				h.equal("error", *e, store.NotEndedError{Run: l.Run, Status: status})
			}
		})
	}},
	{"DeleteOfAnUnknownRunIsNotFound", func(h *harness) {
		h.unchanged("a delete of nobody", func() { h.is("delete", h.delete(h.runID()), store.ErrRunNotFound) })
	}},
	{"DeleteSentAgainSucceeds", func(h *harness) {
		l := h.ended()
		h.check("delete", h.delete(l.Run))
		h.clock.Advance(time.Minute)
		h.unchanged("the same delete", func() { h.check("delete", h.delete(l.Run)) })
	}},
	{"DeleteFreesTheWorkflowID", func(h *harness) {
		wid := h.workflowID("order")
		l := h.ended(named(wid))
		h.check("delete", h.delete(l.Run))
		c := h.newLog(orders, wid).Create()
		c.Finished = store.FinishedReject
		h.equal("create", h.create(c), store.Created{Run: c.Run, New: true})
		got, err := h.store.Resolve(h.ctx, wid)
		h.check("resolve", err)
		h.equal("resolve", got, c.Run)
		h.clock.Advance(store.Horizon)
		h.purged(1)
		got, err = h.store.Resolve(h.ctx, wid)
		h.check("resolve after the purge", err)
		h.equal("resolve after the purge", got, c.Run)
	}},
	{"DeleteOfAnEarlierRunLeavesTheLastOfItsWorkflowID", func(h *harness) {
		wid := h.workflowID("order")
		earlier, last := h.ended(named(wid)), h.ended(named(wid))
		h.check("delete", h.delete(earlier.Run))
		got, err := h.store.Resolve(h.ctx, wid)
		h.check("resolve", err)
		h.equal("resolve", got, last.Run)
	}},
	{"DeleteLeavesOtherRunsAsTheyAre", func(h *harness) {
		l, other := h.remembered(), h.ended()
		before := h.inspect()
		h.check("delete", h.delete(l.Run))
		after := h.inspect()
		h.equal("the other run", after.Runs[other.Run], before.Runs[other.Run])
		before.Runs[l.Run].Hidden = true
		before.Purges[l.Run] = h.clock.Now().Add(store.Horizon)
		before.LastEnded = nil
		delete(before.Labels, l.Run)
		h.equal("everything", after, before)
	}},
	{"WatchEndsWhenTheRunIsDeleted", func(h *harness) {
		for range 30 { // some of the watches block before the delete
			l := h.ended()
			p := h.watch(l.Run, 99)
			h.poll(h.session())
			h.check("delete", h.delete(l.Run))
			_, err := p.result(h, "watch")
			h.is("watch", err, store.ErrRunNotFound)
		}
	}},
}
