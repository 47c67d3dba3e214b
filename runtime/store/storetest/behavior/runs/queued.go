package runs

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// lining contains the policies by which a start waits for the active run of its workflow ID.
var lining = []store.ActivePolicy{store.ActiveCancel, store.ActiveQueue, store.ActiveLatest}

var lineBehaviors = []behavior{
	{"C1_CreateUnderActiveCancelWaitsInLine", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		second, cancel := h.LineUp(wid)
		h.State(second.Run, store.StateQueued)
		h.Equal("inbox of the active run", h.Load(first.Run).Inbox, []store.Item{cancel})
		snap := h.Inspect()
		h.Equal("active", snap.Active, map[string]event.RunID{wid: first.Run})
		h.Equal("line", snap.Lines, map[string][]event.RunID{wid: {second.Run}})
		h.Equal("claimed", suite.RunsOf(h.Claim(h.Session(), 10)), []event.RunID{first.Run})
	}},
	{"C1_CreateThatWaitsInLineSentAgainWaitsOnce", func(h *harness) {
		for _, p := range lining {
			wid := h.WorkflowID(fmt.Sprint("order ", p))
			h.StartAs(suite.Orders, wid)
			c := h.NewLog(suite.Orders, wid).Create()
			c.Active, c.Cancel = p, h.Item()
			h.Create(c)
			h.Unchanged("the same create", func() { h.Equal("answer", h.Create(c), store.Created{Run: c.Run, New: true}) })
		}
	}},
	{"C1_RunsUnderActiveQueueStartOneAfterTheOther", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		queued := func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.Item() }
		runs := []*suite.Log{h.StartAs(suite.Orders, wid, queued), h.StartAs(suite.Orders, wid, queued), h.StartAs(suite.Orders, wid, queued)}
		for i, l := range runs {
			h.Equal("claimed", suite.RunsOf(h.Claim(s, 10)), []event.RunID{l.Run})
			h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item(nil))
			for _, later := range runs[i+1:] {
				h.State(later.Run, store.StateQueued)
			}
			h.Finish(l, h.Record(l.Run).Fence, event.StatusCompleted)
		}
		h.Equal("active in the end", h.Inspect().Active, map[string]event.RunID(nil))
	}},
	{"CreateUnderActiveLatestCancelsThoseInLineOnly", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		s := h.Session()
		fence := h.Own(s, first)
		queued := h.StartAs(suite.Orders, wid, func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.Item() })
		latest := func() (*suite.Log, store.Item) {
			i := h.Item()
			return h.StartAs(suite.Orders, wid, func(c *store.Create) { c.Active, c.Cancel = store.ActiveLatest, i }), i
		}
		third, three := latest()
		fourth, four := latest()
		h.Equal("inbox of the active run", h.Load(first.Run).Inbox, []store.Item(nil))
		h.Equal("inbox of the first in line", h.Load(queued.Run).Inbox, []store.Item{three, four})
		h.Equal("inbox of the second in line", h.Load(third.Run).Inbox, []store.Item{four})
		h.Equal("inbox of the last in line", h.Load(fourth.Run).Inbox, []store.Item(nil))
		h.Equal("line", h.Inspect().Lines, map[string][]event.RunID{wid: {queued.Run, third.Run, fourth.Run}})
		h.Finish(first, fence, event.StatusCompleted)
		h.State(queued.Run, store.StateReady)
	}},
	{"CreateUnderActiveQueueAndLatestStartsAtOnceIfNoneIsActive", func(h *harness) {
		for _, p := range lining {
			l := h.StartAs(suite.Orders, h.WorkflowID(fmt.Sprint("order ", p)), func(c *store.Create) { c.Active, c.Cancel = p, h.Item() })
			h.State(l.Run, store.StateReady)
			h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item(nil))
		}
	}},
	{"AQueuedRunWaitsForTheEndOfAChain", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		first := h.StartAs(suite.Orders, wid)
		queued := h.StartAs(suite.Orders, wid, func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.Item() })
		next := h.ContinueRun(first, h.Own(s, first))
		h.State(queued.Run, store.StateQueued)
		h.Finish(next, h.Own(s, next), event.StatusCompleted)
		h.State(queued.Run, store.StateReady)
	}},
	{"CreateUnderActiveCancelStartsAtOnceIfNoneIsActive", func(h *harness) {
		l, _ := h.LineUp(h.WorkflowID("order"))
		h.State(l.Run, store.StateReady)
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item(nil))
	}},
	{"CreateUnderActiveCancelCancelsEverybodyBeforeIt", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		second, two := h.LineUp(wid)
		third, three := h.LineUp(wid)
		h.Equal("inbox of the active run", h.Load(first.Run).Inbox, []store.Item{two, three})
		h.Equal("inbox of the first in line", h.Load(second.Run).Inbox, []store.Item{three})
		h.Equal("inbox of the last in line", h.Load(third.Run).Inbox, []store.Item(nil))
		h.State(second.Run, store.StateQueued)
	}},
	{"CreateUnderActiveCancelWakesAParkedRun", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		h.Park(first, h.Own(h.Session(), first), h.Clock.Now().Add(suite.TTL))
		h.LineUp(wid)
		h.State(first.Run, store.StateReady)
	}},
	{"CreateUnderActiveCancelTellsTheOwner", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		s := h.Session()
		h.Own(s, first)
		h.LineUp(wid)
		h.Equal("unread items in the heartbeat", h.Heartbeat(s).Unread, []event.RunID{first.Run})
		h.Equal("unread items in the wait", h.Poll(s).Unread, []event.RunID{first.Run})
	}},
	{"CreateUnderActiveCancelReachesAClosingRun", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		c := first.Commit(h.Own(h.Session(), first), first.Work()...)
		c.Closing = true
		h.Commit(first, c)
		_, cancel := h.LineUp(wid)
		h.Equal("inbox of the active run", h.Load(first.Run).Inbox, []store.Item{cancel})
	}},
	{"CreateUnderOtherPoliciesNeverJoinsTheLine", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		h.LineUp(wid)
		h.Equal("answer", h.Create(h.NewLog(suite.Orders, wid).Create()), store.Created{Run: first.Run})
	}},
	{"C1_TheEndOfTheActiveRunStartsTheNextInLine", func(h *harness) {
		wid := h.WorkflowID("order")
		s := h.Session()
		first := h.StartAs(suite.Orders, wid)
		second, two := h.LineUp(wid)
		third, three := h.LineUp(wid)
		h.Equal("first claim", suite.RunsOf(h.Claim(s, 10)), []event.RunID{first.Run})

		c := suite.WithEffect(first.Commit(h.Record(first.Run).Fence, append(first.Receive(two, three), first.End(event.StatusCanceled)...)...), store.EffectFinish, event.StatusCanceled)
		c.Consume, c.ConsumeLast = 2, three.ID
		h.Commit(first, c)
		snap := h.Inspect()
		h.Equal("active", snap.Active, map[string]event.RunID{wid: second.Run})
		h.Equal("last ended", snap.LastEnded, map[string]event.RunID{wid: first.Run})
		h.Equal("line", snap.Lines, map[string][]event.RunID{wid: {third.Run}})
		h.State(second.Run, store.StateReady)
		h.Equal("wake", snap.Wakes[suite.Orders], true)
		h.Equal("inbox that the second brought along", h.Load(second.Run).Inbox, []store.Item{three})
		h.Equal("second claim", suite.RunsOf(h.Claim(s, 10)), []event.RunID{second.Run})

		c = suite.WithEffect(second.Commit(h.Record(second.Run).Fence, append(second.Receive(three), second.End(event.StatusCanceled)...)...), store.EffectFinish, event.StatusCanceled)
		c.Consume, c.ConsumeLast = 1, three.ID
		h.Commit(second, c)
		h.Finish(third, h.Own(s, third), event.StatusCompleted)
		snap = h.Inspect()
		h.Equal("active in the end", snap.Active, map[string]event.RunID(nil))
		h.Equal("last ended in the end", snap.LastEnded, map[string]event.RunID{wid: third.Run})
		h.Equal("line in the end", snap.Lines, map[string][]event.RunID(nil))
	}},
	{"AQueuedRunTakesItemsAndIsNotMadeReadyByThem", func(h *harness) {
		wid := h.WorkflowID("order")
		h.StartAs(suite.Orders, wid)
		second, _ := h.LineUp(wid)
		i := h.Deliver(second.Run)
		h.State(second.Run, store.StateQueued)
		h.Equal("inbox", h.Load(second.Run).Inbox, []store.Item{i})
	}},
	{"AQueuedRunStartsEvenIfItsTimeHasNotCome", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		s := h.Session()
		fence := h.Own(s, first)
		cancel := h.Item()
		second := h.StartAs(suite.Orders, wid, suite.Canceling, func(c *store.Create) { c.Cancel, c.Delay = cancel, suite.TTL })
		h.State(second.Run, store.StateQueued)
		c := suite.WithEffect(first.Commit(fence, append(first.Receive(cancel), first.End(event.StatusCanceled)...)...), store.EffectFinish, event.StatusCanceled)
		c.Consume, c.ConsumeLast = 1, cancel.ID
		h.Commit(first, c)
		h.State(second.Run, store.StateReady)
	}},
}
