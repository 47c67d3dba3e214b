package runs

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// with makes a create contain items.
func with(items ...store.Item) func(*store.Create) {
	return func(c *store.Create) { c.Items = items }
}

// holds fails the test unless the inbox of a run contains exactly these items, and the store
// remembers exactly these items as accepted.
func (h *harness) holds(run event.RunID, items ...store.Item) {
	h.Helper()
	snap := h.Inspect()
	h.Equal("inbox", snap.Runs[run].Inbox, items)
	seen := map[event.ItemID]time.Time{}
	for _, i := range items {
		seen[i.ID] = h.Clock.Now()
	}
	h.Equal("seen", snap.Seen[run], seen)
}

// handedTo claims a run and returns its fence. It fails the test unless the claim returns only this
// run, with these items unread.
func (h *harness) handedTo(s store.SessionID, l *suite.Log, items ...store.Item) store.Fence {
	h.Helper()
	got := h.Claim(s, 100)
	if len(got) != 1 || got[0].Run != l.Run {
		h.Fatalf("claim: got %v, want run %s", suite.RunsOf(got), l.Run)
	}
	h.Equal("unread items told by the claim", got[0].Unread, true)
	h.Equal("unread items of the session", h.Heartbeat(s).Unread, []event.RunID{l.Run})
	h.Equal("inbox", h.Load(l.Run).Inbox, items)
	return got[0].Fence
}

