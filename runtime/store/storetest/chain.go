package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ends fails the test unless a delivery is refused because the run has ended with this status.
func (h *harness) ends(what string, d store.Deliver, run event.RunID, status event.Status) {
	h.Helper()
	_, err := h.store.Deliver(h.ctx, d)
	h.equal("error of a delivery "+what, *as[*store.TerminalError](h, "deliver "+what, err), store.TerminalError{Run: run, Status: status})
}

// accepts fails the test unless this run accepts a delivery.
func (h *harness) accepts(what string, d store.Deliver, run event.RunID) {
	h.Helper()
	got, err := h.store.Deliver(h.ctx, d)
	h.check("deliver "+what, err)
	h.equal("run that accepts a delivery "+what, got, run)
}

// chainBehaviors test what the runs of a chain share: messages, the workflow ID and its queue of
// starts.
var chainBehaviors = []behavior{
	{"DeliverToAnyRunOfAChainReachesTheLast", func(h *harness) {
		runs := h.chain(4)
		last, s := runs[3], h.session()
		var want []store.Item
		sendToAll := func(what string) {
			h.Helper()
			for _, l := range runs {
				i := h.item()
				h.accepts(what, store.Deliver{Run: l.Run, Item: i}, last.Run)
				want = append(want, i)
			}
			h.equal("inbox "+what, h.load(last.Run).Inbox, want)
		}
		sendToAll("of a ready run")
		fence := h.own(s, last)
		c := withEffect(last.Commit(fence, append(last.Receive(want...), last.Sleep(time.Time{})...)...), store.EffectPark, "")
		h.commit(last, consuming(c, want...))
		want = nil
		i := h.item()
		h.accepts("to a parked run", store.Deliver{Run: runs[0].Run, Item: i}, last.Run)
		want = append(want, i)
		h.state(last.Run, store.StateReady)
		fence = h.own(s, last)
		sendToAll("of an owned run")
		h.equal("unread items", h.heartbeat(s).Unread, []event.RunID{last.Run})
		h.consumeAndFinish(last, fence)
	}},
	{"DeliverForARunAloneDoesNotFollowItsChain", func(h *harness) {
		runs := h.chain(3)
		h.unchanged("deliveries to runs that have continued", func() {
			for _, l := range runs[:2] {
				h.ends("for it alone", store.Deliver{Run: l.Run, Item: store.Item{ID: h.ids.Item(), Scope: store.ScopeRun}}, l.Run, event.StatusContinued)
			}
		})
		h.deliverAlone(runs[2].Run)
	}},
	{"M2_WhatARunHasAcceptedIsAcceptedAgainAfterItContinued", func(h *harness) {
		l, fence := h.startOwned(h.session())
		own, both := h.deliverAlone(l.Run), h.deliver(l.Run)
		c, next := l.Continue(fence, nil, l.Receive(own)...)
		h.commit(l, consuming(c, own))
		again := func() {
			h.Helper()
			h.unchanged("the same items", func() {
				h.accepts("for the run alone", store.Deliver{Run: l.Run, Item: own}, l.Run)
				h.accepts("for the chain", store.Deliver{Run: l.Run, Item: both}, next.Run)
				h.accepts("for the chain, by its last run", store.Deliver{Run: next.Run, Item: both}, next.Run)
			})
		}
		again()
		h.consumeAndFinish(next, h.own(h.session(), next))
		again()
	}},
	{"DeliverToAChainIsAnsweredForItsLastRun", func(h *harness) {
		runs := h.chain(3)
		last := runs[2]
		fence := h.own(h.session(), last)
		c := last.Commit(fence, last.Work()...)
		c.Closing = true
		h.commit(last, c)
		h.unchanged("a delivery to a chain that is closing", func() {
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: runs[0].Run, Item: h.item()})
			h.is("deliver", err, store.ErrLater)
		})
		h.finish(last, fence, event.StatusFailed)
		h.unchanged("deliveries to a chain that has ended", func() {
			for _, l := range runs {
				h.ends("to a chain that has ended", store.Deliver{Run: l.Run, Item: h.item()}, last.Run, event.StatusFailed)
			}
		})
	}},
	{"DeliverToAChainWhoseLastRunIsGoneIsAnsweredForTheRunNamed", func(h *harness) {
		first := h.newLog(orders, "")
		first.Spec.Retention = long
		h.create(first.Create())
		middle := h.continueRun(first, h.own(h.session(), first))
		c, last := middle.Continue(h.own(h.session(), middle), nil)
		send := h.newSend(h.runID()) // holds back the purge of the middle run, and with it the purge of the first
		h.commit(middle, sending(c, send))
		i := h.deliver(last.Run)
		h.consumeAndFinish(last, h.own(h.session(), last))
		answers := func(what string, named ...*Log) {
			h.Helper()
			h.unchanged("deliveries to the chain", func() {
				for _, l := range named {
					h.ends(what, store.Deliver{Run: l.Run, Item: h.item()}, l.Run, event.StatusContinued)
					h.accepts(what, store.Deliver{Run: l.Run, Item: i}, l.Run)
				}
				_, err := h.store.Deliver(h.ctx, store.Deliver{Run: last.Run, Item: h.item()})
				h.is("deliver to the run that is gone", err, store.ErrRunNotFound)
			})
		}
		h.clock.Advance(long)
		h.purged(1)
		answers("after the last run was purged", first, middle)
		h.settled(middle, 0, send)
		for range 2 {
			h.purge(100)
		}

		first = h.start()
		middle = h.continueRun(first, h.own(h.session(), first))
		last = h.continueRun(middle, h.own(h.session(), middle))
		i = h.deliver(last.Run)
		h.consumeAndFinish(last, h.own(h.session(), last))
		h.check("delete", h.delete(last.Run))
		answers("after the last run was deleted", first, middle)
		h.clock.Advance(store.Horizon)
		h.purged(1)
		answers("after the deleted run was purged", first, middle)
	}},
	{"ARunOfAChainThatWasDeletedIsNotFoundByItsID", func(h *harness) {
		runs := h.chain(3)
		for n, l := range runs[:2] {
			h.check("delete", h.delete(l.Run))
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: h.item()})
			h.is("deliver", err, store.ErrRunNotFound)
			h.accepts("by the run after it", store.Deliver{Run: runs[n+1].Run, Item: h.item()}, runs[2].Run)
		}
	}},
	{"CreateOfAWorkflowIDThatHasContinuedIsAnsweredWithTheLastRun", func(h *harness) {
		wid := h.workflowID("order")
		runs := h.chain(3, named(wid))
		h.unchanged("creates of the same workflow id", func() {
			h.equal("answer", h.create(h.newLog(orders, wid).Create()), store.Created{Run: runs[2].Run})
			c := h.newLog(orders, wid).Create()
			c.Active = store.ActiveFail
			e := as[*store.ActiveError](h, "create", h.create(c).Err)
			h.equal("error", *e, store.ActiveError{WorkflowID: wid, Run: runs[2].Run})
		})
	}},
	{"TheLineWaitsForTheEndOfTheWholeChain", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		l := h.startAs(orders, wid)
		behind, cancel := h.lineUp(wid)
		c, next := l.Continue(h.own(s, l), nil)
		h.commit(l, c)
		snap := h.inspect()
		h.equal("active", snap.Active, map[string]event.RunID{wid: next.Run})
		h.equal("line", snap.Lines, map[string][]event.RunID{wid: {behind.Run}})
		h.equal("last ended", snap.LastEnded, map[string]event.RunID(nil))
		h.equal("inbox of the new run", snap.Runs[next.Run].Inbox, []store.Item{cancel})
		h.state(behind.Run, store.StateQueued)
		h.consumeAndFinish(next, h.own(s, next))
		snap = h.inspect()
		h.equal("active in the end", snap.Active, map[string]event.RunID{wid: behind.Run})
		h.equal("last ended in the end", snap.LastEnded, map[string]event.RunID{wid: next.Run})
		h.state(behind.Run, store.StateReady)
	}},
	{"CreateUnderActiveCancelReachesTheLastRunOfAChain", func(h *harness) {
		wid := h.workflowID("order")
		runs := h.chain(3, named(wid))
		behind, cancel := h.lineUp(wid)
		h.equal("inbox of the last run", h.load(runs[2].Run).Inbox, []store.Item{cancel})
		h.equal("line", h.inspect().Lines, map[string][]event.RunID{wid: {behind.Run}})
	}},
	{"ARunThatWaitedInLineMayContinue", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		first := h.startAs(orders, wid)
		behind, _ := h.lineUp(wid)
		h.consumeAndFinish(first, h.own(s, first))
		next := h.continueRun(behind, h.own(s, behind))
		snap := h.inspect()
		h.equal("active", snap.Active, map[string]event.RunID{wid: next.Run})
		h.equal("last ended", snap.LastEnded, map[string]event.RunID{wid: first.Run})
	}},
	{"M1_TheRunsOfAChainShareWhatIsSeen", func(h *harness) {
		s := h.session()
		l := h.start()
		i := h.deliver(l.Run)
		c, next := l.Continue(h.own(s, l), nil, l.Receive(i)...)
		h.commit(l, consuming(c, i))
		h.unchanged("the same item to a later run of the chain", func() {
			h.accepts("to a later run", store.Deliver{Run: next.Run, Item: i}, next.Run)
		})
		h.equal("seen", h.inspect().Seen, map[event.RunID]map[event.ItemID]time.Time{l.Run: {i.ID: h.clock.Now()}})
	}},
}

