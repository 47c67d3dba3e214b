package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// createdBy starts a run that is created by a record of an outbox.
func (h *harness) createdBy(creator event.ItemID, change ...func(*Log)) *Log {
	h.Helper()
	l := h.newLog(orders, "")
	for _, f := range change {
		f(l)
	}
	c := l.Create()
	c.CreatedBy = creator
	h.equal("create", h.create(c), store.Created{Run: l.Run, New: true})
	return l
}

func (h *harness) confirm(run event.RunID, record event.ItemID) {
	h.Helper()
	h.check("confirm", h.store.Confirm(h.ctx, run, record))
}

// createdByBehaviors test what the receiver of an outbox record remembers until the record is
// confirmed.
var createdByBehaviors = []behavior{
	{"O2_CreateKeepsCreatedByUntilConfirm", func(h *harness) {
		creator := h.ids.Item()
		l := h.createdBy(creator)
		other := h.createdBy(h.ids.Item())
		h.equal("creator", h.record(l.Run).CreatedBy, creator)
		h.unchanged("confirms of something else", func() {
			h.confirm(l.Run, h.ids.Item())
			h.confirm(l.Run, "")
			h.confirm(other.Run, creator)
			h.confirm(h.runID(), creator)
		})
		h.confirm(l.Run, creator)
		h.equal("creator after the confirm", h.record(l.Run).CreatedBy, event.ItemID(""))
		h.unchanged("the same confirm", func() { h.confirm(l.Run, creator) })
	}},
	{"C1_CreateSentAgainWithItsCreatorIsTheSameRun", func(h *harness) {
		l := h.newLog(orders, h.workflowID("order"))
		c := l.Create()
		c.CreatedBy, c.Active = h.ids.Item(), store.ActiveFail
		h.create(c)
		again := func() {
			h.Helper()
			h.unchanged("the same create", func() { h.equal("answer", h.create(c), store.Created{Run: l.Run, New: true}) })
		}
		again()
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		again()
		h.check("delete", h.delete(l.Run))
		again()
		h.confirm(l.Run, c.CreatedBy)
		again()
	}},
	{"ARunThatWasThereBeforeGetsNoBirth", func(h *harness) {
		wid := h.workflowID("order")
		l := h.startAs(orders, wid)
		c := h.newLog(orders, wid).Create()
		c.CreatedBy = h.ids.Item()
		h.unchanged("the create", func() { h.equal("answer", h.create(c), store.Created{Run: l.Run}) })
	}},
	{"AQueuedAndADelayedRunHaveACreator", func(h *harness) {
		wid := h.workflowID("order")
		h.startAs(orders, wid)
		creator := h.ids.Item()
		queued := h.startAs(orders, wid, canceling, func(c *store.Create) { c.CreatedBy, c.Cancel = creator, h.item() })
		h.equal("creator of a queued run", h.record(queued.Run).CreatedBy, creator)
		delayed := h.start(func(c *store.Create) { c.CreatedBy, c.Delay = creator, time.Hour })
		h.equal("creator of a delayed run", h.record(delayed.Run).CreatedBy, creator)
	}},
	{"CreatePastItsDeadlineIsStale", func(h *harness) {
		l := h.start()
		h.unchanged("late creates", func() {
			c := h.newLog(orders, "").Create()
			c.Deadline = h.clock.Now().Add(-time.Millisecond)
			h.equal("of a new run", h.create(c), store.Created{Err: store.ErrStale})
			c.Run = l.Run
			h.equal("of a run that exists", h.create(c), store.Created{Err: store.ErrStale})
		})
		for _, d := range []time.Duration{0, time.Second} {
			c := h.newLog(orders, "").Create()
			c.Deadline = h.clock.Now().Add(d)
			h.equal("in time", h.create(c), store.Created{Run: c.Run, New: true})
		}
	}},
	{"CreateJudgesEachDeadlineByItself", func(h *harness) {
		late, good := h.newLog(orders, "").Create(), h.newLog(orders, "").Create()
		late.Deadline = h.clock.Now().Add(-time.Second)
		got, err := h.store.Create(h.ctx, []store.Create{late, good})
		h.check("create", err)
		h.equal("answers", got, []store.Created{{Err: store.ErrStale}, {Run: good.Run, New: true}})
	}},
	{"P1_ARunIsNotPurgedBeforeItsCreationIsConfirmed", func(h *harness) {
		creator := h.ids.Item()
		l := h.createdBy(creator, keep(long))
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.clock.Advance(2 * long)
		h.unchanged("a purge before that", func() { h.equal("next purge", h.purged(0), time.Time{}) })
		h.confirm(l.Run, creator)
		h.equal("next purge", h.purged(1), time.Time{})
		h.gone(l.Run)
	}},
	{"P1_ADeletedRunIsNotPurgedBeforeItsCreationIsConfirmed", func(h *harness) {
		creator := h.ids.Item()
		l := h.createdBy(creator)
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.check("delete", h.delete(l.Run))
		h.clock.Advance(2 * store.Horizon)
		h.unchanged("a purge before that", func() { h.equal("next purge", h.purged(0), time.Time{}) })
		h.confirm(l.Run, creator)
		h.equal("creator", h.inspect().Runs[l.Run].CreatedBy, event.ItemID(""))
		h.purged(1)
	}},
	{"P1_ARunWhoseCreationIsConfirmedEarlyIsKeptForItsRetention", func(h *harness) {
		creator := h.ids.Item()
		l := h.createdBy(creator, keep(long))
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.confirm(l.Run, creator)
		h.equal("next purge", h.purged(0), h.clock.Now().Add(long))
		h.clock.Advance(long)
		h.purged(1)
	}},
	{"P1_ASenderIsNotPurgedWhileItHasRecords", func(h *harness) {
		for _, hidden := range []bool{false, true} {
			l, fence, sends := h.sender(2)
			h.finish(l, fence, event.StatusCompleted)
			if hidden {
				h.check("delete", h.delete(l.Run))
			}
			h.clock.Advance(2 * store.DefaultRetention)
			for _, phase := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
				h.settled(l, phase, sends...)
				h.unchanged("a purge while there are records", func() { h.equal("next purge", h.purged(0), time.Time{}) })
			}
			h.mark(l, store.PhaseSettled, sends[0])
			h.unchanged("a purge while there is one", func() { h.equal("next purge", h.purged(0), time.Time{}) })
			h.mark(l, store.PhaseSettled, sends[1])
			h.equal("next purge", h.purged(1), time.Time{})
			h.gone(l.Run)
		}
	}},
	{"P1_ARunIsNotPurgedWhileAnItemIsRememberedUntilConfirm", func(h *harness) {
		for _, hidden := range []bool{false, true} {
			l := h.createdBy("", keep(long))
			fence := h.own(h.session(), l)
			kept := []store.Item{h.item(), h.item()}
			for _, i := range kept {
				h.accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
			}
			h.consumeAndFinish(l, fence)
			if hidden {
				h.check("delete", h.delete(l.Run))
			}
			h.clock.Advance(2 * long)
			for _, i := range kept {
				h.unchanged("a purge before the confirm", func() { h.equal("next purge", h.purged(0), time.Time{}) })
				h.unchanged("the same item", func() { h.accepts("again", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run) })
				h.confirm(l.Run, i.ID)
			}
			h.purged(1)
			h.gone(l.Run)
		}
	}},
	{"P1_ARunWhoseItemsAreConfirmedEarlyIsKeptForItsRetention", func(h *harness) {
		l := h.createdBy("", keep(long))
		fence := h.own(h.session(), l)
		i := h.item()
		h.accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
		h.consumeAndFinish(l, fence)
		h.confirm(l.Run, i.ID)
		h.equal("next purge", h.purged(0), h.clock.Now().Add(long))
		h.clock.Advance(long)
		h.purged(1)
	}},
	{"P1_ALaterRunOfAChainIsNotPurgedWhileItsItemsAreRemembered", func(h *harness) {
		runs := h.chain(3)
		last := h.own(h.session(), runs[2])
		i, other := h.item(), h.item()
		for range 2 {
			h.accepts("that is kept, to a run that has continued", store.Deliver{Run: runs[1].Run, Item: i, Keep: true}, runs[2].Run)
			h.accepts("that is kept, to the last run", store.Deliver{Run: runs[2].Run, Item: other, Keep: true}, runs[2].Run)
		}
		h.consumeAndFinish(runs[2], last)
		h.clock.Advance(2 * store.DefaultRetention)
		held := func(what string) {
			h.unchanged("a purge before "+what, func() { h.equal("next purge", h.purged(0), time.Time{}) })
		}
		held("both confirms")
		h.unchanged("the same item", func() {
			h.accepts("again", store.Deliver{Run: runs[1].Run, Item: i, Keep: true}, runs[2].Run)
		})
		h.confirm(runs[2].Run, other.ID)
		h.purged(1)
		h.gone(runs[2].Run)
		held("the other confirm")
		h.confirm(runs[1].Run, i.ID)
		h.equal("kept", h.inspect().Kept, map[event.RunID][]event.ItemID(nil))
		for range 2 { // a store may leave the first run to another purge
			h.purge(100)
		}
		h.gone(runs[1].Run)
		h.gone(runs[0].Run)
		h.equal("seen", h.inspect().Seen, map[event.RunID]map[event.ItemID]time.Time(nil))
	}},
	{"P1_ARunIsPurgedWhenNothingHoldsItBackAnyMore", func(h *harness) {
		creator := h.ids.Item()
		l := h.createdBy(creator, keep(long))
		s := h.session()
		fence := h.own(s, l)
		send := h.newSend(h.runID())
		c, next := l.Continue(fence, nil)
		h.commit(l, sending(c, send))
		h.finish(next, h.own(s, next), event.StatusCompleted)
		other := h.ended(keep(2 * long))
		h.clock.Advance(long)
		h.equal("next purge", h.purged(1), h.clock.Now().Add(long)) // the time of the later run
		h.settled(l, 0, send)
		h.equal("next purge without the record", h.purged(0), h.clock.Now().Add(long))
		h.confirm(l.Run, creator)
		h.purged(1)
		h.gone(l.Run)
		h.state(other.Run, store.StateEnded)
	}},
}

