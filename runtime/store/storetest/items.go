package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// with adds items to the create of a run.
func with(items ...store.Item) func(*store.Create) {
	return func(c *store.Create) { c.Items = items }
}

// holds fails the test unless exactly these items are in the inbox of a run and are remembered as
// accepted.
func (h *harness) holds(run event.RunID, items ...store.Item) {
	h.Helper()
	snap := h.inspect()
	h.equal("inbox", snap.Runs[run].Inbox, items)
	seen := map[event.ItemID]time.Time{}
	for _, i := range items {
		seen[i.ID] = h.clock.Now()
	}
	h.equal("seen", snap.Seen[run], seen)
}

// handedTo fails the test unless a claim of the session returns the run with these unread items.
func (h *harness) handedTo(s store.SessionID, l *Log, items ...store.Item) store.Fence {
	h.Helper()
	got := h.claim(s, 100)
	if len(got) != 1 || got[0].Run != l.Run {
		h.Fatalf("claim: got %v, want run %s", runsOf(got), l.Run)
	}
	h.equal("unread items told by the claim", got[0].Unread, true)
	h.equal("unread items of the session", h.heartbeat(s).Unread, []event.RunID{l.Run})
	h.equal("inbox", h.load(l.Run).Inbox, items)
	return got[0].Fence
}

