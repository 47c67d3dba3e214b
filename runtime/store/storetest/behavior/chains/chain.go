// Package chains contains the behaviours that concern the runs of a chain together: deliveries to a
// chain, outboxes, runs that continue or create other runs, and the purge of runs to which other
// runs refer.
package chains

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Groups contains the behaviours of this package.
var Groups = []suite.Group{
	{Behaviors: suite.Tests(deliverBehaviors, outboxBehaviors, outboxOrderBehaviors, refusalBehaviors, createdByBehaviors, keptBehaviors)},
	{Behaviors: suite.Tests(continueBehaviors, chainBehaviors, chainPurgeBehaviors, chainRaceBehaviors)},
	{Behaviors: suite.Tests(purgeBehaviors, purgeOrderBehaviors, deleteBehaviors)},
}

type behavior suite.Behavior[harness]

// harness extends the harness of the suite with requests about chains.
type harness struct{ *suite.Harness }

// ends fails the test unless the store refuses the delivery because the run has ended with the
// given status.
func (h *harness) ends(what string, d store.Deliver, run event.RunID, status event.Status) {
	h.Helper()
	_, err := h.Store.Deliver(h.Ctx, d)
	h.Equal("error of a delivery "+what, *suite.As[*store.TerminalError](h.Harness, "deliver "+what, err), store.TerminalError{Run: run, Status: status})
}