// keptBehaviors test items that come from an outbox.
var keptBehaviors = []behavior{
	{"O2_AKeptItemIsRememberedUntilConfirm", func(h *harness) {
		l, fence := h.startOwned(h.session())
		kept, other := h.item(), h.deliver(l.Run)
		h.accepts("that is kept", store.Deliver{Run: l.Run, Item: kept, Keep: true}, l.Run)
		snap := h.inspect()
		h.equal("inbox", snap.Runs[l.Run].Inbox, []store.Item{other, kept})
		h.equal("kept", snap.Kept, map[event.RunID][]event.ItemID{l.Run: {kept.ID}})
		h.equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time{l.Run: {kept.ID: h.clock.Now(), other.ID: h.clock.Now()}})
		h.unchanged("the same item", func() {
			h.accepts("again", store.Deliver{Run: l.Run, Item: kept, Keep: true}, l.Run)
			h.accepts("again, of another kind", store.Deliver{Run: l.Run, Item: kept}, l.Run)
			h.accepts("again, of another kind", store.Deliver{Run: l.Run, Item: other, Keep: true}, l.Run)
		})
		h.commit(l, consuming(l.Commit(fence, l.Receive(other, kept)...), other, kept))
		h.clock.Advance(2 * store.Horizon)
		h.unchanged("confirms of something else", func() {
			h.confirm(l.Run, h.ids.Item())
			h.confirm(h.runID(), kept.ID)
		})
		h.confirm(l.Run, kept.ID)
		snap = h.inspect()
		h.equal("kept after the confirm", snap.Kept, map[event.RunID][]event.ItemID(nil))
		if _, ok := snap.Seen[l.Run][kept.ID]; ok {
			h.Fatalf("seen after the confirm: got item %s", kept.ID)
		}
		h.unchanged("the same confirm", func() { h.confirm(l.Run, kept.ID) })
	}},
	{"O2_AKeptItemIsRememberedForLongerThanADay", func(h *harness) {
		l, fence := h.startOwned(h.session())
		var kept []store.Item
		for range 5 {
			i := h.item()
			h.accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
			kept = append(kept, i)
			for range 20 {
				h.deliver(l.Run)
			}
		}
		items := h.load(l.Run).Inbox
		h.commit(l, consuming(l.Commit(fence, l.Receive(items...)...), items...))
		for range 3 {
			h.clock.Advance(25 * time.Hour)
			for range 100 {
				h.deliver(l.Run)
			}
			items = h.load(l.Run).Inbox
			h.commit(l, consuming(l.Commit(fence, l.Receive(items...)...), items...))
		}
		h.unchanged("the same items", func() {
			for _, i := range kept {
				h.accepts("again", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
			}
		})
		for _, i := range kept {
			h.confirm(l.Run, i.ID)
		}
	}},
	{"O2_ConfirmReachesTheChainByAnyOfItsRuns", func(h *harness) {
		runs := h.chain(3)
		var kept []store.Item
		for _, l := range runs {
			i := h.item()
			h.accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, runs[2].Run)
			kept = append(kept, i)
		}
		h.equal("number of kept items", len(h.inspect().Kept[runs[0].Run]), 3)
		h.clock.Advance(2 * store.Horizon)
		h.check("delete", h.delete(runs[1].Run))
		for n, l := range runs {
			h.confirm(l.Run, kept[n].ID)
		}
		h.equal("kept after the confirms", h.inspect().Kept, map[event.RunID][]event.ItemID(nil))
	}},
	{"O2_ConfirmForgetsCreatedByAndItemOfOneRecord", func(h *harness) {
		record := h.ids.Item()
		l := h.createdBy(record)
		i := store.Item{ID: record}
		h.accepts("of the same record", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
		h.clock.Advance(2 * store.Horizon)
		h.confirm(l.Run, record)
		snap := h.inspect()
		h.equal("creator", snap.Runs[l.Run].CreatedBy, event.ItemID(""))
		h.equal("kept", snap.Kept, map[event.RunID][]event.ItemID(nil))
	}},
	{"M2_AKeptItemIsAcceptedAgainAfterTheRunEnded", func(h *harness) {
		l, fence := h.startOwned(h.session())
		i := h.item()
		h.accepts("that is kept", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run)
		h.consumeAndFinish(l, fence)
		h.unchanged("the same item", func() { h.accepts("again", store.Deliver{Run: l.Run, Item: i, Keep: true}, l.Run) })
	}},
}

// confirmAll confirms every item that is kept.
func (h *harness) confirmAll() {
	h.Helper()
	for chain, items := range h.inspect().Kept {
		for _, id := range items {
			h.confirm(chain, id)
		}
	}
}
