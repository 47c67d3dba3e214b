package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var effectBehaviors = []behavior{
	{"ParkGivesTheRunBackUntilItIsDue", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		due := h.clock.Now().Add(time.Hour)
		h.park(l, fence, due)
		snap := h.inspect()
		got := snap.Runs[l.Run]
		h.equal("queue state", got.QueueState, store.StateParked)
		h.equal("due", got.Due, due)
		h.equal("status", got.Status, event.StatusSleeping)
		h.equal("owner", got.Owner, store.SessionID(""))
		h.equal("token", got.Fence.Token, event.Token{})
		h.equal("timers", snap.Timers, map[event.RunID]time.Time{l.Run: due})
		h.equal("owned", snap.Owned, map[store.SessionID][]event.RunID(nil))
		h.equal("claimed", h.claim(s, 10), []store.ClaimedRun(nil))
	}},
	{"F2_ParkFencesTheOwner", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.park(l, fence, time.Time{})
		h.unchanged("what comes after the park", func() {
			h.is("commit", h.try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
			h.is("release", h.store.Release(h.ctx, l.Run, fence), store.ErrFenced)
		})
	}},
	{"ParkWithoutADueTimeSetsNoTimer", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.park(l, fence, time.Time{})
		h.equal("due", h.record(l.Run).Due, time.Time{})
		h.equal("timers", h.inspect().Timers, map[event.RunID]time.Time(nil))
	}},
	{"K3_ParkWithTheEarliestDueTimeWakesTheRoute", func(h *harness) {
		s := h.session()
		a, fa := h.startOwned(s)
		b, fb := h.startOwned(s)
		c, fc := h.startOwned(s)
		now := h.clock.Now()
		h.poll(s, orders) // takes the wakes of the starts
		h.park(a, fa, now.Add(2*time.Hour))
		h.equal("woken by the first", h.poll(s, orders).Claim, []int{0})
		h.park(b, fb, now.Add(3*time.Hour))
		h.equal("woken by a later one", h.poll(s, orders).Claim, []int(nil))
		h.park(c, fc, now.Add(time.Hour))
		h.equal("woken by an earlier one", h.poll(s, orders).Claim, []int{0})
	}},
	{"K3_CreateWithTheEarliestDueTimeWakesTheRoute", func(h *harness) {
		s := h.session()
		h.start(func(c *store.Create) { c.Delay = time.Hour })
		h.equal("woken by the first", h.poll(s, orders).Claim, []int{0})
		h.start(func(c *store.Create) { c.Delay = 2 * time.Hour })
		h.equal("woken by a later one", h.poll(s, orders).Claim, []int(nil))
	}},
	{"YieldPutsTheRunBehindItsRoute", func(h *harness) {
		s := h.session()
		a, fence := h.startOwned(s)
		b := h.start()
		h.commit(a, withEffect(a.Commit(fence, a.Work()...), store.EffectYield, ""))
		got := h.record(a.Run)
		h.equal("queue state", got.QueueState, store.StateReady)
		h.equal("token", got.Fence.Token, event.Token{})
		h.equal("recoveries", got.Recoveries, 0)
		h.equal("wake", h.inspect().Wakes[orders], true)
		h.is("late commit", h.try(a.Commit(fence, a.Work()...)).Err, store.ErrFenced)
		h.equal("claimed", runsOf(h.claim(s, 10)), []event.RunID{b.Run, a.Run})
	}},
	{"YieldStaysWithinThePriority", func(h *harness) {
		s := h.session()
		high := h.start(func(c *store.Create) { c.Priority = 1 })
		low := h.start()
		fence := h.claim(s, 1)[0].Fence
		h.commit(high, withEffect(high.Commit(fence), store.EffectYield, ""))
		h.equal("claimed", runsOf(h.claim(s, 10)), []event.RunID{high.Run, low.Run})
	}},
	{"BlockSetsTheRunAside", func(h *harness) {
		s := h.session(orders)
		l, fence := h.startOwned(s)
		h.block(l, fence)
		got := h.record(l.Run)
		h.equal("queue state", got.QueueState, store.StateBlocked)
		h.equal("status", got.Status, event.StatusBlocked)
		h.equal("owner", got.Owner, store.SessionID(""))
		h.is("late commit", h.try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
		h.equal("claimed", h.claim(s, 10), []store.ClaimedRun(nil))
	}},
	{"ABlockedRunTakesItemsAndIsNotMadeReadyByThem", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.block(l, fence)
		i := h.deliver(l.Run)
		h.state(l.Run, store.StateBlocked)
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{i})
	}},
	{"FinishEndsTheRun", func(h *harness) {
		s := h.session()
		wid := h.workflowID("order")
		l := h.startAs(orders, wid)
		fence := h.own(s, l)
		h.clock.Advance(time.Minute)
		h.finish(l, fence, event.StatusCompleted)
		snap := h.inspect()
		got := snap.Runs[l.Run]
		h.equal("queue state", got.QueueState, store.StateEnded)
		h.equal("status", got.Status, event.StatusCompleted)
		h.equal("ended at", got.EndedAt, h.clock.Now())
		h.equal("owner", got.Owner, store.SessionID(""))
		h.equal("token", got.Fence.Token, event.Token{})
		h.equal("owned", snap.Owned, map[store.SessionID][]event.RunID(nil))
		h.equal("active", snap.Active, map[string]event.RunID(nil))
		h.equal("last ended", snap.LastEnded, map[string]event.RunID{wid: l.Run})
		h.equal("frames", len(got.Frames), 2)
		h.is("late commit", h.try(l.Commit(fence)).Err, store.ErrFenced)
	}},
	{"ProgressForgetsRecoveriesWithAnyEffect", func(h *harness) {
		for _, e := range []store.Effect{store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock} {
			route := store.Route{Queue: "q", Workflow: string(rune('a' + e))}
			dead := h.session()
			l, _ := h.startOwnedAs(dead, route)
			h.check("close session", h.store.CloseSession(h.ctx, 0, dead))
			h.equal("recoveries", h.record(l.Run).Recoveries, 1)
			c := withEffect(l.Commit(h.own(h.session(), l), l.Work()...), e, "")
			c.Progress = true
			h.commit(l, c)
			h.equal("recoveries after progress", h.record(l.Run).Recoveries, 0)
		}
	}},
	{"ClosingMakesDeliverAnswerLater", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		accepted := h.deliver(l.Run)
		c := consuming(l.Commit(fence, l.Receive(accepted)...), accepted)
		c.Closing = true
		h.commit(l, c)
		h.equal("closing", h.record(l.Run).Closing, true)
		h.unchanged("a delivery to a closing run", func() {
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: h.item()})
			h.is("deliver", err, store.ErrLater)
			_, err = h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: accepted})
			h.check("deliver what was accepted before", err)
		})
	}},
	{"ClosingEndsWithTheNextCommit", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := l.Commit(fence, l.Work()...)
		c.Closing = true
		h.commit(l, c)
		h.commit(l, l.Commit(fence, l.Work()...))
		h.deliver(l.Run)
	}},
	{"ClosingEndsWithTheNextClaim", func(h *harness) {
		dead := h.session()
		l, fence := h.startOwned(dead)
		c := l.Commit(fence, l.Work()...)
		c.Closing = true
		h.commit(l, c)
		h.check("close session", h.store.CloseSession(h.ctx, 0, dead))
		h.own(h.session(), l)
		h.deliver(l.Run)
	}},
	{"ClosingIsOnlyForARunThatStaysOwned", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := withEffect(l.Commit(fence, l.Work()...), store.EffectPark, "")
		c.Closing = true
		h.commit(l, c)
		h.equal("closing", h.record(l.Run).Closing, false)
		h.deliver(l.Run)
	}},
}