// chainBehaviors test the data that the runs of a chain share: messages, the workflow ID and the
// queue of starts of the workflow ID.
var chainBehaviors = []behavior{
	{"DeliverToAnyRunOfAChainReachesTheLast", func(h *harness) {
		runs := h.Chain(4)
		last, s := runs[3], h.Session()
		var want []store.Item
		sendToAll := func(what string) {
			h.Helper()
			for _, l := range runs {
				i := h.Item()
				h.Accepts(what, store.Deliver{Run: l.Run, Item: i}, last.Run)
				want = append(want, i)
			}
			h.Equal("inbox "+what, h.Load(last.Run).Inbox, want)
		}
		sendToAll("of a ready run")
		fence := h.Own(s, last)
		c := suite.WithEffect(last.Commit(fence, append(last.Receive(want...), last.Sleep(time.Time{})...)...), store.EffectPark, "")
		h.Commit(last, suite.Consuming(c, want...))
		want = nil
		i := h.Item()
		h.Accepts("to a parked run", store.Deliver{Run: runs[0].Run, Item: i}, last.Run)
		want = append(want, i)
		h.State(last.Run, store.StateReady)
		fence = h.Own(s, last)
		sendToAll("of an owned run")
		h.Equal("unread items", h.Heartbeat(s).Unread, []event.RunID{last.Run})
		h.consumeAndFinish(last, fence)
	}},
	{"DeliverForARunAloneDoesNotFollowItsChain", func(h *harness) {
		runs := h.Chain(3)
		h.Unchanged("deliveries to runs that have continued", func() {
			for _, l := range runs[:2] {
				h.ends("for it alone", store.Deliver{Run: l.Run, Item: store.Item{ID: h.IDs.Item(), Scope: store.ScopeRun}}, l.Run, event.StatusContinued)
			}
		})
		h.deliverAlone(runs[2].Run)
	}},
	{"M2_WhatARunHasAcceptedIsAcceptedAgainAfterItContinued", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		own, both := h.deliverAlone(l.Run), h.Deliver(l.Run)
		c, next := l.Continue(fence, nil, l.Receive(own)...)
		h.Commit(l, suite.Consuming(c, own))
		again := func() {
			h.Helper()
			h.Unchanged("the same items", func() {
				h.Accepts("for the run alone", store.Deliver{Run: l.Run, Item: own}, l.Run)
				h.Accepts("for the chain", store.Deliver{Run: l.Run, Item: both}, next.Run)
				h.Accepts("for the chain, by its last run", store.Deliver{Run: next.Run, Item: both}, next.Run)
			})
		}
		again()
		h.consumeAndFinish(next, h.Own(h.Session(), next))
		again()
	}},
	{"DeliverToAChainIsAnsweredForItsLastRun", func(h *harness) {
		runs := h.Chain(3)
		last := runs[2]
		fence := h.Own(h.Session(), last)
		c := last.Commit(fence, last.Work()...)
		c.Closing = true
		h.Commit(last, c)
		h.Unchanged("a delivery to a chain that is closing", func() {
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: runs[0].Run, Item: h.Item()})
			h.Is("deliver", err, store.ErrLater)
		})
		h.Finish(last, fence, event.StatusFailed)
		h.Unchanged("deliveries to a chain that has ended", func() {
			for _, l := range runs {
				h.ends("to a chain that has ended", store.Deliver{Run: l.Run, Item: h.Item()}, last.Run, event.StatusFailed)
			}
		})
	}},
	{"DeliverToAChainWhoseLastRunIsGoneIsAnsweredForTheRunNamed", func(h *harness) {
		first := h.NewLog(suite.Orders, "")
		first.Spec.Retention = suite.Long
		h.Create(first.Create())
		middle := h.ContinueRun(first, h.Own(h.Session(), first))
		c, last := middle.Continue(h.Own(h.Session(), middle), nil)
		send := h.NewSend(h.RunID()) // this record holds back the purge of the middle run, and with it the purge of the first run
		h.Commit(middle, suite.Sending(c, send))
		i := h.Deliver(last.Run)
		h.consumeAndFinish(last, h.Own(h.Session(), last))
		answers := func(what string, named ...*suite.Log) {
			h.Helper()
			h.Unchanged("deliveries to the chain", func() {
				for _, l := range named {
					h.ends(what, store.Deliver{Run: l.Run, Item: h.Item()}, l.Run, event.StatusContinued)
					h.Accepts(what, store.Deliver{Run: l.Run, Item: i}, l.Run)
				}
				_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: last.Run, Item: h.Item()})
				h.Is("deliver to the run that is gone", err, store.ErrRunNotFound)
			})
		}
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		answers("after the last run was purged", first, middle)
		h.Settled(middle, 0, send)
		for range 2 {
			h.Purge(100)
		}

		first = h.Start()
		middle = h.ContinueRun(first, h.Own(h.Session(), first))
		last = h.ContinueRun(middle, h.Own(h.Session(), middle))
		i = h.Deliver(last.Run)
		h.consumeAndFinish(last, h.Own(h.Session(), last))
		h.Check("delete", h.Delete(last.Run))
		answers("after the last run was deleted", first, middle)
		h.Clock.Advance(store.Horizon)
		h.Purged(1)
		answers("after the deleted run was purged", first, middle)
	}},
	{"ARunOfAChainThatWasDeletedIsNotFoundByItsID", func(h *harness) {
		runs := h.Chain(3)
		for n, l := range runs[:2] {
			h.Check("delete", h.Delete(l.Run))
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: h.Item()})
			h.Is("deliver", err, store.ErrRunNotFound)
			h.Accepts("by the run after it", store.Deliver{Run: runs[n+1].Run, Item: h.Item()}, runs[2].Run)
		}
	}},
	{"CreateOfAWorkflowIDThatHasContinuedIsAnsweredWithTheLastRun", func(h *harness) {
		wid := h.WorkflowID("order")
		runs := h.Chain(3, suite.Named(wid))
		h.Unchanged("creates of the same workflow id", func() {
			h.Equal("answer", h.Create(h.NewLog(suite.Orders, wid).Create()), store.Created{Run: runs[2].Run})
			c := h.NewLog(suite.Orders, wid).Create()
			c.Active = store.ActiveFail
			e := suite.As[*store.ActiveError](h.Harness, "create", h.Create(c).Err)
			h.Equal("error", *e, store.ActiveError{WorkflowID: wid, Run: runs[2].Run})
		})
	}},
	{"TheLineWaitsForTheEndOfTheWholeChain", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		l := h.StartAs(suite.Orders, wid)
		behind, cancel := h.LineUp(wid)
		c, next := l.Continue(h.Own(s, l), nil)
		h.Commit(l, c)
		snap := h.Inspect()
		h.Equal("active", snap.Active, map[string]event.RunID{wid: next.Run})
		h.Equal("line", snap.Lines, map[string][]event.RunID{wid: {behind.Run}})
		h.Equal("last ended", snap.LastEnded, map[string]event.RunID(nil))
		h.Equal("inbox of the new run", snap.Runs[next.Run].Inbox, []store.Item{cancel})
		h.State(behind.Run, store.StateQueued)
		h.consumeAndFinish(next, h.Own(s, next))
		snap = h.Inspect()
		h.Equal("active in the end", snap.Active, map[string]event.RunID{wid: behind.Run})
		h.Equal("last ended in the end", snap.LastEnded, map[string]event.RunID{wid: next.Run})
		h.State(behind.Run, store.StateReady)
	}},
	{"CreateUnderActiveCancelReachesTheLastRunOfAChain", func(h *harness) {
		wid := h.WorkflowID("order")
		runs := h.Chain(3, suite.Named(wid))
		behind, cancel := h.LineUp(wid)
		h.Equal("inbox of the last run", h.Load(runs[2].Run).Inbox, []store.Item{cancel})
		h.Equal("line", h.Inspect().Lines, map[string][]event.RunID{wid: {behind.Run}})
	}},
	{"ARunThatWaitedInLineMayContinue", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		first := h.StartAs(suite.Orders, wid)
		behind, _ := h.LineUp(wid)
		h.consumeAndFinish(first, h.Own(s, first))
		next := h.ContinueRun(behind, h.Own(s, behind))
		snap := h.Inspect()
		h.Equal("active", snap.Active, map[string]event.RunID{wid: next.Run})
		h.Equal("last ended", snap.LastEnded, map[string]event.RunID{wid: first.Run})
	}},
	{"M1_TheRunsOfAChainShareWhatIsSeen", func(h *harness) {
		s := h.Session()
		l := h.Start()
		i := h.Deliver(l.Run)
		c, next := l.Continue(h.Own(s, l), nil, l.Receive(i)...)
		h.Commit(l, suite.Consuming(c, i))
		h.Unchanged("the same item to a later run of the chain", func() {
			h.Accepts("to a later run", store.Deliver{Run: next.Run, Item: i}, next.Run)
		})
		h.Equal("seen", h.Inspect().Seen, map[event.RunID]map[event.ItemID]time.Time{l.Run: {i.ID: h.Clock.Now()}})
	}},
}

