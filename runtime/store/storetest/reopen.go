package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// reopen closes the store and opens it again.
func (h *harness) reopen() {
	h.Helper()
	h.check("close", h.store.Close())
	h.store = h.cfg.Reopen(h.t, h.store, h.clock)
}

var reopenBehaviors = []behavior{
	{"EverythingSurvivesCloseAndOpen", func(h *harness) {
		wid := h.workflowID("order")
		s := h.session(orders)
		owned := h.startAs(orders, wid)
		fence := h.own(s, owned)
		h.lineUp(wid)
		parked, f := h.startOwnedAs(s, refunds)
		h.park(parked, f, h.clock.Now().Add(time.Hour))
		blocked, f := h.startOwnedAs(s, refunds)
		h.block(blocked, f)
		ended, f := h.startOwnedAs(s, refunds)
		h.finish(ended, f, event.StatusFailed)
		deleted, f := h.startOwnedAs(s, refunds)
		h.finish(deleted, f, event.StatusFailed)
		h.check("delete", h.delete(deleted.Run))
		recovered, _ := h.startOwnedAs(h.session(), refunds)
		h.recoverDead(s)
		h.deliver(recovered.Run)
		tagged := h.newLog(orders, "")
		tagged.Spec.Tags = map[string]string{"a": "b", "c": ""}
		tagged.Spec.Parent, tagged.Spec.Root = h.runID(), h.runID()
		c := tagged.Create()
		c.Priority, c.Retention = 3, long
		h.create(c)
		h.start()

		h.unchanged("close and open", h.reopen)
		h.commit(owned, owned.Commit(fence, owned.Work()...))
		h.clock.Advance(2 * time.Hour)
		h.due(100)
		h.state(parked.Run, store.StateReady)
		h.purged(1)
		h.state(ended.Run, store.StateEnded)
	}},
	{"C1_ACreateWithAnOwnerIsKnownAgainAfterOpen", func(h *harness) {
		s := h.session()
		l, c := h.bearAs(s, h.workflowID("order"))
		h.unchanged("close and open", h.reopen)
		h.unchanged("the same create", func() {
			h.equal("answer", h.create(c), store.Created{Run: l.Run, New: true, Fence: c.Owner.Fence()})
		})
		h.commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
		h.bear(s)
	}},
	{"TheOutboxAndWhatItLeavesSurviveCloseAndOpen", func(h *harness) {
		l, fence, sends := h.sender(4)
		for n, phase := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
			h.settled(l, phase, sends[n])
			h.clock.Advance(time.Second)
		}
		h.clock.Advance(store.Horizon)
		h.finish(l, fence, event.StatusCompleted)
		creator := h.ids.Item()
		created := h.createdBy(creator, keep(long))
		h.finish(created, h.own(h.session(), created), event.StatusCompleted)
		i := h.item()
		receiver := h.start()
		h.accepts("that is kept", store.Deliver{Run: receiver.Run, Item: i, Keep: true}, receiver.Run)

		h.unchanged("close and open", h.reopen)
		h.wants("after open", sends...)
		h.unchanged("the same item", func() { h.accepts("again", store.Deliver{Run: receiver.Run, Item: i, Keep: true}, receiver.Run) })
		h.settled(l, 0, sends...)
		h.clock.Advance(2 * long)
		h.purged(0)
		h.confirm(created.Run, creator)
		h.confirm(receiver.Run, i.ID)
		h.purged(1)
	}},
	{"AChainSurvivesCloseAndOpen", func(h *harness) {
		wid := h.workflowID("order")
		runs := h.chain(4, named(wid), keep(long))
		h.lineUp(wid)
		h.accepts("to the chain", store.Deliver{Run: runs[1].Run, Item: h.item(), Keep: true}, runs[3].Run)

		h.unchanged("close and open", h.reopen)
		for _, l := range runs {
			h.accepts("to the chain after open", store.Deliver{Run: l.Run, Item: h.item()}, runs[3].Run)
		}
		last := h.continueWithItems(h.session(), runs[3])
		h.accepts("to the chain once it has continued", store.Deliver{Run: runs[0].Run, Item: h.item()}, last.Run)
		h.clock.Advance(2 * long)
		h.equal("next purge", h.purged(2), time.Time{}) // the item holds back the second run, and the chain holds back the first
		h.reopen()
		h.unchanged("a purge after open", func() { h.equal("next purge", h.purged(0), time.Time{}) })
		h.accepts("by the first run", store.Deliver{Run: runs[0].Run, Item: h.item()}, last.Run)
		h.confirmAll()
	}},
	{"StreamsSurviveCloseAndOpen", func(h *harness) {
		first, fence := h.startOwned(h.session())
		h.publish(first, fence, append(bodies("1", "2", "3"), store.Publication{Keep: 2})...)
		h.write(first, fence, side("4", "w", 1))
		h.commit(first, first.publishes(fence, store.Publication{Stream: "closed", Body: []byte("x"), Close: true}))
		second := h.continueRun(first, fence)
		fence = h.own(h.session(), second)

		h.unchanged("close and open", h.reopen)
		h.unchanged("what was written before", func() { h.write(second, fence, side("4", "w", 1)) })
		h.is("publish", h.store.Publish(h.ctx, second.Run, fence, []store.Publication{{Stream: "closed", Body: []byte("y")}}), store.ErrStreamClosed)
		p := h.awaitStream(first.Run, "a", 4)
		h.write(second, fence, side("5", "w", 2))
		h.awaited("after open", p, store.StreamPage{First: 2, Last: 5})
		h.same("after open", "a", []string{"2", "3", "4", "5"}, store.StreamPage{First: 2, Last: 5}, first, second)
	}},
	{"W3_ACommitIsKnownAgainAfterOpen", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := l.Commit(fence, l.Work()...)
		want := h.try(c)
		h.check("commit", want.Err)
		h.reopen()
		h.unchanged("the same commit", func() { h.equal("answer", h.try(c), want) })
	}},
	{"TheOrderOfReadyRunsSurvivesOpen", func(h *harness) {
		var want []event.RunID
		for range 5 {
			want = append(want, h.start().Run)
		}
		h.reopen()
		want = append(want, h.start().Run)
		h.equal("claimed", runsOf(h.claim(h.session(), 10)), want)
	}},
	{"M1_SeenItemsSurviveOpen", func(h *harness) {
		l := h.start()
		i := h.deliver(l.Run)
		h.reopen()
		h.unchanged("the same item", func() {
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
			h.check("deliver", err)
		})
	}},
}