// itemBehaviors test runs that are created with items.
var itemBehaviors = []behavior{
	{"C2_ARunHasTheItemsThatItIsCreatedWith", func(h *harness) {
		one, two := h.item(), h.item()
		two.Scope = store.ScopeRun
		l := h.start(with(one, two))
		h.holds(l.Run, one, two)
		h.equal("kept", h.inspect().Kept, map[event.RunID][]event.ItemID(nil))
		s := h.session()
		fence := h.handedTo(s, l, one, two)
		h.commit(l, consuming(l.Commit(fence, l.Receive(one, two)...), one, two))
		h.equal("unread items when they are read", h.heartbeat(s).Unread, []event.RunID(nil))
		h.finish(l, fence, event.StatusCompleted)
	}},
	{"C2_TheActiveRunOfAWorkflowIDHasTheItemsThatItIsCreatedWith", func(h *harness) {
		i := h.item()
		l := h.startAs(orders, h.workflowID("order"), with(i))
		h.holds(l.Run, i)
		h.handedTo(h.session(), l, i)
	}},
	{"C2_WhatARunIsCreatedWithIsNotAcceptedAgain", func(h *harness) {
		i := h.item()
		l := h.start(with(i))
		again := func() {
			got, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
			h.check("deliver", err)
			h.equal("accepted by", got, l.Run)
		}
		h.unchanged("the same item", again)
		fence := h.own(h.session(), l)
		h.commit(l, consuming(l.Commit(fence, l.Receive(i)...), i))
		h.unchanged("the same item when it has been read", again)
		h.finish(l, fence, event.StatusCompleted)
		h.unchanged("the same item after the end", again)
	}},
	{"C2_OthersComeAfterWhatARunIsCreatedWith", func(h *harness) {
		one, two := h.item(), h.item()
		l := h.start(with(one, two))
		three := h.deliver(l.Run)
		h.holds(l.Run, one, two, three)
	}},
	{"C2_ACreateSentAgainAddsNoItem", func(h *harness) {
		l := h.newLog(orders, h.workflowID("order"))
		c := l.Create()
		c.Items = []store.Item{h.item(), h.item()}
		want := store.Created{Run: l.Run, New: true}
		again := func() { h.equal("answer", h.create(c), want) }
		again()
		h.unchanged("the same create", again)
		fence := h.own(h.session(), l)
		h.unchanged("the same create when the run is owned", again)
		h.commit(l, consuming(l.Commit(fence, l.Receive(c.Items...)...), c.Items...))
		h.unchanged("the same create when they are read", again)
		h.finish(l, fence, event.StatusCompleted)
		h.unchanged("the same create after the end", again)
	}},
	{"C2_TheItemsOfAStartThatIsNotExecutedAreNotAccepted", func(h *harness) {
		wid, ended := h.workflowID("order"), h.workflowID("ended")
		first, last := h.startAs(orders, wid), h.startAs(refunds, ended)
		h.finish(last, h.own(h.session(), last), event.StatusCompleted)
		h.unchanged("starts that are not executed", func() {
			c := h.newLog(orders, wid).Create()
			c.Items = []store.Item{h.item()}
			h.equal("answer under ActiveUse", h.create(c), store.Created{Run: first.Run})
			c = h.newLog(orders, wid).Create()
			c.Items, c.Active = []store.Item{h.item()}, store.ActiveFail
			isA[*store.ActiveError](h, "create under ActiveFail", h.create(c).Err)
			c = h.newLog(refunds, ended).Create()
			c.Items, c.Finished = []store.Item{h.item()}, store.FinishedReject
			isA[*store.FinishedError](h, "create under FinishedReject", h.create(c).Err)
			c = h.newLog(orders, "").Create()
			c.Items, c.Deadline = []store.Item{h.item()}, h.clock.Now().Add(-time.Millisecond)
			h.is("create that is late", h.create(c).Err, store.ErrStale)
		})
	}},
	{"C2_ADelayedRunHoldsItsItemsUntilItIsDue", func(h *harness) {
		i := h.item()
		l := h.start(with(i), func(c *store.Create) { c.Delay = time.Minute })
		got := h.record(l.Run)
		h.equal("queue state", got.QueueState, store.StateParked)
		h.equal("due", got.Due, h.clock.Now().Add(time.Minute))
		h.holds(l.Run, i)
		s := h.session()
		h.equal("claimed before it is due", h.claim(s, 10), []store.ClaimedRun(nil))
		h.clock.Advance(time.Minute)
		h.due(10)
		h.state(l.Run, store.StateReady)
		h.handedTo(s, l, i)
	}},
	{"C2_AnItemThatComesLaterWakesADelayedRunWithItems", func(h *harness) {
		i := h.item()
		l := h.start(with(i), func(c *store.Create) { c.At = h.clock.Now().Add(time.Hour) })
		later := h.deliver(l.Run)
		h.state(l.Run, store.StateReady)
		h.equal("timers", h.inspect().Timers, map[event.RunID]time.Time(nil))
		h.handedTo(h.session(), l, i, later)
	}},
	{"C2_ARunInLineHoldsItsItemsUntilItIsReady", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		i, cancel := h.item(), h.item()
		second := h.startAs(orders, wid, canceling, with(i), func(c *store.Create) { c.Cancel = cancel })
		h.state(second.Run, store.StateQueued)
		h.holds(second.Run, i)
		h.equal("inbox of the active run", h.load(first.Run).Inbox, []store.Item{cancel})
		s := h.session()
		fence := h.own(s, first)
		h.commit(first, withEffect(consuming(first.Commit(fence, append(first.Receive(cancel), first.End(event.StatusCanceled)...)...), cancel), store.EffectFinish, event.StatusCanceled))
		h.state(second.Run, store.StateReady)
		h.handedTo(s, second, i)
	}},
	{"C2_ItemsOfOneIDAreRefused", func(h *harness) {
		i := h.item()
		c := h.newLog(orders, "").Create()
		c.Items = []store.Item{i, h.item(), i}
		h.unchanged("a refused start", func() { isA[*store.InvalidError](h, "create", h.create(c).Err) })
	}},
	{"C2_ItemsOfARunThatIsCreatedAsOwnedAreRefused", func(h *harness) {
		c := h.newLog(orders, "").Create()
		c.Items, c.Owner = []store.Item{h.item()}, &store.Owner{Session: h.session(), Token: h.ids.Token()}
		h.unchanged("a refused start", func() { isA[*store.InvalidError](h, "create", h.create(c).Err) })
	}},
	{"C2_ItemsOfWhatARunContinuesAsAreIgnored", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c, next := l.Continue(fence, nil)
		c.Continue.Items = []store.Item{h.item()}
		h.commit(l, c)
		h.equal("inbox of the next run", h.load(next.Run).Inbox, []store.Item(nil))
		h.equal("seen", h.inspect().Seen, map[event.RunID]map[event.ItemID]time.Time(nil))
		h.equal("unread items of the next run", h.claim(h.session(), 1)[0].Unread, false)
	}},
	{"C2_ManyRunsAreEachCreatedWithTheirItems", func(h *harness) {
		var batch []store.Create
		for n := range 20 {
			c := h.newLog(orders, "").Create()
			for range n % 3 {
				c.Items = append(c.Items, h.item())
			}
			batch = append(batch, c)
		}
		for range 2 {
			_, err := h.store.Create(h.ctx, batch)
			h.check("create", err)
		}
		for _, c := range batch {
			h.holds(c.Run, c.Items...)
		}
	}},
}
