package storetest

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// lineUp starts a run that waits for the active run of its workflow ID.
func (h *harness) lineUp(wid string) (*Log, store.Item) {
	h.Helper()
	cancel := h.item()
	l := h.startAs(orders, wid, canceling, func(c *store.Create) { c.Cancel = cancel })
	return l, cancel
}

// lining contains the policies under which a start waits for the active run.
var lining = []store.ActivePolicy{store.ActiveCancel, store.ActiveQueue, store.ActiveLatest}

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
	{"C1_CreateThatWaitsInLineSentAgainWaitsOnce", func(h *harness) {
		for _, p := range lining {
			wid := h.workflowID(fmt.Sprint("order ", p))
			h.startAs(orders, wid)
			c := h.newLog(orders, wid).Create()
			c.Active, c.Cancel = p, h.item()
			h.create(c)
			h.unchanged("the same create", func() { h.equal("answer", h.create(c), store.Created{Run: c.Run, New: true}) })
		}
	}},
	{"C1_RunsUnderActiveQueueStartOneAfterTheOther", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		queued := func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.item() }
		runs := []*Log{h.startAs(orders, wid, queued), h.startAs(orders, wid, queued), h.startAs(orders, wid, queued)}
		for i, l := range runs {
			h.equal("claimed", runsOf(h.claim(s, 10)), []event.RunID{l.Run})
			h.equal("inbox", h.load(l.Run).Inbox, []store.Item(nil))
			for _, later := range runs[i+1:] {
				h.state(later.Run, store.StateQueued)
			}
			h.finish(l, h.record(l.Run).Fence, event.StatusCompleted)
		}
		h.equal("active in the end", h.inspect().Active, map[string]event.RunID(nil))
	}},
	{"CreateUnderActiveLatestCancelsThoseInLineOnly", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		s := h.session()
		fence := h.own(s, first)
		queued := h.startAs(orders, wid, func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.item() })
		latest := func() (*Log, store.Item) {
			i := h.item()
			return h.startAs(orders, wid, func(c *store.Create) { c.Active, c.Cancel = store.ActiveLatest, i }), i
		}
		third, three := latest()
		fourth, four := latest()
		h.equal("inbox of the active run", h.load(first.Run).Inbox, []store.Item(nil))
		h.equal("inbox of the first in line", h.load(queued.Run).Inbox, []store.Item{three, four})
		h.equal("inbox of the second in line", h.load(third.Run).Inbox, []store.Item{four})
		h.equal("inbox of the last in line", h.load(fourth.Run).Inbox, []store.Item(nil))
		h.equal("line", h.inspect().Lines, map[string][]event.RunID{wid: {queued.Run, third.Run, fourth.Run}})
		h.finish(first, fence, event.StatusCompleted)
		h.state(queued.Run, store.StateReady)
	}},
	{"CreateUnderActiveQueueAndLatestStartsAtOnceIfNoneIsActive", func(h *harness) {
		for _, p := range lining {
			l := h.startAs(orders, h.workflowID(fmt.Sprint("order ", p)), func(c *store.Create) { c.Active, c.Cancel = p, h.item() })
			h.state(l.Run, store.StateReady)
			h.equal("inbox", h.load(l.Run).Inbox, []store.Item(nil))
		}
	}},
	{"AQueuedRunWaitsForTheEndOfAChain", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		first := h.startAs(orders, wid)
		queued := h.startAs(orders, wid, func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.item() })
		next := h.continueRun(first, h.own(s, first))
		h.state(queued.Run, store.StateQueued)
		h.finish(next, h.own(s, next), event.StatusCompleted)
		h.state(queued.Run, store.StateReady)
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
