package chains

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var deliverBehaviors = []behavior{
	{"M1_WhatIsAcceptedIsInTheInboxAndSeen", func(h *harness) {
		l := h.Start()
		i := h.Deliver(l.Run)
		snap := h.Inspect()
		h.Equal("inbox", snap.Runs[l.Run].Inbox, []store.Item{i})
		h.Equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time{l.Run: {i.ID: h.Clock.Now()}})
		h.Equal("kept", snap.Kept, map[event.RunID][]event.ItemID(nil))
	}},
	{"M1_TheSameItemIsAcceptedOnce", func(h *harness) {
		l := h.Start()
		i := h.Deliver(l.Run)
		h.Unchanged("the same item", func() {
			got, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
			h.Check("deliver", err)
			h.Equal("accepted by", got, l.Run)
		})
	}},
	{"M1_TheSameItemIsAcceptedOnceAlsoWhenItHasBeenRead", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		i := h.Deliver(l.Run)
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(i)...), i))
		h.Clock.Advance(23 * time.Hour)
		h.Unchanged("the same item", func() {
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
			h.Check("deliver", err)
		})
	}},
	{"M1_ManyItemsAreEachAcceptedOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		var all []store.Item
		for range 40 {
			all = append(all, h.Deliver(l.Run))
		}
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(all[:20]...)...), all[:20]...))
		h.Unchanged("the same items", func() {
			for _, i := range all {
				_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
				h.Check("deliver", err)
			}
		})
	}},
	{"M1_AnItemIsSeenPerChain", func(h *harness) {
		a, b := h.Start(), h.Start()
		i := h.Deliver(a.Run)
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: b.Run, Item: i})
		h.Check("deliver to another run", err)
		h.Equal("inbox of the other run", h.Load(b.Run).Inbox, []store.Item{i})
	}},
	{"M2_DeliverIsAcceptedAgainAfterTheRunEnded", func(h *harness) {
		l := h.Start()
		i := h.Deliver(l.Run)
		fence := h.Own(h.Session(), l)
		h.Commit(l, suite.WithEffect(suite.Consuming(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), i), store.EffectFinish, event.StatusCompleted))
		h.Unchanged("deliveries to an ended run", func() {
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
			h.Check("deliver what was accepted", err)
			_, err = h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: h.Item()})
			e := suite.As[*store.TerminalError](h.Harness, "deliver something new", err)
			h.Equal("error", *e, store.TerminalError{Run: l.Run, Status: event.StatusCompleted})
		})
	}},
	{"DeliverToAnUnknownRunIsNotFound", func(h *harness) {
		h.Unchanged("a delivery to nobody", func() {
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: h.RunID(), Item: h.Item()})
			h.Is("deliver", err, store.ErrRunNotFound)
		})
	}},
	{"DeliverKeepsTheOrder", func(h *harness) {
		l := h.Start()
		var want []store.Item
		for n := range 5 {
			i := h.Item()
			i.Scope = store.Scope(n % 2)
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
			h.Check("deliver", err)
			want = append(want, i)
		}
		h.Equal("inbox", h.Load(l.Run).Inbox, want)
	}},
	{"DeliverPastItsDeadlineIsStale", func(h *harness) {
		l := h.Start()
		accepted := h.Deliver(l.Run)
		h.Unchanged("late deliveries", func() {
			past := h.Clock.Now().Add(-time.Millisecond)
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: h.Item(), Deadline: past})
			h.Is("something new", err, store.ErrStale)
			_, err = h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: accepted, Deadline: past})
			h.Is("what was accepted", err, store.ErrStale)
			_, err = h.Store.Deliver(h.Ctx, store.Deliver{Run: h.RunID(), Item: h.Item(), Deadline: past})
			h.Is("to an unknown run", err, store.ErrStale)
		})
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: h.Item(), Deadline: h.Clock.Now().Add(time.Second)})
		h.Check("deliver in time", err)
	}},
	{"DeliverMakesAParkedRunReady", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Park(l, fence, h.Clock.Now().Add(time.Hour))
		h.Poll(s, suite.Orders)
		h.Deliver(l.Run)
		snap := h.Inspect()
		h.Equal("queue state", snap.Runs[l.Run].QueueState, store.StateReady)
		h.Equal("due", snap.Runs[l.Run].Due, time.Time{})
		h.Equal("timers", snap.Timers, map[event.RunID]time.Time(nil))
		h.Equal("ready", snap.Ready, map[store.Route][]event.RunID{suite.Orders: {l.Run}})
		h.Equal("wake", snap.Wakes[suite.Orders], true)
		h.Equal("unread items told by the claim", h.Claim(s, 1)[0].Unread, true)
	}},
	{"DeliverToAReadyRunChangesNothingElse", func(h *harness) {
		a, b := h.Start(), h.Start()
		h.Deliver(a.Run)
		h.Equal("ready", h.Inspect().Ready[suite.Orders], []event.RunID{a.Run, b.Run})
	}},
	{"DeliverToAnOwnedRunTellsTheOwner", func(h *harness) {
		s, other := h.Session(), h.Session()
		l, _ := h.StartOwned(s)
		h.Deliver(l.Run)
		h.State(l.Run, store.StateOwned)
		h.Equal("unread items", h.Inspect().Unread, map[store.SessionID][]event.RunID{s: {l.Run}})
		h.Equal("unread items of the other session", h.Heartbeat(other).Unread, []event.RunID(nil))
	}},
}
