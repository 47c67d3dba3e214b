package chains

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// createdByBehaviors test which data the receiver of an outbox record keeps until the record is
// confirmed.
var createdByBehaviors = []behavior{
	{"O2_CreateKeepsCreatedByUntilConfirm", func(h *harness) {
		creator := h.IDs.Item()
		l := h.CreatedBy(creator)
		other := h.CreatedBy(h.IDs.Item())
		h.Equal("creator", h.Record(l.Run).CreatedBy, creator)
		h.Unchanged("confirms of something else", func() {
			h.Confirm(l.Run, h.IDs.Item())
			h.Confirm(l.Run, "")
			h.Confirm(other.Run, creator)
			h.Confirm(h.RunID(), creator)
		})
		h.Confirm(l.Run, creator)
		h.Equal("creator after the confirm", h.Record(l.Run).CreatedBy, event.ItemID(""))
		h.Unchanged("the same confirm", func() { h.Confirm(l.Run, creator) })
	}},
	{"C1_CreateSentAgainWithItsCreatorIsTheSameRun", func(h *harness) {
		l := h.NewLog(suite.Orders, h.WorkflowID("order"))
		c := l.Create()
		c.CreatedBy, c.Active = h.IDs.Item(), store.ActiveFail
		h.Create(c)
		again := func() {
			h.Helper()
			h.Unchanged("the same create", func() { h.Equal("answer", h.Create(c), store.Created{Run: l.Run, New: true}) })
		}
		again()
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		again()
		h.Check("delete", h.Delete(l.Run))
		again()
		h.Confirm(l.Run, c.CreatedBy)
		again()
	}},
	{"ARunThatWasThereBeforeGetsNoBirth", func(h *harness) {
		wid := h.WorkflowID("order")
		l := h.StartAs(suite.Orders, wid)
		c := h.NewLog(suite.Orders, wid).Create()
		c.CreatedBy = h.IDs.Item()
		h.Unchanged("the create", func() { h.Equal("answer", h.Create(c), store.Created{Run: l.Run}) })
	}},
	{"AQueuedAndADelayedRunHaveACreator", func(h *harness) {
		wid := h.WorkflowID("order")
		h.StartAs(suite.Orders, wid)
		creator := h.IDs.Item()
		queued := h.StartAs(suite.Orders, wid, suite.Canceling, func(c *store.Create) { c.CreatedBy, c.Cancel = creator, h.Item() })
		h.Equal("creator of a queued run", h.Record(queued.Run).CreatedBy, creator)
		delayed := h.Start(func(c *store.Create) { c.CreatedBy, c.Delay = creator, time.Hour })
		h.Equal("creator of a delayed run", h.Record(delayed.Run).CreatedBy, creator)
	}},
	{"CreatePastItsDeadlineIsStale", func(h *harness) {
		l := h.Start()
		h.Unchanged("late creates", func() {
			c := h.NewLog(suite.Orders, "").Create()
			c.Deadline = h.Clock.Now().Add(-time.Millisecond)
			h.Equal("of a new run", h.Create(c), store.Created{Err: store.ErrStale})
			c.Run = l.Run
			h.Equal("of a run that exists", h.Create(c), store.Created{Err: store.ErrStale})
		})
		for _, d := range []time.Duration{0, time.Second} {
			c := h.NewLog(suite.Orders, "").Create()
			c.Deadline = h.Clock.Now().Add(d)
			h.Equal("in time", h.Create(c), store.Created{Run: c.Run, New: true})
		}
	}},
	{"CreateJudgesEachDeadlineByItself", func(h *harness) {
		late, good := h.NewLog(suite.Orders, "").Create(), h.NewLog(suite.Orders, "").Create()
		late.Deadline = h.Clock.Now().Add(-time.Second)
		got, err := h.Store.Create(h.Ctx, []store.Create{late, good})
		h.Check("create", err)
		h.Equal("answers", got, []store.Created{{Err: store.ErrStale}, {Run: good.Run, New: true}})
	}},
	{"P1_ARunIsNotPurgedBeforeItsCreationIsConfirmed", func(h *harness) {
		creator := h.IDs.Item()
		l := h.CreatedBy(creator, suite.Keep(suite.Long))
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Clock.Advance(2 * suite.Long)
		h.Unchanged("a purge before that", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
		h.Confirm(l.Run, creator)
		h.Equal("next purge", h.Purged(1), time.Time{})
		h.Gone(l.Run)
	}},
	{"P1_ADeletedRunIsNotPurgedBeforeItsCreationIsConfirmed", func(h *harness) {
		creator := h.IDs.Item()
		l := h.CreatedBy(creator)
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Check("delete", h.Delete(l.Run))
		h.Clock.Advance(2 * store.Horizon)
		h.Unchanged("a purge before that", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
		h.Confirm(l.Run, creator)
		h.Equal("creator", h.Inspect().Runs[l.Run].CreatedBy, event.ItemID(""))
		h.Purged(1)
	}},
	{"P1_ARunWhoseCreationIsConfirmedEarlyIsKeptForItsRetention", func(h *harness) {
		creator := h.IDs.Item()
		l := h.CreatedBy(creator, suite.Keep(suite.Long))
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Confirm(l.Run, creator)
		h.Equal("next purge", h.Purged(0), h.Clock.Now().Add(suite.Long))
		h.Clock.Advance(suite.Long)
		h.Purged(1)
	}},
	{"P1_ASenderIsNotPurgedWhileItHasRecords", func(h *harness) {
		for _, hidden := range []bool{false, true} {
			l, fence, sends := h.Sender(2)
			h.Finish(l, fence, event.StatusCompleted)
			if hidden {
				h.Check("delete", h.Delete(l.Run))
			}
			h.Clock.Advance(2 * store.DefaultRetention)
			for _, phase := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
				h.Settled(l, phase, sends...)
				h.Unchanged("a purge while there are records", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
			}
			h.Mark(l, store.PhaseSettled, sends[0])
			h.Unchanged("a purge while there is one", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
			h.Mark(l, store.PhaseSettled, sends[1])
			h.Equal("next purge", h.Purged(1), time.Time{})
			h.Gone(l.Run)
		}
	}},
	{"P1_ARunIsNotPurgedWhileAnItemIsRememberedUntilConfirm", func(h *harness) {
		for _, hidden := range []bool{false, true} {
			l := h.CreatedBy("", suite.Keep(suite.Long))
			fence := h.Own(h.Session(), l)
			kept := []store.Item{h.Item(), h.Item()}
			for _, i := range kept {
				h.Accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
			}
			h.consumeAndFinish(l, fence)
			if hidden {
				h.Check("delete", h.Delete(l.Run))
			}
			h.Clock.Advance(2 * suite.Long)
			for _, i := range kept {
				h.Unchanged("a purge before the confirm", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
				h.Unchanged("the same item", func() { h.Accepts("again", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run) })
				h.Confirm(l.Run, i.ID)
			}
			h.Purged(1)
			h.Gone(l.Run)
		}
	}},
	{"P1_ARunWhoseItemsAreConfirmedEarlyIsKeptForItsRetention", func(h *harness) {
		l := h.CreatedBy("", suite.Keep(suite.Long))
		fence := h.Own(h.Session(), l)
		i := h.Item()
		h.Accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
		h.consumeAndFinish(l, fence)
		h.Confirm(l.Run, i.ID)
		h.Equal("next purge", h.Purged(0), h.Clock.Now().Add(suite.Long))
		h.Clock.Advance(suite.Long)
		h.Purged(1)
	}},
	{"P1_ALaterRunOfAChainIsNotPurgedWhileItsItemsAreRemembered", func(h *harness) {
		runs := h.Chain(3)
		last := h.Own(h.Session(), runs[2])
		i, other := h.Item(), h.Item()
		for range 2 {
			h.Accepts("that is kept, to a run that has continued", store.Deliver{Run: runs[1].Run, Item: i, Keep: true}, runs[2].Run)
			h.Accepts("that is kept, to the last run", store.Deliver{Run: runs[2].Run, Item: other, Keep: true}, runs[2].Run)
		}
		h.consumeAndFinish(runs[2], last)
		h.Clock.Advance(2 * store.DefaultRetention)
		held := func(what string) {
			h.Unchanged("a purge before "+what, func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
		}
		held("both confirms")
		h.Unchanged("the same item", func() {
			h.Accepts("again", store.Deliver{Run: runs[1].Run, Item: i, Keep: true}, runs[2].Run)
		})
		h.Confirm(runs[2].Run, other.ID)
		h.Purged(1)
		h.Gone(runs[2].Run)
		held("the other confirm")
		h.Confirm(runs[1].Run, i.ID)
		h.Equal("kept", h.Inspect().Kept, map[event.RunID][]event.ItemID(nil))
		for range 2 { // a store may leave the first run to its next Purge
			h.Purge(100)
		}
		h.Gone(runs[1].Run)
		h.Gone(runs[0].Run)
		h.Equal("seen", h.Inspect().Seen, map[event.RunID]map[event.ItemID]time.Time(nil))
	}},
	{"P1_ARunIsPurgedWhenNothingHoldsItBackAnyMore", func(h *harness) {
		creator := h.IDs.Item()
		l := h.CreatedBy(creator, suite.Keep(suite.Long))
		s := h.Session()
		fence := h.Own(s, l)
		send := h.NewSend(h.RunID())
		c, next := l.Continue(fence, nil)
		h.Commit(l, suite.Sending(c, send))
		h.Finish(next, h.Own(s, next), event.StatusCompleted)
		other := h.Ended(suite.Keep(2 * suite.Long))
		h.Clock.Advance(suite.Long)
		h.Equal("next purge", h.Purged(1), h.Clock.Now().Add(suite.Long)) // the purge time of the run that was created last
		h.Settled(l, 0, send)
		h.Equal("next purge without the record", h.Purged(0), h.Clock.Now().Add(suite.Long))
		h.Confirm(l.Run, creator)
		h.Purged(1)
		h.Gone(l.Run)
		h.State(other.Run, store.StateEnded)
	}},
}

// keptBehaviors test items that come from an outbox and are kept until they are confirmed.
var keptBehaviors = []behavior{
	{"O2_AKeptItemIsRememberedUntilConfirm", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		kept, other := h.Item(), h.Deliver(l.Run)
		h.Accepts("that is kept", store.Deliver{Run: l.Run, Item: kept, Keep: true}, l.Run)
		snap := h.Inspect()
		h.Equal("inbox", snap.Runs[l.Run].Inbox, []store.Item{other, kept})
		h.Equal("kept", snap.Kept, map[event.RunID][]event.ItemID{l.Run: {kept.ID}})
		h.Equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time{l.Run: {kept.ID: h.Clock.Now(), other.ID: h.Clock.Now()}})
		h.Unchanged("the same item", func() {
			h.Accepts("again", store.Deliver{Run: l.Run, Item: kept, Keep: true}, l.Run)
			h.Accepts("again, of another kind", store.Deliver{Run: l.Run, Item: kept}, l.Run)
			h.Accepts("again, of another kind", store.Deliver{Run: l.Run, Item: other, Keep: true}, l.Run)
		})
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(other, kept)...), other, kept))
		h.Clock.Advance(2 * store.Horizon)
		h.Unchanged("confirms of something else", func() {
			h.Confirm(l.Run, h.IDs.Item())
			h.Confirm(h.RunID(), kept.ID)
		})
		h.Confirm(l.Run, kept.ID)
		snap = h.Inspect()
		h.Equal("kept after the confirm", snap.Kept, map[event.RunID][]event.ItemID(nil))
		if _, ok := snap.Seen[l.Run][kept.ID]; ok {
			h.Fatalf("seen after the confirm: got item %s", kept.ID)
		}
		h.Unchanged("the same confirm", func() { h.Confirm(l.Run, kept.ID) })
	}},
	{"O2_AKeptItemIsRememberedForLongerThanADay", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		var kept []store.Item
		for range 5 {
			i := h.Item()
			h.Accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
			kept = append(kept, i)
			for range 20 {
				h.Deliver(l.Run)
			}
		}
		items := h.Load(l.Run).Inbox
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(items...)...), items...))
		for range 3 {
			h.Clock.Advance(25 * time.Hour)
			for range 100 {
				h.Deliver(l.Run)
			}
			items = h.Load(l.Run).Inbox
			h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(items...)...), items...))
		}
		h.Unchanged("the same items", func() {
			for _, i := range kept {
				h.Accepts("again", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
			}
		})
		for _, i := range kept {
			h.Confirm(l.Run, i.ID)
		}
	}},
	{"O2_ConfirmReachesTheChainByAnyOfItsRuns", func(h *harness) {
		runs := h.Chain(3)
		var kept []store.Item
		for _, l := range runs {
			i := h.Item()
			h.Accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, runs[2].Run)
			kept = append(kept, i)
		}
		h.Equal("number of kept items", len(h.Inspect().Kept[runs[0].Run]), 3)
		h.Clock.Advance(2 * store.Horizon)
		h.Check("delete", h.Delete(runs[1].Run))
		for n, l := range runs {
			h.Confirm(l.Run, kept[n].ID)
		}
		h.Equal("kept after the confirms", h.Inspect().Kept, map[event.RunID][]event.ItemID(nil))
	}},
	{"O2_ConfirmForgetsCreatedByAndItemOfOneRecord", func(h *harness) {
		record := h.IDs.Item()
		l := h.CreatedBy(record)
		i := store.Item{ID: record}
		h.Accepts("of the same record", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
		h.Clock.Advance(2 * store.Horizon)
		h.Confirm(l.Run, record)
		snap := h.Inspect()
		h.Equal("creator", snap.Runs[l.Run].CreatedBy, event.ItemID(""))
		h.Equal("kept", snap.Kept, map[event.RunID][]event.ItemID(nil))
	}},
	{"M2_AKeptItemIsAcceptedAgainAfterTheRunEnded", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		i := h.Item()
		h.Accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
		h.consumeAndFinish(l, fence)
		h.Unchanged("the same item", func() { h.Accepts("again", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run) })
	}},
}
