package runs

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var effectBehaviors = []behavior{
	{"ParkGivesTheRunBackUntilItIsDue", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		due := h.Clock.Now().Add(time.Hour)
		h.Park(l, fence, due)
		snap := h.Inspect()
		got := snap.Runs[l.Run]
		h.Equal("queue state", got.QueueState, store.StateParked)
		h.Equal("due", got.Due, due)
		h.Equal("status", got.Status, event.StatusSleeping)
		h.Equal("owner", got.Owner, store.SessionID(""))
		h.Equal("token", got.Fence.Token, event.Token{})
		h.Equal("timers", snap.Timers, map[event.RunID]time.Time{l.Run: due})
		h.Equal("owned", snap.Owned, map[store.SessionID][]event.RunID(nil))
		h.Equal("claimed", h.Claim(s, 10), []store.ClaimedRun(nil))
	}},
	{"F2_ParkFencesTheOwner", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Park(l, fence, time.Time{})
		h.Unchanged("what comes after the park", func() {
			h.Is("commit", h.Try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
			h.Is("release", h.Store.Release(h.Ctx, l.Run, fence), store.ErrFenced)
		})
	}},
	{"ParkWithoutADueTimeSetsNoTimer", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Park(l, fence, time.Time{})
		h.Equal("due", h.Record(l.Run).Due, time.Time{})
		h.Equal("timers", h.Inspect().Timers, map[event.RunID]time.Time(nil))
	}},
	{"K3_ParkWithTheEarliestDueTimeWakesTheRoute", func(h *harness) {
		s := h.Session()
		a, fa := h.StartOwned(s)
		b, fb := h.StartOwned(s)
		c, fc := h.StartOwned(s)
		now := h.Clock.Now()
		h.Poll(s, suite.Orders) // takes the wakes that the starts have set
		h.Park(a, fa, now.Add(2*time.Hour))
		h.Equal("woken by the first", h.Poll(s, suite.Orders).Claim, []int{0})
		h.Park(b, fb, now.Add(3*time.Hour))
		h.Equal("woken by a later one", h.Poll(s, suite.Orders).Claim, []int(nil))
		h.Park(c, fc, now.Add(time.Hour))
		h.Equal("woken by an earlier one", h.Poll(s, suite.Orders).Claim, []int{0})
	}},
	{"K3_CreateWithTheEarliestDueTimeWakesTheRoute", func(h *harness) {
		s := h.Session()
		h.Start(func(c *store.Create) { c.Delay = time.Hour })
		h.Equal("woken by the first", h.Poll(s, suite.Orders).Claim, []int{0})
		h.Start(func(c *store.Create) { c.Delay = 2 * time.Hour })
		h.Equal("woken by a later one", h.Poll(s, suite.Orders).Claim, []int(nil))
	}},
	{"YieldPutsTheRunBehindItsRoute", func(h *harness) {
		s := h.Session()
		a, fence := h.StartOwned(s)
		b := h.Start()
		h.Commit(a, suite.WithEffect(a.Commit(fence, a.Work()...), store.EffectYield, ""))
		got := h.Record(a.Run)
		h.Equal("queue state", got.QueueState, store.StateReady)
		h.Equal("token", got.Fence.Token, event.Token{})
		h.Equal("recoveries", got.Recoveries, 0)
		h.Equal("wake", h.Inspect().Wakes[suite.Orders], true)
		h.Is("late commit", h.Try(a.Commit(fence, a.Work()...)).Err, store.ErrFenced)
		h.Equal("claimed", suite.RunsOf(h.Claim(s, 10)), []event.RunID{b.Run, a.Run})
	}},
	{"YieldStaysWithinThePriority", func(h *harness) {
		s := h.Session()
		high := h.Start(func(c *store.Create) { c.Priority = 1 })
		low := h.Start()
		fence := h.Claim(s, 1)[0].Fence
		h.Commit(high, suite.WithEffect(high.Commit(fence), store.EffectYield, ""))
		h.Equal("claimed", suite.RunsOf(h.Claim(s, 10)), []event.RunID{high.Run, low.Run})
	}},
	{"BlockSetsTheRunAside", func(h *harness) {
		s := h.Session(suite.Orders)
		l, fence := h.StartOwned(s)
		h.Block(l, fence)
		got := h.Record(l.Run)
		h.Equal("queue state", got.QueueState, store.StateBlocked)
		h.Equal("status", got.Status, event.StatusBlocked)
		h.Equal("owner", got.Owner, store.SessionID(""))
		h.Is("late commit", h.Try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
		h.Equal("claimed", h.Claim(s, 10), []store.ClaimedRun(nil))
	}},
	{"ABlockedRunTakesItemsAndIsNotMadeReadyByThem", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Block(l, fence)
		i := h.Deliver(l.Run)
		h.State(l.Run, store.StateBlocked)
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{i})
	}},
	{"FinishEndsTheRun", func(h *harness) {
		s := h.Session()
		wid := h.WorkflowID("order")
		l := h.StartAs(suite.Orders, wid)
		fence := h.Own(s, l)
		h.Clock.Advance(time.Minute)
		h.Finish(l, fence, event.StatusCompleted)
		snap := h.Inspect()
		got := snap.Runs[l.Run]
		h.Equal("queue state", got.QueueState, store.StateEnded)
		h.Equal("status", got.Status, event.StatusCompleted)
		h.Equal("ended at", got.EndedAt, h.Clock.Now())
		h.Equal("owner", got.Owner, store.SessionID(""))
		h.Equal("token", got.Fence.Token, event.Token{})
		h.Equal("owned", snap.Owned, map[store.SessionID][]event.RunID(nil))
		h.Equal("active", snap.Active, map[string]event.RunID(nil))
		h.Equal("last ended", snap.LastEnded, map[string]event.RunID{wid: l.Run})
		h.Equal("frames", len(got.Frames), 2)
		h.Is("late commit", h.Try(l.Commit(fence)).Err, store.ErrFenced)
	}},
	{"ProgressForgetsRecoveriesWithAnyEffect", func(h *harness) {
		for _, e := range []store.Effect{store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock} {
			route := store.Route{Queue: "q", Workflow: string(rune('a' + e))}
			dead := h.Session()
			l, _ := h.StartOwnedAs(dead, route)
			h.Check("close session", h.Store.CloseSession(h.Ctx, 0, dead))
			h.Equal("recoveries", h.Record(l.Run).Recoveries, 1)
			c := suite.WithEffect(l.Commit(h.Own(h.Session(), l), l.Work()...), e, "")
			c.Progress = true
			h.Commit(l, c)
			h.Equal("recoveries after progress", h.Record(l.Run).Recoveries, 0)
		}
	}},
	{"ClosingMakesDeliverAnswerLater", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		accepted := h.Deliver(l.Run)
		c := suite.Consuming(l.Commit(fence, l.Receive(accepted)...), accepted)
		c.Closing = true
		h.Commit(l, c)
		h.Equal("closing", h.Record(l.Run).Closing, true)
		h.Unchanged("a delivery to a closing run", func() {
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: h.Item()})
			h.Is("deliver", err, store.ErrLater)
			_, err = h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: accepted})
			h.Check("deliver what was accepted before", err)
		})
	}},
	{"ClosingEndsWithTheNextCommit", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := l.Commit(fence, l.Work()...)
		c.Closing = true
		h.Commit(l, c)
		h.Commit(l, l.Commit(fence, l.Work()...))
		h.Deliver(l.Run)
	}},
	{"ClosingEndsWithTheNextClaim", func(h *harness) {
		dead := h.Session()
		l, fence := h.StartOwned(dead)
		c := l.Commit(fence, l.Work()...)
		c.Closing = true
		h.Commit(l, c)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, dead))
		h.Own(h.Session(), l)
		h.Deliver(l.Run)
	}},
	{"ClosingIsOnlyForARunThatStaysOwned", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := suite.WithEffect(l.Commit(fence, l.Work()...), store.EffectPark, "")
		c.Closing = true
		h.Commit(l, c)
		h.Equal("closing", h.Record(l.Run).Closing, false)
		h.Deliver(l.Run)
	}},
}