// chainPurgeBehaviors test which parts of a chain are purged, and when.
var chainPurgeBehaviors = []behavior{
	{"P1_TheFirstRunOfAChainIsPurgedAfterAllOthers", func(h *harness) {
		runs := h.chain(3, keep(long))
		h.clock.Advance(2 * long)
		h.equal("next purge", h.purged(1), time.Time{})
		h.gone(runs[1].Run)
		h.unchanged("a purge while the last run is kept", func() { h.equal("next purge", h.purged(0), time.Time{}) })
		h.accepts("to the chain", store.Deliver{Run: runs[0].Run, Item: h.item()}, runs[2].Run)
		h.consumeAndFinish(runs[2], h.own(h.session(), runs[2]))
		h.clock.Advance(long)
		for n := 0; n < 2; {
			got, next := h.purge(1)
			n += got
			h.equal("number of purged runs", got, 1)
			if n == 1 && (next.IsZero() || next.After(h.clock.Now())) {
				h.Fatalf("next purge while the first run is left: got %v, want a time that is past", next)
			}
		}
		h.equal("number of runs", len(h.inspect().Runs), 0)
	}},
	{"P1_TheChainKeepsWhatItHasSeenUntilItsFirstRunIsPurged", func(h *harness) {
		l := h.newLog(orders, "")
		l.Spec.Retention = long
		h.create(l.Create())
		i := h.deliver(l.Run)
		c, next := l.Continue(h.own(h.session(), l), nil, l.Receive(i)...)
		h.commit(l, consuming(c, i))
		again := func() {
			h.Helper()
			h.unchanged("the same item", func() { h.accepts("again", store.Deliver{Run: l.Run, Item: i}, next.Run) })
		}
		h.clock.Advance(2 * long)
		h.purged(0)
		again()
		h.finish(next, h.own(h.session(), next), event.StatusCompleted)
		h.clock.Advance(long - time.Millisecond)
		h.purged(0)
		again()
	}},
	{"P1_PurgeLeavesNothingOfAChain", func(h *harness) {
		wid := h.workflowID("order")
		runs := h.chain(3, named(wid), keep(long))
		i := h.item()
		h.accepts("that is kept", store.Deliver{Run: runs[0].Run, Item: i, Keep: true}, runs[2].Run)
		h.deliver(runs[2].Run)
		h.consumeAndFinish(runs[2], h.own(h.session(), runs[2]))
		h.clock.Advance(long)
		h.confirm(runs[0].Run, i.ID)
		for range runs {
			h.purge(100)
		}
		got := h.inspect()
		h.equal("what is left", got, &store.Snapshot{Now: got.Now, Leases: got.Leases, Wakes: got.Wakes})
		h.equal("create", h.create(h.newLog(orders, wid).Create()).New, true)
	}},
	{"ADeletedRunOfAChainLeavesToItWhatItHasSeen", func(h *harness) {
		l := h.start()
		i := h.deliver(l.Run)
		c, next := l.Continue(h.own(h.session(), l), nil, l.Receive(i)...)
		h.commit(l, consuming(c, i))
		h.check("delete", h.delete(l.Run))
		h.clock.Advance(2 * store.Horizon)
		h.unchanged("a purge while the next run is kept", func() { h.equal("next purge", h.purged(0), time.Time{}) })
		h.unchanged("the same item", func() { h.accepts("again", store.Deliver{Run: next.Run, Item: i}, next.Run) })
		h.finish(next, h.own(h.session(), next), event.StatusCompleted)
		h.check("delete", h.delete(next.Run))
		h.clock.Advance(store.Horizon)
		for range 2 {
			h.purge(100)
		}
		h.equal("number of runs", len(h.inspect().Runs), 0)
	}},
}