// chainPurgeBehaviors test which runs and data of a chain are purged, and when.
var chainPurgeBehaviors = []behavior{
	{"P1_TheFirstRunOfAChainIsPurgedAfterAllOthers", func(h *harness) {
		runs := h.Chain(3, suite.Keep(suite.Long))
		h.Clock.Advance(2 * suite.Long)
		h.Equal("next purge", h.Purged(1), time.Time{})
		h.Gone(runs[1].Run)
		h.Unchanged("a purge while the last run is kept", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
		h.Accepts("to the chain", store.Deliver{Run: runs[0].Run, Item: h.Item()}, runs[2].Run)
		h.consumeAndFinish(runs[2], h.Own(h.Session(), runs[2]))
		h.Clock.Advance(suite.Long)
		for n := 0; n < 2; {
			got, next := h.Purge(1)
			n += got
			h.Equal("number of purged runs", got, 1)
			if n == 1 && (next.IsZero() || next.After(h.Clock.Now())) {
				h.Fatalf("next purge while the first run is left: got %v, want a time that is past", next)
			}
		}
		h.Equal("number of runs", len(h.Inspect().Runs), 0)
	}},
	{"P1_TheChainKeepsWhatItHasSeenUntilItsFirstRunIsPurged", func(h *harness) {
		l := h.NewLog(suite.Orders, "")
		l.Spec.Retention = suite.Long
		h.Create(l.Create())
		i := h.Deliver(l.Run)
		c, next := l.Continue(h.Own(h.Session(), l), nil, l.Receive(i)...)
		h.Commit(l, suite.Consuming(c, i))
		again := func() {
			h.Helper()
			h.Unchanged("the same item", func() { h.Accepts("again", store.Deliver{Run: l.Run, Item: i}, next.Run) })
		}
		h.Clock.Advance(2 * suite.Long)
		h.Purged(0)
		again()
		h.Finish(next, h.Own(h.Session(), next), event.StatusCompleted)
		h.Clock.Advance(suite.Long - time.Millisecond)
		h.Purged(0)
		again()
	}},
	{"P1_PurgeLeavesNothingOfAChain", func(h *harness) {
		wid := h.WorkflowID("order")
		runs := h.Chain(3, suite.Named(wid), suite.Keep(suite.Long))
		i := h.Item()
		h.Accepts("that is kept", store.Deliver{Run: runs[0].Run, Item: i, Keep: true}, runs[2].Run)
		h.Deliver(runs[2].Run)
		h.consumeAndFinish(runs[2], h.Own(h.Session(), runs[2]))
		h.Clock.Advance(suite.Long)
		h.Confirm(runs[0].Run, i.ID)
		for range runs {
			h.Purge(100)
		}
		got := h.Inspect()
		h.Equal("what is left", got, &store.Snapshot{Now: got.Now, Leases: got.Leases, Wakes: got.Wakes})
		h.Equal("create", h.Create(h.NewLog(suite.Orders, wid).Create()).New, true)
	}},
	{"ADeletedRunOfAChainLeavesToItWhatItHasSeen", func(h *harness) {
		l := h.Start()
		i := h.Deliver(l.Run)
		c, next := l.Continue(h.Own(h.Session(), l), nil, l.Receive(i)...)
		h.Commit(l, suite.Consuming(c, i))
		h.Check("delete", h.Delete(l.Run))
		h.Clock.Advance(2 * store.Horizon)
		h.Unchanged("a purge while the next run is kept", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
		h.Unchanged("the same item", func() { h.Accepts("again", store.Deliver{Run: next.Run, Item: i}, next.Run) })
		h.Finish(next, h.Own(h.Session(), next), event.StatusCompleted)
		h.Check("delete", h.Delete(next.Run))
		h.Clock.Advance(store.Horizon)
		for range 2 {
			h.Purge(100)
		}
		h.Equal("number of runs", len(h.Inspect().Runs), 0)
	}},
}
