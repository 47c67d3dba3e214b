package storetest

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// lineUp starts a run behind the active one of its workflow id.
func (h *harness) lineUp(wid string) (*Log, store.Item) {
	h.Helper()
	cancel := h.item()
	l := h.startAs(orders, wid, canceling, func(c *store.Create) { c.Cancel = cancel })
	return l, cancel
}

var lineBehaviors = []behavior{
	{"C1_CreateUnderActiveCancelWaitsInLine", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		second, cancel := h.lineUp(wid)
		h.state(second.Run, store.StateQueued)
		h.equal("inbox of the active run", h.load(first.Run).Inbox, []store.Item{cancel})
		snap := h.inspect()
		h.equal("active", snap.Active, map[string]event.RunID{wid: first.Run})
		h.equal("line", snap.Lines, map[string][]event.RunID{wid: {second.Run}})
		h.equal("claimed", runsOf(h.claim(h.session(), 10)), []event.RunID{first.Run})
	}},
	{"C1_CreateUnderActiveCancelSentAgainWaitsOnce", func(h *harness) {
		wid := h.workflowID("order")
		h.startAs(orders, wid)
		c := h.newLog(orders, wid).Create()
		c.Active, c.Cancel = store.ActiveCancel, h.item()
		h.create(c)
		h.unchanged("the same create", func() { h.equal("answer", h.create(c), store.Created{Run: c.Run, New: true}) })
	}},
	{"CreateUnderActiveCancelStartsAtOnceIfNoneIsActive", func(h *harness) {
		l, _ := h.lineUp(h.workflowID("order"))
		h.state(l.Run, store.StateReady)
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item(nil))
	}},
	{"CreateUnderActiveCancelCancelsEverybodyBeforeIt", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		second, two := h.lineUp(wid)
		third, three := h.lineUp(wid)
		h.equal("inbox of the active run", h.load(first.Run).Inbox, []store.Item{two, three})
		h.equal("inbox of the first in line", h.load(second.Run).Inbox, []store.Item{three})
		h.equal("inbox of the last in line", h.load(third.Run).Inbox, []store.Item(nil))
		h.state(second.Run, store.StateQueued)
	}},
	{"CreateUnderActiveCancelWakesAParkedRun", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		h.park(first, h.own(h.session(), first), h.clock.Now().Add(ttl))
		h.lineUp(wid)
		h.state(first.Run, store.StateReady)
	}},
	{"CreateUnderActiveCancelTellsTheOwner", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		s := h.session()
		h.own(s, first)
		h.lineUp(wid)
		h.equal("unread items in the heartbeat", h.heartbeat(s).Unread, []event.RunID{first.Run})
		h.equal("unread items in the wait", h.poll(s).Unread, []event.RunID{first.Run})
	}},
	{"CreateUnderActiveCancelReachesAClosingRun", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		c := first.Commit(h.own(h.session(), first), first.Work()...)
		c.Closing = true
		h.commit(first, c)
		_, cancel := h.lineUp(wid)
		h.equal("inbox of the active run", h.load(first.Run).Inbox, []store.Item{cancel})
	}},
	{"CreateUnderOtherPoliciesNeverJoinsTheLine", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		h.lineUp(wid)
		h.equal("answer", h.create(h.newLog(orders, wid).Create()), store.Created{Run: first.Run})
	}},
	{"C1_TheEndOfTheActiveRunStartsTheNextInLine", func(h *harness) {
		wid := h.workflowID("order")
		s := h.session()
		first := h.startAs(orders, wid)
		second, two := h.lineUp(wid)
		third, three := h.lineUp(wid)
		h.equal("first claim", runsOf(h.claim(s, 10)), []event.RunID{first.Run})

		c := withEffect(first.Commit(h.record(first.Run).Fence, append(first.Receive(two, three), first.End(event.StatusCanceled)...)...), store.EffectFinish, event.StatusCanceled)
		c.Consume, c.ConsumeLast = 2, three.ID
		h.commit(first, c)
		snap := h.inspect()
		h.equal("active", snap.Active, map[string]event.RunID{wid: second.Run})
		h.equal("last ended", snap.LastEnded, map[string]event.RunID{wid: first.Run})
		h.equal("line", snap.Lines, map[string][]event.RunID{wid: {third.Run}})
		h.state(second.Run, store.StateReady)
		h.equal("wake", snap.Wakes[orders], true)
		h.equal("inbox that the second brought along", h.load(second.Run).Inbox, []store.Item{three})
		h.equal("second claim", runsOf(h.claim(s, 10)), []event.RunID{second.Run})

		c = withEffect(second.Commit(h.record(second.Run).Fence, append(second.Receive(three), second.End(event.StatusCanceled)...)...), store.EffectFinish, event.StatusCanceled)
		c.Consume, c.ConsumeLast = 1, three.ID
		h.commit(second, c)
		h.finish(third, h.own(s, third), event.StatusCompleted)
		snap = h.inspect()
		h.equal("active in the end", snap.Active, map[string]event.RunID(nil))
		h.equal("last ended in the end", snap.LastEnded, map[string]event.RunID{wid: third.Run})
		h.equal("line in the end", snap.Lines, map[string][]event.RunID(nil))
	}},
	{"AQueuedRunTakesItemsAndIsNotMadeReadyByThem", func(h *harness) {
		wid := h.workflowID("order")
		h.startAs(orders, wid)
		second, _ := h.lineUp(wid)
		i := h.deliver(second.Run)
		h.state(second.Run, store.StateQueued)
		h.equal("inbox", h.load(second.Run).Inbox, []store.Item{i})
	}},
	{"AQueuedRunStartsEvenIfItsTimeHasNotCome", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		s := h.session()
		fence := h.own(s, first)
		cancel := h.item()
		second := h.startAs(orders, wid, canceling, func(c *store.Create) { c.Cancel, c.Delay = cancel, ttl })
		h.state(second.Run, store.StateQueued)
		c := withEffect(first.Commit(fence, append(first.Receive(cancel), first.End(event.StatusCanceled)...)...), store.EffectFinish, event.StatusCanceled)
		c.Consume, c.ConsumeLast = 1, cancel.ID
		h.commit(first, c)
		h.state(second.Run, store.StateReady)
	}},
}
