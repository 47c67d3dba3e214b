package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var deliverBehaviors = []behavior{
	{"M1_WhatIsAcceptedIsInTheInboxAndSeen", func(h *harness) {
		l := h.start()
		i := h.deliver(l.Run)
		snap := h.inspect()
		h.equal("inbox", snap.Runs[l.Run].Inbox, []store.Item{i})
		h.equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time{l.Run: {i.ID: h.clock.Now()}})
		h.equal("kept", snap.Kept, map[event.RunID][]event.ItemID(nil))
	}},
	{"M1_TheSameItemIsAcceptedOnce", func(h *harness) {
		l := h.start()
		i := h.deliver(l.Run)
		h.unchanged("the same item", func() {
			got, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
			h.check("deliver", err)
			h.equal("accepted by", got, l.Run)
		})
	}},
	{"M1_TheSameItemIsAcceptedOnceAlsoWhenItHasBeenRead", func(h *harness) {
		l, fence := h.startOwned(h.session())
		i := h.deliver(l.Run)
		h.commit(l, consuming(l.Commit(fence, l.Receive(i)...), i))
		h.clock.Advance(23 * time.Hour)
		h.unchanged("the same item", func() {
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
			h.check("deliver", err)
		})
	}},
	{"M1_ManyItemsAreEachAcceptedOnce", func(h *harness) {
		l, fence := h.startOwned(h.session())
		var all []store.Item
		for range 40 {
			all = append(all, h.deliver(l.Run))
		}
		h.commit(l, consuming(l.Commit(fence, l.Receive(all[:20]...)...), all[:20]...))
		h.unchanged("the same items", func() {
			for _, i := range all {
				_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
				h.check("deliver", err)
			}
		})
	}},
	{"M1_AnItemIsSeenPerChain", func(h *harness) {
		a, b := h.start(), h.start()
		i := h.deliver(a.Run)
		_, err := h.store.Deliver(h.ctx, store.Deliver{Run: b.Run, Item: i})
		h.check("deliver to another run", err)
		h.equal("inbox of the other run", h.load(b.Run).Inbox, []store.Item{i})
	}},
	{"M2_DeliverIsAcceptedAgainAfterTheRunEnded", func(h *harness) {
		l := h.start()
		i := h.deliver(l.Run)
		fence := h.own(h.session(), l)
		h.commit(l, withEffect(consuming(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), i), store.EffectFinish, event.StatusCompleted))
		h.unchanged("deliveries to an ended run", func() {
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
			h.check("deliver what was accepted", err)
			_, err = h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: h.item()})
			e := as[*store.TerminalError](h, "deliver something new", err)
			h.equal("error", *e, store.TerminalError{Run: l.Run, Status: event.StatusCompleted})
		})
	}},
	{"DeliverToAnUnknownRunIsNotFound", func(h *harness) {
		h.unchanged("a delivery to nobody", func() {
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: h.runID(), Item: h.item()})
			h.is("deliver", err, store.ErrRunNotFound)
		})
	}},
	{"DeliverKeepsTheOrder", func(h *harness) {
		l := h.start()
		var want []store.Item
		for n := range 5 {
			i := h.item()
			i.Scope = store.Scope(n % 2)
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
			h.check("deliver", err)
			want = append(want, i)
		}
		h.equal("inbox", h.load(l.Run).Inbox, want)
	}},
	{"DeliverPastItsDeadlineIsStale", func(h *harness) {
		l := h.start()
		accepted := h.deliver(l.Run)
		h.unchanged("late deliveries", func() {
			past := h.clock.Now().Add(-time.Millisecond)
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: h.item(), Deadline: past})
			h.is("something new", err, store.ErrStale)
			_, err = h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: accepted, Deadline: past})
			h.is("what was accepted", err, store.ErrStale)
			_, err = h.store.Deliver(h.ctx, store.Deliver{Run: h.runID(), Item: h.item(), Deadline: past})
			h.is("to an unknown run", err, store.ErrStale)
		})
		_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: h.item(), Deadline: h.clock.Now().Add(time.Second)})
		h.check("deliver in time", err)
	}},
	{"DeliverMakesAParkedRunReady", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.park(l, fence, h.clock.Now().Add(time.Hour))
		h.poll(s, orders)
		h.deliver(l.Run)
		snap := h.inspect()
		h.equal("queue state", snap.Runs[l.Run].QueueState, store.StateReady)
		h.equal("due", snap.Runs[l.Run].Due, time.Time{})
		h.equal("timers", snap.Timers, map[event.RunID]time.Time(nil))
		h.equal("ready", snap.Ready, map[store.Route][]event.RunID{orders: {l.Run}})
		h.equal("wake", snap.Wakes[orders], true)
		h.equal("unread items told by the claim", h.claim(s, 1)[0].Unread, true)
	}},
	{"DeliverToAReadyRunChangesNothingElse", func(h *harness) {
		a, b := h.start(), h.start()
		h.deliver(a.Run)
		h.equal("ready", h.inspect().Ready[orders], []event.RunID{a.Run, b.Run})
	}},
	{"DeliverToAnOwnedRunTellsTheOwner", func(h *harness) {
		s, other := h.session(), h.session()
		l, _ := h.startOwned(s)
		h.deliver(l.Run)
		h.state(l.Run, store.StateOwned)
		h.equal("unread items", h.inspect().Unread, map[store.SessionID][]event.RunID{s: {l.Run}})
		h.equal("unread items of the other session", h.heartbeat(other).Unread, []event.RunID(nil))
	}},
}