// itemBehaviors test runs that are created with items.
var itemBehaviors = []behavior{
	{"C2_ARunHasTheItemsThatItIsCreatedWith", func(h *harness) {
		one, two := h.Item(), h.Item()
		two.Scope = store.ScopeRun
		l := h.Start(with(one, two))
		h.holds(l.Run, one, two)
		h.Equal("kept", h.Inspect().Kept, map[event.RunID][]event.ItemID(nil))
		s := h.Session()
		fence := h.handedTo(s, l, one, two)
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(one, two)...), one, two))
		h.Equal("unread items when they are read", h.Heartbeat(s).Unread, []event.RunID(nil))
		h.Finish(l, fence, event.StatusCompleted)
	}},
	{"C2_TheActiveRunOfAWorkflowIDHasTheItemsThatItIsCreatedWith", func(h *harness) {
		i := h.Item()
		l := h.StartAs(suite.Orders, h.WorkflowID("order"), with(i))
		h.holds(l.Run, i)
		h.handedTo(h.Session(), l, i)
	}},
	{"C2_WhatARunIsCreatedWithIsNotAcceptedAgain", func(h *harness) {
		i := h.Item()
		l := h.Start(with(i))
		again := func() {
			got, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
			h.Check("deliver", err)
			h.Equal("accepted by", got, l.Run)
		}
		h.Unchanged("the same item", again)
		fence := h.Own(h.Session(), l)
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(i)...), i))
		h.Unchanged("the same item when it has been read", again)
		h.Finish(l, fence, event.StatusCompleted)
		h.Unchanged("the same item after the end", again)
	}},
	{"C2_OthersComeAfterWhatARunIsCreatedWith", func(h *harness) {
		one, two := h.Item(), h.Item()
		l := h.Start(with(one, two))
		three := h.Deliver(l.Run)
		h.holds(l.Run, one, two, three)
	}},
	{"C2_ACreateSentAgainAddsNoItem", func(h *harness) {
		l := h.NewLog(suite.Orders, h.WorkflowID("order"))
		c := l.Create()
		c.Items = []store.Item{h.Item(), h.Item()}
		want := store.Created{Run: l.Run, New: true}
		again := func() { h.Equal("answer", h.Create(c), want) }
		again()
		h.Unchanged("the same create", again)
		fence := h.Own(h.Session(), l)
		h.Unchanged("the same create when the run is owned", again)
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(c.Items...)...), c.Items...))
		h.Unchanged("the same create when they are read", again)
		h.Finish(l, fence, event.StatusCompleted)
		h.Unchanged("the same create after the end", again)
	}},
	{"C2_TheItemsOfAStartThatIsNotExecutedAreNotAccepted", func(h *harness) {
		wid, ended := h.WorkflowID("order"), h.WorkflowID("ended")
		first, last := h.StartAs(suite.Orders, wid), h.StartAs(suite.Refunds, ended)
		h.Finish(last, h.Own(h.Session(), last), event.StatusCompleted)
		h.Unchanged("starts that are not executed", func() {
			c := h.NewLog(suite.Orders, wid).Create()
			c.Items = []store.Item{h.Item()}
			h.Equal("answer under ActiveUse", h.Create(c), store.Created{Run: first.Run})
			c = h.NewLog(suite.Orders, wid).Create()
			c.Items, c.Active = []store.Item{h.Item()}, store.ActiveFail
			suite.IsA[*store.ActiveError](h.Harness, "create under ActiveFail", h.Create(c).Err)
			c = h.NewLog(suite.Refunds, ended).Create()
			c.Items, c.Finished = []store.Item{h.Item()}, store.FinishedReject
			suite.IsA[*store.FinishedError](h.Harness, "create under FinishedReject", h.Create(c).Err)
			c = h.NewLog(suite.Orders, "").Create()
			c.Items, c.Deadline = []store.Item{h.Item()}, h.Clock.Now().Add(-time.Millisecond)
			h.Is("create that is late", h.Create(c).Err, store.ErrStale)
		})
	}},
	{"C2_ADelayedRunHoldsItsItemsUntilItIsDue", func(h *harness) {
		i := h.Item()
		l := h.Start(with(i), func(c *store.Create) { c.Delay = time.Minute })
		got := h.Record(l.Run)
		h.Equal("queue state", got.QueueState, store.StateParked)
		h.Equal("due", got.Due, h.Clock.Now().Add(time.Minute))
		h.holds(l.Run, i)
		s := h.Session()
		h.Equal("claimed before it is due", h.Claim(s, 10), []store.ClaimedRun(nil))
		h.Clock.Advance(time.Minute)
		h.Due(10)
		h.State(l.Run, store.StateReady)
		h.handedTo(s, l, i)
	}},
	{"C2_AnItemThatComesLaterWakesADelayedRunWithItems", func(h *harness) {
		i := h.Item()
		l := h.Start(with(i), func(c *store.Create) { c.At = h.Clock.Now().Add(time.Hour) })
		later := h.Deliver(l.Run)
		h.State(l.Run, store.StateReady)
		h.Equal("timers", h.Inspect().Timers, map[event.RunID]time.Time(nil))
		h.handedTo(h.Session(), l, i, later)
	}},
	{"C2_ARunInLineHoldsItsItemsUntilItIsReady", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		i, cancel := h.Item(), h.Item()
		second := h.StartAs(suite.Orders, wid, suite.Canceling, with(i), func(c *store.Create) { c.Cancel = cancel })
		h.State(second.Run, store.StateQueued)
		h.holds(second.Run, i)
		h.Equal("inbox of the active run", h.Load(first.Run).Inbox, []store.Item{cancel})
		s := h.Session()
		fence := h.Own(s, first)
		h.Commit(first, suite.WithEffect(suite.Consuming(first.Commit(fence, append(first.Receive(cancel), first.End(event.StatusCanceled)...)...), cancel), store.EffectFinish, event.StatusCanceled))
		h.State(second.Run, store.StateReady)
		h.handedTo(s, second, i)
	}},
	{"C2_ItemsOfOneIDAreRefused", func(h *harness) {
		i := h.Item()
		c := h.NewLog(suite.Orders, "").Create()
		c.Items = []store.Item{i, h.Item(), i}
		h.Unchanged("a refused start", func() { suite.IsA[*store.InvalidError](h.Harness, "create", h.Create(c).Err) })
	}},
	{"C2_ItemsOfARunThatIsCreatedAsOwnedAreRefused", func(h *harness) {
		c := h.NewLog(suite.Orders, "").Create()
		c.Items, c.Owner = []store.Item{h.Item()}, &store.Owner{Session: h.Session(), Token: h.IDs.Token()}
		h.Unchanged("a refused start", func() { suite.IsA[*store.InvalidError](h.Harness, "create", h.Create(c).Err) })
	}},
	{"C2_ItemsOfWhatARunContinuesAsAreIgnored", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c, next := l.Continue(fence, nil)
		c.Continue.Items = []store.Item{h.Item()}
		h.Commit(l, c)
		h.Equal("inbox of the next run", h.Load(next.Run).Inbox, []store.Item(nil))
		h.Equal("seen", h.Inspect().Seen, map[event.RunID]map[event.ItemID]time.Time(nil))
		h.Equal("unread items of the next run", h.Claim(h.Session(), 1)[0].Unread, false)
	}},
	{"C2_ManyRunsAreEachCreatedWithTheirItems", func(h *harness) {
		var batch []store.Create
		for n := range 20 {
			c := h.NewLog(suite.Orders, "").Create()
			for range n % 3 {
				c.Items = append(c.Items, h.Item())
			}
			batch = append(batch, c)
		}
		for range 2 {
			_, err := h.Store.Create(h.Ctx, batch)
			h.Check("create", err)
		}
		for _, c := range batch {
			h.holds(c.Run, c.Items...)
		}
	}},
}
