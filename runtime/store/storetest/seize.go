package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// seize seizes a run for a session. It skips the test if the store is no Seizer.
func (h *harness) seize(s store.SessionID, l *Log, owned bool) (store.ClaimedRun, error) {
	h.Helper()
	seizer, ok := store.As[store.Seizer](h.store)
	if !ok {
		h.t.Skipf("%T is no store.Seizer", h.store)
	}
	got, err := seizer.Seize(h.ctx, 0, s, h.ids.Token(), l.Run, owned)
	if err == nil {
		got = h.handed(got)
		h.state(l.Run, store.StateOwned)
	}
	return got, err
}

// seized seizes a run and fails the test unless that succeeds.
func (h *harness) seized(s store.SessionID, l *Log, owned bool) store.Fence {
	h.Helper()
	got, err := h.seize(s, l, owned)
	h.check("seize", err)
	h.equal("seized", got.Run, l.Run)
	return got.Fence
}

// aside parks a run that has begun no step with its permits.
func (h *harness) aside(l *Log, fence store.Fence, unused store.Unused) {
	h.Helper()
	c := withEffect(l.Commit(fence, l.Work()...), store.EffectPark, event.StatusPaused)
	c.Unused = unused
	h.commit(l, c)
}

var seizeBehaviors = []behavior{
	{"Unused_PermitsAndRateOfARunThatHasBegunNothingAreGivenBack", func(h *harness) {
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{AtOnce: 1, Rate: 1, Burst: 1, Per: time.Hour}})
		s := h.session()
		for _, kind := range []func(*store.Create){using("crm"), func(c *store.Create) { using("crm")(c); c.Whole = true }} {
			l := h.start(kind)
			h.aside(l, h.one(s, l), store.UnusedBack)
			h.counts("crm", 0, 0)
			h.state(l.Run, store.StateParked)
		}
		h.one(s, h.start(using("crm")))
		h.start(using("crm"))
		h.nothing("by a rate that one run has taken", s)
	}},
	{"Unused_ARunThatIsPausedKeepsItsPlace", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		first := h.start(using("gpu"), whole)
		fence := h.one(s, first)
		second := h.start(using("gpu"))
		h.aside(first, fence, store.UnusedInLine)
		h.counts("gpu", 0, 1)
		h.deliver(first.Run)
		h.one(s, first)
		h.nothing("while it has the permit", s)
		h.state(second.Run, store.StateReady)
	}},
	{"Unused_ARateThatIsHeldBackIsNotGivenBack", func(h *harness) {
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Rate: 2, Burst: 2, Per: time.Second}})
		s := h.session()
		l, busy := h.start(using("crm")), h.start(using("crm"))
		fence, other := h.one(s, l), h.one(s, busy)
		c := withEffect(busy.Commit(other, busy.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
		c.HoldBack = time.Minute
		h.commit(busy, c)
		h.aside(l, fence, store.UnusedBack)
		next := h.start(using("crm"))
		h.clock.Advance(time.Minute - time.Millisecond)
		h.heartbeat(s)
		h.nothing("by a rate that is held back", s)
		h.clock.Advance(time.Millisecond)
		h.one(s, next)
	}},
	{"Seize_TakesARunOutOfItsLineForPermitsWhereItKeepsItsPlace", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		holder, first, second := h.start(using("gpu")), h.start(using("gpu")), h.start(using("gpu"))
		fence := h.one(s, holder)
		paused := h.seized(s, first, false)
		h.counts("gpu", 1, 1)
		h.aside(first, paused, store.UnusedInLine)
		h.counts("gpu", 1, 1)
		h.finish(holder, fence, event.StatusCompleted)
		fence = h.one(s, second)
		third := h.start(using("gpu"))
		h.deliver(first.Run)
		h.finish(second, fence, event.StatusCompleted)
		h.one(s, first)
		h.state(third.Run, store.StateReady)
		h.counts("gpu", 1, 1)
	}},
	{"Seize_WhatADeadSessionHadSeizedComesBackToItsPlace", func(h *harness) {
		h.limit("gpu", 1)
		s, dead := h.session(), h.session()
		holder, first := h.start(using("gpu")), h.start(using("gpu"))
		fence := h.one(s, holder)
		second := h.start(using("gpu"))
		h.seized(dead, first, false)
		h.check("close session", h.store.CloseSession(h.ctx, 0, dead))
		h.counts("gpu", 1, 2)
		h.finish(holder, fence, event.StatusCompleted)
		h.one(s, first)
		h.state(second.Run, store.StateReady)
	}},
	{"Seize_TakesARunThatIsQueuedAfterAnother", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		queued := func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.item() }
		first, second, third := h.startAs(orders, wid), h.startAs(orders, wid, queued), h.startAs(orders, wid, queued)
		h.finish(second, h.seized(s, second, false), event.StatusCanceled)
		h.state(second.Run, store.StateEnded)
		h.state(third.Run, store.StateQueued)
		again := h.newLog(orders, wid).Create()
		again.Active = store.ActiveFail
		active := as[*store.ActiveError](h, "start", h.create(again).Err)
		h.equal("active", active.Run, first.Run)
		h.finish(first, h.own(s, first), event.StatusCompleted)
		h.finish(third, h.own(s, third), event.StatusCompleted)
	}},
	{"Seize_AQueuedRunOfADeadSessionIsReadyAndNotActive", func(h *harness) {
		wid, s, dead := h.workflowID("order"), h.session(), h.session()
		queued := func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.item() }
		first, second, third := h.startAs(orders, wid), h.startAs(orders, wid, queued), h.startAs(orders, wid, queued)
		fence := h.one(s, first)
		h.seized(dead, second, false)
		h.check("close session", h.store.CloseSession(h.ctx, 0, dead))
		h.finish(second, h.own(s, second), event.StatusCanceled)
		h.state(third.Run, store.StateQueued)
		h.finish(first, fence, event.StatusCompleted)
		h.finish(third, h.own(s, third), event.StatusCompleted)
	}},
	{"Seize_FencesTheOwner", func(h *harness) {
		h.limit("gpu", 1)
		s, other := h.session(), h.session()
		l := h.start(using("gpu"))
		fence := h.one(s, l)
		_, err := h.seize(other, l, false)
		h.is("seize without a claim of what others own", err, store.ErrOwned)
		taken := h.seized(other, l, true)
		h.counts("gpu", 0, 0)
		h.unchanged("a late commit of the owner", func() {
			h.is("commit", h.try(withEffect(l.Commit(fence, l.Work()...), store.EffectNone, event.StatusRunning)).Err, store.ErrFenced)
			h.is("release", h.store.Release(h.ctx, l.Run, fence), store.ErrFenced)
		})
		h.equal("owned by the first session", len(h.reconcile(s)), 0)
		h.finish(l, taken, event.StatusCanceled)
		_, err = h.seize(s, l, true)
		as[*store.TerminalError](h, "seize a run that has ended", err)
	}},
	{"Seize_TakesParkedAndBlockedRuns", func(h *harness) {
		s := h.session()
		parked := h.start()
		h.park(parked, h.one(s, parked), h.clock.Now().Add(time.Hour))
		h.finish(parked, h.seized(s, parked, false), event.StatusCanceled)
		blocked := h.start()
		h.commit(blocked, withEffect(blocked.Commit(h.one(s, blocked), blocked.Work()...), store.EffectBlock, event.StatusBlocked))
		h.finish(blocked, h.seized(s, blocked, false), event.StatusCanceled)
		ready := h.start()
		h.finish(ready, h.seized(s, ready, false), event.StatusCanceled)
		h.nothing("after the end of all", s)
	}},
}
